package announce_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/internal/laws"
)

// FuzzMiddleware is law 11 for random Middlewares around each other, and in front of a proxy.
func FuzzMiddleware(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		synctest.Test(t, func(t *testing.T) { // waits are compared to the second
			time.Sleep(time.Duration(rnd.IntN(2)) * time.Until(laws.Passed))
			for range 2 {
				lawStack(t, rnd)
				lawProxy(t, rnd)
			}
		})
	})
}
