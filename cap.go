package ratelimit

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// Cap lowers Remaining to at most burst × quota × reset ÷ window, rounded down. p is the policy of
// l. Until the reset the client then takes at most burst times the average rate of p (draft-11
// Sections 6 and 8.5). The burst is taken as its shortest decimal form: 0.1 is a tenth. A burst
// that is negative or NaN counts as 0. If Quota is 0, Remaining becomes 0. Otherwise Cap returns l
// unchanged if burst is +Inf, Quota or Remaining is [Unknown], or Window or Reset is absent.
func (l Limit) Cap(p Policy, burst float64) Limit {
	switch {
	case p.Quota == 0:
		l.Remaining = 0
	case p.Quota < 0 || p.Window.n < draft.MinWindow || !l.Reset.ok || l.Reset.n < 0 || math.IsInf(burst, 1):
	default:
		l.Remaining = min(l.Remaining, burstShare(burst, p.Quota, l.Reset.n, p.Window.n))
	}
	return l
}

// burstShare returns burst × quota × reset ÷ window, rounded down and saturating. The product can
// exceed an int64, and a float64 would lose digits.
func burstShare(burst float64, quota, reset, window int64) int64 {
	const exact = 1 << 53 // an integral float64 below it equals its decimal form
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

// Jitter adds a random number of whole seconds to Reset, from 0 to most. Clients that wait for the same
// reset then do not all come back at once (draft-11 Section 8.5). An absent Reset stays absent. If rnd
// is nil, the number comes from package rand. Call Jitter before [Fields.SetRetryAfter], so that
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
