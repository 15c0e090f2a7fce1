package announce_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/laws"
	"github.com/httpfields/ratelimit/internal/trial"
)

func TestRefuse(t *testing.T) {
	const policies, limits = `"burst";q=10;w=1, "daily";q=100;w=86400`, `"burst";r=4;t=1, "daily";r=0;t=3600`
	for _, tc := range []struct {
		name    string
		method  string
		fields  [2]string
		problem *ratelimit.Problem
		status  int
		retry   []string
		body    string
	}{
		{"quota exceeded", "GET", [2]string{policies, limits}, ratelimit.NewProblem(ratelimit.QuotaExceeded, "daily"), 429, []string{"3600"},
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["daily"]}`},
		{"reduced capacity", "POST", [2]string{policies, ``}, ratelimit.NewProblem(ratelimit.TemporaryReducedCapacity, "burst", "daily"), 503, nil,
			`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"violated-policies":["burst","daily"]}`},
		{"a policy among the limits alone", "GET", [2]string{``, limits}, &ratelimit.Problem{Status: 403, ViolatedPolicies: []string{"daily"}}, 403, []string{"3600"},
			`{"status":403,"violated-policies":["daily"]}`},
		{"no status", "GET", [2]string{policies, limits}, &ratelimit.Problem{Title: "a"}, 429, []string{"3600"}, `{"title":"a"}`},
		{"nil", "GET", [2]string{policies, limits}, nil, 429, []string{"3600"},
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429}`},
		{"HEAD", "HEAD", [2]string{policies, limits}, nil, 429, []string{"3600"}, ``},
		{"an empty problem", "GET", [2]string{}, &ratelimit.Problem{}, 429, nil, `{}`},
		{"a request that costs more than what is left", "GET", [2]string{policies, `"burst";r=4;t=1`}, &ratelimit.Problem{}, 429, nil, `{}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := laws.FieldsOf(tc.fields[0], tc.fields[1])
			w := httptest.NewRecorder()
			w.Header().Set(ratelimit.LimitField, `"old";r=1`)
			w.Header().Set(ratelimit.PolicyField, `"old";q=1`)
			require.NoError(t, announce.Refuse(w, httptest.NewRequest(tc.method, "/", nil), f, tc.problem))
			resp := w.Result()
			require.Equal(t, tc.status, resp.StatusCode)
			require.Equal(t, sentDocument(tc.body), w.Body.String())
			require.Equal(t, tc.retry, resp.Header["Retry-After"])
			require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
			require.Equal(t, ratelimit.ProblemMediaType, resp.Header.Get("Content-Type"))
			got, err := ratelimit.Parse(resp.Header)
			require.NoError(t, err)
			require.Equal(t, f, got)
		})
	}
	w := httptest.NewRecorder()
	require.NoError(t, announce.Refuse(w, nil, ratelimit.Fields{}, nil), "a nil request")

	w = httptest.NewRecorder()
	w.Header().Set("Access-Control-Allow-Origin", "*")
	require.NoError(t, announce.Refuse(w, nil, laws.FieldsOf(policies, limits), nil))
	require.Equal(t, "RateLimit, RateLimit-Policy, Retry-After", w.Header().Get("Access-Control-Expose-Headers"), "for scripts of another origin")
}

func TestRefuseErrors(t *testing.T) {
	good := laws.FieldsOf(`"a";q=1`, `"a";r=0;t=1`)
	for _, tc := range []struct {
		name    string
		fields  ratelimit.Fields
		problem *ratelimit.Problem
		want    error
	}{
		{"a policy that is not among the fields", good, ratelimit.NewProblem(ratelimit.QuotaExceeded, "a", "b"), ratelimit.ErrMissing},
		{"no fields", ratelimit.Fields{}, ratelimit.NewProblem(ratelimit.QuotaExceeded, "a"), ratelimit.ErrMissing},
		{"an extension that names a member", good, &ratelimit.Problem{Extensions: map[string]json.RawMessage{"type": json.RawMessage(`""`)}}, ratelimit.ErrDuplicate},
		{"a policy that cannot be written", ratelimit.Fields{Policies: []ratelimit.Policy{{Name: "\n"}}}, nil, ratelimit.ErrSyntax},
		{"a limit that cannot be written", ratelimit.Fields{Policies: good.Policies, Limits: []ratelimit.Limit{{Remaining: ratelimit.Unknown}}}, nil, ratelimit.ErrRange},
		{"an extension that names a member, and a policy that is not among the fields", good,
			&ratelimit.Problem{ViolatedPolicies: []string{"b"}, Extensions: map[string]json.RawMessage{"type": json.RawMessage(`""`)}}, ratelimit.ErrDuplicate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			w.Header().Set(ratelimit.LimitField, "old")
			err := announce.Refuse(w, httptest.NewRequest("GET", "/", nil), tc.fields, tc.problem)
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, http.Header{draft.LimitKey: {"old"}}, w.Header(), "nothing has been written")
			require.Empty(t, w.Body.String())
			w.WriteHeader(http.StatusTeapot) // has no effect after the first status
			require.Equal(t, http.StatusTeapot, w.Code)
		})
	}
	err := announce.Refuse(httptest.NewRecorder(), nil, good, ratelimit.NewProblem(ratelimit.QuotaExceeded, "a", "b"))
	require.EqualError(t, err, "ratelimit: violated policy 2 is not in the fields: missing")
}

// A Middleware exposes the fields of its Dialects, which may have any names.
func TestMiddlewareExposes(t *testing.T) {
	d, err := ratelimit.NewDialect("acme", ratelimit.DialectField{Name: "Acme-Left", Role: ratelimit.RoleRemaining})
	require.NoError(t, err)
	w := served(limited(t, ``, `"a";r=5`, d).Handler(accept), http.Header{"Access-Control-Allow-Origin": {"*"}})
	require.Equal(t, []string{"5"}, w.Header()["Acme-Left"])
	require.Equal(t, []string{"Acme-Left, RateLimit"}, w.Header()["Access-Control-Expose-Headers"])
}

// Refuse lowers the older fields of another limiter, and a Middleware joins both.
func TestRefuseLowersOlder(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, announce.Refuse(w, r, laws.FieldsOf(`"inner";q=9;w=60`, `"inner";r=0;t=55`), nil))
	})
	w := served(refuse, trial.Wire(written("X-RateLimit-*: 100, 60, 50")))
	require.Equal(t, trial.Wire(written(`
		limits: inner 0/9 w=60 t=55
		Retry-After: 55
		X-RateLimit-*: 9, 0, 55`)), limitFields(w.Header()))

	w = served(limited(t, `"global";q=100;w=60`, `"global";r=60;t=50`, ratelimit.XRateLimit).Handler(refuse), nil)
	require.Equal(t, trial.Wire(written(`
		limits: inner 0/9 w=60 t=55, global 60/100 w=60 t=50
		Retry-After: 55
		X-RateLimit-*: 9, 0, 55`)), limitFields(w.Header()))
}

// sentDocument returns the body of a response with a document. It ends with a newline.
func sentDocument(json string) string {
	if json == "" {
		return "" // a response to HEAD
	}
	return json + "\n"
}
