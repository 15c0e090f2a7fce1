package ratelimit

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// decide makes a Take that always says the same.
func decide(d Decision, err error) func(*http.Request) (Decision, error) {
	return func(*http.Request) (Decision, error) { return d, err }
}

var errDown = errors.New("the limiter is down")

// limited is a Middleware that lets all requests pass with these fields.
func limited(t testing.TB, policies, limits string, legacy ...*Dialect) *Middleware {
	return &Middleware{Take: decide(Decision{Fields: fieldsOf(t, policies, limits)}, nil), Legacy: legacy}
}

// served is what a handler answers, in a header that holds these fields already.
func served(handler http.Handler, before http.Header) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	maps.Copy(w.Header(), before)
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w
}

// written writes out what these tables have words for: "X-RateLimit-*: 10, 4, 9" is Limit,
// Remaining and Reset, and "limits: burst 4/10 w=60 t=9, daily -/100" is RateLimit-Policy and
// RateLimit, what remains of each quota, and a dash for what is not said.
func written(text string) string {
	text = triple.ReplaceAllString(text, "$1-Limit: $2\n$1-Remaining: $3\n$1-Reset: $4")
	return current.ReplaceAllStringFunc(text, func(line string) string {
		policies, limits := bothFields(strings.TrimPrefix(line, "limits: "))
		return PolicyField + ": " + policies + "\n" + LimitField + ": " + limits
	})
}

var (
	triple  = regexp.MustCompile(`(\S+)-\*: (\S+), (\S+), (\S+)`)
	current = regexp.MustCompile(`limits: .*`)
)

// bothFields returns the values of the two fields.
func bothFields(text string) (policies, limits string) {
	var ps, ls []string
	for member := range strings.SplitSeq(text, ", ") {
		words := strings.Fields(member)
		left, quota, _ := strings.Cut(words[1], "/")
		p, l := `"`+words[0]+`";q=`+quota, `"`+words[0]+`";r=`+left
		for _, word := range words[2:] {
			if word[0] == 'w' {
				p += ";" + word
			} else {
				l += ";" + word
			}
		}
		if quota != "-" {
			ps = append(ps, p)
		}
		if left != "-" {
			ls = append(ls, l)
		}
	}
	return strings.Join(ps, ", "), strings.Join(ls, ", ")
}

// TestMiddleware holds what a response says, byte by byte, and whether the next
// handler was called.
func TestMiddleware(t *testing.T) {
	const policies, spare, spent = `"burst";q=10;w=60, "daily";q=100;w=86400`, `"burst";r=4;t=9`, `"burst";r=0;t=9`
	const current = `
		RateLimit-Policy: "burst";q=10;w=60, "daily";q=100;w=86400
		RateLimit: "burst";r=4;t=9`
	const exhausted = `
		RateLimit-Policy: "burst";q=10;w=60, "daily";q=100;w=86400
		RateLimit: "burst";r=0;t=9
		Retry-After: 9
		Cache-Control: no-store
		Content-Type: application/problem+json`
	const exceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["burst"]}`
	for _, tc := range []struct {
		name     string
		before   string // header
		policies string
		limits   string
		violated []string
		problem  *Problem
		err      error
		legacy   []*Dialect
		status   int
		header   string
		body     string
		faults   error // of which OnError hears
	}{
		{name: "passes", policies: policies, limits: spare, status: 202, header: current},
		{name: "refused", policies: policies, limits: spent, violated: []string{"burst"}, status: 429, header: exhausted, body: exceeded},
		{name: "refused with a problem of its own", policies: policies, limits: spent, violated: []string{"burst"},
			problem: NewProblem(TemporaryReducedCapacity), status: 503, header: exhausted,
			body: `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503}`},
		{name: "a problem without a violated policy passes", policies: policies, limits: spare, problem: NewProblem(QuotaExceeded), status: 202, header: current},
		{name: "older forms beside", policies: policies, limits: spare, legacy: []*Dialect{XRateLimit, Draft06}, status: 202, header: current + `
			RateLimit-*: 10, 4, 9
			X-RateLimit-*: 10, 4, 9`},
		{name: "older forms of a refusal", policies: policies, limits: spent, violated: []string{"burst"}, legacy: []*Dialect{XRateLimit}, status: 429, body: exceeded, header: exhausted + `
			X-RateLimit-*: 10, 0, 9`},
		{name: "for scripts", before: "Access-Control-Allow-Origin: *", policies: policies, limits: spare, legacy: []*Dialect{XRateLimit}, status: 202, header: current + `
			Access-Control-Allow-Origin: *
			Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset
			X-RateLimit-*: 10, 4, 9`},
		{name: "a refusal for scripts", before: "Access-Control-Allow-Origin: *", policies: policies, limits: spent, violated: []string{"burst"}, status: 429, body: exceeded, header: exhausted + `
			Access-Control-Allow-Origin: *
			Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After`},
		{name: "a later Retry-After stays", before: "Retry-After: 60", policies: policies, limits: spent, violated: []string{"burst"}, status: 429, body: exceeded,
			header: strings.Replace(exhausted, "After: 9", "After: 60", 1)},
		{name: "nothing to say", before: `RateLimit: "outer";r=1`, status: 202, header: `RateLimit: "outer";r=1`},

		{name: "Take fails", before: "X-Id: 1", policies: policies, limits: spent, violated: []string{"burst"}, err: errDown, status: 202, header: "X-Id: 1", faults: errDown},
		{name: "fields that cannot be written", policies: "", limits: `"burst";r=unknown`, status: 202, faults: ErrRange},
		{name: "fields of a refusal that cannot be written", policies: policies, limits: `"burst";r=0;t=9, "x";r=unknown`, violated: []string{"burst"}, status: 429, body: exceeded, faults: ErrRange, header: `
			Retry-After: 9
			Cache-Control: no-store
			Content-Type: application/problem+json`},
		{name: "fields that only older forms can say", policies: policies, limits: `"burst";r=4;t=9, "daily";r=unknown;t=9`,
			legacy: []*Dialect{XRateLimitByName, XRateLimit}, status: 202, faults: ErrRange, header: `
			X-RateLimit-*: 10, 4, 9
			X-RateLimit-Limit-Burst: 10
			X-RateLimit-Limit-Daily: 100
			X-RateLimit-Remaining-Burst: 4
			X-RateLimit-Reset-Burst: 9
			X-RateLimit-Reset-Daily: 9`},
		{name: "an older form that cannot be written", policies: policies, limits: `"burst";r=4;t=999999999999`, legacy: []*Dialect{XRateLimitUnix, Draft03}, status: 202, faults: ErrRange,
			header: strings.Replace(current, "t=9", "t=999999999999", 1)},
		{name: "an older form of a refusal that cannot be written", policies: policies, limits: `"Burst";r=0;t=9`, violated: []string{"Burst"}, legacy: []*Dialect{XRateLimitByName}, status: 429,
			body: strings.Replace(exceeded, "burst", "Burst", 1), faults: ErrSyntax,
			header: strings.Replace(exhausted, `RateLimit: "burst"`, `RateLimit: "Burst"`, 1)},
		{name: "a violated policy that is not among the fields", policies: policies, limits: spent, violated: []string{"burst", "x"}, status: 429, header: exhausted,
			body: strings.Replace(exceeded, `["burst"]`, `["burst","x"]`, 1), faults: ErrMissing},
		{name: "a violated policy and no fields", violated: []string{"burst"}, status: 429, body: exceeded, faults: ErrMissing, header: `
			Cache-Control: no-store
			Content-Type: application/problem+json`},
		{name: "a problem that cannot be written", policies: policies, limits: spent, violated: []string{"burst"}, status: 503, header: exhausted, body: `{"title":"busy","status":503}`, faults: ErrSyntax,
			problem: &Problem{Title: "busy", Status: 503, Extensions: map[string]raw{"x": raw(`{`)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var faults []error
			done, closed := 0, false
			m := &Middleware{
				Take: decide(Decision{
					Fields: fieldsOf(t, tc.policies, tc.limits), Violated: tc.violated, Problem: tc.problem,
					Done: func() { done++ },
				}, tc.err),
				Legacy: tc.legacy,
				OnError: func(w http.ResponseWriter, _ *http.Request, err error) bool {
					faults = append(faults, err)
					if closed {
						http.Error(w, "closed", http.StatusServiceUnavailable)
					}
					return closed
				},
			}
			header := wire(written(tc.header))
			handler := m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				require.False(t, closed, "next was called")
				require.Zero(t, done, "the slot is taken")
				require.IsType(t, &httptest.ResponseRecorder{}, w, "it can be flushed, hijacked, and informed")
				require.Equal(t, header, w.Header(), "next sees the header")
				w.WriteHeader(http.StatusAccepted)
			}))
			serve := func() {
				done = 0
				w := served(handler, wire(tc.before))
				require.Equal(t, tc.status, w.Code)
				require.Equal(t, sentDocument(tc.body), w.Body.String())
				require.Equal(t, header, w.Header())
				require.Equal(t, 1, done)
			}
			serve()
			if tc.faults == nil {
				require.Empty(t, faults)
			} else {
				require.Len(t, faults, 1)
				require.ErrorIs(t, faults[0], tc.faults)
			}
			clear(m.Legacy) // which has no effect any more, as all of this
			m.OnError, m.Take, m.Legacy = nil, nil, nil
			serve()
			if closed = tc.faults != nil; closed { // OnError answers in place of the next handler, and of the refusal
				done = 0
				w := served(handler, wire(tc.before))
				require.Equal(t, 503, w.Code)
				require.Equal(t, "closed\n", w.Body.String())
				require.Equal(t, 1, done)
			}
		})
	}
}

// Without OnError a Middleware fails open, but for those who hang up early, which is no way
// around the limit.
func TestMiddlewareFailsOpen(t *testing.T) {
	open := (&Middleware{Take: decide(Decision{}, errDown)}).Handler(accept)
	w := served(open, nil)
	require.Equal(t, http.StatusAccepted, w.Code)
	require.Empty(t, w.Header())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w = httptest.NewRecorder()
	open.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	require.Equal(t, 503, w.Code)
}

func TestMiddlewarePanics(t *testing.T) {
	require.Panics(t, func() { new(Middleware).Handler(http.NotFoundHandler()) }, "no Take")
	require.Panics(t, func() { (&Middleware{Take: decide(Decision{}, nil)}).Handler(nil) }, "no next handler")
	for _, tc := range []struct {
		name    string
		dialect *Dialect
		panics  bool
	}{
		{"nil", nil, true},
		{"draft-07, which is the field RateLimit", Draft07, true},
		{"no name of a field", &Dialect{Fields: []DialectField{{Name: "a b"}}}, true},
		{"a syntax that can only be read", &Dialect{Fields: []DialectField{{Name: "A", Role: RoleUsed, Read: readHeads}}}, true},
		{"a syntax of a field that says nothing", &Dialect{Fields: []DialectField{{Name: "A", Read: readHeads}}}, false},
		{"the current field for something else", &Dialect{Fields: []DialectField{{Name: "ratelimit-policy", Role: RoleQuota}}}, true},
		{"a star that may become a current field", &Dialect{Fields: []DialectField{{Name: "RateLimit-*", Role: RoleQuota}}}, true},
		{"a list of policies, which yields to the current form", Draft06, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &Middleware{Take: decide(Decision{}, nil), Legacy: []*Dialect{XRateLimit, tc.dialect}}
			handle := func() { m.Handler(http.NotFoundHandler()) }
			if tc.panics {
				defer func() { require.Contains(t, recover(), "cannot be written beside the current fields") }()
				handle()
			} else {
				require.NotPanics(t, handle)
			}
		})
	}
	for _, d := range writtenDialects {
		if d != Draft07 {
			require.NoError(t, d.beside(), d.Name)
		}
	}
}

// What panics, panics on: what was not decided does not pass, and the slot is free.
func TestMiddlewarePanicking(t *testing.T) {
	done := 0
	m := limited(t, ``, `"a";r=5`)
	take := m.Take
	m.Take = func(r *http.Request) (Decision, error) {
		if r.URL.Path == "/take" {
			panic(http.ErrAbortHandler)
		}
		d, err := take(r)
		d.Done = func() { done++ }
		return d, err
	}
	handler := m.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/next", r.URL.Path)
		panic(http.ErrAbortHandler)
	}))
	for i, path := range []string{"/take", "/next"} {
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)) })
		require.Equal(t, i, done)
	}
}
