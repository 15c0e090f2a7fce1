package ratelimittest

import (
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
)

// FuzzCheck checks that findings about any response are complete.
func FuzzCheck(f *testing.F) {
	for _, tc := range lintCases {
		if len(tc.wire) < 1000 {
			f.Add(302, tc.wire, int64(1795230000), int64(time.Second))
		}
	}
	for _, v := range trial.ReadVectors[trial.ResponseVector](f, "advice") {
		f.Add(v.Status, strings.Join(trial.BytesOf(v.Header), "\n"), int64(0), int64(0))
	}
	for _, v := range trial.ReadVectors[struct{ Lines []string }](f, "limits") {
		for _, s := range trial.BytesOf(v.Lines) {
			f.Add(429, "RateLimit: "+s+"\nRateLimit-Policy: "+s+"\nRetry-After: "+s, int64(-1<<62), int64(-5))
		}
	}
	f.Fuzz(func(t *testing.T, status int, lines string, trailers, _ int64) {
		resp, _ := trial.AnyResponse(lines)
		resp.StatusCode = status
		if trailers < 0 {
			resp.Trailer = resp.Header
		}
		for _, found := range Check(resp) {
			lawFinding(t, found)
		}
	})
}
