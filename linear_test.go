package ratelimit

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// families returns a header with n limits. Each has a remaining and a reset. Their names
// belong to one older form with the policy in the name, or each to its own form.
func families(n int, remaining, reset string) http.Header {
	h := http.Header{dateKey: {late.Format(http.TimeFormat)}}
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
		return http.Header{limitKey: {line}, policyKey: {strings.ReplaceAll(strings.ReplaceAll(line, ";t=", ";w="), ";r=", ";q=")}}
	}},
	{"lines", func(n int) http.Header {
		h := http.Header{}
		for i := range n {
			h.Add(limitKey, fmt.Sprintf(`"p%d";r=1;t=2`, i))
			h.Add("X-RateLimit-Remaining", "5")
			h.Add("Retry-After", "1")
			h.Add("X-RateLimit-Limit", "100, 100;w=60")
		}
		return h
	}},
	{"a long name and a long value", func(n int) http.Header {
		name := strings.Repeat("Ratelimit-", n)
		return http.Header{name + "Remaining": {"5"}, "X-Ratelimit-Limit": {strings.Repeat("1;w=", 8*n)}, limitKey: {strings.Repeat("(", 16*n)}}
	}},
}

// readers are the exported functions that take a header or a response. Functions that join
// two parties also get the limits of the other party.
var readers = map[string]func(h http.Header, own Fields){
	"Parse":           func(h http.Header, _ Fields) { _, _ = Parse(h) },
	"ParseAny":        func(h http.Header, _ Fields) { _, _ = ParseAny(h, LegacyOptions{}) },
	"ParseRetryAfter": func(h http.Header, _ Fields) { ParseRetryAfter(h, late) },
	"Advise":          func(h http.Header, _ Fields) { Advise(answerWith(h), late) },
	"CheckResponse":   func(h http.Header, _ Fields) { _ = Advisor{}.CheckResponse(answerWith(h), late) },
	"Check":           func(h http.Header, _ Fields) { Check(answerWith(h)) },
	"Sequence.Add":    func(h http.Header, _ Fields) { new(Sequence).Add(answerWith(h), late, late) },
	"ReadProblem":     func(h http.Header, _ Fields) { _, _ = ReadProblem(answerWith(h)) },
	"HeaderOf":        func(h http.Header, _ Fields) { HeaderOf(h) },
	"Expose":          func(h http.Header, _ Fields) { Expose(h) },
	"Dialect.Set":     func(h http.Header, own Fields) { _ = XRateLimit.Set(h, own, late) },
	"Fields.Set":      func(h http.Header, own Fields) { _ = own.Set(h) },
	"Fields.Add":      func(h http.Header, own Fields) { _ = own.Add(h) },
	"SetRetryAfter":   func(h http.Header, own Fields) { own.SetRetryAfter(h) },
	"RestrictHeader": func(h http.Header, own Fields) {
		_ = RestrictHeader(h, http.StatusTooManyRequests, own, LegacyOptions{})
	},
	"Restrict": func(h http.Header, own Fields) { f, _ := ParseAny(h, LegacyOptions{}); _, _ = Restrict(f, own) },
	"Refuse": func(h http.Header, own Fields) {
		_ = Refuse(recorderOf(h), httptest.NewRequest("GET", "/", nil), own, nil)
	},
	"Handler":          func(h http.Header, own Fields) { handleWith(h, own, http.StatusOK) },
	"Handler, outside": func(h http.Header, own Fields) { handleWith(h, own, 0) },
	"RoundTrip": func(h http.Header, _ Fields) {
		rt := &Transport{Base: roundTripFunc(func(*http.Request) (*http.Response, error) { return answerWith(h), nil })}
		resp, err := rt.RoundTrip(httptest.NewRequest("GET", example, nil))
		if err == nil {
			_ = resp.Body.Close()
		}
	},
}

func answerWith(h http.Header) *http.Response {
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: h, Body: http.NoBody}
}

func recorderOf(h http.Header) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	maps.Copy(w.Header(), h)
	return w
}

// handleWith calls a Handler with a header. A handler behind it writes the header with a status. If
// status is 0, a limiter in front writes it.
func handleWith(h http.Header, own Fields, status int) {
	m := &Middleware{Take: decide(Decision{Fields: own}, nil), Dialects: []*Dialect{XRateLimit}, OnFault: func(*http.Request, error) {}}
	w := httptest.NewRecorder()
	if status == 0 {
		w = recorderOf(h)
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
					own, _ := ParseAny(families(n/2, "X-Ratelimit-Remaining-P%d", "X-Ratelimit-Reset-P%d"), LegacyOptions{Now: late})
					return allocated(func() { read(h, own) })
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
	own := Fields{Limits: []Limit{{Name: "g", Remaining: 3, Reset: SecondsOf(60)}}}
	var err error
	require.Less(t, allocated(func() { err = RestrictHeader(h, http.StatusOK, own, LegacyOptions{Now: late}) }), uint64(10<<20))
	require.NoError(t, err)
	require.Contains(t, h.Get(LimitField), `"g";r=3;t=60`)
}

func BenchmarkLinear(b *testing.B) {
	own := Fields{Limits: []Limit{{Name: "g", Remaining: 3, Reset: SecondsOf(60)}}}
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
				err = RestrictHeader(got, http.StatusOK, own, LegacyOptions{Now: late})
			}
			require.NoError(b, err)
		})
	}
}
