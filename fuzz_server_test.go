package ratelimit

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func FuzzProblem(f *testing.F) {
	for _, tc := range problemCases {
		text := tc.in[:min(len(tc.in), 1000)]
		f.Add([]byte(text), text, 429)
		f.Add([]byte(text), "\xff", -1)
	}
	f.Fuzz(func(t *testing.T, b []byte, s string, status int) {
		lawProblemRead(t, b)
		lawProblem(t, Problem{s, s, status, s, s, []string{s}, map[string]json.RawMessage{s: b}})
		lawProblem(t, *NewProblem(s))
	})
}

// fuzzFields makes fields of few names, keys, units and numbers, so that pairs
// of them meet often.
func fuzzFields(rnd *rand.Rand) Fields {
	var f Fields
	name := func() string { return []string{"a", "b", "c"}[rnd.IntN(3)] }
	key := func() []byte { return [][]byte{nil, nil, {}, []byte("k")}[rnd.IntN(4)] }
	number := func() int64 { return []int64{0, 0, 1, 2, 5, 60, MaxInteger}[rnd.IntN(7)] }
	seconds := func(least int64) Seconds {
		if rnd.IntN(3) == 0 {
			return Seconds{}
		}
		return SecondsOf(max(number(), least))
	}
	for range rnd.IntN(4) {
		unit := []Unit{"", "", Requests, ContentBytes}[rnd.IntN(4)]
		window := []Seconds{{}, SecondsOf(60), SecondsOf(60), SecondsOf(1)}[rnd.IntN(4)]
		f.Policies = append(f.Policies, Policy{Name: name(), Quota: number(), Unit: unit, Window: window, PartitionKey: key()})
	}
	for range rnd.IntN(4) {
		remaining := number()
		if rnd.IntN(8) == 0 {
			remaining = Unknown
		}
		f.Limits = append(f.Limits, Limit{Name: name(), Remaining: remaining, Reset: seconds(0), PartitionKey: key()})
	}
	return f
}

// ownFields returns random fields that a gateway may have of its own: they validate.
func ownFields(rnd *rand.Rand) Fields {
	f := fuzzFields(rnd)
	for i := range f.Limits {
		f.Limits[i].Remaining = max(f.Limits[i].Remaining, 0)
	}
	for i := repeated(f.Policies); i > 0; i = repeated(f.Policies) {
		f.Policies = slices.Delete(f.Policies, i, i+1)
	}
	for i := repeated(f.Limits); i > 0; i = repeated(f.Limits) {
		f.Limits = slices.Delete(f.Limits, i, i+1)
	}
	return f
}

// FuzzRestrict is law 7, for random pairs and for fields in wire text.
func FuzzRestrict(f *testing.F) {
	for i, tc := range restrictCases {
		policies, limits := halves(tc.upstream)
		ownPolicies, ownLimits := halves(tc.own)
		f.Add(uint64(i), policies, limits, ownPolicies, ownLimits)
	}
	f.Fuzz(func(t *testing.T, seed uint64, upstreamPolicies, upstreamLimits, ownPolicies, ownLimits string) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		for range 4 {
			lawRestrict(t, fuzzFields(rnd), ownFields(rnd))
		}
		upstream, _ := Parse(http.Header{policyKey: {upstreamPolicies}, limitKey: {upstreamLimits}})
		own, _ := Parse(http.Header{policyKey: {ownPolicies}, limitKey: {ownLimits}})
		lawRestrict(t, upstream, own)
		lawRestrict(t, upstream, ownFields(rnd))
	})
}

// FuzzCap is law 7 for Cap, and that nothing else of this file panics.
func FuzzCap(f *testing.F) {
	f.Add(int64(10000), int64(1000), int64(10000), int64(10), 1.0, "30", "Tue, 15 Nov 1994 08:00:00 GMT")
	f.Add(int64(MaxInteger), int64(MaxInteger), int64(MaxInteger), int64(MaxInteger), math.MaxFloat64, "", "*")
	f.Add(int64(MaxInteger), int64(1), int64(MaxInteger), int64(MaxInteger), 0.1, "-1", "X, RateLimit")
	f.Add(int64(math.MinInt64), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), math.NaN(), "99999999999999999999", ",")
	f.Fuzz(func(t *testing.T, quota, window, remaining, reset int64, burst float64, line, other string) {
		p := Policy{Quota: quota, Window: SecondsOf(window)}
		l := Limit{Remaining: remaining, Reset: SecondsOf(reset)}
		lawCap(t, l, p, burst)
		lawCap(t, Limit{Remaining: remaining}, p, burst)
		lawCap(t, l, Policy{Quota: quota}, burst)

		rnd := rand.New(rand.NewPCG(uint64(quota), uint64(window)))
		jittered := l.Jitter(time.Duration(window), rnd)
		require.GreaterOrEqual(t, jittered.Reset.n, l.Reset.n)

		h := http.Header{"Retry-After": {line}, "Date": {other}, exposeField: {other, line}}
		lawSetRetryAfter(t, h, Fields{Policies: []Policy{p}, Limits: []Limit{l, {Remaining: remaining}}})
		Expose(h)
		exposed := h.Clone()
		Expose(h)
		require.Equal(t, exposed, h, "twice is as once")
	})
}

// FuzzMiddleware is law 11, for random Middlewares around each other and in front of
// a proxy.
func FuzzMiddleware(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		for range 2 {
			lawStack(t, rnd)
			lawProxy(t, rnd)
		}
	})
}
