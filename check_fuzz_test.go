package ratelimit

import (
	"testing"

	"github.com/httpfields/ratelimit/internal/trial"
)

func FuzzCheck(f *testing.F) {
	addResponses(f)
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
