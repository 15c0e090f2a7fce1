package ratelimit

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// The fuzzers check the laws for arbitrary input. A newline separates two field lines, because a
// field line cannot contain one.

func fuzzLines(s string) []string { return strings.Split(s, "\n") }

// seeds returns the lines of every table.
func seeds() []string {
	var all []string
	for _, tc := range slices.Concat(policyCases, limitCases) {
		all = append(all, strings.Join(tc.lines, "\n"))
	}
	for _, shape := range hostileShapes {
		all = append(all, shape.value(64))
	}
	return append(all, wideMembers(2000), benchLimit, benchPolicies, benchFull)
}

func FuzzParsePolicies(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { policyCodec.lawRead(t, fuzzLines(s)...) })
}

func FuzzParseLimits(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { limitCodec.lawRead(t, fuzzLines(s)...) })
}

func FuzzParse(f *testing.F) {
	all := seeds()
	for i, s := range all {
		f.Add(s, all[len(all)-1-i], true, true)
	}
	f.Add(`"a";q=1;pk=:YQ==:, "a";q=2;pk=:Yg==:`, `"a";r=1, "a";r=2;pk=:Yg==:`, true, true)
	f.Add("", "", false, true)
	f.Fuzz(func(t *testing.T, policies, limits string, hasPolicies, hasLimits bool) {
		h := http.Header{}
		if hasPolicies {
			h[draft.PolicyKey] = fuzzLines(policies)
		}
		if hasLimits {
			h[draft.LimitKey] = fuzzLines(limits)
		}
		lawParse(t, h)
	})
}

// fuzzValue makes a value for a parameter, of a type that can be written or not.
func fuzzValue(kind uint8, n int64, x float64, s string) any {
	values := []any{
		n, x, s, httpsfv.Token(s), []byte(s), n > 0, time.Unix(n, 0), httpsfv.DisplayString(s),
		nil, int(n), float32(x), []string{s}, map[string]any{s: x}, struct{ n int64 }{n}, &s, Unit(s), func() {},
	}
	return values[int(kind)%len(values)]
}

func fuzzSeconds(present bool, n int64) Seconds {
	if !present {
		return Seconds{}
	}
	return SecondsOf(n)
}

func fuzzKey(present bool, key []byte) []byte {
	if !present {
		return nil
	}
	return append([]byte{}, key...)
}

// lawDecimal checks that a float64 is written as the nearest Decimal. If two are equally
// near, it is the Decimal with an even last digit (RFC 9651 Section 4.1.5).
func lawDecimal(t testing.TB, x float64) {
	s, err := FormatPolicies(Policy{Name: "a", Params: Params{{"x", x}}})
	if err != nil {
		require.False(t, math.Abs(x) < 1e12-0.0006, "%v", x)
		return
	}
	got, ok := new(big.Rat).SetString(s[strings.LastIndexByte(s, '=')+1:])
	require.True(t, ok, s)
	thousandths := got.Mul(got, big.NewRat(1000, 1))
	require.True(t, thousandths.IsInt(), s)
	off := new(big.Rat).Mul(new(big.Rat).SetFloat64(x), big.NewRat(1000, 1))
	off.Sub(off, thousandths)
	half := off.Abs(off).Cmp(big.NewRat(1, 2))
	require.True(t, half < 0 || half == 0 && thousandths.Num().Bit(0) == 0, "%v is written as %s", x, s)
}

func FuzzFormat(f *testing.F) {
	for kind := range uint8(17) {
		f.Add("a", int64(100), "requests", true, int64(60), true, []byte("key"), "acme-burst", kind, 1.5, "value", uint16(1))
	}
	f.Add(`a"\`, int64(-1), "\n", true, int64(0), true, []byte{}, "q", uint8(0), 1e300, "\xff", uint16(2))
	f.Add("", int64(MaxInteger), "", false, int64(0), false, []byte{}, "*", uint8(6), -0.0005, "", uint16(300))
	f.Add("b", int64(MaxInteger+1), "", true, int64(MaxInteger+1), false, []byte{}, "a", uint8(6), 1.0625, "", uint16(0))
	f.Fuzz(func(t *testing.T, name string, n int64, unit string, hasSeconds bool, seconds int64,
		hasKey bool, key []byte, param string, kind uint8, x float64, s string, count uint16) {
		ps := Params{{param, fuzzValue(kind, n, x, s)}, {s, true}}
		ps = append(ps, extensions(int(count)%300)...)
		p := Policy{name, n, Unit(unit), fuzzSeconds(hasSeconds, seconds), fuzzKey(hasKey, key), ps}
		l := Limit{name, seconds, fuzzSeconds(hasKey, n), fuzzKey(hasSeconds, key), ps[:min(int(count), len(ps))]}
		policyCodec.lawWrite(t, p)
		policyCodec.lawWrite(t, Policy{Name: unit, Quota: seconds, Window: SecondsOf(n)}, p)
		limitCodec.lawWrite(t, l)
		limitCodec.lawWrite(t, Limit{Name: s, Remaining: n, PartitionKey: key}, l)
		lawDecimal(t, x)
		lawJoin(t, Fields{Policies: []Policy{p, {Name: unit}, p}, Limits: []Limit{l, {Name: unit, Remaining: n}, {Name: s}}})
	})
}

// addResponses adds the responses of the tables and vectors.
func addResponses(f *testing.F) {
	for _, tc := range adviseCases {
		f.Add(200, tc.Wire, int64(0), int64(0))
	}
	const resets = "X-RateLimit-Reset-Minute: 30\nX-RateLimit-Reset-Hour: 900"
	f.Add(429, resets, int64(1795230000), int64(0))
	f.Add(429, resets+"\nX-RateLimit-Reset: 60", int64(1795230000), int64(0))
	for _, v := range trial.ReadVectors[trial.ResponseVector](f, "lint") {
		if lines := strings.Join(trial.BytesOf(v.Header), "\n"); len(lines) < 1000 {
			f.Add(302, lines, int64(1795230000), int64(time.Second))
		}
	}
	for _, s := range seeds() {
		if len(s) < 1000 && !strings.Contains(s, "\n") {
			f.Add(429, "RateLimit: "+s+"\nRateLimit-Policy: "+s+"\nRetry-After: "+s, int64(-1<<62), int64(-5))
		}
	}
}

func FuzzAdvise(f *testing.F) {
	addResponses(f)
	f.Fuzz(func(t *testing.T, status int, lines string, received, most int64) {
		resp, _ := trial.AnyResponse(lines)
		resp.StatusCode = status
		c := Advisor{MaxWait: time.Duration(most)}
		a := c.Advise(resp, time.Unix(received, 0))
		require.GreaterOrEqual(t, a.Wait, time.Duration(0))
		require.LessOrEqual(t, a.Wait, longestWait(c.MaxWait))
		require.GreaterOrEqual(t, a.Pace, time.Duration(0))
		require.True(t, !a.Capped || a.Wait == longestWait(c.MaxWait))
		require.True(t, a.Wait == 0 || a.Source != SourceNone)
		lawAdviceLimit(t, &a)
		require.True(t, text.IsName(strings.ReplaceAll(a.String(), "µs", "us")), "%q", a.String())

		d, ok := ParseRetryAfter(resp.Header, time.Unix(received, 0))
		require.GreaterOrEqual(t, d, time.Duration(0))
		require.True(t, ok || d == 0)
		exhausted := slices.ContainsFunc(a.Fields.Limits, func(l Limit) bool {
			p, known := a.Fields.PolicyOf(l)
			return l.Remaining == 0 || known && p.Quota == 0
		})
		current := len(a.Fields.Limits) > 0 && (a.Fields.Dialect == "ratelimit" || a.Fields.Dialect == "ratelimit-next")
		counts := ok && (status/100 != 2 || current || exhausted)
		if longer := d == 0 && a.Refused && a.Wait > 0; !longer { // then a Retry-After of 0 does not count
			require.Equal(t, counts, a.Source == SourceRetryAfter)
		}
		lawAdvise(t, resp.Header, a)
	})
}

// lawAdviceLimit checks that the limit that causes a wait is one of the fields. If a
// Retry-After causes the wait, the limit is the tightest one, and exhausted.
func lawAdviceLimit(t testing.TB, a *Advice) {
	t.Helper()
	same := func(l Limit) bool { return l.Equal(a.Limit) }
	switch a.Source {
	case SourceNone:
		require.True(t, a.Limit.Equal(Limit{}))
	case SourceRetryAfter:
		tightest, ok := a.Fields.Tightest()
		p, known := a.Fields.PolicyOf(tightest)
		if ok && (tightest.Remaining == 0 || known && p.Quota == 0) {
			require.True(t, same(tightest), "%v", a.Fields)
		} else {
			require.True(t, a.Limit.Equal(Limit{}))
		}
	default:
		require.True(t, slices.ContainsFunc(a.Fields.Limits, same), "%v", a.Fields)
	}
}

// lawAdvise checks an Advice against its definition. The wait is Retry-After in seconds, else the
// longest wait of a limit with nothing remaining. If there is neither, a refusal has the earliest
// reset of the limits with an unknown remaining and no window, or else of the limits with a window. The
// pace is the slowest. The law computes with exact numbers, and allows the Advice to be rounded up to a
// nanosecond and cut to a Duration.
func lawAdvise(t testing.TB, h http.Header, a Advice) {
	t.Helper()
	seconds := h[text.RetryAfterKey]
	if a.Source == SourceRetryAfter && h[text.RetryAfterMsKey] == nil && len(seconds) == 1 && len(seconds[0]) < 10 && text.All(seconds[0], text.Digit) && seconds[0] != "" {
		n, err := strconv.Atoi(seconds[0])
		require.NoError(t, err)
		require.Equal(t, time.Duration(n)*time.Second, a.Asked)
	}
	wait, pace, unknown := new(big.Rat), new(big.Rat), new(big.Rat)
	explained := false // a limit with nothing remaining has a reset or a window
	var earliest, windowless *Limit
	for i, l := range a.Fields.Limits {
		p, known := a.Fields.PolicyOf(l)
		left := exactReset(t, &a.Fields, i)
		switch {
		case l.Remaining == 0 || known && p.Quota == 0:
			if !l.Reset.ok {
				left = nanoseconds(p.Window.n)
			}
			wait = longerRat(wait, left)
			explained = explained || l.Reset.ok || p.Window.ok
		case l.Remaining == Unknown:
			of := &earliest
			if !known || !p.Window.ok {
				of = &windowless
			}
			if first := *of == nil || l.Reset.n < (*of).Reset.n; first {
				*of = &a.Fields.Limits[i]
				if of == &windowless || windowless == nil {
					unknown = left
				}
			}
		case l.Remaining > 0 && (p.Unit == "" || p.Unit == Requests || p.Unit == "request"):
			n := l.Remaining
			if known && 0 < p.Quota {
				n = min(n, p.Quota)
			}
			pace = longerRat(pace, left.Quo(left, big.NewRat(n, 1)))
		}
	}
	lawRoundedUp(t, pace, a.Pace, &a)
	if a.Refused && !explained {
		wait = unknown
	}
	if a.Source != SourceRetryAfter {
		lawRoundedUp(t, wait, a.Asked, &a)
	}
}

// exactReset returns the reset of a limit in nanoseconds, as precise as the response.
func exactReset(t testing.TB, f *Fields, i int) *big.Rat {
	t.Helper()
	whole := nanoseconds(f.Limits[i].Reset.n)
	if i >= len(f.exact) || f.exact[i] == 0 {
		return whole
	}
	precise := big.NewRat(int64(f.exact[i]), 1)
	require.Positive(t, whole.Cmp(precise), "whole seconds are rounded up")
	require.Negative(t, whole.Cmp(new(big.Rat).Add(precise, nanoseconds(1))))
	return precise
}

// nanoseconds returns n seconds in nanoseconds.
func nanoseconds(n int64) *big.Rat {
	x := big.NewRat(n, 1)
	return x.Mul(x, big.NewRat(int64(time.Second), 1))
}

func longerRat(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// lawRoundedUp checks that got is want, in nanoseconds, rounded up, or the longest Duration.
func lawRoundedUp(t testing.TB, want *big.Rat, got time.Duration, a *Advice) {
	t.Helper()
	if want.Cmp(big.NewRat(math.MaxInt64, 1)) >= 0 {
		require.Equal(t, time.Duration(math.MaxInt64), got, "%v", a.Fields)
		return
	}
	above := new(big.Rat).Sub(big.NewRat(int64(got), 1), want)
	require.GreaterOrEqual(t, above.Sign(), 0, "%v is less than %v: %v", got, want, a.Fields)
	require.Negative(t, above.Cmp(big.NewRat(1, 1)), "%v is more than %v: %v", got, want, a.Fields)
}

func FuzzProblem(f *testing.F) {
	for _, tc := range problemCases {
		text := tc.In[:min(len(tc.In), 1000)]
		f.Add([]byte(text), text, 429)
		f.Add([]byte(text), "\xff", -1)
	}
	f.Fuzz(func(t *testing.T, b []byte, s string, status int) {
		lawProblemRead(t, b)
		lawProblem(t, Problem{s, s, status, s, s, []string{s}, map[string]json.RawMessage{s: b}})
		lawProblem(t, *NewProblem(s))
	})
}

// fuzzFields makes fields with few names, keys, units and numbers, so that members of two fields
// often match.
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

// ownFields returns random valid fields of a gateway.
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

// FuzzRestrict is law 7 for random pairs and for fields in wire text.
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
		upstream, _ := Parse(http.Header{draft.PolicyKey: {upstreamPolicies}, draft.LimitKey: {upstreamLimits}})
		own, _ := Parse(http.Header{draft.PolicyKey: {ownPolicies}, draft.LimitKey: {ownLimits}})
		lawRestrict(t, upstream, own)
		lawRestrict(t, upstream, ownFields(rnd))
	})
}

// FuzzCap is law 7 for Cap. It also calls Jitter, SetRetryAfter and Expose, which must not panic.
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
