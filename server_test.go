package ratelimit

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// capCases are a policy, a limit and a burst, with the Remaining after Cap.
var capCases = plainCases("caps")

// readCap returns the arguments of Cap.
func readCap(t testing.TB, in string) (p Policy, l Limit, burst float64) {
	pair, text, _ := strings.Cut(in, "\n× ")
	p, l = theOnly(pairOf(t, pair))
	burst, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return p, l, burst
}

func TestCap(t *testing.T) {
	for _, tc := range capCases {
		t.Run(tc.name, func(t *testing.T) {
			p, l, burst := readCap(t, tc.in)
			got := fmt.Sprint(l.Cap(p, burst).Remaining)
			require.Equal(t, strings.Replace(tc.want, "unknown", fmt.Sprint(Unknown), 1), got)
			lawCap(t, l, p, burst)
		})
	}
	l := Limit{Remaining: 5, Reset: SecondsOf(-1)}
	require.Equal(t, l, l.Cap(Policy{Quota: 1, Window: SecondsOf(1)}, 1), "an invalid reset")
	valid := Limit{Remaining: 5, Reset: SecondsOf(1)}
	for _, window := range []int64{0, -1, math.MinInt64} {
		require.Equal(t, valid, valid.Cap(Policy{Quota: 1, Window: SecondsOf(window)}, 1), "an invalid window")
	}
}

// lawCap is law 7 for Cap. It compares with the slow definition.
func lawCap(t testing.TB, l Limit, p Policy, burst float64) {
	t.Helper()
	got := l.Cap(p, burst)
	if p.Quota == 0 {
		l.Remaining = 0
		require.Equal(t, l, got, "a quota of 0 permits nothing")
		return
	}
	require.LessOrEqual(t, got.Remaining, l.Remaining, "law 7")
	require.Equal(t, l.Remaining < 0, got.Remaining < 0)
	same := got
	same.Remaining = l.Remaining
	require.Equal(t, l, same, "nothing else changes")

	window, hasWindow := p.Window.Value()
	reset, hasReset := l.Reset.Value()
	if p.Quota <= 0 || !hasWindow || window < 1 || !hasReset || reset < 0 || l.Remaining < 0 || math.IsInf(burst, 1) {
		require.Equal(t, l, got)
		return
	}
	if math.IsNaN(burst) || burst <= 0 {
		require.Zero(t, got.Remaining)
		return
	}
	// got ≤ burst × q × t ÷ w, except for the digits that are lost when burst is printed, and
	// got + 1 is larger.
	rate := new(big.Float).SetPrec(500).SetFloat64(burst)
	for _, n := range []int64{p.Quota, reset} {
		rate.Mul(rate, new(big.Float).SetInt64(n))
	}
	rate.Quo(rate, new(big.Float).SetInt64(window))
	slack := new(big.Float).Mul(rate, big.NewFloat(1e-15))
	high := new(big.Float).Add(rate, slack)
	low := new(big.Float).Sub(rate, slack)
	require.GreaterOrEqual(t, high.Cmp(new(big.Float).SetInt64(got.Remaining)), 0, "law 7")
	if got.Remaining < l.Remaining {
		require.Negative(t, low.Cmp(new(big.Float).SetInt64(got.Remaining+1)), "not lower than necessary")
	}
}

func TestJitter(t *testing.T) {
	source := func() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }
	for _, tc := range []struct {
		name string
		max  time.Duration
		from Seconds
		most Seconds
	}{
		{"five seconds", 5 * time.Second, SecondsOf(30), SecondsOf(35)},
		{"from 0", time.Second, SecondsOf(0), SecondsOf(1)},
		{"a fraction is cut off", 1999 * time.Millisecond, SecondsOf(30), SecondsOf(31)},
		{"less than a second", 999 * time.Millisecond, SecondsOf(30), SecondsOf(30)},
		{"nothing", 0, SecondsOf(30), SecondsOf(30)},
		{"negative", -time.Hour, SecondsOf(30), SecondsOf(30)},
		{"absent", time.Hour, Seconds{}, Seconds{}},
		{"up to the largest Integer", 3 * time.Second, SecondsOf(MaxInteger - 1), SecondsOf(MaxInteger)},
		{"at the largest Integer", time.Hour, SecondsOf(MaxInteger), SecondsOf(MaxInteger)},
		{"an invalid reset, too large", time.Hour, SecondsOf(MaxInteger + 1), SecondsOf(MaxInteger + 1)},
		{"an invalid reset, negative", time.Hour, SecondsOf(-1), SecondsOf(-1)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := Limit{Name: "a", Remaining: 1, Reset: tc.from, PartitionKey: []byte("k")}
			rnd, again := source(), source()
			seen := map[Seconds]bool{}
			for range 200 {
				got := l.Jitter(tc.max, rnd)
				require.Equal(t, got, l.Jitter(tc.max, again), "deterministic")
				seen[got.Reset] = true
				require.GreaterOrEqual(t, got.Reset.n, tc.from.n)
				require.LessOrEqual(t, got.Reset.n, tc.most.n)
				got.Reset = l.Reset
				require.Equal(t, l, got, "nothing else changes")
				global := l.Jitter(tc.max, nil).Reset
				require.True(t, tc.from.n <= global.n && global.n <= tc.most.n && global.ok == tc.from.ok)
			}
			require.True(t, seen[tc.from] && seen[tc.most], "both ends occur")
			require.Len(t, seen, int(tc.most.n-tc.from.n)+1)
		})
	}
	longest := Limit{Reset: SecondsOf(0)}.Jitter(math.MaxInt64, source())
	require.NoError(t, longest.Validate())
}

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
			require.Equal(t, http.Header{limitKey: {"old"}}, w.Header(), "nothing has been written")
			require.Empty(t, w.Body.String())
			w.WriteHeader(http.StatusTeapot) // has no effect after the first status
			require.Equal(t, http.StatusTeapot, w.Code)
		})
	}
	err := Refuse(httptest.NewRecorder(), nil, good, NewProblem(QuotaExceeded, "a", "b"))
	require.EqualError(t, err, "ratelimit: violated policy 2 is not in the fields: missing")
}

func TestExpose(t *testing.T) {
	const expose = "Access-Control-Expose-Headers"
	for _, tc := range []struct {
		name   string
		header http.Header
		want   []string
	}{
		{"nothing", http.Header{}, nil},
		{"other fields", http.Header{"Content-Type": {"a"}, "X-Limit": {"1"}, "Rate": {"1"}}, nil},
		{"the current fields", http.Header{"Ratelimit": {""}, "Ratelimit-Policy": {"", ""}}, []string{"RateLimit, RateLimit-Policy"}},
		{"Retry-After", http.Header{"Retry-After": {"1"}}, []string{"Retry-After"}},
		{"legacy fields", http.Header{"X-Ratelimit-Limit": {"1"}, "Ratelimit-Remaining": {"1"}, "X-Rate-Limit-Reset": {"1"}, "X-Acme-Ratelimited": {"1"}},
			[]string{"Ratelimit-Remaining, X-Rate-Limit-Reset, X-Ratelimit-Limit"}},
		{"a policy without a role", http.Header{"X-Ratelimit-Minute": {"10"}, "X-Ratelimit-Remaining-Minute": {"1"}, "X-Ratelimit-Hour": {"10"}, "X-Ratelimit-Plan": {"gold"}, "X-Ratelimit-Remaining-Plan": {"5"}},
			[]string{"X-Ratelimit-Minute, X-Ratelimit-Remaining-Minute, X-Ratelimit-Remaining-Plan"}},
		{"look-alikes that are not read", wire("X-RateLimit-Key: 12345\nX-RateLimit-User: alice@example.com\nX-RateLimit-Ip: 192.0.2.1\nX-RateLimit-Token: s\nX-RateLimit-Client-Id: 5\n" +
			"X-RateLimit-Identity: a\nX-RateLimit-Session-Id: 7\nX-RateLimit-Debug: x\nX-RateLimit-Error: e\nX-RateLimit-Enabled: true\nX-RateLimit-Remaining: 5"),
			[]string{"X-Ratelimit-Remaining"}},
		{"fields without the words rate limit", http.Header{"X-Acme-Requests-Remaining": {"1"}, "Retry-After-Ms": {"1"}, "X-Disk-Remaining": {"1"}},
			[]string{"Retry-After-Ms, X-Acme-Requests-Remaining"}},
		{"keys in other spellings", http.Header{"RateLimit": {"1"}, "Ratelimit": {"1"}, "retry-after": {"1"}}, []string{"RateLimit, Retry-After"}},
		{"a key without lines", http.Header{"Ratelimit": {}, "Retry-After": nil}, nil},
		{"keys that are no names", http.Header{"X-Rate\u212aLimit-Ratelimit": {"1"}, "Ratelimit, Set-Cookie": {"1"}, "Trailer:Ratelimit": {"1"}, "Ratelimit\r\n": {"1"}, "Ratelimité": {"1"}}, nil},
		{"existing names are kept", http.Header{"Ratelimit": {"1"}, expose: {"X-Request-Id"}}, []string{"X-Request-Id, RateLimit"}},
		{"a line that is there stays", http.Header{"Ratelimit": {"1"}, expose: {"A ,b", "C"}}, []string{"A ,b", "C, RateLimit"}},
		{"a blank line", http.Header{"Ratelimit": {"1"}, expose: {" "}}, []string{"RateLimit"}},
		{"no line", http.Header{"Ratelimit": {"1"}, expose: {}}, []string{"RateLimit"}},
		{"once each", http.Header{"Ratelimit": {"1"}, "Retry-After": {"1"}, expose: {"X, ratelimit", "RETRY-AFTER"}}, []string{"X, ratelimit", "RETRY-AFTER"}},
		{"one of them is there", http.Header{"Ratelimit": {"1"}, "Retry-After": {"1"}, expose: {"ratelimit"}}, []string{"ratelimit, Retry-After"}},
		{"a part of a name", http.Header{"Ratelimit": {"1"}, expose: {"X-RateLimit"}}, []string{"X-RateLimit, RateLimit"}},
		{"a star stays", http.Header{"Ratelimit": {"1"}, expose: {"*"}}, []string{"*, RateLimit"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.header.Clone()
			Expose(tc.header)
			got := tc.header[expose]
			if len(tc.want) == 0 {
				require.Equal(t, before, tc.header)
			} else {
				require.Equal(t, tc.want, got)
			}
			Expose(tc.header)
			require.Equal(t, got, tc.header[expose], "twice is as once")
			delete(tc.header, expose)
			delete(before, expose)
			require.Equal(t, before, tc.header)
		})
	}
	for _, d := range writtenDialects { // all written fields are exposed
		f := Fields{
			Policies: []Policy{{Name: "minute", Quota: 10, Window: SecondsOf(60)}},
			Limits:   []Limit{{Name: "minute", Remaining: 5, Reset: SecondsOf(30)}},
		}
		h := http.Header{}
		require.NoError(t, d.Set(h, f, time.Now()))
		n := len(h)
		Expose(h)
		require.Len(t, strings.Split(h.Get(expose), ","), n, d.Name)
	}
	Expose(nil)
	shared := []string{"A"}
	Expose(http.Header{"Ratelimit": {"1"}, expose: shared})
	require.Equal(t, []string{"A"}, shared, "lines may be shared")
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
	w := served(refuse, wire(written("X-RateLimit-*: 100, 60, 50")))
	require.Equal(t, wire(written(`
		limits: inner 0/9 w=60 t=55
		Retry-After: 55
		X-RateLimit-*: 9, 0, 55`)), limitFields(w.Header()))

	w = served(limited(t, `"global";q=100;w=60`, `"global";r=60;t=50`, XRateLimit).Handler(refuse), nil)
	require.Equal(t, wire(written(`
		limits: inner 0/9 w=60 t=55, global 60/100 w=60 t=50
		Retry-After: 55
		X-RateLimit-*: 9, 0, 55`)), limitFields(w.Header()))
}
