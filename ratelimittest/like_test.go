package ratelimittest_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// vendors are the names that Like knows.
var vendors = []string{"github", "openai", "anthropic", "cloudflare", "express", "nginx", "haproxy", "shopify", "discord", "bare429"}

// like returns an API that is like a vendor's.
func like(t testing.TB, vendor string) *ratelimittest.API {
	t.Helper()
	api, err := ratelimittest.Like(vendor)
	require.NoError(t, err)
	return api
}

// The forms of values, the most special first.
var (
	isUnix      = regexp.MustCompile(`^\d{10}$`)
	isUnixMilli = regexp.MustCompile(`^\d{10}\.\d{3}$`)
	isRFC3339   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
	isDuration  = regexp.MustCompile(`^(\d+h)?(\d+m)?(\d+(\.\d+)?(s|ms))?$`)
	isWord      = regexp.MustCompile(`^[a-z]+$`)
	isBucket    = regexp.MustCompile(`^[0-9a-f]{4,32}$`)
	anyName     = regexp.MustCompile(`"[^"]*"`)
	anyKey      = regexp.MustCompile(`:[A-Za-z0-9+/=]+:`)
	anyNumber   = regexp.MustCompile(`\d+`)
)

// formOf returns the form of a value: its letters and signs, with N for each number.
func formOf(key, value string) string {
	switch {
	case isUnix.MatchString(value):
		return "Unix time"
	case isUnixMilli.MatchString(value):
		return "Unix time with a fraction"
	case isRFC3339.MatchString(value):
		return "timestamp"
	case strings.ContainsAny(value, "hms") && isDuration.MatchString(value):
		return "duration"
	case strings.HasSuffix(key, "Bucket") && isBucket.MatchString(value):
		return "hash"
	case isWord.MatchString(value):
		return "word"
	}
	value = anyKey.ReplaceAllString(anyName.ReplaceAllString(value, `"S"`), ":K:")
	return anyNumber.ReplaceAllString(value, "N")
}

// formsOf returns the forms of the fields about limits, by canonical name.
func formsOf(h http.Header) map[string]string {
	forms := map[string]string{}
	for key, lines := range h {
		if lower := strings.ToLower(key); strings.Contains(lower, "limit") || lower == "retry-after" {
			forms[key] = formOf(key, strings.Join(lines, ", "))
		}
	}
	return forms
}

// Each vendor announces and refuses as its recorded responses do: the statuses, the names of the
// fields, and the forms of their values.
func TestLike(t *testing.T) {
	recorded := map[string]bool{}
	for _, b := range trial.BlocksOf("testdata/vendors.txt") {
		t.Run(b.Name, func(t *testing.T) {
			vendor, _, _ := strings.Cut(b.Name, ":")
			want, others := trial.AnyResponse(b.Text)
			recorded[vendor+fmt.Sprint(want.StatusCode == http.StatusOK)] = true
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(27*365*24*time.Hour + 300*time.Millisecond) // Unix times have ten digits
				api := like(t, vendor)
				for i := range api.Limits {
					api.Limits[i].Policy.Quota = 5
				}
				resp := get(t, api, "/")
				for n := 0; resp.StatusCode == http.StatusOK && want.StatusCode != http.StatusOK && n < 99; n++ {
					resp = get(t, api, "/")
				}
				require.Equal(t, want.StatusCode, resp.StatusCode)
				got, forms := formsOf(resp.Header), formsOf(want.Header)
				for _, line := range others {
					name, ok := strings.CutPrefix(line, "+ ")
					require.True(t, ok, line)
					name = http.CanonicalHeaderKey(name)
					require.NotContains(t, forms, name)
					require.Contains(t, got, name)
					delete(got, name)
				}
				require.Equal(t, forms, got)
			})
		})
	}
	for _, vendor := range vendors {
		require.True(t, recorded[vendor+"false"], vendor)
		require.True(t, vendor == "bare429" || recorded[vendor+"true"], vendor)
	}
}

// No other name is known, and the error has the names.
func TestLikeUnknown(t *testing.T) {
	api, err := ratelimittest.Like("git\x1bhub, or any longer name of a vendor")
	require.Nil(t, api)
	require.EqualError(t, err, `ratelimittest: unknown vendor "git\x1bhub, or any long": use `+strings.Join(vendors, ", "))
}

// The numbers of a vendor are the numbers of its limits: a reader finds the quota, what remains, and a
// wait after which it is served.
func TestLikeNumbers(t *testing.T) {
	for _, vendor := range vendors {
		t.Run(vendor, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(27*365*24*time.Hour + 300*time.Millisecond)
				api := like(t, vendor)
				for i := range api.Limits {
					api.Limits[i].Policy.Quota, api.Limits[i].Burst = 8, 0
				}
				f, err := ratelimit.ParseAny(get(t, api, "/").Header, ratelimit.LegacyOptions{})
				require.NoError(t, err)
				if api.Silent {
					require.Empty(t, f.Limits)
				} else {
					for l, p := range f.Pairs() {
						require.EqualValues(t, 8, p.Quota, l.Name)
						require.Contains(t, []int64{6, 7}, l.Remaining, l.Name)
					}
					require.Len(t, f.Limits, len(api.Limits))
				}
				for range 40 {
					resp := get(t, api, "/")
					if resp.StatusCode == http.StatusOK {
						continue
					}
					body, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.NotEmpty(t, body)
					require.NotEqual(t, ratelimit.ProblemMediaType, resp.Header.Get("Content-Type"))
					advice := ratelimit.Advisor{MaxWait: math.MaxInt64}.Advise(resp, time.Now())
					require.Equal(t, !api.Silent, advice.Wait > 0, resp.Header)
					time.Sleep(max(advice.Wait, 20*time.Second))
					require.Equal(t, http.StatusOK, get(t, api, "/").StatusCode)
				}
				require.Positive(t, api.Counts().Refused)
				require.Zero(t, api.Counts().Early)
			})
		})
	}
}

// The fields of an API like a vendor can be changed: its limits, its form and its silence.
func TestLikeChanged(t *testing.T) {
	api := like(t, "openai")
	api.Limits = one("core", 3, 60, ratelimittest.FixedWindow)
	require.Contains(t, get(t, api, "/").Header, "X-Ratelimit-Reset-Core")

	api = like(t, "discord")
	api.Current = true
	h := get(t, api, "/").Header
	require.Contains(t, h, "Ratelimit")
	require.Contains(t, h, "X-Ratelimit-Bucket")

	api = like(t, "nginx")
	api.Silent, api.Dialects = false, []*ratelimit.Dialect{ratelimit.XRateLimit}
	require.Contains(t, get(t, api, "/").Header, "X-Ratelimit-Remaining")

	api = like(t, "github")
	api.Silent = true
	require.Empty(t, formsOf(get(t, api, "/").Header))
}

// The limits of vendors: how many requests are served at once, and how long the refusal after them
// asks to wait.
func TestLikeLimits(t *testing.T) {
	for _, tc := range []struct {
		vendor string
		served int
		wait   time.Duration // 0 if nothing is asked
	}{
		{"github", 5000, time.Hour},
		{"openai", 500, time.Second},
		{"anthropic", 50, 2 * time.Second},
		{"cloudflare", 1200, 300*time.Second + 250*time.Millisecond}, // the first unit of the next window
		{"express", 60, time.Minute},
		{"nginx", 21, 0},
		{"haproxy", 20, 0},
		{"shopify", 40, 2 * time.Second},
		{"discord", 5, 5 * time.Second},
		{"bare429", 10, 0},
	} {
		t.Run(tc.vendor, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)))
				api := like(t, tc.vendor)
				for range tc.served {
					require.Equal(t, http.StatusOK, get(t, api, "/").StatusCode)
				}
				resp := get(t, api, "/")
				require.Equal(t, ratelimittest.Counts{Served: int64(tc.served), Refused: 1}, api.Counts())
				asked := ratelimit.Advisor{MaxWait: math.MaxInt64}.Advise(resp, time.Now()).Asked
				require.Equal(t, ratelimit.CeilSeconds(tc.wait), ratelimit.CeilSeconds(asked))
			})
		})
	}
}

// A stick table of HAProxy counts refused requests too: a client that does not slow down stays
// refused. With nginx, it gets the rate.
func TestLikeHammered(t *testing.T) {
	for vendor, want := range map[string]int64{"haproxy": 20, "nginx": 21 + 600} {
		synctest.Test(t, func(t *testing.T) {
			api := like(t, vendor)
			for range 1200 {
				get(t, api, "/")
				time.Sleep(50 * time.Millisecond)
			}
			require.InDelta(t, want, api.Counts().Served, 1, vendor)
		})
	}
}

// Resets of Discord end no earlier than the window, by either field.
func TestLikeDiscord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(27*365*24*time.Hour + 300*time.Millisecond + time.Microsecond)
		api, end := like(t, "discord"), time.Now().Add(5*time.Second)
		for range 5 {
			h := get(t, api, "/").Header
			seconds, err := strconv.ParseFloat(h.Get("X-RateLimit-Reset"), 64)
			require.NoError(t, err)
			require.Equal(t, end.Add(time.Millisecond-1).UnixMilli(), int64(math.Round(1000*seconds)))
			after, err := time.ParseDuration(h.Get("X-RateLimit-Reset-After") + "s")
			require.NoError(t, err)
			early := end.Sub(time.Now().Add(after))
			require.True(t, early <= 0 && early > -time.Millisecond, early)
			time.Sleep(123456 * time.Microsecond)
		}
	})
}

// Resets until the whole quota is back, with every kind of limiter. The second request comes 40
// seconds after the first.
func TestUntilFull(t *testing.T) {
	for _, tc := range []struct {
		kind ratelimittest.Kind
		want string
	}{
		{ratelimittest.FixedWindow, "20s"}, {ratelimittest.WindowFromFirst, "20s"}, {ratelimittest.SlidingLog, "1m0s"},
		{ratelimittest.SlidingCounter, "1m20s"}, {ratelimittest.TokenBucket, "10s"}, {ratelimittest.Concurrency, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			api := like(t, "openai")
			api.Limits = one("requests", 6, 60, tc.kind)
			get(t, api, "/")
			time.Sleep(40 * time.Second)
			require.Equal(t, tc.want, get(t, api, "/").Header.Get("X-RateLimit-Reset-Requests"), tc.kind)
		})
	}
}

// Resets of OpenAI and Anthropic are when the whole quota is back, and their Retry-After is when a
// request can be served.
func TestLikeUntilFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for vendor, reset := range map[string]string{"openai": "X-RateLimit-Reset-Requests", "anthropic": "Anthropic-RateLimit-Requests-Reset"} {
			api := like(t, vendor)
			api.Limits = one("requests", 4, 60, ratelimittest.TokenBucket)
			for _, want := range []time.Duration{15 * time.Second, 30 * time.Second, 45 * time.Second, time.Minute, time.Minute} {
				resp := get(t, api, "/")
				text := resp.Header.Get(reset)
				got, err := time.ParseDuration(text)
				if err != nil {
					at, err := time.Parse(time.RFC3339, text)
					require.NoError(t, err)
					got = time.Until(at)
				}
				require.Equal(t, want, got, vendor)
				require.Equal(t, resp.StatusCode != http.StatusOK, resp.Header.Get("Retry-After") == "15")
			}
		}
	})
}
