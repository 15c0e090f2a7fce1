package ratelimit

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// Cap returns l with a Remaining of at most burst × quota × reset ÷ window, rounded
// down, so that a client which uses it up until the reset takes at most burst times as
// much a second as the policy p of l allows on average (draft-11 Sections 6 and 8.5). It
// never raises Remaining.
//
// burst is the decimal that it prints as, so 0.1 is a tenth. Nothing remains if burst is
// 0, negative or NaN, at a Quota of 0, and at a Reset of 0. l stays as it is if burst is
// positive infinity, or if there is no rate: p has no Window, Reset is absent, or
// Remaining or Quota is [Unknown].
func (l Limit) Cap(p Policy, burst float64) Limit {
	switch {
	case p.Quota == 0:
		l.Remaining = 0
	case p.Quota < 0 || p.Window.n < minWindow || !l.Reset.ok || l.Reset.n < 0 || math.IsInf(burst, 1):
	default:
		l.Remaining = min(l.Remaining, burstShare(burst, p.Quota, l.Reset.n, p.Window.n))
	}
	return l
}

// burstShare returns burst × quota × reset ÷ window, rounded down and saturating. The
// product of three integers of fifteen digits overflows int64 and loses digits in
// float64, hence the long multiplication.
func burstShare(burst float64, quota, reset, window int64) int64 {
	const exact = 1 << 53 // below, every integral float64 is the number that it prints as
	switch {
	case !(burst > 0): // NaN included
		return 0
	case burst < exact && burst == math.Trunc(burst):
		return text.MulDiv(uint64(burst), uint64(quota), uint64(reset), uint64(window))
	}
	x, _ := new(big.Rat).SetString(strconv.FormatFloat(burst, 'g', -1, 64))
	x.Mul(x, big.NewRat(quota, window))
	x.Mul(x, big.NewRat(reset, 1))
	n := new(big.Int).Quo(x.Num(), x.Denom())
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}

// Jitter returns l with a Reset that is longer by a random number of whole seconds, from
// 0 to most, so that throttled clients do not all come back at once (draft-11 Section
// 8.5). Reset never passes MaxInteger, and an absent one stays absent. The number comes
// from rnd or, if that is nil, from package rand. Call Jitter before
// [Fields.SetRetryAfter], so that Retry-After agrees with the limits.
func (l Limit) Jitter(most time.Duration, rnd *rand.Rand) Limit {
	if !l.Reset.ok || !sf.IsInteger(l.Reset.n, 0) {
		return l
	}
	int64N := rand.Int64N
	if rnd != nil {
		int64N = rnd.Int64N
	}
	l.Reset = SecondsOf(min(l.Reset.n+int64N(max(int64(most/time.Second), 0)+1), MaxInteger))
	return l
}

// Refuse answers a request that exceeds a limit. It writes the fields of f in place of
// those that w has ([Fields.Set]), lowers the older fields there ([RestrictHeader]),
// raises Retry-After ([Fields.SetRetryAfter]), and sends p ([Problem.ServeHTTP]); a nil
// p is NewProblem(QuotaExceeded). If w has an Access-Control-Allow-Origin, it exposes
// the fields to scripts ([Expose]). Behind a [Middleware] the response announces the
// limits of its Decision, too.
//
// A request that costs more than what is left is refused while something remains. The
// fields then do not say when enough will be, so Refuse writes no Retry-After, and a
// [Gate] backs off. Set Retry-After before, if the time is known: Refuse keeps it.
//
// On error nothing has been written. The error wraps ErrMissing if p names a violated
// policy that f does not have; otherwise it is that of [Fields.Set] or
// [Problem.MarshalJSON].
func Refuse(w http.ResponseWriter, r *http.Request, f Fields, p *Problem) error {
	if p == nil {
		p = NewProblem(QuotaExceeded)
	}
	status, body, err := refusalOf(&f, p)
	if err != nil {
		return err
	}
	h := w.Header()
	found, _ := older.Find(nil, h, nil)
	if err := f.Set(h); err != nil {
		return err
	}
	o := LegacyOptions{Now: time.Now()}
	_ = lowerOlder(h, found, &f, &o, status) // as far as they can say it
	raiseRetryAfter(h, f.RetryAfter(), o.Now, true)
	exposeAbroad(h)
	sendProblem(w, r, status, body)
	return nil
}

// refusalOf returns the status and the JSON of a refusal that p describes. On error it
// returns as much as can be sent.
func refusalOf(f *Fields, p *Problem) (status int, body []byte, err error) {
	status, body, err = p.document()
	if err != nil { // then an extension is to blame
		plain := *p
		plain.Extensions = nil
		status, body, _ = plain.document()
	}
	for i, name := range p.ViolatedPolicies {
		if err == nil && !f.names(name) {
			err = fmt.Errorf("ratelimit: violated policy %d is not in the fields: %w", i+1, ErrMissing)
		}
	}
	return status, body, err
}

// names reports whether f has a policy or a limit of that name.
func (f Fields) names(policy string) bool {
	return slices.ContainsFunc(f.Policies, func(p Policy) bool { return nameID(p.Name) == nameID(policy) }) ||
		slices.ContainsFunc(f.Limits, func(l Limit) bool { return nameID(l.Name) == nameID(policy) })
}

const exposeField = "Access-Control-Expose-Headers" // Fetch Standard, CORS protocol

// Expose adds the names of the fields that h has to Access-Control-Expose-Headers, so
// that scripts of another origin may read them: RateLimit-Policy, RateLimit,
// Retry-After, and every older field that [ParseAny] reads. All that is listed stays,
// and is not added again; "*" covers no name, because for a request with credentials it
// is a name like any other. Call it after the fields have been set. [Refuse] and a
// [Middleware] call it if the response allows another origin.
func Expose(h http.Header) {
	lines := h[exposeField]
	seen := make(map[string]bool, 8) // by canonical key
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			seen[http.CanonicalHeaderKey(text.Trim(name))] = true
		}
	}
	var names []string
	for key, values := range h {
		if len(values) > 0 && exposable(key) {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	added := make([]byte, 0, 128)
	if n := len(lines); n > 0 {
		added = append(added, text.Trim(lines[n-1])...)
	}
	before := len(added)
	for _, name := range names {
		if canonical := http.CanonicalHeaderKey(name); !seen[canonical] {
			seen[canonical] = true
			if len(added) > 0 {
				added = append(added, ", "...)
			}
			added = append(added, fieldName(name)...)
		}
	}
	if len(added) > before {
		h[exposeField] = append(slices.Clone(lines[:max(len(lines)-1, 0)]), string(added))
	}
}

// exposable reports whether a key of http.Header is that of a field to expose.
// It refuses keys that are not tokens, which a header made by hand may have.
func exposable(key string) bool {
	return (strings.EqualFold(key, retryAfterKey) || older.Knows(key)) && text.IsToken(key)
}

// exposeAbroad exposes the fields of a response that scripts of another origin
// may read.
func exposeAbroad(h http.Header) {
	if lines := h["Access-Control-Allow-Origin"]; len(lines) > 0 && lines[0] != "" {
		Expose(h)
	}
}
