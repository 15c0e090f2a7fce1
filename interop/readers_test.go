package interop

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-github/v88/github"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/httpfields/ratelimit"
	"github.com/stretchr/testify/require"
)

// A reader is a library that reads a thousand random Fields, written by this package. README.md has
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
	{"httpsfv", "github.com/dunglas/httpsfv", readByHTTPSFV},
	{"structured-headers", "structured-headers", readByStructuredHeaders},
	{"ratelimit-header-parser, draft 6", "ratelimit-header-parser", readByHeaderParser(ratelimit.Draft06, "seconds")},
	{"ratelimit-header-parser, draft 7", "ratelimit-header-parser", readByHeaderParser(ratelimit.Draft07, "seconds")},
	{"ratelimit-header-parser, X-", "ratelimit-header-parser", readByHeaderParser(ratelimit.XRateLimit, "")},
	{"ratelimit-header-parser, X-, Unix", "ratelimit-header-parser", readByHeaderParser(ratelimit.XRateLimitUnix, "")},
	{"go-retryablehttp", "github.com/hashicorp/go-retryablehttp", readByRetryableHTTP},
	{"go-github", "github.com/google/go-github/v88", readByGoGitHub},
}

// A member of a list, in text: a name and parameters in order, each `key type:value`.
type member struct {
	Name   string
	Params []string
}

func policyMember(p ratelimit.Policy) member {
	m := member{p.Name, []string{parameter("q", p.Quota)}}
	if p.Unit != "" {
		m.Params = append(m.Params, parameter("qu", string(p.Unit)))
	}
	if w, ok := p.Window.Value(); ok {
		m.Params = append(m.Params, parameter("w", w))
	}
	return m.with(p.PartitionKey, p.Params)
}

func limitMember(l ratelimit.Limit) member {
	m := member{l.Name, []string{parameter("r", l.Remaining)}}
	if r, ok := l.Reset.Value(); ok {
		m.Params = append(m.Params, parameter("t", r))
	}
	return m.with(l.PartitionKey, l.Params)
}

func (m member) with(key []byte, params ratelimit.Params) member {
	if key != nil {
		m.Params = append(m.Params, parameter("pk", key))
	}
	for _, p := range params {
		m.Params = append(m.Params, parameter(p.Key, p.Value))
	}
	return m
}

// members returns the two fields as lists.
func members(f ratelimit.Fields) (lists [2][]member) {
	for _, p := range f.Policies {
		lists[0] = append(lists[0], policyMember(p))
	}
	for _, l := range f.Limits {
		lists[1] = append(lists[1], limitMember(l))
	}
	return lists
}

func parameter(key string, value any) string {
	switch v := value.(type) {
	case int64:
		value = "integer:" + strconv.FormatInt(v, 10)
	case float64:
		value = "decimal:" + strconv.FormatFloat(v+0, 'f', -1, 64) // no -0
	case string:
		value = "string:" + v
	case httpsfv.Token:
		value = "token:" + string(v)
	case []byte:
		value = "bytes:" + base64.StdEncoding.EncodeToString(v)
	case bool:
		value = fmt.Sprint("boolean:", v)
	case time.Time:
		value = fmt.Sprint("date:", v.Unix())
	case httpsfv.DisplayString:
		value = "display:" + string(v)
	default:
		value = fmt.Sprintf("%T", value)
	}
	return key + " " + value.(string)
}

func readByHTTPSFV(t *testing.T) {
	list := func(lines []string) (list []member) {
		parsed, err := httpsfv.UnmarshalList(lines)
		require.NoError(t, err)
		for _, item := range parsed {
			item := item.(httpsfv.Item)
			m := member{Name: item.Value.(string)}
			for _, key := range item.Params.Names() {
				value, _ := item.Params.Get(key)
				m.Params = append(m.Params, parameter(key, value))
			}
			list = append(list, m)
		}
		return list
	}
	r := newRandom(ratelimit.MaxInteger)
	for range thousand {
		f := r.fields()
		h := http.Header{}
		require.NoError(t, f.Set(h))
		got := [2][]member{list(h.Values(ratelimit.PolicyField)), list(h.Values(ratelimit.LimitField))}
		require.Equal(t, members(f), got)
	}
}

func readByStructuredHeaders(t *testing.T) {
	// JavaScript has one type for numbers.
	number := strings.NewReplacer(" integer:", " number:", " decimal:", " number:")
	var in [][2]string
	var want, got [][2][]member
	r := newRandom(ratelimit.MaxInteger)
	r.types = withoutDates
	for range thousand {
		f := r.fields()
		h := http.Header{}
		require.NoError(t, f.Set(h))
		in = append(in, [2]string{h.Get(ratelimit.PolicyField), h.Get(ratelimit.LimitField)})
		lists := members(f)
		for _, list := range lists {
			for _, m := range list {
				for i := range m.Params {
					key, value, _ := strings.Cut(m.Params[i], " ")
					m.Params[i] = key + number.Replace(" "+value)
				}
			}
		}
		want = append(want, lists)
	}
	batch(t, "structured-headers.mjs", in, &got)
	require.Equal(t, want, got)
}

// written writes a random limit in an older form. It returns the limit and its policy, without the
// numbers that this form cannot express.
func written(t *testing.T, r random, d *ratelimit.Dialect, now time.Time) (http.Header, ratelimit.Policy, ratelimit.Limit) {
	t.Helper()
	for {
		f := r.fields()
		if len(f.Limits) != 1 || f.Limits[0].Name == "" { // a missing name becomes "default"
			continue
		}
		l := f.Limits[0]
		p, ok := f.PolicyOf(l)
		if f.Policies = []ratelimit.Policy{p}; !ok {
			f.Policies, p.Quota = nil, ratelimit.Unknown
		}
		reset, announced := l.Reset.Value()
		if window, ok := p.Window.Value(); ok && (reset > window || !announced) {
			continue // the first would be milliseconds, and the second the window, if nothing remains
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
		r.types = rfc8941Types
		for range thousand {
			h, p, l := written(t, r, d, now)
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

// retryAfters writes Retry-After for random Fields, and calls read with the expected wait.
func retryAfters(t *testing.T, read func(h http.Header, want time.Duration)) {
	r := newRandom(century)
	for n := 0; n < thousand; {
		f := r.fields()
		for i := range f.Policies { // without a reset, the window is the wait
			if w, ok := f.Policies[i].Window.Value(); ok {
				f.Policies[i].Window = ratelimit.SecondsOf(min(w, century))
			}
		}
		want, ok := f.RetryAfter().Duration()
		if !ok {
			continue
		}
		h := http.Header{}
		f.SetRetryAfter(h)
		read(h, want)
		n++
	}
}

// A waits is a server in this process. It refuses the first request, serves the second, and
// measures the time between them. In a bubble of synctest this is exactly the client's wait.
type waits struct {
	refusal http.Header
	first   time.Time
	waited  time.Duration
}

func (w *waits) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
	if w.first.IsZero() {
		w.first = time.Now()
		resp.StatusCode, resp.Header = http.StatusTooManyRequests, w.refusal
	} else {
		w.waited = time.Since(w.first)
	}
	return resp, nil
}

func readByRetryableHTTP(t *testing.T) {
	retryAfters(t, func(h http.Header, want time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			server := &waits{refusal: h}
			client := retryablehttp.NewClient()
			client.HTTPClient, client.Logger = &http.Client{Transport: server}, nil
			resp, err := client.Get("http://api.example/")
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, server.waited)
		})
	})
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
		h, p, l := written(t, r, ratelimit.GitHub, now)
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
