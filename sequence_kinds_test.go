package ratelimit

import (
	"container/heap"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// duration is Duration without its ok.
func (s Seconds) duration() time.Duration { d, _ := s.Duration(); return d }

// An arrived is an answer on its way.
type onItsWay struct {
	sent, received time.Time
	reply          reply
	made           time.Time
	worker         int
}

type queueOfAnswers []onItsWay

func (q queueOfAnswers) Len() int           { return len(q) }
func (q queueOfAnswers) Less(i, j int) bool { return q[i].received.Before(q[j].received) }
func (q queueOfAnswers) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queueOfAnswers) Push(x any)        { *q = append(*q, x.(onItsWay)) }
func (q *queueOfAnswers) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// A shown is what a Sequence reported in one run: the number of the response with the first
// finding above a note, or 0, and whether there was a note.
type shown struct {
	at      int
	note    bool
	finding Finding
	trace   []string
	models  []string
	add     time.Duration
	form    string
}

// runKind asks a server of a kind 200 times.
func runKind(k *kindOfServer, seed uint64, trace bool) (out shown) {
	own := fnv.New64a() // so that kinds do not have their quotas and forms in common
	own.Write([]byte(k.name))
	rnd := rand.New(rand.NewPCG(seed, own.Sum64()))
	w := &world{rnd: rnd, quota: 5 + rnd.Int64N(96), window: time.Duration(5+rnd.IntN(56)) * time.Second, form: forms[rnd.IntN(len(forms))]}
	gap := time.Duration(10e6 * math.Pow(100, rnd.Float64())) // 10 ms to 1 s
	latency := time.Duration(float64(700e6) * rnd.Float64() * rnd.Float64())
	workers, obeys, ends := 1, rnd.IntN(2) == 0, rnd.IntN(4) == 0
	if rnd.IntN(4) == 0 {
		workers = 2 + rnd.IntN(3)
	}
	withRetry := rnd.IntN(2) == 0
	serve := k.make(w)
	s := &Sequence{Alone: !k.slow}
	start := arrival.Add(time.Duration(rnd.Int64N(int64(time.Hour))))
	next := make([]time.Time, workers)
	for i := range next {
		next[i] = start.Add(time.Duration(rnd.Int64N(int64(gap))))
	}
	// Events in the order of time: a request reaches the server, or an answer arrives.
	var pending queueOfAnswers
	type arriving struct {
		at     time.Time
		sent   time.Time
		worker int
	}
	busy := make([]*arriving, workers)
	for i := range busy {
		busy[i] = &arriving{at: next[i].Add(time.Duration(rnd.Int64N(int64(latency) + 1))), sent: next[i], worker: i}
	}
	added := 0
	for added < 200 {
		var first *arriving
		for _, a := range busy {
			if a != nil && (first == nil || a.at.Before(first.at)) {
				first = a
			}
		}
		if first != nil && (len(pending) == 0 || first.at.Before(pending[0].received)) {
			busy[first.worker] = nil
			r := serve(first.at)
			back := first.at.Add(time.Duration(rnd.Int64N(int64(latency) + 1)))
			heap.Push(&pending, onItsWay{first.sent, back, r, first.at, first.worker})
			continue
		}
		a := heap.Pop(&pending).(onItsWay)
		resp := responseOfReply(w, &a, withRetry)
		added++
		var found []Finding
		if a.reply.lost && rnd.IntN(2) == 0 {
			s.Add(nil, a.sent, a.received)
		} else if !a.reply.lost {
			began := time.Now()
			found = s.Add(resp, a.sent, a.received)
			out.add += time.Since(began)
		}
		if trace {
			out.trace = append(out.trace, fmt.Sprintf("%d %.3f %.3f made %.3f worker %d status %d %v %v", added, a.sent.Sub(start).Seconds(), a.received.Sub(start).Seconds(), a.made.Sub(start).Seconds(), a.worker, resp.StatusCode, resp.Header, found))
		}
		for _, f := range found {
			if f.Level > LevelNote && out.at == 0 {
				out.at, out.finding = added, f
			}
			out.note = out.note || f.Level == LevelNote
		}
		refused := resp.StatusCode == http.StatusTooManyRequests
		if refused && ends {
			break
		}
		wait := time.Duration(rnd.Int64N(int64(2*gap) + 1))
		if refused && obeys {
			wait = max(wait, min(Advise(resp, a.received).Wait, 10*time.Minute))
		}
		at := a.received.Add(wait)
		busy[a.worker] = &arriving{at: at.Add(time.Duration(rnd.Int64N(int64(latency) + 1))), sent: at, worker: a.worker}
	}
	out.models, out.form = s.Models(), w.form
	return out
}

func responseOfReply(w *world, a *onItsWay, withRetry bool) *http.Response {
	r := &a.reply
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Date": {a.made.UTC().Format(http.TimeFormat)}}}
	switch {
	case r.refused:
		resp.StatusCode = http.StatusTooManyRequests
	case r.failed:
		resp.StatusCode = http.StatusInternalServerError
	}
	if r.cached {
		resp.Header.Set("Age", "3")
	}
	if r.refused && r.retry > 0 && (withRetry || r.silent || r.always) {
		resp.Header.Set(retryAfterKey, fmt.Sprint(int64(math.Ceil(r.retry.Seconds()))))
	}
	if r.silent {
		return resp
	}
	(&host{form: w.form}).write(resp.Header, r.fields, a.made)
	if r.raw != nil {
		r.raw(resp.Header)
	}
	return resp
}

var (
	kindRuns  = flag.Int("kinds", 12, "runs of each kind of server in TestSequenceKinds; docs/probe.md has 480")
	kindSeed  = flag.Uint64("kindseed", heldOut, "seed of the first run of each kind; the Sequence was developed with 0")
	kindName  = flag.String("kind", "", "runs only the kinds whose name contains this")
	kindTrace = flag.Int("shown", 0, "prints this many runs that are accused wrongly, or not found")
	kindForm  = flag.String("form", "", "prints only runs in this form")
)

// heldOut is the first seed of runs that nothing was adjusted to.
const heldOut = 1 << 40

// A tally is what the Sequence finds in the runs of one kind of server.
type tally struct {
	by    [3]int // runs found by the 20th, the 60th and the 200th response
	notes int    // other runs with a note
	words map[string]int
	shown []string
}

// tallyKind runs a kind of server.
func tallyKind(k *kindOfServer, lies bool) (n tally) {
	n.words = map[string]int{}
	for run := range uint64(*kindRuns) {
		out := runKind(k, *kindSeed+run, false)
		for j, most := range []int{20, 60, 200} {
			if out.at > 0 && out.at <= most {
				n.by[j]++
			}
		}
		switch {
		case out.at > 0:
			n.words[out.form+": "+out.finding.Rule+" "+out.finding.Message]++
		case out.note:
			n.notes++
		}
		if (out.at > 0) != lies && len(n.shown) < *kindTrace && strings.HasPrefix(out.form, *kindForm) {
			trace := runKind(k, *kindSeed+run, true).trace
			to := out.at
			if to == 0 {
				to = len(trace)
			}
			n.shown = append(n.shown, fmt.Sprintf("%s, run %d: %v %v\n%s", k.name, run, out.finding, out.models, strings.Join(trace[max(to-25, 0):to], "\n")))
		}
	}
	return n
}

// tallyKinds runs kinds of servers, a few at a time, and returns the sums.
func tallyKinds(list []kindOfServer, lies bool) (all []tally, sums [3]int) {
	all = make([]tally, len(list))
	var wait sync.WaitGroup
	slots := make(chan struct{}, 2)
	for i := range list {
		if strings.Contains(list[i].name, *kindName) {
			wait.Go(func() {
				slots <- struct{}{}
				all[i] = tallyKind(&list[i], lies)
				<-slots
			})
		}
	}
	wait.Wait()
	for i := range all {
		for j, n := range all[i].by {
			sums[j] += n
		}
	}
	return all, sums
}

// TestSequenceKinds runs honest and dishonest servers of all kinds: few of the honest ones
// are accused, and many of the dishonest ones found.
func TestSequenceKinds(t *testing.T) {
	t.Parallel()
	honest, dishonest := honestKinds(), dishonestKinds()
	require.GreaterOrEqual(t, len(honest), 46)
	require.GreaterOrEqual(t, len(dishonest), 36)
	report := func(list []kindOfServer, lies bool) (sums [3]int, rows string) {
		all, sums := tallyKinds(list, lies)
		var b strings.Builder
		for i, n := range all {
			if n.words == nil {
				continue
			}
			fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", list[i].name, n.by[0], n.by[1], n.by[2], n.notes)
			if *kindName != "" {
				for word, times := range n.words {
					fmt.Fprintf(&b, "   %d %s\n", times, word)
				}
				b.WriteString(strings.Join(n.shown, "\n"))
			}
		}
		return sums, b.String()
	}
	accused, rows := report(honest, false)
	found, more := report(dishonest, true)
	h, d := *kindRuns*len(honest), *kindRuns*len(dishonest)
	if *kindName != "" || *kindRuns > 12 {
		t.Logf("\n%sall %d: %v\n%sall %d: %v: %.1f%% %.1f%% %.1f%%", rows, h, accused, more, d, found, 100*float64(accused[2])/float64(h), 100*float64(found[1])/float64(d), 100*float64(found[2])/float64(d))
		return
	}
	require.LessOrEqual(t, float64(accused[2]), 0.03*float64(h), rows)
	require.GreaterOrEqual(t, float64(found[2]), 0.42*float64(d), more)
}
