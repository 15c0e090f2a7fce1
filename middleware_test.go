package ratelimit

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
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
	return &Middleware{Take: decide(Decision{Fields: fieldsOf(t, policies, limits)}, nil), Dialects: legacy}
}

// served is what a handler answers, in a header that holds these fields already.
func served(handler http.Handler, before http.Header) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	maps.Copy(w.Header(), before)
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w
}

// One limiter.
func TestMiddleware(t *testing.T) { runScenes(t, "one") }

// Several around each other.
func TestMiddlewareStack(t *testing.T) { runScenes(t, "stack") }

// One in front of a proxy.
func TestModifyResponse(t *testing.T) { runScenes(t, "proxy") }

// accept is a handler that lets everything pass.
var accept = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })

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
		{"the current field for something else", mustDialect("", DialectField{Name: "ratelimit-policy", Role: RoleQuota}), true},
		{"a star that may become a current field", mustDialect("", DialectField{Name: "RateLimit-*", Role: RoleQuota}), true},
		{"a list of policies, which yields to the current form", Draft06, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &Middleware{Take: decide(Decision{}, nil), Dialects: []*Dialect{XRateLimit, tc.dialect}}
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
			require.NoError(t, d.beside(), d.Name())
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
