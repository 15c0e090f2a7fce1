package main

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/obey"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// BenchmarkRatios measures the work of clients, servers and intermediaries, relative to one parse of
// one limit by httpsfv. The two take turns, and the fastest round of each counts.
func BenchmarkRatios(b *testing.B) {
	left := announce.FixedWindow{Name: "default", Quota: 100, Used: 50, Window: time.Minute, Left: 30 * time.Second}.Fields()
	spent := announce.FixedWindow{Name: "default", Quota: 100, Used: 100, Window: time.Minute, Left: 30 * time.Second}.Fields()
	header := response("")
	require.NoError(b, left.Set(header))
	resp := &http.Response{StatusCode: http.StatusOK, Header: header}
	r, err := http.NewRequest(http.MethodGet, trial.Example, nil)
	require.NoError(b, err)
	w := &sink{header: response("")}
	problem := ratelimit.NewProblem(ratelimit.QuotaExceeded, "default")
	client := &obey.Transport{Base: trial.RoundTripFunc(func(*http.Request) (*http.Response, error) { return resp, nil })}
	server := (&announce.Middleware{Take: func(*http.Request) (announce.Decision, error) {
		return announce.Decision{Fields: left}, nil
	}}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for _, bc := range []struct {
		name string
		work func() error
	}{
		{"Advise", func() error { return ratelimit.Advise(resp, time.Now()).Malformed }},
		{"RoundTrip", func() error { _, err := client.RoundTrip(r); return err }},
		{"Middleware", func() error { clear(w.header); server.ServeHTTP(w, r); return nil }},
		{"Refuse", func() error { return announce.Refuse(w, r, spent, problem) }},
		{"RestrictHeader, and a copy of the header", func() error {
			return ratelimit.RestrictHeader(maps.Clone(header), http.StatusOK, spent, ratelimit.RestrictOptions{})
		}},
		{"Check", func() error { ratelimittest.Check(resp); return nil }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			ours := inGo(func() (struct{}, error) { return struct{}{}, bc.work() })
			parsed := inGo(func() (httpsfv.List, error) { return httpsfv.UnmarshalList([]string{oneLimit}) })
			for b.Loop() {
				require.NoError(b, ours.turn(time.Millisecond))
				require.NoError(b, parsed.turn(time.Millisecond))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ours.best/parsed.best, "ratio")
		})
	}
}

// A sink is a ResponseWriter that stores only the header.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
