package openrouter

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
)

func TestOpenRouter(t *testing.T) {
	fake.FiveWorkers(t, ratelimit.Advisor{Refused: inBody}, http.StatusTooManyRequests, func(left time.Duration) string {
		return fmt.Sprintf(`{"error": {"message": "Rate limit exceeded: free-models-per-min. ", "code": 429, "metadata": {"headers":
			{"X-RateLimit-Limit": "16", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "%d"}}}}`, time.Now().Add(left).UnixMilli())
	})
}
