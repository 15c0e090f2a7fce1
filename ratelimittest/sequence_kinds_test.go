package ratelimittest

import (
	"container/heap"
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/laws"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
)

// duration is Duration without its ok.
func duration(s ratelimit.Seconds) time.Duration { d, _ := s.Duration(); return d }

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

// A shown is what a Sequence reported in one run. at is the number of the response with the
// first finding above a note, or 0. note reports whether there was a note.
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
	w := &world{rnd: rnd, quota: 5 + rnd.Int64N(96), window: time.Duration(5+rnd.IntN(56)) * time.Second, form: laws.Forms[rnd.IntN(len(laws.Forms))]}
	gap := time.Duration(10e6 * math.Pow(100, rnd.Float64())) // 10 ms to 1 s
	latency := time.Duration(float64(700e6) * rnd.Float64() * rnd.Float64())
	workers, obeys, ends := 1, rnd.IntN(2) == 0, rnd.IntN(4) == 0
	if rnd.IntN(4) == 0 {
		workers = 2 + rnd.IntN(3)
	}
	withRetry := rnd.IntN(2) == 0
	serve := k.make(w)
	s := &Sequence{Alone: !k.slow}
	start := trial.Arrival.Add(time.Duration(rnd.Int64N(int64(time.Hour))))
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
			wait = max(wait, min(ratelimit.Advise(resp, a.received).Wait, 10*time.Minute))
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
		resp.Header.Set(text.RetryAfterKey, fmt.Sprint(int64(math.Ceil(r.retry.Seconds()))))
	}
	if r.silent {
		return resp
	}
	(&laws.Host{Form: w.form}).Write(resp.Header, r.fields, a.made)
	if r.raw != nil {
		r.raw(resp.Header)
	}
	return resp
}

var (
	kindRuns  = flag.Int("kinds", 20, "runs of each kind of server in TestSequenceKinds; docs/probe.md has 480")
	kindSeed  = flag.Uint64("kindseed", heldOut, "seed of the first run of each kind; the Sequence was developed with 0")
	kindName  = flag.String("kind", "", "runs only the kinds whose name contains this")
	kindTrace = flag.Int("shown", 0, "prints this many runs that are accused wrongly, or not found")
	kindLines = flag.Int("lines", 25, "prints at most this many responses of a run")
	kindForm  = flag.String("form", "", "prints only runs in this form")
)

// heldOut is the first seed of the runs to which no rule was adjusted.
const heldOut = 1 << 42

// A tally is what the Sequence finds in the runs of one kind of server.
type tally struct {
	by    [4]int // runs found by the 20th, the 60th, the 100th and the 200th response
	notes int    // other runs with a note
	words map[string]int
	shown []string
}

// tallyKind runs a kind of server.
func tallyKind(k *kindOfServer, lies bool) (n tally) {
	n.words = map[string]int{}
	for run := range uint64(*kindRuns) {
		out := runKind(k, *kindSeed+run, false)
		for j, most := range []int{20, 60, 100, 200} {
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
			n.shown = append(n.shown, fmt.Sprintf("%s, run %d: %v %v\n%s", k.name, run, out.finding, out.models, strings.Join(trace[max(to-min(to, *kindLines), 0):to], "\n")))
		}
	}
	return n
}

// tallyKinds runs kinds of servers, a few at a time, and returns the sums.
func tallyKinds(list []kindOfServer, lies bool) (all []tally, sums [4]int) {
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

// TestSequenceKinds runs servers of all kinds: few honest servers are accused, and many
// dishonest servers are found.
func TestSequenceKinds(t *testing.T) {
	t.Parallel()
	honest, dishonest := honestKinds(), dishonestKinds()
	require.GreaterOrEqual(t, len(honest), 48)
	require.GreaterOrEqual(t, len(dishonest), 37)
	text, err := os.ReadFile("../docs/probe.md")
	require.NoError(t, err)
	documented := string(text)
	report := func(list []kindOfServer, lies bool) (sums [4]int, rows string) {
		all, sums := tallyKinds(list, lies)
		var b strings.Builder
		for i, n := range all {
			if n.words == nil {
				continue
			}
			about := kindsAbout[list[i].name]
			require.NotEmpty(t, about, list[i].name)
			row := fmt.Sprintf("| %s | %s |", list[i].name, about)
			require.Contains(t, documented, row)
			fmt.Fprintf(&b, "%s %d | %d | %d | %d | %d |\n", row, n.by[0], n.by[1], n.by[2], n.by[3], n.notes)
			if *kindName != "" || *kindTrace > 0 {
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
	if *trial.Update && *kindName == "" && *kindRuns == 480 {
		const head = "| server | what it does | by 20 | by 60 | by 100 | by 200 | a note alone |\n|---|---|---|---|---|---|---|\n"
		of := func(sums [4]int, n int) string {
			return fmt.Sprintf("| all | %d runs | %d | %d | %d | %d | |\n", n, sums[0], sums[1], sums[2], sums[3])
		}
		trial.CheckSection(t, "../docs/probe.md", "honest", head+rows+of(accused, h))
		trial.CheckSection(t, "../docs/probe.md", "dishonest", head+more+of(found, d))
	}
	if *kindName != "" || *kindRuns > 20 {
		t.Logf("\n%sall %d: %v\n%sall %d: %v: %.1f%% %.1f%% %.1f%%", rows, h, accused, more, d, found, 100*float64(accused[3])/float64(h), 100*float64(found[1])/float64(d), 100*float64(found[3])/float64(d))
		return
	}
	require.LessOrEqual(t, float64(accused[3]), 0.005*float64(h), rows)
	require.GreaterOrEqual(t, float64(found[1]), 0.45*float64(d), more)
	require.GreaterOrEqual(t, float64(found[3]), 0.56*float64(d), more)
}

// kindsAbout describes each kind of server in docs/probe.md.
var kindsAbout = map[string]string{
	"fixed window, aligned":                        "a window that begins at multiples of its length",
	"fixed window, from the first request":         "a window that begins with the first request after the last one",
	"fixed window, any phase":                      "a window that begins at any fraction of a second",
	"t rounded down":                               "any limiter; t is one second too short",
	"t rounded half":                               "a fixed window; t is half a second off",
	"sliding log, oldest":                          "keeps the times of requests; t ends when the oldest leaves",
	"sliding log, all":                             "keeps the times of requests; t ends when the last leaves",
	"bucket, next":                                 "a token bucket; t ends with the next token",
	"bucket, full":                                 "a token bucket; t ends when it is full, as GCRA often announces",
	"bucket, wait":                                 "a token bucket; t is 0 unless the request is refused",
	"bucket, a rate that w rounds":                 "a token bucket whose time to fill is no whole number of seconds",
	"sliding window counter":                       "counts a part of the previous window, which shrinks with time",
	"sliding window counter, until a unit is back": "the same; if nothing remains, t ends with the next unit",
	"a policy per endpoint":                        "two or three endpoints, each with a limit of its own, with its own name",
	"a pk per endpoint":                            "the same, but with one name, and a partition key for each",
	"x-ratelimit per endpoint":                     "the same in older fields, which do not name the limit",
	"x-ratelimit per endpoint, silent 429":         "the same, with no limits in refusals",
	"2 nodes, at random":                           "two servers that count apart, behind a balancer that picks at random",
	"2 nodes, in turn":                             "the same, in turn",
	"3 nodes, at random":                           "three servers that count apart",
	"4 nodes, at random":                           "four servers that count apart",
	"4 nodes, in turn":                             "the same, in turn",
	"3 nodes, sticky, a move now and then":         "three servers; one request in 25 moves to another",
	"restarts in the middle":                       "forgets all, and goes on as another kind of limiter",
	"a restart of the same kind":                   "forgets all, and goes on as before",
	"30 % are free":                                "three in ten requests cost nothing",
	"half are free, and silent":                    "every second request costs nothing, and its response has no limits",
	"failed requests are not counted":              "one in ten fails with 500, at no cost",
	"failed requests are counted":                  "one in ten fails with 500, and costs as the others",
	"only failed requests count (20 %)":            "like skipSuccessfulRequests of express-rate-limit",
	"each costs 2 (x-ratelimit, no unit)":          "each request costs 2 units of an older limit",
	"some cost 5":                                  "one in five requests costs 5 units",
	"a cache in the application is free (40 %)":    "four in ten requests cost nothing, and announce what remains",
	"a cache answers each fifth, with Age":         "a shared cache answers every fifth request",
	"a month of 31 days, w of 30":                  "a calendar month, announced as 30 days",
	"burst and hour, both announced":               "two limits, both in the fields",
	"two limits, the tighter announced":            "two limits, the tighter one in older fields",
	"a limit in slots beside, announced":           "a limit, and a limit of concurrent requests",
	"silent 429":                                   "no limits in refusals",
	"fields on each third":                         "limits in every third response",
	"5 % of the answers are lost":                  "half of the lost answers are reported to the Sequence",
	"used by the same client before":               "a part of the quota is used when the test begins",
	"the clock of the server steps by a second":    "one request in 50 moves the clock by up to a second",
	"resets with jitter up to w/10":                "adds up to a tenth of the window to each reset",
	"remaining is capped, burst 1 to 3":            "lowers r near the rate of the policy, as `Limit.Cap` does",
	"another plan in the middle":                   "the quota doubles once",
	"refused requests count too (bucket)":          "a token bucket in which a refusal costs a fifth of a token",
	"refused requests count too":                   "any limiter in which a refusal costs as much as a request",
	"t in milliseconds":                            "a fixed window",
	"t in milliseconds (any limiter)":              "any limiter",
	"t in minutes":                                 "a fixed window, rounded up",
	"t is always w":                                "a fixed window",
	"t is always 1":                                "a fixed window",
	"t counts up":                                  "t is the time since the window began",
	"t goes at half the speed":                     "t goes from w to w/2",
	"t is a Unix time":                             "in the current fields",
	"r never falls":                                "r is always q − 1, of a fixed window",
	"r never falls (any limiter)":                  "r is always q − 1",
	"no t, r never falls":                          "the same, without a reset",
	"r falls by two":                               "each request is counted twice",
	"r is one too high":                            "r is what remained before the request",
	"r is one too low: one more is served":         "one more than q is served",
	"q twenty times too high, r from q":            "r counts from q, and a twentieth of q is served",
	"q ten times too high, r from the true one":    "r counts from a tenth of q",
	"half of q is applied, the refusal has r>0":    "r counts from q, and half of q is served",
	"q too low: ten times more is served":          "r is 0 from the q-th request on",
	"the window is twice w, t true":                "a fixed window",
	"the window is twice w, t modulo w":            "a fixed window; t never exceeds w",
	"the window is half of w, t true":              "a fixed window",
	"the window is half of w, t of w":              "a fixed window; t is half of w too long",
	"refuses at random, r>0":                       "one in ten requests is refused",
	"refuses at 70 %, and writes r=0 then":         "refuses when 30 % remain",
	"serves on at r=0":                             "never refuses",
	"serves on at r=0 (any limiter)":               "never refuses",
	"serves every second one at r=0":               "refuses every second request only",
	"Retry-After in milliseconds":                  "a fixed window",
	"Retry-After is always 1":                      "a fixed window",
	"a new pk each time":                           "any limiter; each response has a random partition key",
	"r rises":                                      "r is what is used",
	"r is random":                                  "r is any number below q",
	"r is negative":                                "refusals announce −1",
	"r comes back a window later than t":           "the window is twice w; t and Retry-After end after the first half",
	"another policy each time":                     "q is another number in each response",
	"r forgets each fifth, and refuses in time":    "every fifth request is not subtracted from r",
	"refuses for ever once r was 0":                "a fixed window that begins only once; t and Retry-After count down again and again",
}

// lies returns servers that change the announcements of an honest limiter.
func lies(name string, of func(w *world) laws.Limiter, turn func(w *world, now time.Time, r *reply, l *ratelimit.Limit)) kindOfServer {
	return kindOfServer{name: name, make: func(w *world) func(time.Time) reply {
		return turned(simple(of(w)), func(now time.Time, r *reply, l *ratelimit.Limit) { turn(w, now, r, l) })
	}}
}

func anyLimiter(w *world) laws.Limiter        { return w.anyKind()() }
func anyWindow(w *world) laws.Limiter         { return w.windowed() }
func (w *world) announced() ratelimit.Seconds { return ratelimit.CeilSeconds(w.window) }

func dishonestKinds() []kindOfServer {
	ms := func(_ *world, _ time.Time, _ *reply, l *ratelimit.Limit) {
		l.Reset = ratelimit.SecondsOf(1000 * reset(l))
	}
	zero := func(each int) func(w *world) func(time.Time) reply {
		return func(w *world) func(time.Time) reply {
			l, i := w.windowed(), 0
			return func(now time.Time) reply {
				r := asked(now, true, l)
				if i++; r.refused && i%each == 0 {
					r.refused, r.retry = false, 0
				}
				return r
			}
		}
	}
	other := func(name string, quota, window float64, change func(w *world, r *reply, l *ratelimit.Limit, real time.Duration)) kindOfServer {
		return kindOfServer{name: name, make: func(w *world) func(time.Time) reply {
			own := *w
			own.quota, own.window = max(int64(float64(w.quota)*quota), 1), time.Duration(float64(w.window)*window).Round(time.Second)
			return turned(simple(own.windowed()), func(_ time.Time, r *reply, l *ratelimit.Limit) {
				r.fields.Policies[0].Quota, r.fields.Policies[0].Window = w.quota, w.announced()
				change(w, r, l, own.window)
			})
		}}
	}
	return []kindOfServer{
		lies("t in milliseconds", anyWindow, ms),
		lies("t in milliseconds (any limiter)", anyLimiter, ms),
		lies("t in minutes", anyWindow, func(_ *world, _ time.Time, _ *reply, l *ratelimit.Limit) {
			l.Reset = ratelimit.SecondsOf((reset(l) + 59) / 60)
		}),
		lies("t is always w", anyWindow, func(w *world, _ time.Time, _ *reply, l *ratelimit.Limit) { l.Reset = w.announced() }),
		lies("t is always 1", anyWindow, func(w *world, _ time.Time, _ *reply, l *ratelimit.Limit) { l.Reset = ratelimit.SecondsOf(1) }),
		lies("t counts up", anyWindow, func(w *world, _ time.Time, _ *reply, l *ratelimit.Limit) {
			l.Reset = ratelimit.SecondsOf(max(number(w.announced())-reset(l), 0))
		}),
		lies("t goes at half the speed", anyWindow, func(w *world, _ time.Time, _ *reply, l *ratelimit.Limit) {
			l.Reset = ratelimit.SecondsOf((number(w.announced()) + reset(l)) / 2)
		}),
		lies("t is a Unix time", anyWindow, func(w *world, now time.Time, _ *reply, l *ratelimit.Limit) {
			w.form = "current"
			l.Reset = ratelimit.SecondsOf(now.Unix() + reset(l))
		}),
		lies("r never falls", anyWindow, func(_ *world, _ time.Time, r *reply, l *ratelimit.Limit) {
			l.Remaining = r.fields.Policies[0].Quota - 1
		}),
		lies("r never falls (any limiter)", anyLimiter, func(_ *world, _ time.Time, r *reply, l *ratelimit.Limit) {
			l.Remaining = r.fields.Policies[0].Quota - 1
		}),
		lies("no t, r never falls", anyWindow, func(w *world, _ time.Time, r *reply, l *ratelimit.Limit) {
			w.form = "current"
			l.Remaining, l.Reset = r.fields.Policies[0].Quota-1, ratelimit.Seconds{}
		}),
		{name: "r falls by two", make: func(w *world) func(time.Time) reply { return simple(w.costs(2)) }},
		lies("r is one too high", anyWindow, func(_ *world, _ time.Time, _ *reply, l *ratelimit.Limit) { l.Remaining++ }),
		{name: "r is one too low: one more is served", make: func(w *world) func(time.Time) reply {
			w.quota++
			return turned(simple(w.windowed()), func(_ time.Time, r *reply, l *ratelimit.Limit) {
				l.Remaining = max(l.Remaining-1, 0)
				r.fields.Policies[0].Quota--
			})
		}},
		other("q twenty times too high, r from q", 0.05, 1, func(w *world, r *reply, l *ratelimit.Limit, _ time.Duration) {
			l.Remaining += w.quota - max(w.quota/20, 1)
		}),
		other("q ten times too high, r from the true one", 0.1, 1, func(*world, *reply, *ratelimit.Limit, time.Duration) {}),
		other("half of q is applied, the refusal has r>0", 0.5, 1, func(w *world, r *reply, l *ratelimit.Limit, _ time.Duration) {
			l.Remaining += w.quota - max(w.quota/2, 1)
		}),
		other("q too low: ten times more is served", 10, 1, func(w *world, r *reply, l *ratelimit.Limit, _ time.Duration) {
			l.Remaining = max(l.Remaining-9*w.quota, 0)
		}),
		other("the window is twice w, t true", 1, 2, func(*world, *reply, *ratelimit.Limit, time.Duration) {}),
		other("the window is twice w, t modulo w", 1, 2, func(w *world, _ *reply, l *ratelimit.Limit, _ time.Duration) {
			if n := number(w.announced()); reset(l) > n {
				l.Reset = ratelimit.SecondsOf(reset(l) - n)
			}
		}),
		other("the window is half of w, t true", 1, 0.5, func(*world, *reply, *ratelimit.Limit, time.Duration) {}),
		other("the window is half of w, t of w", 1, 0.5, func(w *world, _ *reply, l *ratelimit.Limit, real time.Duration) {
			l.Reset = ratelimit.SecondsOf(reset(l) + number(w.announced()) - number(ratelimit.CeilSeconds(real)))
		}),
		{name: "refuses at random, r>0", make: func(w *world) func(time.Time) reply {
			s := simple(w.windowed())
			return func(now time.Time) reply {
				r := s(now)
				if w.rnd.IntN(10) == 0 && !r.refused {
					r.refused, r.retry = true, time.Second
				}
				return r
			}
		}},
		{name: "refuses at 70 %, and writes r=0 then", make: func(w *world) func(time.Time) reply {
			return turned(simple(w.windowed()), func(_ time.Time, r *reply, l *ratelimit.Limit) {
				if l.Remaining*10 <= w.quota*3 {
					l.Remaining = 0
					r.refused, r.retry = true, duration(l.Reset)
				}
			})
		}},
		{name: "serves on at r=0", make: func(w *world) func(time.Time) reply {
			s := simple(w.windowed())
			return func(now time.Time) reply { r := s(now); r.refused, r.retry = false, 0; return r }
		}},
		{name: "serves on at r=0 (any limiter)", make: func(w *world) func(time.Time) reply {
			s := simple(w.anyKind()())
			return func(now time.Time) reply { r := s(now); r.refused, r.retry = false, 0; return r }
		}},
		{name: "serves every second one at r=0", make: zero(2)},
		{name: "Retry-After in milliseconds", make: func(w *world) func(time.Time) reply {
			s := simple(w.windowed())
			return func(now time.Time) reply { r := s(now); r.retry *= 1000; r.always = true; return r }
		}},
		{name: "Retry-After is always 1", make: func(w *world) func(time.Time) reply {
			s := simple(w.windowed())
			return func(now time.Time) reply {
				r := s(now)
				r.retry, r.always = min(r.retry, time.Second), true
				return r
			}
		}},
		{name: "a new pk each time", make: func(w *world) func(time.Time) reply {
			w.form = "current"
			return turned(simple(w.anyKind()()), func(_ time.Time, r *reply, l *ratelimit.Limit) {
				l.PartitionKey = fmt.Append(nil, w.rnd.Uint64())
				r.fields.Policies[0].PartitionKey = l.PartitionKey
			})
		}},
		lies("r rises", anyWindow, func(_ *world, _ time.Time, r *reply, l *ratelimit.Limit) {
			l.Remaining = r.fields.Policies[0].Quota - l.Remaining
		}),
		lies("r is random", anyWindow, func(w *world, _ time.Time, r *reply, l *ratelimit.Limit) {
			l.Remaining = w.rnd.Int64N(w.quota)
		}),
		{name: "r is negative", make: func(w *world) func(time.Time) reply {
			return turned(simple(w.windowed()), func(_ time.Time, r *reply, l *ratelimit.Limit) {
				if r.refused {
					r.raw = func(h http.Header) {
						for k, v := range h {
							if strings.Contains(k, "Remaining") {
								v[0] = "-1"
							} else if k == draft.LimitKey {
								v[0] = strings.ReplaceAll(strings.ReplaceAll(v[0], "r=0", "r=-1"), "remaining=0", "remaining=-1")
							}
						}
					}
				}
			})
		}},
		{name: "r comes back a window later than t", make: func(w *world) func(time.Time) reply {
			own := *w
			own.window *= 2
			return turned(simple(own.windowed()), func(_ time.Time, r *reply, l *ratelimit.Limit) {
				r.fields.Policies[0].Window = w.announced()
				if n := number(w.announced()); reset(l) > n {
					l.Reset = ratelimit.SecondsOf(reset(l) - n)
				}
				r.retry = min(r.retry, w.window)
			})
		}},
		{name: "another policy each time", make: func(w *world) func(time.Time) reply {
			w.form = "current"
			i := int64(0)
			return turned(simple(w.anyKind()()), func(_ time.Time, r *reply, l *ratelimit.Limit) { i++; r.fields.Policies[0].Quota += i })
		}},
		{name: "r forgets each fifth, and refuses in time", make: func(w *world) func(time.Time) reply {
			n, forgot := 0, int64(0)
			begun := int64(0)
			return turned(simple(w.windowed()), func(_ time.Time, r *reply, l *ratelimit.Limit) {
				if l.Remaining > begun { // a window begins
					n, forgot = 0, 0
				}
				begun = l.Remaining
				if n++; n%5 == 0 {
					forgot++
				}
				if !r.refused {
					l.Remaining += forgot
				}
			})
		}},
		{name: "refuses for ever once r was 0", make: func(w *world) func(time.Time) reply {
			s, l := simple(w.windowed()), w.windowed()
			var last reply
			return func(now time.Time) reply {
				if !last.refused {
					last = s(now)
					return last
				}
				r := asked(now, true, l)
				r.refused, r.fields.Limits[0].Remaining, r.retry = true, 0, duration(r.fields.Limits[0].Reset)
				return r
			}
		}},
	}
}

// Honest limiters have no finding above a note even if hundreds of requests are under way. A
// limiter has then counted many requests whose responses arrive later.
func TestSequenceSwarm(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		random := func(most time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(most))) }
		w := &world{rnd: rnd, quota: 5 + rnd.Int64N(600), window: time.Duration(5+rnd.IntN(56)) * time.Second, form: "current"}
		serve := simple(w.anyKind()())
		spread, latency := time.Millisecond+random(30*time.Second), time.Millisecond+random(20*time.Second)
		all := make([]onItsWay, 100+rnd.IntN(500))
		for i := range all {
			sent := trial.Arrival.Add(random(spread))
			made := sent.Add(random(latency))
			all[i] = onItsWay{sent: sent, made: made, received: made.Add(random(latency))}
		}
		slices.SortFunc(all, func(a, b onItsWay) int { return a.made.Compare(b.made) })
		for i := range all {
			all[i].reply = serve(all[i].made)
		}
		slices.SortFunc(all, func(a, b onItsWay) int { return a.received.Compare(b.received) })
		s := &Sequence{Alone: true}
		for i := range all {
			for _, f := range s.Add(responseOfReply(w, &all[i], false), all[i].sent, all[i].received) {
				require.Equal(t, LevelNote, f.Level, "seed %d, response %d: %v", seed, i, f)
			}
		}
	}
}
