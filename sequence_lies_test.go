package ratelimit

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// lies returns servers that change the announcements of an honest limiter.
func lies(name string, of func(w *world) limiter, turn func(w *world, now time.Time, r *reply, l *Limit)) kindOfServer {
	return kindOfServer{name: name, make: func(w *world) func(time.Time) reply {
		return turned(simple(of(w)), func(now time.Time, r *reply, l *Limit) { turn(w, now, r, l) })
	}}
}

func anyLimiter(w *world) limiter   { return w.anyKind()() }
func anyWindow(w *world) limiter    { return w.windowed() }
func (w *world) announced() Seconds { return CeilSeconds(w.window) }

func dishonestKinds() []kindOfServer {
	ms := func(_ *world, _ time.Time, _ *reply, l *Limit) { l.Reset = SecondsOf(1000 * reset(l)) }
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
	other := func(name string, quota, window float64, change func(w *world, r *reply, l *Limit, real time.Duration)) kindOfServer {
		return kindOfServer{name: name, make: func(w *world) func(time.Time) reply {
			own := *w
			own.quota, own.window = max(int64(float64(w.quota)*quota), 1), time.Duration(float64(w.window)*window).Round(time.Second)
			return turned(simple(own.windowed()), func(_ time.Time, r *reply, l *Limit) {
				r.fields.Policies[0].Quota, r.fields.Policies[0].Window = w.quota, w.announced()
				change(w, r, l, own.window)
			})
		}}
	}
	return []kindOfServer{
		lies("t in milliseconds", anyWindow, ms),
		lies("t in milliseconds (any limiter)", anyLimiter, ms),
		lies("t in minutes", anyWindow, func(_ *world, _ time.Time, _ *reply, l *Limit) { l.Reset = SecondsOf((reset(l) + 59) / 60) }),
		lies("t is always w", anyWindow, func(w *world, _ time.Time, _ *reply, l *Limit) { l.Reset = w.announced() }),
		lies("t is always 1", anyWindow, func(w *world, _ time.Time, _ *reply, l *Limit) { l.Reset = SecondsOf(1) }),
		lies("t counts up", anyWindow, func(w *world, _ time.Time, _ *reply, l *Limit) {
			l.Reset = SecondsOf(max(w.announced().n-reset(l), 0))
		}),
		lies("t goes at half the speed", anyWindow, func(w *world, _ time.Time, _ *reply, l *Limit) {
			l.Reset = SecondsOf((w.announced().n + reset(l)) / 2)
		}),
		lies("t is a Unix time", anyWindow, func(w *world, now time.Time, _ *reply, l *Limit) {
			w.form = "current"
			l.Reset = SecondsOf(now.Unix() + reset(l))
		}),
		lies("r never falls", anyWindow, func(_ *world, _ time.Time, r *reply, l *Limit) { l.Remaining = r.fields.Policies[0].Quota - 1 }),
		lies("r never falls (any limiter)", anyLimiter, func(_ *world, _ time.Time, r *reply, l *Limit) { l.Remaining = r.fields.Policies[0].Quota - 1 }),
		lies("no t, r never falls", anyWindow, func(w *world, _ time.Time, r *reply, l *Limit) {
			w.form = "current"
			l.Remaining, l.Reset = r.fields.Policies[0].Quota-1, Seconds{}
		}),
		{name: "r falls by two", make: func(w *world) func(time.Time) reply { return simple(w.costs(2)) }},
		lies("r is one too high", anyWindow, func(_ *world, _ time.Time, _ *reply, l *Limit) { l.Remaining++ }),
		{name: "r is one too low: one more is served", make: func(w *world) func(time.Time) reply {
			w.quota++
			return turned(simple(w.windowed()), func(_ time.Time, r *reply, l *Limit) {
				l.Remaining = max(l.Remaining-1, 0)
				r.fields.Policies[0].Quota--
			})
		}},
		other("q twenty times too high, r from q", 0.05, 1, func(w *world, r *reply, l *Limit, _ time.Duration) {
			l.Remaining += w.quota - max(w.quota/20, 1)
		}),
		other("q ten times too high, r from the true one", 0.1, 1, func(*world, *reply, *Limit, time.Duration) {}),
		other("half of q is applied, the refusal has r>0", 0.5, 1, func(w *world, r *reply, l *Limit, _ time.Duration) {
			l.Remaining += w.quota - max(w.quota/2, 1)
		}),
		other("q too low: ten times more is served", 10, 1, func(w *world, r *reply, l *Limit, _ time.Duration) {
			l.Remaining = max(l.Remaining-9*w.quota, 0)
		}),
		other("the window is twice w, t true", 1, 2, func(*world, *reply, *Limit, time.Duration) {}),
		other("the window is twice w, t modulo w", 1, 2, func(w *world, _ *reply, l *Limit, _ time.Duration) {
			if n := w.announced().n; reset(l) > n {
				l.Reset = SecondsOf(reset(l) - n)
			}
		}),
		other("the window is half of w, t true", 1, 0.5, func(*world, *reply, *Limit, time.Duration) {}),
		other("the window is half of w, t of w", 1, 0.5, func(w *world, _ *reply, l *Limit, real time.Duration) {
			l.Reset = SecondsOf(reset(l) + w.announced().n - CeilSeconds(real).n)
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
			return turned(simple(w.windowed()), func(_ time.Time, r *reply, l *Limit) {
				if l.Remaining*10 <= w.quota*3 {
					l.Remaining = 0
					r.refused, r.retry = true, l.Reset.duration()
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
			return turned(simple(w.anyKind()()), func(_ time.Time, r *reply, l *Limit) {
				l.PartitionKey = fmt.Append(nil, w.rnd.Uint64())
				r.fields.Policies[0].PartitionKey = l.PartitionKey
			})
		}},
		lies("r rises", anyWindow, func(_ *world, _ time.Time, r *reply, l *Limit) {
			l.Remaining = r.fields.Policies[0].Quota - l.Remaining
		}),
		lies("r is random", anyWindow, func(w *world, _ time.Time, r *reply, l *Limit) {
			l.Remaining = w.rnd.Int64N(w.quota)
		}),
		{name: "r is negative", make: func(w *world) func(time.Time) reply {
			return turned(simple(w.windowed()), func(_ time.Time, r *reply, l *Limit) {
				if r.refused {
					r.raw = func(h http.Header) {
						for k, v := range h {
							if strings.Contains(k, "Remaining") {
								v[0] = "-1"
							} else if k == limitKey {
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
			return turned(simple(own.windowed()), func(_ time.Time, r *reply, l *Limit) {
				r.fields.Policies[0].Window = w.announced()
				if n := w.announced().n; reset(l) > n {
					l.Reset = SecondsOf(reset(l) - n)
				}
				r.retry = min(r.retry, w.window)
			})
		}},
		{name: "another policy each time", make: func(w *world) func(time.Time) reply {
			w.form = "current"
			i := int64(0)
			return turned(simple(w.anyKind()()), func(_ time.Time, r *reply, l *Limit) { i++; r.fields.Policies[0].Quota += i })
		}},
		{name: "r forgets each fifth, and refuses in time", make: func(w *world) func(time.Time) reply {
			n, forgot := 0, int64(0)
			begun := int64(0)
			return turned(simple(w.windowed()), func(_ time.Time, r *reply, l *Limit) {
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
	}
}
