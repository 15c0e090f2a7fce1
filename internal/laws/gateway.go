package laws

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
)

// Passed is when the responses arrive.
var Passed = time.Date(2026, time.November, 21, 3, 23, 56, 0, time.UTC)

// UpstreamHeader returns the random header of a server that announces limits in up to three forms.
// These are the current fields, older drafts, one family with any format of a reset, the windows of
// Kong, lists, and the units of language models. The server has a clock of its own, or sends no Date.
func UpstreamHeader(rnd *rand.Rand, now time.Time) http.Header {
	h := http.Header{}
	in := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	// often adds a field in all but one of n calls, on average.
	often := func(key string, n int, value func() string) {
		if rnd.IntN(n) > 0 {
			h.Add(key, value())
		}
	}
	number := func() string {
		return trial.PickOf(rnd, "0", "0", "1", "2", "5", "40", "50", "99", "100", "4987", "5000")
	}
	reset := func() string {
		n := trial.PickOf(rnd, 0, 1, 9, 30, 60, 600, 2040, 80000)
		at := in(n).UTC()
		return trial.PickOf(rnd, fmt.Sprint(n), fmt.Sprint(n), fmt.Sprint(n*1000), fmt.Sprintf("%d.5", n), (time.Duration(n) * time.Second).String(),
			fmt.Sprint(at.Unix()), fmt.Sprint(at.UnixMilli()), at.Format(time.RFC3339), at.Format(http.TimeFormat), "-1")
	}
	limit := func(key string) { // with a star for the role
		often(strings.Replace(key, "*", "Limit", 1), 5, number)
		often(strings.Replace(key, "*", "Remaining", 1), 5, number)
		often(strings.Replace(key, "*", "Reset", 1), 5, reset)
	}
	often("Date", 5, func() string { return in(trial.PickOf(rnd, 0, -6, 60, -60)).UTC().Format(http.TimeFormat) })
	if rnd.IntN(5) == 0 {
		h.Set(trial.PickOf(rnd, text.RetryAfterKey, "Age"), trial.PickOf(rnd, "0", "5", "60"))
	}
	for range 1 + rnd.IntN(3) {
		switch rnd.IntN(7) {
		case 0:
			_ = RandomFields(rnd).Writable().Set(h)
		case 1:
			_ = Dialects[rnd.IntN(len(Dialects))].Set(h, RandomFields(rnd), now)
		case 2: // in other forms, or malformed
			h.Set("RateLimit", trial.PickOf(rnd, `"a";r=x`, "default;r=5;t=3", "a;a=5;w=30", "limit=100, remaining=5, reset=30", "limit=100, reset=30", `"a"`, ""))
			h.Set("RateLimit-Policy", trial.PickOf(rnd, "100;w=60", "100;w=60, 5000;w=3600", `"a";q=5;w=60`, "a;q=5;w=60", "x"))
		case 3:
			prefix := trial.PickOf(rnd, "X-RateLimit-", "RateLimit-", "X-Rate-Limit-", "X-Acme-RateLimit-", "Acme-", "X-Discogs-RateLimit-")
			limit(prefix + "*")
			switch rnd.IntN(6) {
			case 0:
				h.Set(prefix+"Used", number())
			case 1:
				h.Set(prefix+"Resource", trial.PickOf(rnd, "core", "a", "search"))
			case 2:
				h.Set(prefix+"Window", trial.PickOf(rnd, "60", "1m", "3600", "10s"))
			case 3: // a second line
				limit(prefix + "*")
			case 4:
				h.Set(prefix+trial.PickOf(rnd, "Reset-After", "Reset-Ms"), number())
			}
		case 4:
			for range 1 + rnd.IntN(3) {
				limit(trial.PickOf(rnd, "X-RateLimit-*-", "RateLimit-*-") + trial.PickOf(rnd, "Second", "Minute", "Hour", "Day"))
			}
			often("RateLimit-Reset", 2, reset)
		case 5:
			h.Set("X-RateLimit-Limit", trial.PickOf(rnd, "10, 100", "100, 100;w=60", "10, 10;w=1, 1000;w=3600", "60/100"))
			h.Set("X-RateLimit-Remaining", trial.PickOf(rnd, "1, 99", "5", "0", "40/60", "5, 5;w=1"))
			h.Set("X-RateLimit-Reset", trial.PickOf(rnd, "1, 60", "5", reset()))
		case 6:
			for _, unit := range []string{"Requests", "Tokens", "Input-Tokens"} {
				limit(trial.PickOf(rnd, "Anthropic-RateLimit-"+unit+"-*", "X-RateLimit-*-"+unit))
			}
		}
	}
	return h
}

// GatewayFields returns fields of a gateway. Their names are the names that a reader gives to limits of
// older forms.
func GatewayFields(rnd *rand.Rand) (f ratelimit.Fields) {
	if rnd.IntN(3) == 0 {
		return OwnFields(rnd)
	}
	names := []string{"tenant", "burst", "default", "minute", "day", "hour", "requests", "core", "acme", "100/60"}
	for _, i := range rnd.Perm(len(names))[:1+rnd.IntN(2)] {
		quota, window := trial.PickOf[int64](rnd, 3, 10, 100, 1000), trial.PickOf[int64](rnd, 1, 10, 60, 3600, 86400)
		l := ratelimit.Limit{Name: names[i], Remaining: max(rnd.Int64N(quota+4)-3, 0), Reset: ratelimit.SecondsOf(rnd.Int64N(window + 1))}
		if rnd.IntN(6) == 0 {
			l.Reset = ratelimit.Seconds{}
		}
		f.Limits = append(f.Limits, l)
		if rnd.IntN(6) > 0 {
			f.Policies = append(f.Policies, ratelimit.Policy{Name: names[i], Quota: quota, Window: ratelimit.SecondsOf(window), Unit: trial.PickOf[ratelimit.Unit](rnd, "", "", "", ratelimit.ContentBytes, "tokens")})
		}
	}
	return f
}
