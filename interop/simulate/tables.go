package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A figure is the mean result of a client in a scenario.
type figure struct {
	seconds, refused float64
	half             float64 // seconds until half of the jobs were done
	again            float64 // tokens of requests that were refused
	longest          float64 // seconds, of all seeds
	fair, used       float64
}

// measure returns the mean figure over a number of seeds, from 1.
func measure(t *testing.T, sc *scenario, c client, seeds int) (f figure) {
	if sc.maxWait > 0 && c.name == ours.name {
		c.make = transport(sc.maxWait, false, 1)
	}
	n := float64(seeds)
	for seed := range uint64(seeds) {
		r := run(t, sc.load, c, sc.server, seed+1)
		f.seconds += r.time.Seconds() / n
		f.refused += float64(r.refused) / n
		f.again += float64(r.again) / n
		f.half += r.took[(len(r.took)-1)/2].Seconds() / n
		f.longest = max(f.longest, r.longest.Seconds())
		f.fair += r.fair / n
		f.used += r.used / n
	}
	return f
}

// misses returns the missed goals. Figures are rounded like goals.
func (f *figure) misses(w wanted) (faults []string) {
	for _, x := range []struct {
		name        string
		got, wanted float64
		unchecked   bool
	}{
		{"seconds", f.seconds, w.seconds, false},
		{"refused", f.refused, w.refused, false},
		{"seconds until half are done", f.half, w.half, w.half == 0},
	} {
		if got := roundAs(x.got, x.wanted); !x.unchecked && got > x.wanted {
			faults = append(faults, fmt.Sprintf("%s: got %v, wanted at most %v", x.name, got, x.wanted))
		}
	}
	return faults
}

// roundAs rounds x to a whole number if as is whole and more than 5, else to tenths.
func roundAs(x, as float64) float64 {
	if as > 5 && as == float64(int(as)) {
		return float64(int(x + 0.5))
	}
	return float64(int(x*10+0.5)) / 10
}

// clients are the clients of the tables.
var clients = []client{ours, paced, plain, hashicorp, puerkito, cubic, github}

// A table is a heading and its rows.
type table struct {
	title, text string
	rows        []scenario
}

var tables = []table{
	{"Short answers", "300 jobs of 20 workers. The network takes up to 150 ms each way. It loses 5 % of the requests, half\n" +
		"of them after they were served.", shortAnswers},
	{"Slow answers", "Many workers, each with several jobs. Nothing is lost.", slowAnswers},
	{"Limits in tokens", "Buckets of 500 requests and 30,000 tokens a minute, or windows. 300 jobs of 200 to 6,000 tokens,\n" +
		"with answers of 2 s. Transport knows the tokens of each request, and the other clients do not.\n" +
		"\"Before\" is the second Transport.", inTokens},
	{"Servers that announce little", "Nothing is lost. \"Before\" is the second Transport.", terse},
	{"The worst of thousands", "The second Transport, which is \"before\", lost most against other clients with these servers, among\n" +
		"some thousand random servers and loads.", worst},
}

// writeTables writes all tables as Markdown.
func writeTables(t *testing.T, w io.Writer, seeds int) {
	fmt.Fprintf(w, "Each figure is the mean of %d seeds: seconds until all jobs are done / refused requests.\n", seeds)
	for _, x := range tables {
		fmt.Fprintf(w, "\n### %s\n\n%s\n\n", x.title, x.text)
		writeScenarios(t, w, x.rows, seeds)
	}
	fmt.Fprint(w, "\n### First requests\n\n50 requests at once to an unknown server: seconds until half of them are answered / all are.\n\n")
	writeFirst(t, w)
	fmt.Fprint(w, "\n### A fleet\n\nProcesses of 8 workers, always busy, share 100 requests per 10 s: refused in a window / part of the\nquota used.\n\n")
	writeFleet(t, w)
}

func writeScenarios(t *testing.T, w io.Writer, rows []scenario, seeds int) {
	head := []string{"server (ideal)", "wanted", "before"}
	var times, details [][]string
	var notes []string
	for _, c := range clients {
		head = append(head, c.name)
	}
	for i := range rows {
		sc := &rows[i]
		name := fmt.Sprintf("%s (%v)", sc.name, sc.ideal)
		line := []string{name, fmt.Sprintf("%v / %v", sc.wanted.seconds, sc.wanted.refused), sc.before}
		detail := []string{sc.name}
		for _, c := range clients {
			if c.name == github.name && !sc.github {
				line, detail = append(line, "–"), append(detail, "–")
				continue
			}
			f := measure(t, sc, c, seeds)
			line = append(line, fmt.Sprintf("%.1f / %.0f", f.seconds, f.refused))
			detail = append(detail, fmt.Sprintf("%.0f s / %.2f / %.0f %%", f.longest, f.fair, 100*f.used))
		}
		times, details = append(times, line), append(details, detail)
		if sc.note != "" {
			notes = append(notes, fmt.Sprintf("*%s*, more than \"wanted\": %s.", sc.name, sc.note))
		}
		if sc.loses != "" {
			notes = append(notes, fmt.Sprintf("*%s*, slower than others: %s.", sc.name, sc.loses))
		}
	}
	writeTable(w, head, times)
	fmt.Fprintln(w)
	for _, n := range notes {
		writeItem(w, n)
	}
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "Longest job / fairness / part of the quota:\n\n")
	writeTable(w, slices.Concat([]string{"server"}, head[3:]), details)
}

func writeFirst(t *testing.T, w io.Writer) {
	var rows [][]string
	for i := range firstRequests {
		sc := &firstRequests[i]
		line := []string{sc.name, fmt.Sprintf("%v / %v", sc.wanted.half, sc.wanted.seconds), sc.before}
		for _, c := range []client{ours, plain} {
			f := measure(t, sc, c, 1)
			line = append(line, fmt.Sprintf("%.1f / %.1f", f.half, f.seconds))
		}
		rows = append(rows, line)
	}
	writeTable(w, []string{"server", "wanted", "before", ours.name, plain.name}, rows)
}

// A fleet is a row in the table of fleets.
type fleet struct {
	name   string
	limit  func() limiter
	client func(processes int) client
	wanted []wantedFleet // for each of fleetSizes; nil if there is no goal
}

// wantedFleet has the largest number of refusals in a window, and the smallest part of the
// quota that must be used.
type wantedFleet struct{ refused, used float64 }

var (
	fleetSizes = []int{2, 8, 32}
	// fleetTime is the time for which a fleet works: 20 windows.
	fleetTime = 200 * time.Second
	hundred   = fixed(100, 10*time.Second)
	fleets    = []fleet{
		{"fixed window", hundred, whatever(plain), nil},
		{"fixed window", hundred, whatever(ours), nil},
		{"fixed window", hundred, whatever(paced), nil},
		{"fixed window", hundred, shared, []wantedFleet{{0, 0.94}, {0, 0.94}, {0, 0.94}}},
		{"token bucket", tokens(10, 100, false), shared, []wantedFleet{{0, 0.94}, {0, 0.94}, {56, 0.94}}},
	}
)

// whatever returns the same client for fleets of any size.
func whatever(c client) func(int) client { return func(int) client { return c } }

// measure returns the refusals in a window, and the used part of the quota.
func (f *fleet) measure(t *testing.T, processes int) (refused, used float64) {
	r := run(t, load{processes: processes, workers: 8, time: fleetTime}, f.client(processes), func() *server {
		return &server{limit: f.limit(), say: current, refuse: refuseTooMany, work: lasts(0), way: 150 * time.Millisecond}
	}, 1)
	return float64(r.refused) / fleetTime.Seconds() * 10, r.used
}

func writeFleet(t *testing.T, w io.Writer) {
	head := []string{"server", "client"}
	for _, n := range fleetSizes {
		head = append(head, fmt.Sprintf("%d processes", n))
	}
	var rows [][]string
	for i := range fleets {
		f := &fleets[i]
		line := []string{f.name, f.client(1).name}
		for _, n := range fleetSizes {
			refused, used := f.measure(t, n)
			line = append(line, fmt.Sprintf("%.1f / %.0f %%", refused, 100*used))
		}
		rows = append(rows, line)
	}
	writeTable(w, head, rows)
}

// writeItem writes an item of a list, in lines of at most 100 characters.
func writeItem(w io.Writer, text string) {
	line := "-"
	for _, word := range strings.Fields(text) {
		if utf8.RuneCountInString(line+" "+word) > 100 {
			fmt.Fprintln(w, line)
			line = " "
		}
		line += " " + word
	}
	fmt.Fprintln(w, line)
}

func writeTable(w io.Writer, head []string, rows [][]string) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
	}
}
