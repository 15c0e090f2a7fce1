package ratelimit

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
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

// Cap lowers Remaining to at most burst × quota × reset ÷ window, rounded down. The client then
// takes at most burst times the average rate of p, the policy of l, until the reset (draft-11
// Sections 6 and 8.5). The value of burst is the decimal that it prints as: 0.1 is a tenth. A burst
// that is negative or NaN counts as 0. If Quota is 0, Remaining becomes 0. Otherwise l is unchanged
// if burst is +Inf, Quota or Remaining is [Unknown], or Window or Reset is absent.
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

// burstShare returns burst × quota × reset ÷ window, rounded down and saturating. The product
// can be larger than an int64, and a float64 would lose digits of it.
func burstShare(burst float64, quota, reset, window int64) int64 {
	const exact = 1 << 53 // below this, every integral float64 is the number that it prints as
	if !(burst > 0) {     // NaN included
		return 0
	}
	if burst < exact && burst == math.Trunc(burst) {
		if over, most := bits.Mul64(uint64(burst), uint64(quota)); over == 0 {
			n, _ := text.MulDiv(most, uint64(reset), uint64(window))
			return n
		}
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

// Jitter adds a random number of whole seconds to Reset, from 0 to most, so that throttled clients
// do not all come back at once (draft-11 Section 8.5). An absent Reset stays absent. If rnd is
// nil, package rand makes the number. Call Jitter before [Fields.SetRetryAfter], so that
// Retry-After agrees with the limits.
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

// Refuse answers a request that exceeds a limit. It replaces the fields of w by those of f
// ([Fields.Set]), lowers the older fields ([RestrictHeader]), raises Retry-After
// ([Fields.SetRetryAfter]), and sends p ([Problem.ServeHTTP]). A nil p is
// NewProblem(QuotaExceeded). If w has an Access-Control-Allow-Origin, Refuse exposes the
// fields to scripts ([Expose]). Behind a [Middleware], the response also announces the
// limits of its Decision.
//
// If something remains, but less than the request costs, the fields do not contain the time at
// which enough is available. Set Retry-After to this time before the call: Refuse keeps it.
//
// On error nothing is written. The error wraps ErrMissing if p names a violated policy that
// is not in f. Otherwise it is that of [Fields.Set] or [Problem.MarshalJSON].
func Refuse(w http.ResponseWriter, r *http.Request, f Fields, p *Problem) error {
	status, body, err := refusalOf(&f, p, nil)
	if err != nil {
		return err
	}
	h := w.Header()
	found, _ := older.Find(nil, h, nil)
	if err := f.Set(h); err != nil {
		return err
	}
	o := LegacyOptions{Now: time.Now()}
	_ = lowerOlder(h, found, &f, &o, status) // as far as the older forms can express it
	raiseRetryAfter(h, f.RetryAfter(), o.Now, true)
	exposeAbroad(h, nil)
	sendProblem(w, r, status, body)
	return nil
}

// refusalOf returns the status and the JSON of a refusal by p, or by the default problem with the
// violated policies if p is nil. On error it returns the parts that can be sent.
func refusalOf(f *Fields, p *Problem, violated []string) (status int, body []byte, err error) {
	if p == nil {
		p = NewProblem(QuotaExceeded, violated...)
	}
	status, body, err = p.document()
	if err != nil { // an extension is invalid
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

// names reports whether f has a policy or a limit with that name.
func (f Fields) names(policy string) bool {
	return slices.ContainsFunc(f.Policies, func(p Policy) bool { return nameID(p.Name) == nameID(policy) }) ||
		slices.ContainsFunc(f.Limits, func(l Limit) bool { return nameID(l.Name) == nameID(policy) })
}

const exposeField = "Access-Control-Expose-Headers" // Fetch Standard, CORS protocol

// Expose lets scripts of another origin read the limits in h. It adds the names of Retry-After and
// of all fields in h that [ParseAny] reads to Access-Control-Expose-Headers. Call it after the
// fields are set. [Refuse] and [Middleware] call it if the response allows another origin. The
// names are needed next to "*" too: for a request with credentials, "*" is an ordinary name.
func Expose(h http.Header) { expose(h, nil) }

// expose is [Expose] for fields that may also be of dialects.
func expose(h http.Header, dialects []*older.Table) {
	lines := h[exposeField]
	seen := make(map[string]bool, 8) // by canonical key
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			seen[http.CanonicalHeaderKey(text.Trim(name))] = true
		}
	}
	var names []string
	add := func(key string) {
		if name := http.CanonicalHeaderKey(key); !seen[name] {
			seen[name] = true
			names = append(names, fieldName(name))
		}
	}
	found, _ := older.Find(nil, h, dialects)
	for _, f := range older.Readable(found) {
		add(f.Key)
	}
	for key, lines := range h {
		if len(lines) > 0 && strings.EqualFold(key, retryAfterKey) {
			add(key)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	added, kept := strings.Join(names, ", "), slices.Clone(lines)
	if n := len(kept); n > 0 {
		if last := text.Trim(kept[n-1]); last != "" {
			added = last + ", " + added
		}
		kept = kept[:n-1]
	}
	h[exposeField] = append(kept, added)
}

// exposeAbroad calls expose if scripts of another origin may read the response.
func exposeAbroad(h http.Header, dialects []*older.Table) {
	if lines := h["Access-Control-Allow-Origin"]; len(lines) > 0 && lines[0] != "" {
		expose(h, dialects)
	}
}
