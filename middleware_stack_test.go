package ratelimit

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A level is one of several Middlewares around each other.
type level struct {
	policies, limits string
	violated         string
	legacy           []*Dialect
	err              error // of Take
}

// stack serves a request through Middlewares, the first of which is the outermost, and
// returns the response, and what OnError has heard.
func stack(t testing.TB, h http.Header, levels ...level) (w *httptest.ResponseRecorder, faults []error) {
	t.Helper()
	var next http.Handler = accept
	for _, of := range slices.Backward(levels) {
		d := Decision{Fields: fieldsOf(t, of.policies, of.limits)}
		if of.violated != "" {
			d.Violated = []string{of.violated}
		}
		m := &Middleware{Take: decide(d, of.err), Legacy: of.legacy, OnError: func(_ http.ResponseWriter, _ *http.Request, err error) bool {
			faults = append(faults, err)
			return false
		}}
		next = m.Handler(next)
	}
	return served(next, h), faults
}

// accept is a handler that lets everything pass.
var accept = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })

// TestMiddlewareStack: what a response says that has passed several Middlewares.
func TestMiddlewareStack(t *testing.T) {
	global := level{policies: `"global";q=3;w=60`, limits: `"global";r=2;t=50`}
	route := level{policies: `"route";q=100;w=60`, limits: `"route";r=99;t=60`}
	acme := &Dialect{Name: "acme", Fields: []DialectField{{Name: "Acme-Allowed", Role: RoleQuota}, {Name: "Acme-Still", Role: RoleRemaining}, {Name: "Acme-In", Role: RoleReset, Format: TimeSeconds}}}
	with := func(l level, legacy ...*Dialect) level {
		l.legacy = legacy
		return l
	}
	refusing := func(l level, name, limits string) level {
		l.violated, l.limits = name, limits
		return l
	}
	const both = `
		limits: global 2/3 w=60 t=50, route 99/100 w=60 t=60`
	for _, tc := range []struct {
		name   string
		before string
		levels []level
		status int
		header string // without Content-Type and Cache-Control
		faults []error
	}{
		{"a limit for all, and one for a route", "", []level{global, route}, 202, both, nil},
		{"the outer one refuses", "", []level{refusing(global, "global", `"global";r=0;t=50`), route}, 429, `
			limits: global 0/3 w=60 t=50
			Retry-After: 50`, nil},
		{"the inner one refuses", "", []level{global, refusing(route, "route", `"route";r=0;t=60`)}, 429, `
			limits: global 2/3 w=60 t=50, route 0/100 w=60 t=60
			Retry-After: 60`, nil},
		{"the inner one refuses, and the outer one has given its last unit", "", []level{{policies: global.policies, limits: `"global";r=0;t=50`}, refusing(route, "route", `"route";r=0;t=9`)}, 429, `
			limits: global 0/3 w=60 t=50, route 0/100 w=60 t=9
			Retry-After: 50`, nil},
		{"an older form of the outer one says no more than a refusal of the inner one", "", []level{with(global, XRateLimit), refusing(route, "route", `"route";r=0;t=30`)}, 429, `
			limits: global 2/3 w=60 t=50, route 0/100 w=60 t=30
			X-RateLimit-*: 3, 0, 50
			Retry-After: 30`, nil},
		{"one older form tells the tightest of all", "", []level{with(global, XRateLimit), with(route, XRateLimit)}, 202, both + `
			X-RateLimit-*: 3, 2, 50`, nil},
		{"two older forms", "", []level{with(route, XRateLimit), with(global, Draft06)}, 202, `
			limits: route 99/100 w=60 t=60, global 2/3 w=60 t=50
			X-RateLimit-*: 100, 2, 60
			RateLimit-*: 3, 2, 50`, nil},
		{"a form that no other Middleware knows", "", []level{with(route, acme), global}, 202, `
			limits: route 99/100 w=60 t=60, global 2/3 w=60 t=50
			Acme-Allowed: 100
			Acme-Still: 2
			Acme-In: 60`, nil},
		{"a form that cannot say the reset", "", []level{
			with(global, XRateLimitUnix), {policies: `"age";q=1`, limits: `"age";r=1;t=999999999999`},
		}, 202, `
			limits: global 2/3 w=60 t=50, age 1/1 t=999999999999
			X-RateLimit-*: 3, 1, @unix+50`, nil},
		{"a form that the inner one cannot write", "", []level{
			with(global, XRateLimitUnix), {policies: `"age";q=1`, limits: `"age";r=1;t=999999999999`, legacy: []*Dialect{XRateLimitUnix}},
		}, 202, `
			limits: global 2/3 w=60 t=50, age 1/1 t=999999999999
			X-RateLimit-*: 3, 1, @unix+50`, []error{ErrRange}},
		{"windows in names, and a longer one behind", "", []level{
			{policies: `"minute";q=60;w=60`, limits: `"minute";r=10;t=39`, legacy: []*Dialect{XRateLimitByName}},
			{policies: `"hour";q=100;w=3600`, limits: `"hour";r=0;t=1614`},
		}, 202, `
			limits: minute 10/60 w=60 t=39, hour 0/100 w=3600 t=1614
			X-RateLimit-Limit-Minute: 60
			X-RateLimit-Remaining-Minute: 0
			X-RateLimit-Reset-Minute: 39`, nil},
		{"one name, whose window stands here alone", "X-RateLimit-Limit: 20\nX-RateLimit-Remaining: 9", []level{
			{policies: `"default";q=100;w=60`, limits: `"default";r=2;t=60`, legacy: []*Dialect{XRateLimit}},
		}, 202, `
			limits: default 2/20 w=60 t=60
			X-RateLimit-*: 20, 2, 60`, nil},
		{"a form that is written anew need not be lowered in place", "", []level{
			with(global, XRateLimitUnix), {policies: `"age";q=9`, limits: `"age";r=9;t=999999999999`, legacy: []*Dialect{XRateLimit}},
		}, 202, `
			limits: global 2/3 w=60 t=50, age 9/9 t=999999999999
			X-RateLimit-*: 3, 2, 50`, nil},
		{"one policy of both, the inner one is tighter", "", []level{
			{policies: `"api";q=100;w=60`, limits: `"api";r=99;t=60`}, {policies: `"api";q=3;w=60`, limits: `"api";r=0;t=50`, violated: "api"},
		}, 429, `
			limits: api 0/3 w=60 t=60
			Retry-After: 60`, nil},
		{"one name for two policies", "", []level{
			{policies: `"api";q=100;w=60`, limits: `"api";r=99;t=60`, legacy: []*Dialect{XRateLimit}}, {policies: `"api";q=3;w=1`, limits: `"api";r=2;t=1`, legacy: []*Dialect{XRateLimit}},
		}, 202, `
			limits: api 99/100 w=60 t=60
			X-RateLimit-*: 100, 99, 60`, []error{ErrConflict}},
		{"one name for two policies, and the inner one refuses", "", []level{
			{policies: `"api";q=100;w=60`, limits: `"api";r=99;t=60`}, {policies: `"api";q=3;w=1`, limits: `"api";r=0;t=7`, violated: "api"},
		}, 429, `
			limits: api 99/100 w=60 t=60
			Retry-After: 7`, []error{ErrConflict}},
		{"the outer limiter is down", "", []level{with(level{err: errDown}, XRateLimit), route}, 202, `
			limits: route 99/100 w=60 t=60`, []error{errDown}},
		{"the inner limiter is down", "", []level{global, with(level{err: errDown}, XRateLimit)}, 202, `
			limits: global 2/3 w=60 t=50`, []error{errDown}},
		{"the limiter between is down", "", []level{global, {err: errDown}, route}, 202, both, []error{errDown}},
		{"what the outer one says cannot be written", "", []level{{policies: `"global";q=unknown`}, route}, 202, `
			limits: route 99/100 w=60 t=60`, []error{ErrRange}},
		{"what the inner one says cannot be written", "", []level{global, {policies: `"route";q=unknown`}}, 202, `
			limits: global 2/3 w=60 t=50`, []error{ErrRange}},
		{"another limiter outside, in another form", "X-RateLimit-*: 50, 7, 20", []level{global}, 202, `
			limits: default 7/50 t=20, global 2/3 w=60 t=50
			X-RateLimit-*: 50, 2, 50`, nil},
		{"another limiter outside, which does not say what remains", "X-RateLimit-Limit: 50\nX-RateLimit-Reset: 20", []level{global}, 202, `
			limits: default -/50, global 2/3 w=60 t=50
			X-RateLimit-Limit: 50
			X-RateLimit-Reset: 20`, nil},
		{"what stands there is malformed", "RateLimit: global\nX-Id: 1", []level{global}, 202, `
			limits: global 2/3 w=60 t=50
			X-Id: 1`, []error{ErrType}},
		{"for scripts", "Access-Control-Allow-Origin: *", []level{with(global, XRateLimit), route}, 202, both + `
			X-RateLimit-*: 3, 2, 60
			Access-Control-Allow-Origin: *
			Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset`, nil},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			w, faults := stack(t, wire(written(tc.before)), tc.levels...)
			require.Equal(t, tc.status, w.Code)
			got := w.Header().Clone()
			got.Del("Content-Type")
			got.Del("Cache-Control")
			require.Equal(t, wire(written(spell(tc.header, time.Now()))), got)
			for _, finding := range Check(w.Result()) {
				early := finding.Rule == "6-5" && (strings.HasSuffix(tc.name, "say the reset") || strings.Contains(tc.name, "write") || strings.HasSuffix(tc.name, "a longer one behind"))
				require.True(t, early || finding.Level == LevelNote, "%v", finding)
			}
			require.Len(t, faults, len(tc.faults))
			for i, want := range tc.faults {
				require.ErrorIs(t, faults[i], want)
			}
			if tc.status == 429 {
				i := slices.IndexFunc(tc.levels, func(l level) bool { return l.violated != "" })
				require.Contains(t, w.Body.String(), `"violated-policies":["`+tc.levels[i].violated+`"]`)
			}
		})
	}
}

// A handler between two Middlewares may answer with a header of its own, which
// replaces the fields of the outer one: the inner one knows them all the same.
func TestMiddlewareBehindTimeout(t *testing.T) {
	outer := limited(t, `"global";q=3;w=60`, `"global";r=2;t=50`)
	inner := limited(t, `"route";q=100;w=60`, `"route";r=99;t=60`)
	w := served(outer.Handler(http.TimeoutHandler(inner.Handler(accept), time.Minute, "")), nil)
	require.Equal(t, wire(written(`
		limits: global 2/3 w=60 t=50, route 99/100 w=60 t=60`)), w.Header())
}

// A random stack are random Middlewares around each other, of which some refuse, some fail,
// some mean different things by one name, and some write older forms; and what has become
// of a request.
type randomStack struct {
	middlewares []*Middleware
	said        []Fields // by those whom it has reached
	faulty      bool     // OnError has heard of one, which is not among those, as it is not said in all forms
}

func newRandomStack(rnd *rand.Rand, refuses bool) *randomStack {
	s := &randomStack{}
	for range 1 + rnd.IntN(4) {
		d := Decision{Fields: ownFields(rnd)}
		if rnd.IntN(8) == 0 && refuses {
			d.Violated = []string{"a"}
		}
		var err error
		if rnd.IntN(8) == 0 {
			err = errDown
		}
		before := 0
		m := &Middleware{
			Take: func(*http.Request) (Decision, error) {
				before = len(s.said)
				if err == nil {
					s.said = append(s.said, d.Fields)
				}
				return d, err
			},
			OnError: func(http.ResponseWriter, *http.Request, error) bool {
				s.faulty, s.said = true, s.said[:before]
				return false
			},
		}
		for rnd.IntN(2) == 0 {
			if d := writtenDialects[rnd.IntN(len(writtenDialects))]; d != Draft07 {
				m.Legacy = append(m.Legacy, d)
			}
		}
		s.middlewares = append(s.middlewares, m)
	}
	return s
}

// lawStack is law 11 for Middlewares around each other: what a client reads permits
// no more than any of them that the request has reached, but for one that OnError
// has heard of, and whoever reads older forms alone is told no higher number than
// they are.
func lawStack(t testing.TB, rnd *rand.Rand) (joined int) {
	t.Helper()
	stack := newRandomStack(rnd, true)
	var handler http.Handler = accept
	for _, m := range slices.Backward(stack.middlewares) {
		handler = m.Handler(handler)
	}
	w := httptest.NewRecorder()
	if d := writtenDialects[rnd.IntN(len(writtenDialects))]; rnd.IntN(4) == 0 { // of another limiter
		_ = d.Set(w.Header(), fuzzFields(rnd), late)
	}
	outside := w.Header().Clone()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	got, err := Parse(w.Header())
	if w.Header()[limitKey] == nil && w.Header()[policyKey] == nil || slices.Equal(outside[limitKey], w.Header()[limitKey]) {
		return 0
	}
	require.NoError(t, err)
	for _, own := range stack.said {
		lawAdviseNoMore(t, own, got)
	}
	require.Zero(t, max(repeated(got.Policies), repeated(got.Limits)), "nothing is there twice: %v", got)
	for key, lines := range w.Header() {
		require.Len(t, lines, 1, key)
	}
	if !stack.faulty {
		lawForms(t, w.Header(), stack.said)
	}
	return len(stack.said)
}

// form matches the beginning of the names of one older form.
var form = regexp.MustCompile(`(?i)^.*rate-?limit`)

// lawForms is law 11 for readers of each older form in a header, who may know no other:
// they are told of no more requests than any of those who speak in it. Where there are
// limits in other units, a form with one set of names may tell of these instead.
func lawForms(t testing.TB, h http.Header, said []Fields) {
	t.Helper()
	forms := map[string]http.Header{}
	for key, lines := range withoutCurrent(h) {
		name := strings.ToLower(form.FindString(key))
		if forms[name] == nil {
			forms[name] = http.Header{}
		}
		forms[name][key] = lines
	}
	now, err := Parse(h)
	if err != nil || slices.ContainsFunc(now.Policies, func(p Policy) bool { return !p.Unit.countsRequests() }) {
		return
	}
	least := func(f Fields) (n int64) {
		n = Unknown
		for _, l := range f.Limits {
			if p, ok := f.PolicyOf(l); ok && p.Quota == 0 {
				n = 0
			}
			n = lower(n, l.Remaining)
		}
		return n
	}
	for name, fields := range forms {
		f, _ := ParseAny(fields, LegacyOptions{Now: late})
		if older := least(f); older != Unknown {
			for _, own := range said {
				require.Equal(t, older, lower(older, least(own)), "law 11, for readers of %q: %v\n%v", name, own, h)
			}
		}
	}
}

// TestMiddlewareStackRandom is law 11 for random Middlewares.
func TestMiddlewareStackRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(11, 17))
	several := 0
	for range 4000 {
		if lawStack(t, rnd) > 1 {
			several++
		}
	}
	require.Greater(t, several, 1000)
}

// TestDecisionOf: a handler hears what the innermost limiter has said of its request, in a
// copy of its own.
func TestDecisionOf(t *testing.T) {
	_, ok := DecisionOf(t.Context())
	require.False(t, ok)
	said := func() Decision {
		problem := NewProblem(QuotaExceeded, "inner")
		problem.Extensions = map[string]json.RawMessage{"a": json.RawMessage("1")}
		return Decision{
			Fields:  fieldsOf(t, `"inner";q=100;w=60;pk=:YQ==:;x=1`, `"inner";r=99;t=60;pk=:YQ==:;x=1`),
			Problem: problem, // who violates a policy is refused, and no handler hears of it
		}
	}
	inner := said()
	inner.Done = func() {} // which the Middleware calls
	called := 0
	next := func(heard bool) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			called++
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			d, ok := DecisionOf(ctx)
			require.Equal(t, heard, ok)
			if !heard {
				require.Nil(t, d)
				return
			}
			require.Equal(t, said(), *d)
			p, l := &d.Fields.Policies[0], &d.Fields.Limits[0]
			p.Quota, p.PartitionKey[0], p.Params[0].Key = 0, 'x', "changed"
			l.Remaining, l.PartitionKey[0], l.Params[0].Key = 0, 'x', "changed"
			d.Problem.Title, d.Problem.ViolatedPolicies[0], d.Problem.Extensions["a"] = "changed", "changed", nil
			again, _ := DecisionOf(r.Context())
			require.Equal(t, said(), *again, "changes have no effect")
			require.Equal(t, said().Fields, inner.Fields, "that of the limiter is another")
			require.Equal(t, said().Problem, inner.Problem, "that of the limiter is another")
		})
	}
	outer := limited(t, `"outer";q=3;w=60`, `"outer";r=2;t=50`)
	behind := (&Middleware{Take: decide(inner, nil)}).Handler(next(true))
	for name, handler := range map[string]http.Handler{
		"one":                              behind,
		"the inner one of two":             outer.Handler(behind),
		"the inner one, and it has failed": outer.Handler((&Middleware{Take: decide(inner, errDown)}).Handler(next(false))),
	} {
		t.Run(name, func(t *testing.T) { served(handler, nil) })
	}
	require.Equal(t, 3, called)
}
