package ratelimittest

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/laws"
)

// A world contains the random choices of one run of a kind of server.
type world struct {
	rnd    *rand.Rand
	quota  int64
	window time.Duration
	form   string
}

// A reply is the response of a server before it is written in a form.
type reply struct {
	fields  ratelimit.Fields
	refused bool
	silent  bool // without any field
	failed  bool // for a reason other than a limit
	lost    bool
	always  bool // with a Retry-After, even if refusals of this world have none
	cached  bool
	retry   time.Duration       // Retry-After; 0 is none
	raw     func(h http.Header) // changes what is written
}

// A kindOfServer makes servers. The responses of a server depend on the time.
type kindOfServer struct {
	name string
	slow bool // the client cannot promise Alone
	make func(w *world) func(now time.Time) reply
}

// simple returns a server with limiters. A request must pass all of them.
func simple(all ...laws.Limiter) func(now time.Time) reply {
	return func(now time.Time) reply { return asked(now, true, all...) }
}

// asked sends one request to limiters. If counts is true, a request that passes is subtracted.
func asked(now time.Time, counts bool, all ...laws.Limiter) (r reply) {
	refuses := make([]bool, len(all))
	for i, l := range all {
		if _, ok := l.Left(now); !ok {
			refuses[i] = true
			r.refused = true
		}
	}
	for i, l := range all {
		if !r.refused && counts {
			l.Take(now)
		}
		f, _ := l.Left(now)
		if s, ok := f.Limits[0].Reset.Duration(); ok && refuses[i] {
			r.retry = max(r.retry, s)
		}
		r.fields = r.fields.Join(f)
	}
	return r
}

// phased moves the clock of a limiter, so that its windows begin at any time.
type phased struct {
	laws.Limiter
	by time.Duration
}

func (p phased) Left(now time.Time) (ratelimit.Fields, bool) { return p.Limiter.Left(now.Add(p.by)) }
func (p phased) Take(now time.Time)                          { p.Limiter.Take(now.Add(p.by)) }

func (w *world) aligned() laws.Limiter {
	return phased{&laws.Fixed{Name: "a", Quota: w.quota, Window: w.window, Aligned: true}, time.Duration(w.rnd.Int64N(int64(w.window)))}
}
func (w *world) first() laws.Limiter { return &laws.Fixed{Name: "a", Quota: w.quota, Window: w.window} }
func (w *world) log(all bool) laws.Limiter {
	return &laws.Sliding{Name: "a", Quota: w.quota, Window: w.window, All: all}
}
func (w *world) bucket(full bool) laws.Limiter {
	return &laws.Pail{Name: "a", Burst: w.quota, PerSecond: float64(w.quota) / w.window.Seconds(), Full: full}
}
func (w *world) counter() laws.Limiter {
	return phased{&laws.Weighted{Name: "a", Quota: w.quota, Window: w.window}, time.Duration(w.rnd.Int64N(int64(w.window)))}
}

// untilUnit is a limiter of an API.
type untilUnit struct{ *counter }

func (u untilUnit) Left(now time.Time) (ratelimit.Fields, bool) {
	s := u.state(now)
	return ratelimit.Fields{Policies: []ratelimit.Policy{s.policy}, Limits: []ratelimit.Limit{s.limit}}, u.wait(1) == 0
}
func (u untilUnit) Take(time.Time) { u.take(1) }
func (untilUnit) Done()            {}

// counterUntilUnit returns a sliding window counter that announces when a unit is back, as
// announce.SlidingWindow does.
func (w *world) counterUntilUnit() laws.Limiter {
	p := ratelimit.Policy{Name: "a", Quota: w.quota, Window: ratelimit.CeilSeconds(w.window)}
	return phased{untilUnit{newCounter(&Limit{Policy: p, Kind: SlidingCounter})}, time.Duration(w.rnd.Int64N(int64(w.window)))}
}

// anyKind returns a maker of one kind of limiter.
func (w *world) anyKind() func() laws.Limiter {
	return []func() laws.Limiter{
		w.aligned, w.first, func() laws.Limiter { return w.log(false) }, func() laws.Limiter { return w.log(true) },
		func() laws.Limiter { return w.bucket(false) }, func() laws.Limiter { return w.bucket(true) }, w.counter,
	}[w.rnd.IntN(7)]
}

// windowed returns a maker of a fixed window of either kind.
func (w *world) windowed() laws.Limiter {
	if w.rnd.IntN(2) == 0 {
		return w.aligned()
	}
	return w.first()
}

// turned changes each limit in the responses of a server.
func turned(server func(time.Time) reply, turn func(now time.Time, r *reply, l *ratelimit.Limit)) func(time.Time) reply {
	return func(now time.Time) reply {
		r := server(now)
		for i := range r.fields.Limits {
			turn(now, &r, &r.fields.Limits[i])
		}
		return r
	}
}

func reset(l *ratelimit.Limit) int64 { n, _ := l.Reset.Value(); return n }

// nodes returns n servers that count separately. pick returns the index of the server for
// request i.
func (w *world) nodes(n int, pick func(i int) int) func(time.Time) reply {
	of, made := make([]func(time.Time) reply, n), w.anyKind()
	for i := range of {
		of[i] = simple(made())
	}
	i := -1
	return func(now time.Time) reply { i++; return of[pick(i)](now) }
}

func atRandom(w *world, n int) func(int) int { return func(int) int { return w.rnd.IntN(n) } }
func inTurn(n int) func(int) int             { return func(i int) int { return i % n } }

// endpoints returns a server with two or three endpoints, each with its own policy.
func (w *world) endpoints(turn func(i int, r *reply)) func(time.Time) reply {
	n := 2 + w.rnd.IntN(2)
	of := make([]func(time.Time) reply, n)
	for i := range of {
		own := *w
		own.quota, own.window = 5+w.rnd.Int64N(96), time.Duration(5+w.rnd.IntN(56))*time.Second
		of[i] = simple(own.anyKind()())
	}
	i, inOrder := -1, w.rnd.IntN(2) == 0
	return func(now time.Time) reply {
		i++
		at := i % n
		if !inOrder {
			at = w.rnd.IntN(n)
		}
		r := of[at](now)
		turn(at, &r)
		return r
	}
}

func named(name string, r *reply) {
	for i := range r.fields.Limits {
		r.fields.Limits[i].Name = name
	}
	for i := range r.fields.Policies {
		r.fields.Policies[i].Name = name
	}
}

// countsRefused returns a server whose limiter also counts the requests that it refuses.
func countsRefused(l laws.Limiter, count func(now time.Time)) func(time.Time) reply {
	return func(now time.Time) reply {
		if _, ok := l.Left(now); ok {
			return asked(now, true, l)
		}
		count(now)
		return asked(now, false, l)
	}
}

// costs returns a fixed window in which each request costs n units.
func (w *world) costs(n int64) laws.Limiter {
	return &laws.Fixed{Name: "a", Quota: max(w.quota, 2*n), Cost: n, Window: w.window, Aligned: w.rnd.IntN(2) == 0}
}

func honestKinds() []kindOfServer {
	older := func(w *world) { w.form = []string{"x-ratelimit", "x-ratelimit-unix"}[w.rnd.IntN(2)] }
	current := func(w *world) { w.form = "current" }
	return []kindOfServer{
		{name: "fixed window, aligned", make: func(w *world) func(time.Time) reply { return simple(w.aligned()) }},
		{name: "fixed window, from the first request", make: func(w *world) func(time.Time) reply { return simple(w.first()) }},
		{name: "fixed window, any phase", make: func(w *world) func(time.Time) reply {
			return simple(phased{w.aligned(), time.Duration(w.rnd.IntN(1e9))})
		}},
		{name: "t rounded down", make: func(w *world) func(time.Time) reply {
			return turned(simple(w.anyKind()()), func(_ time.Time, _ *reply, l *ratelimit.Limit) { l.Reset = ratelimit.SecondsOf(max(reset(l)-1, 0)) })
		}},
		{name: "t rounded half", make: func(w *world) func(time.Time) reply {
			l := w.windowed()
			return turned(simple(phased{l, 500 * time.Millisecond}), func(_ time.Time, _ *reply, l *ratelimit.Limit) {})
		}},
		{name: "sliding log, oldest", make: func(w *world) func(time.Time) reply { return simple(w.log(false)) }},
		{name: "sliding log, all", make: func(w *world) func(time.Time) reply { return simple(w.log(true)) }},
		{name: "bucket, next", make: func(w *world) func(time.Time) reply { return simple(w.bucket(false)) }},
		{name: "bucket, full", make: func(w *world) func(time.Time) reply { return simple(w.bucket(true)) }},
		{name: "bucket, wait", make: func(w *world) func(time.Time) reply {
			return turned(simple(w.bucket(false)), func(_ time.Time, r *reply, l *ratelimit.Limit) {
				if !r.refused {
					l.Reset = ratelimit.SecondsOf(0)
				}
			})
		}},
		{name: "bucket, a rate that w rounds", make: func(w *world) func(time.Time) reply {
			w.window = time.Duration(5e9 + w.rnd.Int64N(55e9))
			return simple(w.bucket(w.rnd.IntN(2) == 0))
		}},
		{name: "sliding window counter", make: func(w *world) func(time.Time) reply { return simple(w.counter()) }},
		{name: "sliding window counter, until a unit is back", make: func(w *world) func(time.Time) reply { return simple(w.counterUntilUnit()) }},
		{name: "a policy per endpoint", make: func(w *world) func(time.Time) reply {
			return w.endpoints(func(i int, r *reply) { named(string(rune('a'+i)), r) })
		}},
		{name: "a pk per endpoint", make: func(w *world) func(time.Time) reply {
			current(w)
			return w.endpoints(func(i int, r *reply) {
				for j := range r.fields.Limits {
					r.fields.Limits[j].PartitionKey, r.fields.Policies[j].PartitionKey = []byte{byte(i)}, []byte{byte(i)}
				}
			})
		}},
		{name: "x-ratelimit per endpoint", make: func(w *world) func(time.Time) reply {
			older(w)
			return w.endpoints(func(int, *reply) {})
		}},
		{name: "x-ratelimit per endpoint, silent 429", make: func(w *world) func(time.Time) reply {
			older(w)
			return w.endpoints(func(_ int, r *reply) { r.silent = r.refused })
		}},
		{name: "2 nodes, at random", make: func(w *world) func(time.Time) reply { return w.nodes(2, atRandom(w, 2)) }},
		{name: "2 nodes, in turn", make: func(w *world) func(time.Time) reply { return w.nodes(2, inTurn(2)) }},
		{name: "3 nodes, at random", make: func(w *world) func(time.Time) reply { return w.nodes(3, atRandom(w, 3)) }},
		{name: "4 nodes, at random", make: func(w *world) func(time.Time) reply { return w.nodes(4, atRandom(w, 4)) }},
		{name: "4 nodes, in turn", make: func(w *world) func(time.Time) reply { return w.nodes(4, inTurn(4)) }},
		{name: "3 nodes, sticky, a move now and then", make: func(w *world) func(time.Time) reply {
			at := 0
			return w.nodes(3, func(int) int {
				if w.rnd.IntN(25) == 0 {
					at = w.rnd.IntN(3)
				}
				return at
			})
		}},
		{name: "restarts in the middle", make: func(w *world) func(time.Time) reply {
			made, at, i := w.anyKind(), 50+w.rnd.IntN(100), 0
			server := simple(made())
			return func(now time.Time) reply {
				if i++; i == at {
					server = simple(w.anyKind()())
				}
				return server(now)
			}
		}},
		{name: "a restart of the same kind", make: func(w *world) func(time.Time) reply {
			made, at, i := w.anyKind(), 50+w.rnd.IntN(100), 0
			server := simple(made())
			return func(now time.Time) reply {
				if i++; i == at {
					server = simple(made())
				}
				return server(now)
			}
		}},
		{name: "30 % are free", slow: true, make: func(w *world) func(time.Time) reply {
			l := w.anyKind()()
			return func(now time.Time) reply {
				if w.rnd.IntN(10) < 3 {
					r := asked(now, false, l)
					r.refused = false
					return r
				}
				return asked(now, true, l)
			}
		}},
		{name: "half are free, and silent", slow: true, make: func(w *world) func(time.Time) reply {
			l := w.anyKind()()
			return func(now time.Time) reply {
				if w.rnd.IntN(2) == 0 {
					return reply{silent: true}
				}
				return asked(now, true, l)
			}
		}},
		{name: "failed requests are not counted", make: func(w *world) func(time.Time) reply {
			l := w.anyKind()()
			return func(now time.Time) reply {
				if w.rnd.IntN(10) == 0 {
					r := asked(now, false, l)
					r.failed = !r.refused
					return r
				}
				return asked(now, true, l)
			}
		}},
		{name: "failed requests are counted", make: func(w *world) func(time.Time) reply {
			l := w.anyKind()()
			return func(now time.Time) reply {
				r := asked(now, true, l)
				r.failed = !r.refused && w.rnd.IntN(10) == 0
				return r
			}
		}},
		{name: "only failed requests count (20 %)", slow: true, make: func(w *world) func(time.Time) reply {
			l := w.anyKind()()
			return func(now time.Time) reply {
				bad := w.rnd.IntN(5) == 0
				r := asked(now, bad, l)
				r.failed = bad && !r.refused
				return r
			}
		}},
		{name: "each costs 2 (x-ratelimit, no unit)", make: func(w *world) func(time.Time) reply {
			older(w)
			return simple(w.costs(2))
		}},
		{name: "some cost 5", slow: true, make: func(w *world) func(time.Time) reply {
			l := w.costs(1).(*laws.Fixed)
			return func(now time.Time) reply {
				if l.Cost = 1; w.rnd.IntN(5) == 0 {
					l.Cost = 5
				}
				return asked(now, true, l)
			}
		}},
		{name: "a cache in the application is free (40 %)", slow: true, make: func(w *world) func(time.Time) reply {
			l := w.anyKind()()
			return func(now time.Time) reply {
				if w.rnd.IntN(10) < 4 {
					r := asked(now, false, l)
					r.refused = false
					return r
				}
				return asked(now, true, l)
			}
		}},
		{name: "a cache answers each fifth, with Age", make: func(w *world) func(time.Time) reply {
			l := w.anyKind()()
			i := 0
			var kept reply
			return func(now time.Time) reply {
				if i++; i%5 == 0 {
					kept.cached = true
					return kept
				}
				r := asked(now, true, l)
				if !r.refused {
					kept = r
				}
				return r
			}
		}},
		{name: "a month of 31 days, w of 30", make: func(w *world) func(time.Time) reply {
			const day = 24 * time.Hour
			s := simple(phased{&laws.Fixed{Name: "a", Quota: w.quota, Window: 31 * day, Aligned: true}, time.Duration(w.rnd.Int64N(int64(30 * day)))})
			return func(now time.Time) reply {
				r := s(now)
				r.fields.Policies[0].Window = ratelimit.CeilSeconds(30 * day)
				return r
			}
		}},
		{name: "burst and hour, both announced", make: func(w *world) func(time.Time) reply {
			current(w)
			return simple(w.anyKind()(), &laws.Fixed{Name: "hour", Quota: 5 * w.quota, Window: time.Hour, Aligned: true})
		}},
		{name: "two limits, the tighter announced", make: func(w *world) func(time.Time) reply {
			older(w)
			return simple(w.anyKind()(), &laws.Fixed{Name: "hour", Quota: 5*w.quota + 3, Window: time.Hour, Aligned: true})
		}},
		{name: "a limit in slots beside, announced", make: func(w *world) func(time.Time) reply {
			current(w)
			return simple(w.anyKind()(), &laws.Slots{Name: "slots", Most: 10000})
		}},
		{name: "silent 429", make: func(w *world) func(time.Time) reply {
			s := simple(w.anyKind()())
			return func(now time.Time) reply { r := s(now); r.silent = r.refused; return r }
		}},
		{name: "fields on each third", make: func(w *world) func(time.Time) reply {
			s, i := simple(w.anyKind()()), 0
			return func(now time.Time) reply { r := s(now); i++; r.silent = i%3 != 0; return r }
		}},
		{name: "5 % of the answers are lost", make: func(w *world) func(time.Time) reply {
			s := simple(w.anyKind()())
			return func(now time.Time) reply { r := s(now); r.lost = w.rnd.IntN(20) == 0; return r }
		}},
		{name: "used by the same client before", make: func(w *world) func(time.Time) reply {
			l := w.anyKind()()
			started := false
			return func(now time.Time) reply {
				if !started {
					started = true
					for range w.rnd.Int64N(w.quota) {
						asked(now.Add(-w.window/4), true, l)
					}
				}
				return asked(now, true, l)
			}
		}},
		{name: "the clock of the server steps by a second", make: func(w *world) func(time.Time) reply {
			s, by := simple(w.windowed()), time.Duration(0)
			return func(now time.Time) reply {
				if w.rnd.IntN(50) == 0 {
					by = time.Duration(w.rnd.IntN(3)-1) * time.Second
				}
				return s(now.Add(by + 2*time.Second))
			}
		}},
		{name: "resets with jitter up to w/10", make: func(w *world) func(time.Time) reply {
			return turned(simple(w.windowed()), func(_ time.Time, r *reply, l *ratelimit.Limit) {
				l.Reset = ratelimit.SecondsOf(reset(l) + w.rnd.Int64N(int64(w.window/time.Second)/10+1))
				if r.retry > 0 {
					r.retry = duration(l.Reset)
				}
			})
		}},
		{name: "remaining is capped, burst 1 to 3", make: func(w *world) func(time.Time) reply {
			burst := 1 + float64(w.rnd.IntN(5))/2
			s := simple(w.anyKind()())
			return func(now time.Time) reply {
				r := s(now)
				r.fields.Limits[0] = r.fields.Limits[0].Cap(r.fields.Policies[0], burst)
				return r
			}
		}},
		{name: "another plan in the middle", make: func(w *world) func(time.Time) reply {
			made := w.anyKind()
			i, at := 0, 30+w.rnd.IntN(100)
			s := simple(made())
			return func(now time.Time) reply {
				if i++; i == at {
					w.quota *= 2
					s = simple(made())
				}
				return s(now)
			}
		}},
		{name: "refused requests count too (bucket)", make: func(w *world) func(time.Time) reply {
			b := w.bucket(w.rnd.IntN(2) == 0).(*laws.Pail)
			return countsRefused(b, func(time.Time) { b.Inside = max(b.Inside-0.2, 0) })
		}},
		{name: "refused requests count too", make: func(w *world) func(time.Time) reply {
			l := w.anyKind()()
			return countsRefused(l, l.Take)
		}},
	}
}
