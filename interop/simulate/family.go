package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A scene is a random server and its load, while they are being drawn.
type scene struct {
	rnd      *rand.Rand
	load     load
	window   time.Duration
	quota    int64
	limit    func(quota int64) limiter
	around   []func(limit func(int64) limiter) func(int64) limiter // applied to limit, in this order
	nodes    int                                                   // the number of nodes that count separately; 0 means one
	paths    bool                                                  // the nodes are paths
	named    bool                                                  // the policies of each path have their own names
	others   float64                                               // the part of the quota that other clients take
	work     func(number int) time.Duration
	way      time.Duration
	loses    float64
	oddity   oddity
	form     form
	refusal  refusal
	announce []func(states []state) []state // make the numbers wrong
	silent   func(v *visit) bool            // reports whether a response has no fields
	skew     time.Duration                  // of the server's clock
	undated  bool                           // answers have no Date
	always   bool                           // every answer has Retry-After
	minutes  bool                           // resets are rounded up to minutes
	words    []string                       // the description
	aside    string                         // why it is right that clients obey it, although it costs time
}

// longestIdeal bounds the time that a quota requires for the jobs.
const longestIdeal = 90 * time.Minute

// among returns a random number from a range. All orders of magnitude are equally likely.
func (s *scene) among(least, most float64) float64 {
	return least * math.Pow(most/least, s.rnd.Float64())
}

func (s *scene) seconds(least, most float64) time.Duration {
	return time.Duration(s.among(least, most) * float64(time.Second))
}

func (s *scene) say(format string, args ...any) {
	s.words = append(s.words, fmt.Sprintf(format, args...))
}

// randomScenario returns the server and the load for a number: one limit, announced in one
// form, and one to three oddities.
func (k *set) randomScenario(number uint64) scenario {
	s := &scene{rnd: rand.New(rand.NewPCG(number, k.stream))}
	s.window = time.Duration(math.Ceil(s.among(0.5, 3600))) * time.Second
	s.quota = int64(s.among(5, 500))
	s.load = load{workers: int(s.among(1, 60))}
	s.load.jobs = int(min(max(float64(s.quota)*s.among(0.7, 4), 20), 400))
	work := s.seconds(0.01, 1)
	s.work, s.way = lasts(work), s.seconds(0.001, 0.15)
	s.drawLimiter()
	s.form = forms[s.rnd.IntN(len(forms))]
	s.drawRefusal()
	if k.mute {
		s.form = forms[len(forms)-1]
		s.refusal = refusal{[]int{http.StatusTooManyRequests, http.StatusServiceUnavailable}[s.rnd.IntN(2)], silent}
	}
	s.say("%s", s.form.name)
	drawn := s.rnd.Perm(len(k.kinds))[:1+s.rnd.IntN(3)]
	slices.Sort(drawn)
	var names []string
	for _, i := range drawn {
		names = append(names, k.kinds[i].name)
		k.kinds[i].add(s)
	}
	if k.stream != sets[0].stream {
		s.arrive()
	}
	s.words = append(s.words, names...)
	return s.scenario(names)
}

// A set is a set of random servers.
type set struct {
	name   string
	stream uint64 // of random numbers
	kinds  []oddityKind
	mute   bool // they send no fields, and refuse with 429 or 503 alone
}

// sets are the sets of a search. Only the first may be tuned to.
var sets = []set{
	{name: "first", stream: 3, kinds: oddities},
	{name: "unseen", stream: 4, kinds: unseen},
	{name: "mute", stream: 5, kinds: slices.DeleteFunc(slices.Clone(unseen), func(k oddityKind) bool { return k.told }), mute: true},
}

// drawLimiter draws the kind of the limiter.
func (s *scene) drawLimiter() {
	phase := time.Duration(s.rnd.Float64() * float64(s.window))
	kind := s.rnd.IntN(5)
	untilFull, burst := s.rnd.IntN(2) == 0, s.rnd.Float64()
	s.say("%s", []string{"aligned window", "window from the first request", "sliding log", "sliding counter", "bucket"}[kind])
	s.limit = func(quota int64) limiter {
		switch kind {
		case 0:
			return &fixedWindow{quota: quota, window: s.window, phase: phase}
		case 1:
			return &fixedWindow{quota: quota, window: s.window, onRequest: true}
		case 2:
			return &slidingWindow{quota: quota, window: s.window}
		case 3:
			return &weightedWindow{fixedWindow: fixedWindow{quota: quota, window: s.window, phase: phase}, plain: untilFull}
		}
		perSecond := float64(quota) / s.window.Seconds()
		return &bucket{perSecond: perSecond, burst: math.Ceil(math.Pow(float64(quota), burst)), untilFull: untilFull}
	}
}

func (s *scene) drawRefusal() {
	s.refusal = []refusal{
		tooMany,
		{http.StatusTooManyRequests, untilServed},
		{http.StatusTooManyRequests, untilServed},
		{http.StatusTooManyRequests, untilDate},
		{http.StatusServiceUnavailable, untilServed},
	}[s.rnd.IntN(5)]
	if s.form.name == "GitHub" && s.rnd.IntN(2) == 0 {
		s.refusal = refusal{http.StatusForbidden, silent}
	}
	if s.form.name == "no fields" && s.rnd.IntN(2) == 0 {
		s.refusal = refusal{http.StatusServiceUnavailable, silent}
	}
}

// scenario returns the drawn server and load.
func (s *scene) scenario(kinds []string) scenario {
	jobs := s.load.total()
	// The quota without the part of other clients is enough for the jobs within longestIdeal.
	least := float64(jobs) / (1 - s.others) * s.window.Seconds() / longestIdeal.Seconds()
	s.quota = max(s.quota, int64(math.Ceil(least)))
	s.say("%d per %v", s.quota, s.window)
	s.say("%d jobs of %d workers", jobs, s.load.workers)
	limit := s.limit
	for _, wrap := range s.around {
		limit = wrap(limit)
	}
	if slices.ContainsFunc(limit(s.quota).state(epoch), func(x state) bool {
		window, _ := x.policy.Window.Duration()
		return window < s.longer()
	}) {
		s.aside = "resets longer than the window"
	}
	return scenario{name: strings.Join(s.words, ", "), kinds: kinds, aside: s.aside, load: s.load, server: func() *server {
		x := &server{
			limit: limit(s.quota), paths: s.paths, say: s.write, refuse: s.refusal, skew: s.skew,
			work: s.work, way: s.way, loses: s.loses, oddity: s.oddity, poll: s.window / 1000,
		}
		x.oddity.cache = new(cache)
		for i := range s.nodes {
			quota, suffix := s.quota/int64(s.nodes), fmt.Sprint("-", i)
			if s.load.paths > 0 { // every other path has a third of the quota of its neighbour
				quota, suffix = quota*int64(1+i%2*2)/2, fmt.Sprint("/", i)
			}
			one := limit(max(1, quota))
			if s.named {
				one = renamed(one, suffix)
			}
			x.each = append(x.each, one)
		}
		return x
	}}
}

// longer returns by how much an announced reset may be longer than the true one. It does not
// contain the fraction of a second by which most forms round it up.
func (s *scene) longer() time.Duration {
	switch {
	case s.minutes:
		return time.Minute
	case s.undated && s.form.times:
		return s.skew
	}
	return 0
}

// write writes the fields of an answer.
func (s *scene) write(h http.Header, v *visit) {
	if !s.undated {
		h.Set("Date", time.Now().Add(s.skew).UTC().Format(http.TimeFormat))
	}
	told := *v
	told.states = slices.Clone(v.states)
	for _, change := range s.announce {
		told.states = change(told.states)
	}
	if s.silent != nil && s.silent(v) || len(told.states) == 0 {
		return
	}
	if s.always {
		h.Set("Retry-After", numberOf(tightest(told.states).reset))
	}
	if s.form.name != "current" {
		told.states = told.states[:1]
	}
	s.form.write(h, &told)
}

// An oddityKind is a special property of a server or its load.
type oddityKind struct {
	name string
	add  func(s *scene)
	told bool // it is only about what is announced
}

var oddities = []oddityKind{
	{name: "nested limits", add: func(s *scene) {
		shorter := max(time.Second, s.window/time.Duration(s.among(5, 100)))
		part := s.among(1.2, 4) * shorter.Seconds() / s.window.Seconds()
		if s.rnd.IntN(2) == 0 { // a form for one limit always has the same limit
			s.announce = append(s.announce, func(states []state) []state { slices.Reverse(states); return states })
		}
		s.wrap(func(l limiter, quota int64) limiter {
			return several{l, &fixedWindow{quota: max(1, int64(float64(quota)*part)), window: shorter}}
		})
	}},
	{name: "the plan changes", add: func(s *scene) { s.change(false, s.among(0.2, 2)) }},
	{name: "another rate at night", add: func(s *scene) { s.change(true, s.among(0.05, 1)) }},
	{name: "nodes that count apart", add: func(s *scene) { s.nodes = 2 + s.rnd.IntN(7) }},
	{name: "limits by path", add: func(s *scene) {
		s.nodes, s.paths, s.named = 2+s.rnd.IntN(3), true, s.rnd.IntN(2) == 0
	}},
	{name: "fields on successes alone", add: func(s *scene) { s.silent = func(v *visit) bool { return !v.served } }},
	{name: "fields on refusals alone", add: func(s *scene) { s.silent = func(v *visit) bool { return v.served } }},
	{name: "fields on every tenth answer", add: func(s *scene) { s.silent = func(v *visit) bool { return v.number%10 != 0 } }},
	{name: "Retry-After on every answer", add: func(s *scene) {
		s.always = true
		if s.form.name == "current" {
			s.aside = "current fields with Retry-After on success"
		}
	}},
	{name: "resets rounded down", add: func(s *scene) { s.resets(func(d time.Duration) time.Duration { return d.Truncate(time.Second) }) }},
	{name: "resets in minutes", add: func(s *scene) {
		s.resets(func(d time.Duration) time.Duration { return (d + time.Minute - 1).Truncate(time.Minute) })
		s.minutes = true
	}},
	{name: "a wrong clock", add: func(s *scene) {
		s.skew = []time.Duration{-90, -20, 20, 90}[s.rnd.IntN(4)] * time.Second
		s.undated = s.rnd.IntN(2) == 0
	}},
	{name: "a cache in front", add: func(s *scene) {
		s.oddity.stored, s.oddity.storedFor = 0.1+0.6*s.rnd.Float64(), s.seconds(1, 120)
		s.oddity.storedAged = s.rnd.IntN(2) == 0
		s.aside = "fields from a cache"
	}},
	{name: "a few at a time", add: func(s *scene) {
		slots, says := int64(s.among(1, 20)), s.rnd.IntN(2) == 0 && s.form.name == "current"
		s.wrap(func(l limiter, _ int64) limiter { return several{l, &concurrent{slots: slots, says: says}} })
	}},
	{name: "503 for another reason", add: func(s *scene) {
		s.oddity.shard, s.oddity.shardWait = s.among(0.003, 0.03), time.Duration(s.among(1, 60))*time.Second
		s.aside = "503 with Retry-After of one shard"
	}},
	{name: "some fail with 500", add: func(s *scene) { s.oddity.fails = 0.1 * s.rnd.Float64() }},
	{name: "streams", add: func(s *scene) { s.oddity.body = s.seconds(0.5, 20) }},
	{name: "slow answers", add: func(s *scene) {
		work := s.seconds(1, 20)
		if s.work = lasts(work); s.rnd.IntN(2) == 0 {
			s.work = lognormal(work)
		}
	}},
	{name: "all at once", add: func(s *scene) { s.load = load{workers: int(s.among(100, 1500)), each: 1, timeout: s.load.timeout} }},
	{name: "one after the other", add: func(s *scene) {
		rate := float64(s.quota) / s.window.Seconds() * s.among(0.5, 1.5)
		s.load.each, s.load.workers = 1, s.load.total()
		s.load.apart = min(time.Duration(float64(time.Second)/rate), longestIdeal/time.Duration(s.load.total()))
	}},
	{name: "callers that give up", add: func(s *scene) { s.load.cancelled = s.seconds(0.1, 10) }},
	{name: "timeouts", add: func(s *scene) {
		s.load.timeout = time.Duration(s.among(2, 15) * float64(max(s.longestWork(), time.Second)))
	}},
	{name: "redirects that count", add: func(s *scene) { s.oddity.redirects = s.among(0.1, 1) }},
	{name: "others", add: func(s *scene) {
		s.others = 0.1 + 0.6*s.rnd.Float64()
		s.wrap(func(l limiter, quota int64) limiter { return s.crowd(l, quota, 1) })
	}},
	{name: "refused requests are counted", add: func(s *scene) {
		s.limit = func(quota int64) limiter { return &slidingWindow{quota: quota, window: s.window, all: true} }
	}},
	{name: "announces one too many", add: func(s *scene) {
		s.announce = append(s.announce, func(states []state) []state {
			for i := range states {
				states[i].remaining = min(states[i].remaining+1, states[i].policy.Quota)
			}
			return states
		})
	}},
	{name: "a bad network", add: func(s *scene) { s.loses = 0.02 + 0.1*s.rnd.Float64() }},
}

// change changes the quota after a part of the time that the jobs require.
func (s *scene) change(back bool, part float64) {
	factor := []float64{0.25, 0.5, 2, 4}[s.rnd.IntN(4)]
	s.around = append(s.around, func(limit func(int64) limiter) func(int64) limiter {
		return func(quota int64) limiter {
			every := time.Duration(part * float64(s.load.total()) / float64(quota) * float64(s.window))
			return changing(limit(quota), limit(max(1, int64(factor*float64(quota)))), max(every, time.Second), back)
		}
	})
}

// resets rounds the announced resets.
func (s *scene) resets(round func(time.Duration) time.Duration) {
	s.announce = append(s.announce, func(states []state) []state {
		for i := range states {
			if states[i].reset >= 0 {
				states[i].reset = round(states[i].reset)
			}
		}
		return states
	})
}

func (s *scene) longestWork() time.Duration {
	var longest time.Duration
	for i := range 100 {
		longest = max(longest, s.work(i))
	}
	return longest + s.oddity.body
}

// tightest returns the state with the smallest part of its quota remaining.
func tightest(states []state) state {
	return slices.MinFunc(states, func(a, b state) int {
		return int(a.remaining*b.policy.Quota - b.remaining*a.policy.Quota)
	})
}
