package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/obey"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// families returns a header with n limits. Each has a remaining and a reset. Their names
// belong to one older form with the policy in the name, or each to its own form.
func families(n int, remaining, reset string) http.Header {
	h := http.Header{"Date": {ratelimit.Late.Format(http.TimeFormat)}}
	for i := range n {
		h[fmt.Sprintf(remaining, i)] = []string{"50"}
		h[fmt.Sprintf(reset, i)] = []string{"30"}
	}
	return h
}

// doubling has headers with a size proportional to n.
var doubling = []struct {
	name string
	make func(n int) http.Header
}{
	{"limits of one form", func(n int) http.Header {
		return families(n, "X-Ratelimit-Remaining-P%d", "X-Ratelimit-Reset-P%d")
	}},
	{"a form for each limit", func(n int) http.Header {
		return families(n, "X-P%d-Ratelimit-Remaining", "X-P%d-Ratelimit-Reset")
	}},
	{"members", func(n int) http.Header {
		var b strings.Builder
		for i := range 2 * n {
			fmt.Fprintf(&b, `"p%d";r=1;t=2, `, i)
		}
		line := strings.TrimSuffix(b.String(), ", ")
		return http.Header{draft.LimitKey: {line}, draft.PolicyKey: {strings.ReplaceAll(strings.ReplaceAll(line, ";t=", ";w="), ";r=", ";q=")}}
	}},
	{"parameters", func(n int) http.Header {
		var b strings.Builder
		for i := range n / 2 { // at most 256 are allowed
			fmt.Fprintf(&b, ";x%d=%d", i, i)
		}
		return http.Header{draft.LimitKey: {`"a";r=1;t=2` + b.String()}, draft.PolicyKey: {`"a";q=5;w=60` + b.String()}}
	}},
	{"lines", func(n int) http.Header {
		h := http.Header{}
		for i := range n {
			h.Add(draft.LimitKey, fmt.Sprintf(`"p%d";r=1;t=2`, i))
			h.Add("X-RateLimit-Remaining", "5")
			h.Add("Retry-After", "1")
			h.Add("X-RateLimit-Limit", "100, 100;w=60")
		}
		return h
	}},
	{"a long name and a long value", func(n int) http.Header {
		name := strings.Repeat("Ratelimit-", n)
		return http.Header{name + "Remaining": {"5"}, "X-Ratelimit-Limit": {strings.Repeat("1;w=", 8*n)}, draft.LimitKey: {strings.Repeat("(", 16*n)}}
	}},
}

// readers are the exported functions that take a header or a response, or what was read from it.
// Functions that join two parties also get the limits of the other party.
var readers = map[string]func(h http.Header, own ratelimit.Fields){
	"Parse":    func(h http.Header, _ ratelimit.Fields) { _, _ = ratelimit.Parse(h) },
	"ParseAny": func(h http.Header, _ ratelimit.Fields) { _, _ = ratelimit.ParseAny(h, ratelimit.LegacyOptions{}) },
	"Format": func(h http.Header, _ ratelimit.Fields) {
		f, _ := ratelimit.Parse(h)
		_, _ = ratelimit.FormatLimits(f.Limits...)
		_, _ = ratelimit.FormatPolicies(f.Policies...)
	},
	"ParseRetryAfter": func(h http.Header, _ ratelimit.Fields) { ratelimit.ParseRetryAfter(h, ratelimit.Late) },
	"Advise":          func(h http.Header, _ ratelimit.Fields) { ratelimit.Advise(answerWith(h), ratelimit.Late) },
	"CheckResponse": func(h http.Header, _ ratelimit.Fields) {
		_ = ratelimit.Advisor{}.CheckResponse(answerWith(h), ratelimit.Late)
	},
	"Check": func(h http.Header, _ ratelimit.Fields) { ratelimittest.Check(answerWith(h)) },
	"Sequence.Add": func(h http.Header, _ ratelimit.Fields) {
		new(ratelimittest.Sequence).Add(answerWith(h), ratelimit.Late, ratelimit.Late)
	},
	"ReadProblem":   func(h http.Header, _ ratelimit.Fields) { _, _ = ratelimit.ReadProblem(answerWith(h)) },
	"HeaderOf":      func(h http.Header, _ ratelimit.Fields) { ratelimit.HeaderOf(h) },
	"Expose":        func(h http.Header, _ ratelimit.Fields) { ratelimit.Expose(h) },
	"Dialect.Set":   func(h http.Header, own ratelimit.Fields) { _ = ratelimit.XRateLimit.Set(h, own, ratelimit.Late) },
	"Fields.Set":    func(h http.Header, own ratelimit.Fields) { _ = own.Set(h) },
	"Fields.Add":    func(h http.Header, own ratelimit.Fields) { _ = own.Add(h) },
	"SetRetryAfter": func(h http.Header, own ratelimit.Fields) { own.SetRetryAfter(h) },
	"RestrictHeader": func(h http.Header, own ratelimit.Fields) {
		_ = ratelimit.RestrictHeader(h, http.StatusTooManyRequests, own, ratelimit.RestrictOptions{})
	},
	"Restrict": func(h http.Header, own ratelimit.Fields) {
		f, _ := ratelimit.ParseAny(h, ratelimit.LegacyOptions{})
		_, _ = ratelimit.Restrict(f, own)
	},
	"Refuse": func(h http.Header, own ratelimit.Fields) {
		_ = announce.Refuse(trial.RecorderOf(h), httptest.NewRequest("GET", "/", nil), own, nil)
	},
	"Handler":          func(h http.Header, own ratelimit.Fields) { handleWith(h, own, http.StatusOK) },
	"Handler, outside": func(h http.Header, own ratelimit.Fields) { handleWith(h, own, 0) },
	"RoundTrip": func(h http.Header, _ ratelimit.Fields) {
		rt := &obey.Transport{Base: trial.RoundTripFunc(func(*http.Request) (*http.Response, error) { return answerWith(h), nil })}
		resp, err := rt.RoundTrip(httptest.NewRequest("GET", trial.Example, nil))
		if err == nil {
			_ = resp.Body.Close()
		}
	},
}

func answerWith(h http.Header) *http.Response {
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: h, Body: http.NoBody}
}

// handleWith calls a Handler with a header. A handler behind it writes the header with a status. If
// status is 0, a limiter in front writes it.
func handleWith(h http.Header, own ratelimit.Fields, status int) {
	m := &announce.Middleware{Take: func(*http.Request) (announce.Decision, error) { return announce.Decision{Fields: own}, nil }, Dialects: []*ratelimit.Dialect{ratelimit.XRateLimit}, OnFault: func(*http.Request, error) {}}
	w := httptest.NewRecorder()
	if status == 0 {
		w = trial.RecorderOf(h)
	}
	m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if status > 0 {
			for key, lines := range h {
				w.Header()[key] = lines
			}
			w.WriteHeader(status)
		}
	})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
}

// TestLinear: in all readers twice the header and twice the limits of the other party take at most
// twice the memory (law 12). BenchmarkSizedHeaders and BenchmarkRestrictHeader measure the times.
func TestLinear(t *testing.T) {
	const n, slack = 250, 128 << 10 // a map doubles at once
	for _, shape := range doubling {
		for name, read := range readers {
			t.Run(shape.name+"/"+name, func(t *testing.T) {
				took := func(n int) uint64 {
					h := shape.make(n)
					own, _ := ratelimit.ParseAny(families(n/2, "X-Ratelimit-Remaining-P%d", "X-Ratelimit-Reset-P%d"), ratelimit.LegacyOptions{Now: ratelimit.Late})
					return trial.Allocated(func() { read(h, own) })
				}
				took(1) // fills the caches
				once := took(n)
				require.LessOrEqual(t, took(2*n), 2*once+once/2+slack, "%d bytes for half of it", once)
				require.Less(t, once, uint64(16<<20))
			})
		}
	}
}

// TestLinearExample: 1000 families in 28 KB take at most 10 MB.
func TestLinearExample(t *testing.T) {
	h := http.Header{}
	for i := range 1000 {
		h[fmt.Sprintf("X-Ratelimit-Remaining-%d", i)] = []string{"50"}
	}
	own := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "g", Remaining: 3, Reset: ratelimit.SecondsOf(60)}}}
	var err error
	require.Less(t, trial.Allocated(func() {
		err = ratelimit.RestrictHeader(h, http.StatusOK, own, ratelimit.RestrictOptions{Legacy: ratelimit.LegacyOptions{Now: ratelimit.Late}})
	}), uint64(10<<20))
	require.NoError(t, err)
	require.Contains(t, h.Get(ratelimit.LimitField), `"g";r=3;t=60`)
}

func BenchmarkLinear(b *testing.B) {
	own := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "g", Remaining: 3, Reset: ratelimit.SecondsOf(60)}}}
	long := http.Header{"X-Ratelimit-Remaining": {"5"}, "X-" + strings.Repeat("Ratelimit-", 100_000): {"5"}}
	for name, h := range map[string]http.Header{
		"1000 families":     families(500, "X-Ratelimit-Remaining-%d", "X-Ratelimit-Reset-%d"),
		"a name of 1000 KB": long,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var err error
			for b.Loop() {
				got := h.Clone()
				err = ratelimit.RestrictHeader(got, http.StatusOK, own, ratelimit.RestrictOptions{Legacy: ratelimit.LegacyOptions{Now: ratelimit.Late}})
			}
			require.NoError(b, err)
		})
	}
}

// TestSizedHeaders: a header of 1 MiB takes little memory (law 12), because most of it is not read.
// The test would not end if any reader took more than linear time.
func TestSizedHeaders(t *testing.T) {
	const room = 8 << 20 // for the results of 1024 fields, or of 16 lines
	took := func(h http.Header) uint64 {
		return trial.Allocated(func() { _ = ratelimit.Advise(&http.Response{Header: h}, ratelimit.Late) })
	}
	took(http.Header{"X-Remaining": {"5"}}) // makes the tables
	for _, tt := range sizedHeaders {
		t.Run(tt.name, func(t *testing.T) {
			h := tt.make(hostileSize)
			require.Less(t, took(h), uint64(room))
			ratelimit.LawHostile(t, h)
			_, _ = ratelimit.ParseRetryAfter(h, ratelimit.Late)
			ratelimit.Expose(h)
			ratelimittest.Check(&http.Response{StatusCode: http.StatusOK, Header: h})
		})
	}
}

// hostileSize is the length of the headers of sizedHeaders. It is the longest header that
// package http reads from a server by default.
const hostileSize = 1 << 20

// ordinaryHeader returns a header of a given length, with fields that are not about limits.
func ordinaryHeader(size int) http.Header { return keysOf(size, "X-Custom-Field-%d", "some value") }

// sizedHeaders are headers of a given length that cost a reader more than ordinary fields.
var sizedHeaders = []struct {
	name string
	make func(size int) http.Header
}{
	{"short names", func(n int) http.Header { return keysOf(n, "A%d", "b") }},
	{"ordinary names, and a remaining", func(n int) http.Header {
		h := ordinaryHeader(n)
		h["X-Foo-Remaining"] = []string{"5"}
		return h
	}},
	{"ordinary names of a family, and a remaining", func(n int) http.Header {
		h := ordinaryHeader(n)
		h["X-Custom-Remaining"] = []string{"5"}
		return h
	}},
	{"glued words", func(n int) http.Header { return keysOf(n, "Limits#Bucketkeyin%d-Limused", "1") }},
	{"glued words behind the anchor", func(n int) http.Header { return keysOf(n, "X-Ratelimit-Limitslimitslimitsx%d", "1") }},
	{"a stop word", func(n int) http.Header { return keysOf(n, "X-Ratelimit-N%d-Url", "1") }},
	{"remaining numbers", func(n int) http.Header { return keysOf(n, "X-P%d-Remaining", "1") }},
	{"limits", func(n int) http.Header { return keysOf(n, "X-Ratelimit-Remaining-N%d", "1") }},
	{"limits of families", func(n int) http.Header { return keysOf(n, "X-N%d-Ratelimit-Remaining", "1") }},
	{"an exception", func(n int) http.Header { return keysOf(n, "X-Mbx-Used-N%d", "1") }},
	{"waits", func(n int) http.Header { return keysOf(n, "X-N%d-Retry-After", "5") }},
	{"lines of a function", func(n int) http.Header { return linesOf(n, "X-App-Usage", "1") }},
	{"lines of JSON", func(n int) http.Header { return linesOf(n, "X-App-Usage", `{"call_count":1}`) }},
	{"lines of remaining numbers", func(n int) http.Header { return linesOf(n, "X-Ratelimit-Remaining", "1") }},
	{"lines of quotas", func(n int) http.Header { return linesOf(n, "X-Ratelimit-Limit", "1") }},
	{"lines of malformed quotas", func(n int) http.Header { return linesOf(n, "X-Ratelimit-Limit", "x") }},
	{"lines of policies", func(n int) http.Header { return linesOf(n, "Ratelimit-Policy", "1;w=1") }},
	{"lines of the Dictionary", func(n int) http.Header { return linesOf(n, "Ratelimit", "limit=1, reset=1") }},
	{"a list of remaining numbers", func(n int) http.Header {
		return http.Header{"X-Ratelimit-Remaining": {strings.Repeat("1, ", n/3) + "1"}}
	}},
	{"a list of resets", func(n int) http.Header { return http.Header{"X-Ratelimit-Reset": {strings.Repeat("1, ", n/3) + "1"}} }},
	{"a list of quotas", func(n int) http.Header { return http.Header{"X-Ratelimit-Limit": {strings.Repeat("1, ", n/3) + "1"}} }},
	{"a long Dictionary", func(n int) http.Header {
		return http.Header{"Ratelimit": {strings.Repeat("limit=1,", n/8) + "reset=1"}}
	}},
	{"parallel lists", func(n int) http.Header {
		list := ratelimit.MembersOf(n/2, "%d, ")
		return http.Header{"X-Ratelimit-Limit": {list}, "X-Ratelimit-Remaining": {list}}
	}},
	{"a record", func(n int) http.Header {
		return http.Header{"X-Ratelimit-Remaining": {ratelimit.MembersOf(n, "n%[1]d=%[1]d;")}}
	}},
	{"bans", func(n int) http.Header {
		return http.Header{"X-Sentry-Rate-Limits": {ratelimit.MembersOf(n, "%[1]d:n%[1]d,")}}
	}},
	{"comments", func(n int) http.Header {
		return http.Header{"Ratelimit-Limit": {ratelimit.MembersOf(n, ";c%[1]d=%[1]d")}}
	}},
	{"Integer policies", func(n int) http.Header {
		return http.Header{"Ratelimit-Policy": {ratelimit.MembersOf(n, "%[1]d;w=%[1]d,")}}
	}},
	{"one Integer policy", func(n int) http.Header { return http.Header{"Ratelimit-Policy": {strings.Repeat("9;w=9,", n/6)}} }},
	{"parameters", func(n int) http.Header { return http.Header{"Ratelimit": {parametersOf(n)}} }},
	{"policies behind the quota", func(n int) http.Header {
		return http.Header{"X-Ratelimit-Limit": {ratelimit.MembersOf(n, "%[1]d;w=%[1]d,")}}
	}},
}

// keysOf returns a header of a given length, with one line in each field.
func keysOf(size int, format, value string) http.Header {
	before, behind, _ := strings.Cut(http.CanonicalHeaderKey(format), "%d")
	h := make(http.Header, size/(len(format)+len(": \r\n")+len(value)))
	for i := 0; size > 0; i++ {
		key := before + strconv.Itoa(i) + behind
		h[key] = []string{value}
		size -= len(key) + len(": \r\n") + len(value)
	}
	return h
}

// parametersOf returns members of a given length in all, with as many parameters as are read.
func parametersOf(size int) string {
	one := `"";r=1`
	for i := range 1024 - 1 {
		one += ";" + strconv.FormatInt(int64(36*36*10+i%(256-1)), 36)
	}
	return strings.Repeat(one+",", size/len(one)-1) + one
}

// linesOf returns a header of a given length, with many lines of one field.
func linesOf(size int, key, value string) http.Header {
	n := size/(len(key)+len(": \r\n")+len(value)) + 1
	return http.Header{key: slices.Repeat([]string{value}, n)}
}

// BenchmarkSizedHeaders reports the cost of sizedHeaders for a client, in multiples of ordinary
// fields of 1 MiB. Law 12 bounds it by ten.
func BenchmarkSizedHeaders(b *testing.B) {
	advise := func(h http.Header) time.Duration {
		start := time.Now()
		ratelimit.Advise(&http.Response{StatusCode: http.StatusOK, Header: h}, ratelimit.Late)
		return time.Since(start)
	}
	ordinary := ordinaryHeader(hostileSize)
	for _, tt := range sizedHeaders {
		h := tt.make(hostileSize)
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			ours, base := advise(h), advise(ordinary)
			for b.Loop() { // the fastest of each, alternately: both see the same machine
				ours, base = min(ours, advise(h)), min(base, advise(ordinary))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(ours)/float64(base), "ratio")
		})
	}
}
