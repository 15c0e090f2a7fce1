package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"
)

// A found is what one client did with one random server.
type found struct {
	regret  float64 // its time, of the best of all clients and of the oracle
	refused float64 // per job
	longest float64 // its longest job, of the oracle's longest
	seconds float64
	ended   bool // whether it did all jobs within 20 times what the oracle took, and 10 minutes
}

// search runs all clients against n random servers, and writes the results.
func search(t *testing.T, w io.Writer, n int, seed uint64) {
	all := make([][]found, len(peers))
	for i := range uint64(n) {
		for j, f := range compare(t, seed+i) {
			all[j] = append(all[j], f)
		}
	}
	fmt.Fprintf(w, "%d random servers and loads, from number %d on. \"Better\" is at least 10 %% faster than Transport and refused no more\n"+
		"often, \"worse\" at least 10 %% slower and refused no less often.\n\n", n, seed)
	head := []string{"client", "time of the best: median / 95 % / worst", "refused per job: mean / 95 %", "longest job of the oracle's: 95 %", "not ended", "better / worse than Transport"}
	var rows [][]string
	for j, c := range peers {
		if c.name == github.name { // it knows one server only
			continue
		}
		mean, ended, better, worse := 0.0, 0, 0, 0
		for i, f := range all[j] {
			mean += f.refused / float64(n)
			o := all[0][i]
			switch {
			case f.seconds < 0.9*o.seconds && f.refused <= o.refused:
				better++
			case f.seconds > 1.1*o.seconds && f.refused >= o.refused:
				worse++
			}
			if f.ended {
				ended++
			}
		}
		part := func(p float64, of func(found) float64) float64 { return percentile(all[j], p, of) }
		regret, refused := func(f found) float64 { return f.regret }, func(f found) float64 { return f.refused }
		rows = append(rows, []string{
			c.name,
			fmt.Sprintf("%.2f / %.2f / %.1f", part(0.5, regret), part(0.95, regret), part(1, regret)),
			fmt.Sprintf("%.2f / %.2f", mean, part(0.95, refused)),
			fmt.Sprintf("%.1f", part(0.95, func(f found) float64 { return f.longest })),
			fmt.Sprint(n - ended),
			fmt.Sprintf("%d / %d", better, worse),
		})
	}
	writeTable(w, head, rows)
}

func percentile(list []found, p float64, of func(found) float64) float64 {
	var values []float64
	for _, f := range list {
		values = append(values, of(f))
	}
	slices.Sort(values)
	return values[int(math.Ceil(p*float64(len(values))))-1]
}

// compare runs all clients against the random server of a number.
func compare(t *testing.T, seed uint64) []found {
	sc := randomScenario(seed)
	sc.load.within = mostTime
	oracle := run(t, sc.load, plain, func() *server {
		s := sc.server()
		s.turn = make(chan struct{}, 1)
		return s
	}, seed)
	sc.load.within = min(20*oracle.time+10*time.Minute, mostTime)
	list, best := make([]found, len(peers)), oracle.time.Seconds()
	for j, c := range peers {
		r := run(t, sc.load, c, sc.server, seed)
		jobs := max(sc.load.jobs, sc.load.each*sc.load.workers)
		list[j] = found{
			refused: float64(r.refused) / float64(jobs), longest: r.longest.Seconds() / oracle.longest.Seconds(),
			seconds: r.time.Seconds(), ended: len(r.took) == jobs,
		}
		best = min(best, list[j].seconds)
	}
	for j := range list {
		list[j].regret = list[j].seconds / best
	}
	return list
}

// mostTime bounds the simulated time if no client can do all jobs.
const mostTime = 2 * time.Hour

// randomScenario returns an honest server and a load for a number: from tens of requests in a
// second to a few in a minute. The server announces all or nothing.
func randomScenario(seed uint64) scenario {
	rnd := rand.New(rand.NewPCG(seed, 2))
	among := func(least, most float64) float64 { return least * math.Pow(most/least, rnd.Float64()) }
	seconds := func(least, most float64) time.Duration {
		return time.Duration(among(least, most) * float64(time.Second))
	}
	perSecond := among(0.3, 100)
	workers := int(among(1, 100))
	l := load{workers: workers, jobs: int(max(20, min(300, 200*perSecond)))}
	work := seconds(0.01, 10)
	if rnd.IntN(4) == 0 { // they come one after the other, each with one job
		l.each, l.workers = 1, l.jobs
		l.apart = time.Duration(among(0.5, 1.5) / perSecond * float64(time.Second))
	}
	if rnd.IntN(3) == 0 {
		l.timeout = time.Duration(among(3, 15) * float64(max(work, 100*time.Millisecond)))
	}
	s := server{say: saying[rnd.IntN(len(saying))], refuse: refusing[rnd.IntN(len(refusing))], work: lasts(work), way: seconds(0.001, 0.3)}
	if rnd.IntN(3) == 0 {
		s.work = lognormal(work)
	}
	if rnd.IntN(2) == 0 {
		s.loses = 0.1 * rnd.Float64()
	}
	limit := randomLimiter(rnd, perSecond, work, among)
	if _, ok := limit().(*concurrent); ok { // older fields cannot express it
		s.say = []func(http.Header, *visit){current, silent}[rnd.IntN(2)]
	}
	return scenario{load: l, server: func() *server {
		return &server{limit: limit(), say: s.say, refuse: s.refuse, work: s.work, way: s.way, loses: s.loses}
	}}
}

var (
	saying = []func(http.Header, *visit){
		current, current, unix(0, true), likeGitHub, likeOpenAI, onRefusal(current), onRefusal(unix(0, false)), silent,
	}
	refusing = []func(http.Header, *visit) int{refuseTooMany, refuseTooMany, refuseUntil, refuseUnavailable, dateRetryAfter}
)

func randomLimiter(rnd *rand.Rand, perSecond float64, work time.Duration, among func(least, most float64) float64) func() limiter {
	window := time.Duration(math.Ceil(among(1, 60))) * time.Second
	quota := max(1, int64(perSecond*window.Seconds()))
	burst := math.Ceil(among(1, max(2, 10*perSecond)))
	untilFull, part := rnd.IntN(2) == 0, 0.7*rnd.Float64()
	switch rnd.IntN(7) {
	case 0, 1:
		return fixed(quota, window)
	case 2:
		return sliding(quota, window)
	case 3:
		return tokens(perSecond, burst, untilFull)
	case 4:
		return crowded(perSecond, burst, part)
	case 5:
		return func() limiter {
			return several{fixed(max(1, quota/5), max(time.Second, window/10))(), fixed(quota, window)()}
		}
	}
	slots := int64(among(1, 20))
	return func() limiter { return &concurrent{slots: slots, each: work, says: untilFull} }
}
