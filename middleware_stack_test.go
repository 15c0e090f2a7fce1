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

	"github.com/stretchr/testify/require"
)

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
				m.Dialects = append(m.Dialects, d)
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
			require.Equal(t, "of the server", ctx.Value(http.ServerContextKey), "values of others are there")
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
		t.Run(name, func(t *testing.T) {
			ctx := context.WithValue(t.Context(), http.ServerContextKey, "of the server")
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		})
	}
	require.Equal(t, 3, called)
}
