package ratelimit

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkAdvise(b *testing.B) {
	limit := responseOf(unrelated)
	limit.Header[limitKey] = []string{benchLimit}
	for _, bc := range []struct {
		name   string
		resp   *http.Response
		limits int
	}{
		{"silent", responseOf(unrelated), 0},
		{"limit", limit, 1},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			var a Advice
			for b.Loop() {
				a = Advisor{}.Advise(bc.resp, arrival)
			}
			require.Len(b, a.Fields.Limits, bc.limits)
		})
	}
}

// shelf is a base that answers out of memory.
type shelf struct{ resp *http.Response }

func (s *shelf) RoundTrip(*http.Request) (*http.Response, error) { return s.resp, nil }

func BenchmarkRoundTrip(b *testing.B) {
	req := newRequest(b, example)
	few := &http.Response{Header: http.Header{
		"Content-Type": {"text/plain"}, "Content-Length": {"2"}, "Date": {"Sat, 21 Nov 2026 03:00:00 GMT"},
	}}
	limit := &http.Response{Header: few.Header.Clone()}
	limit.Header[limitKey] = []string{benchLimit}
	for _, bc := range []struct {
		name string
		resp *http.Response
	}{
		{"silent", few},
		{"limit", limit},
	} {
		base := &shelf{bc.resp}
		for _, rt := range []struct {
			name string
			http.RoundTripper
		}{
			{"base", base},
			{"transport", &Transport{Base: base}},
		} {
			b.Run(bc.name+"/"+rt.name, func(b *testing.B) {
				b.ReportAllocs()
				var resp *http.Response
				var err error
				for b.Loop() {
					resp, err = rt.RoundTrip(req)
				}
				require.NoError(b, err)
				require.Same(b, bc.resp, resp)
			})
		}
	}
}

func TestRoundTripAllocations(t *testing.T) {
	rt := &Transport{Base: &shelf{responseOf(unrelated)}}
	req := newRequest(t, example)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = rt.RoundTrip(req) }), 1.0)
}
