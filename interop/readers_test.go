package interop

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-github/v88/github"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A reader is a library that reads a thousand random limits, written by this package. README.md has
// the form, what is compared, and remarks.
type reader struct {
	name   string
	module string // README.md shows its version
	read   func(t *testing.T)
}

const thousand = 1000

// century is the longest reset for readers that store it as an instant or in a Duration,
// which ends after 292 years.
const century = 100 * 365 * 24 * 60 * 60

// readers are all libraries that read this package's fields.
var readers = []reader{
	{"ratelimit-header-parser, draft 6", "ratelimit-header-parser", readByHeaderParser(ratelimit.Draft06, "seconds")},
	{"ratelimit-header-parser, draft 7", "ratelimit-header-parser", readByHeaderParser(ratelimit.Draft07, "seconds")},
	{"ratelimit-header-parser, X-", "ratelimit-header-parser", readByHeaderParser(ratelimit.XRateLimit, "")},
	{"ratelimit-header-parser, X-, Unix", "ratelimit-header-parser", readByHeaderParser(ratelimit.XRateLimitUnix, "")},
	{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", readByRetryableHTTP},
	{"go-github", "github.com/google/go-github/v88", readByGoGitHub},
}

// A random makes valid limits. The same seed makes the same limits.
type random struct {
	*rand.Rand
	// reset is the highest reset, for forms and readers with a bound.
	reset int64
}

func newRandom(reset int64) random { return random{rand.New(rand.NewPCG(9651, 9110)), reset} }

// upTo returns a number from 0 to most. All numbers of digits are equally likely.
func (r random) upTo(most int64) int64 {
	magnitude := int64(1)
	for range r.IntN(16) {
		magnitude *= 10
	}
	return r.Int64N(min(most, magnitude) + 1)
}

// name returns printable ASCII.
func (r random) name() string {
	b := make([]byte, 1+r.IntN(8))
	for i := range b {
		b[i] = byte(' ' + r.IntN('~'-' '+1))
	}
	return string(b)
}

// written writes a random limit in an older form. It returns the limit and its policy. If the response
// has no policy, the quota is unknown.
func (r random) written(t *testing.T, d *ratelimit.Dialect, now time.Time) (http.Header, ratelimit.Policy, ratelimit.Limit) {
	t.Helper()
	for {
		p := ratelimit.Policy{Name: r.name(), Quota: r.upTo(ratelimit.MaxInteger)}
		l := ratelimit.Limit{Name: p.Name}
		if r.IntN(3) > 0 {
			l.Remaining = r.upTo(p.Quota)
		}
		if r.IntN(5) > 0 {
			reset := r.upTo(r.reset)
			l.Reset = ratelimit.SecondsOf(reset)
			if r.IntN(3) > 0 { // if it were shorter than the reset, the reset would be milliseconds
				p.Window = ratelimit.SecondsOf(reset + 1 + r.upTo(r.reset))
			}
		}
		f := ratelimit.Fields{Policies: []ratelimit.Policy{p}, Limits: []ratelimit.Limit{l}}
		if r.IntN(4) == 0 {
			f.Policies, p.Quota = nil, ratelimit.Unknown
		}
		h := http.Header{}
		err := d.Set(h, f, now)
		if errors.Is(err, ratelimit.ErrMissing) {
			continue // draft-07 requires quota and reset
		}
		require.NoError(t, err, "%v", f)
		return h, p, l
	}
}

func readByHeaderParser(d *ratelimit.Dialect, unit string) func(*testing.T) {
	type rate struct {
		Limit, Remaining, Reset *int64 // nil if absent
	}
	type question struct {
		Headers map[string]string
		Reset   string // its unit; "" if the library decides
	}
	return func(t *testing.T) {
		now := time.Now()
		var in []question
		var want, got []rate
		// Thirty years: a longer reset would be read as a Unix time.
		r := newRandom(30 * 365 * 24 * 60 * 60)
		for range thousand {
			h, p, l := r.written(t, d, now)
			q := question{Headers: map[string]string{}, Reset: unit}
			for key := range h {
				q.Headers[key] = h.Get(key)
			}
			in = append(in, q)
			w := rate{Remaining: &l.Remaining}
			if p.Quota != ratelimit.Unknown {
				w.Limit = &p.Quota
			}
			if reset, ok := l.Reset.Value(); ok {
				reset += now.Unix()
				w.Reset = &reset
			}
			want = append(want, w)
		}
		batch(t, "ratelimit-header-parser.mjs", in, &got)
		passed := time.Since(now)
		require.Len(t, got, len(want))
		for i := range want {
			if want[i].Reset != nil && got[i].Reset != nil {
				// The library counts seconds from the moment when it reads them.
				require.InDelta(t, *want[i].Reset, *got[i].Reset, passed.Seconds()+1)
				want[i].Reset = got[i].Reset
			}
			require.Equal(t, want[i], got[i], "%v", in[i])
		}
	}
}

// The first request is refused, and the second is served. In a bubble of synctest, the time between
// them is exactly the client's wait.
func readByRetryableHTTP(t *testing.T) {
	r := newRandom(century)
	for range thousand {
		f := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "a", Reset: ratelimit.SecondsOf(r.upTo(r.reset))}}}
		h := http.Header{}
		f.SetRetryAfter(h)
		want, ok := f.RetryAfter().Duration()
		require.True(t, ok)
		synctest.Test(t, func(t *testing.T) {
			var sent []time.Time
			client := retryablehttp.NewClient()
			client.Logger = nil
			client.HTTPClient = &http.Client{Transport: trial.RoundTripFunc(func(*http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				if sent = append(sent, time.Now()); len(sent) == 1 {
					w = trial.RecorderOf(h)
					w.WriteHeader(http.StatusTooManyRequests)
				}
				return w.Result(), nil
			})}
			resp, err := client.Get(trial.Example)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Len(t, sent, 2)
			require.Equal(t, want, sent[1].Sub(sent[0]))
		})
	}
}

func readByGoGitHub(t *testing.T) {
	var answer atomic.Pointer[http.Header]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for key, lines := range *answer.Load() {
			w.Header()[key] = lines
		}
		if w.Header().Get("X-RateLimit-Remaining") == "0" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer server.Close()
	url := server.URL + "/"
	client, err := github.NewClient(github.WithURLs(&url, &url))
	require.NoError(t, err)
	// The client must send a request even though nothing remains.
	ctx := context.WithValue(t.Context(), github.BypassRateLimitCheck, true)

	now := time.Now()
	r := newRandom(century)
	for range thousand {
		h, p, l := r.written(t, ratelimit.GitHub, now)
		want := github.Rate{Limit: int(p.Quota), Remaining: int(l.Remaining), Used: int(p.Quota - l.Remaining)}
		if p.Quota == ratelimit.Unknown {
			want.Limit, want.Used = 0, 0 // absent
		}
		if reset, ok := l.Reset.Value(); ok {
			want.Reset = github.Timestamp{Time: time.Unix(now.Unix()+reset, 0)}
		}
		// Names with a space at the end are left out, because a field cannot contain them.
		if h.Get("X-RateLimit-Resource") != "" {
			want.Resource = l.Name
		}

		answer.Store(&h)
		req, err := client.NewRequest(ctx, http.MethodGet, "rate", nil)
		require.NoError(t, err)
		resp, err := client.Do(req, io.Discard)
		if l.Remaining == 0 {
			var refused *github.RateLimitError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, want, refused.Rate)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, want, resp.Rate)
	}
}
