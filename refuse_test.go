package ratelimit

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

func TestRefuse(t *testing.T) {
	const policies, limits = `"burst";q=10;w=1, "daily";q=100;w=86400`, `"burst";r=4;t=1, "daily";r=0;t=3600`
	for _, tc := range []struct {
		name    string
		method  string
		fields  [2]string
		problem *Problem
		status  int
		retry   []string
		body    string
	}{
		{"quota exceeded", "GET", [2]string{policies, limits}, NewProblem(QuotaExceeded, "daily"), 429, []string{"3600"},
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["daily"]}`},
		{"reduced capacity", "POST", [2]string{policies, ``}, NewProblem(TemporaryReducedCapacity, "burst", "daily"), 503, nil,
			`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"violated-policies":["burst","daily"]}`},
		{"a policy among the limits alone", "GET", [2]string{``, limits}, &Problem{Status: 403, ViolatedPolicies: []string{"daily"}}, 403, []string{"3600"},
			`{"status":403,"violated-policies":["daily"]}`},
		{"no status", "GET", [2]string{policies, limits}, &Problem{Title: "a"}, 429, []string{"3600"}, `{"title":"a"}`},
		{"nil", "GET", [2]string{policies, limits}, nil, 429, []string{"3600"},
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429}`},
		{"HEAD", "HEAD", [2]string{policies, limits}, nil, 429, []string{"3600"}, ``},
		{"an empty problem", "GET", [2]string{}, &Problem{}, 429, nil, `{}`},
		{"a request that costs more than what is left", "GET", [2]string{policies, `"burst";r=4;t=1`}, &Problem{}, 429, nil, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := fieldsOf(t, tc.fields[0], tc.fields[1])
			w := httptest.NewRecorder()
			w.Header().Set(LimitField, `"old";r=1`)
			w.Header().Set(PolicyField, `"old";q=1`)
			require.NoError(t, Refuse(w, httptest.NewRequest(tc.method, "/", nil), f, tc.problem))
			resp := w.Result()
			require.Equal(t, tc.status, resp.StatusCode)
			require.Equal(t, sentDocument(tc.body), w.Body.String())
			require.Equal(t, tc.retry, resp.Header["Retry-After"])
			require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
			require.Equal(t, ProblemMediaType, resp.Header.Get("Content-Type"))
			got, err := Parse(resp.Header)
			require.NoError(t, err)
			require.Equal(t, f, got)
		})
	}
	w := httptest.NewRecorder()
	require.NoError(t, Refuse(w, nil, Fields{}, nil), "a nil request")

	w = httptest.NewRecorder()
	w.Header().Set("Access-Control-Allow-Origin", "*")
	require.NoError(t, Refuse(w, nil, fieldsOf(t, policies, limits), nil))
	require.Equal(t, "RateLimit, RateLimit-Policy, Retry-After", w.Header().Get(exposeField), "for scripts of another origin")
}

func TestRefuseErrors(t *testing.T) {
	good := fieldsOf(t, `"a";q=1`, `"a";r=0;t=1`)
	for _, tc := range []struct {
		name    string
		fields  Fields
		problem *Problem
		want    error
	}{
		{"a policy that is not among the fields", good, NewProblem(QuotaExceeded, "a", "b"), ErrMissing},
		{"no fields", Fields{}, NewProblem(QuotaExceeded, "a"), ErrMissing},
		{"an extension that names a member", good, &Problem{Extensions: map[string]json.RawMessage{"type": raw(`""`)}}, ErrDuplicate},
		{"a policy that cannot be written", Fields{Policies: []Policy{{Name: "\n"}}}, nil, ErrSyntax},
		{"a limit that cannot be written", Fields{Policies: good.Policies, Limits: []Limit{{Remaining: Unknown}}}, nil, ErrRange},
		{"an extension that names a member, and a policy that is not among the fields", good,
			&Problem{ViolatedPolicies: []string{"b"}, Extensions: map[string]json.RawMessage{"type": raw(`""`)}}, ErrDuplicate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			w.Header().Set(LimitField, "old")
			err := Refuse(w, httptest.NewRequest("GET", "/", nil), tc.fields, tc.problem)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, http.Header{draft.LimitKey: {"old"}}, w.Header(), "nothing has been written")
			require.Empty(t, w.Body.String())
			w.WriteHeader(http.StatusTeapot) // has no effect after the first status
			require.Equal(t, http.StatusTeapot, w.Code)
		})
	}
	err := Refuse(httptest.NewRecorder(), nil, good, NewProblem(QuotaExceeded, "a", "b"))
	require.EqualError(t, err, "ratelimit: violated policy 2 is not in the fields: missing")
}

// A Middleware exposes the fields of its Dialects, which may have any names.
func TestMiddlewareExposes(t *testing.T) {
	d, err := NewDialect("acme", DialectField{Name: "Acme-Left", Role: RoleRemaining})
	require.NoError(t, err)
	w := served(limited(t, ``, `"a";r=5`, d).Handler(accept), http.Header{"Access-Control-Allow-Origin": {"*"}})
	require.Equal(t, []string{"5"}, w.Header()["Acme-Left"])
	require.Equal(t, []string{"Acme-Left, RateLimit"}, w.Header()["Access-Control-Expose-Headers"])
}

// Refuse lowers the older fields of another limiter, and a Middleware joins both.
func TestRefuseLowersOlder(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, Refuse(w, r, fieldsOf(t, `"inner";q=9;w=60`, `"inner";r=0;t=55`), nil))
	})
	w := served(refuse, trial.Wire(written("X-RateLimit-*: 100, 60, 50")))
	require.Equal(t, trial.Wire(written(`
		limits: inner 0/9 w=60 t=55
		Retry-After: 55
		X-RateLimit-*: 9, 0, 55`)), limitFields(w.Header()))

	w = served(limited(t, `"global";q=100;w=60`, `"global";r=60;t=50`, XRateLimit).Handler(refuse), nil)
	require.Equal(t, trial.Wire(written(`
		limits: inner 0/9 w=60 t=55, global 60/100 w=60 t=50
		Retry-After: 55
		X-RateLimit-*: 9, 0, 55`)), limitFields(w.Header()))
}
