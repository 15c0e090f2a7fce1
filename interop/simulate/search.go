package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"testing"
	"time"
)

// The goals of the search, for random servers of the first set without a reason in aside.
// docs/simulation.md has the measured figures.
const (
	goalDominated = 0.049 // the part of the servers with a client that is 10 % faster and not refused more often
	goalRegret    = 1.25  // the geometric mean of the time, relative to the best time
	goalRefused   = 0.3   // refused requests per job
	goalStuck     = 0     // servers with which another client ends, and Transport does not
)

// rivals are the clients of the search. The first client is compared with the others.
var rivals = []client{ours, cubic, hashicorp, failsafe, cenkalti, loop}

// A found is the result of one client with one random server.
type found struct {
	regret  float64 // its time, relative to the best time of all clients and the oracle
	refused float64 // per job
	longest float64 // its longest job, relative to the oracle's longest
	seconds float64
	ended   bool // whether it did all jobs in time
}

// A meeting has the results of all rivals with one random server.
type meeting struct {
	number uint64
	scenario
	oracle  float64 // the seconds of the oracle
	results []found
}

// beats reports whether f is at least 10 % faster than o and not refused more often.
func (f found) beats(o found) bool {
	return f.ended && f.seconds < 0.9*o.seconds && f.refused <= o.refused
}

// better returns the rivals that beat the first.
func (m *meeting) better() (names []string) {
	for j, f := range m.results {
		if f.beats(m.results[0]) {
			names = append(names, rivals[j].name)
		}
	}
	return names
}

// stuck reports whether the first rival does not finish and another one does.
func (m *meeting) stuck() bool {
	return !m.results[0].ended && slices.ContainsFunc(m.results, func(f found) bool { return f.ended })
}

// meet runs all rivals with n random servers of a set. As many run in parallel as there are
// processors.
func (k *set) meet(t *testing.T, n int, first uint64) []meeting {
	all := make([]meeting, n)
	t.Run("meet", func(t *testing.T) {
		for i := range all {
			t.Run(fmt.Sprint(first+uint64(i)), func(t *testing.T) {
				t.Parallel()
				all[i] = k.compare(t, first+uint64(i))
			})
		}
	})
	return all
}

// compare runs all rivals with the random server of a number.
func (k *set) compare(t *testing.T, number uint64) meeting {
	sc := k.randomScenario(number)
	sc.load.within = mostTime
	oracle := run(t, sc.load, plain, func() *server {
		s := sc.server()
		s.turns = make(map[int]chan struct{})
		return s
	}, number)
	sc.load.within = min(20*oracle.time+10*time.Minute, oracle.time+mostTime)
	m := meeting{number: number, scenario: sc, oracle: oracle.time.Seconds()}
	best := m.oracle
	for _, c := range rivals {
		r := run(t, sc.load, c, sc.server, number)
		jobs := sc.total()
		f := found{
			refused: float64(r.refused) / float64(jobs), longest: r.longest.Seconds() / oracle.longest.Seconds(),
			seconds: r.time.Seconds(), ended: r.done == jobs,
		}
		m.results = append(m.results, f)
		best = min(best, f.seconds)
	}
	for j := range m.results {
		m.results[j].regret = m.results[j].seconds / best
	}
	return m
}

// mostTime bounds the simulated time beyond that of the oracle.
const mostTime = 4 * time.Hour

// A summary has the mean results of one client with several servers.
type summary struct {
	servers, dominated, stuck, unended int
	regret, refused                    float64 // geometric mean; mean
}

// summarize returns the summary of a rival. Dominated and stuck are about the first rival.
func summarize(list []meeting, j int) (s summary) {
	s.servers = len(list)
	for i := range list {
		m := &list[i]
		f := m.results[j]
		s.regret += math.Log(f.regret) / float64(len(list))
		s.refused += f.refused / float64(len(list))
		if !f.ended {
			s.unended++
		}
		if len(m.better()) > 0 {
			s.dominated++
		}
		if m.stuck() {
			s.stuck++
		}
	}
	s.regret = math.Exp(s.regret)
	return s
}

func (s summary) part() float64 { return float64(s.dominated) / float64(max(s.servers, 1)) }

// search runs all rivals with n random servers of each set, and writes the results. With details it
// also writes a line for each server on which another client is better.
func search(t *testing.T, w io.Writer, n int, first uint64, details bool) {
	for i := range sets {
		k := &sets[i]
		all := k.meet(t, n, first)
		var judged, apart []meeting
		reasons := map[string]bool{}
		for _, m := range all {
			if m.aside == "" {
				judged = append(judged, m)
			} else {
				apart, reasons[m.aside] = append(apart, m), true
			}
		}
		fmt.Fprintf(w, "The %s set: %d random servers and loads, from number %d on; %d of them are obeyed on purpose. The others:\n\n", k.name, n, first, len(apart))
		writeRivals(w, judged)
		writeGoals(w, k, summarize(judged, 0))
		fmt.Fprint(w, "\nTransport with each kind of server:\n\n")
		var kinds []string
		for _, o := range k.kinds {
			kinds = append(kinds, o.name)
		}
		writeKinds(w, kinds, judged, func(m *meeting) []string { return m.kinds })
		if len(apart) > 0 {
			fmt.Fprint(w, "\nTransport with the servers that are obeyed on purpose:\n\n")
			writeKinds(w, slices.Sorted(maps.Keys(reasons)), apart, func(m *meeting) []string { return []string{m.aside} })
		}
		if details {
			writeDetails(w, all)
		}
		fmt.Fprintln(w)
	}
}

func writeGoals(w io.Writer, k *set, s summary) {
	goal := func(g any) string {
		if k == &sets[0] {
			return fmt.Sprint(g)
		}
		return "–"
	}
	fmt.Fprint(w, "\nThe goals for Transport:\n\n")
	writeTable(w, []string{"", "goal, at most", "measured"}, [][]string{
		{"another client is 10 % faster and refused no more often", goal(percent(goalDominated)), fmt.Sprintf("%s (%d)", percent(s.part()), s.dominated)},
		{"it does not end, and another client ends", goal(goalStuck), fmt.Sprint(s.stuck)},
		{"time of the best, geometric mean", goal(goalRegret), fmt.Sprintf("%.2f", s.regret)},
		{"refused requests of a job", goal(goalRefused), fmt.Sprintf("%.2f", s.refused)},
	})
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

func writeRivals(w io.Writer, list []meeting) {
	head := []string{"client", "time of the best: geometric mean / median / 95 %", "refused per job: mean / 95 %", "longest job of the oracle's: 95 %", "not ended", "better / worse than Transport"}
	var rows [][]string
	for j, c := range rivals {
		s, better, worse := summarize(list, j), 0, 0
		for i := range list {
			f, o := list[i].results[j], list[i].results[0]
			if f.beats(o) {
				better++
			}
			if o.beats(f) {
				worse++
			}
		}
		part := func(p float64, of func(found) float64) float64 { return percentile(list, j, p, of) }
		regret := func(f found) float64 { return f.regret }
		rows = append(rows, []string{
			c.name,
			fmt.Sprintf("%.2f / %.2f / %.1f", s.regret, part(0.5, regret), part(0.95, regret)),
			fmt.Sprintf("%.2f / %.2f", s.refused, part(0.95, func(f found) float64 { return f.refused })),
			fmt.Sprintf("%.1f", part(0.95, func(f found) float64 { return f.longest })),
			fmt.Sprint(s.unended),
			fmt.Sprintf("%d / %d", better, worse),
		})
	}
	writeTable(w, head, rows)
}

func percentile(list []meeting, j int, p float64, of func(found) float64) float64 {
	if len(list) == 0 {
		return 0
	}
	var values []float64
	for i := range list {
		values = append(values, of(list[i].results[j]))
	}
	slices.Sort(values)
	return values[int(math.Ceil(p*float64(len(values))))-1]
}

func writeKinds(w io.Writer, names []string, list []meeting, of func(*meeting) []string) {
	var rows [][]string
	for _, name := range names {
		var those []meeting
		for i := range list {
			if slices.Contains(of(&list[i]), name) {
				those = append(those, list[i])
			}
		}
		if len(those) == 0 {
			continue
		}
		s := summarize(those, 0)
		rows = append(rows, []string{name, fmt.Sprint(s.servers), fmt.Sprint(s.dominated), fmt.Sprintf("%.2f", s.regret), fmt.Sprintf("%.2f", s.refused)})
	}
	writeTable(w, []string{"kind", "servers", "another client is better", "time of the best", "refused per job"}, rows)
}

// writeDetails writes seconds / refused requests per job of all rivals. It does so for the
// servers on which the first rival is beaten, does not finish, or misses a goal by far.
func writeDetails(w io.Writer, list []meeting) {
	fmt.Fprint(w, "\nServers on which another client is better, or Transport far from a goal:\n\n")
	for i := range list {
		m := &list[i]
		if f := m.results[0]; len(m.better()) == 0 && f.ended && f.refused < 10*goalRefused && f.regret < 4*goalRegret {
			continue
		}
		fmt.Fprintf(w, "%d: %s; apart: %q; better: %q; oracle %.1f\n", m.number, m.name, m.aside, m.better(), m.oracle)
		for j, f := range m.results {
			fmt.Fprintf(w, "\t%s %.1f / %.2f, ended: %t\n", rivals[j].name, f.seconds, f.refused, f.ended)
		}
	}
}
