package ratelimit

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// shelf is a base that answers out of memory.
type shelf struct{ resp *http.Response }

func (s *shelf) RoundTrip(*http.Request) (*http.Response, error) { return s.resp, nil }

func TestRoundTripAllocations(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lines string
		want  float64
	}{
		{"no fields", "", 1},
		{"current fields", LimitField + ": " + benchLimit, 4},
		{"older fields", "X-RateLimit-Limit: 60\nX-RateLimit-Remaining: 50\nX-RateLimit-Reset: 30", 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rt := &Transport{Base: &shelf{responseOf(unrelated + tc.lines)}}
			req := newRequest(t, example)
			require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = rt.RoundTrip(req) }), tc.want)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, tc.lines != "", (Advisor{}).Advise(resp, arrival).Pace > 0)
		})
	}
}

// What a Transport costs, as ratios: a response without fields against reading it,
// many keys against one, and one with the current fields against a parse by httpsfv.
func BenchmarkRoundTripRatios(b *testing.B) {
	requests := func(n int) (list []*http.Request) {
		for i := range n {
			list = append(list, newRequest(b, "http://"+strconv.Itoa(i)+".example/"))
		}
		return list
	}
	silent := responseOf(unrelated)
	for _, bc := range []struct {
		name string
		one  func(*Transport, *http.Request)
		keys int
		resp *http.Response
	}{
		{"silent against ParseAny", func(rt *Transport, _ *http.Request) {
			if _, err := ParseAny(silent.Header, LegacyOptions{}); err != nil {
				b.Fatal(err)
			}
		}, 1, silent},
		{"2000 keys against one", roundTrip, 2000, responseOf(unrelated + LimitField + ": " + benchLimit)},
		{"current fields against httpsfv", func(*Transport, *http.Request) {
			if _, err := oracleLimits(benchLimit); err != nil {
				b.Fatal(err)
			}
		}, 1, &http.Response{Header: http.Header{limitKey: {benchLimit}}}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			one, all := requests(1)[0], requests(bc.keys)
			few, many := &Transport{Base: &shelf{bc.resp}}, &Transport{Base: &shelf{bc.resp}}
			i := 0
			benchRatio(b, func() {
				roundTrip(many, all[i%len(all)])
				i++
			}, func() { bc.one(few, one) })
		})
	}
}

func roundTrip(rt *Transport, req *http.Request) {
	if resp, err := rt.RoundTrip(req); err != nil || resp == nil {
		panic("no response")
	}
}
