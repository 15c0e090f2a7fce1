package google

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
)

func TestGoogle(t *testing.T) {
	for _, form := range []string{"%s", "[%s\n]\n"} {
		fake.FiveWorkers(t, ratelimit.Advisor{Refused: retryInfo}, http.StatusTooManyRequests, func(left time.Duration) string {
			return fmt.Sprintf(form, fmt.Sprintf(`{"error": {"code": 429, "message": "You exceeded your current quota.", "status": "RESOURCE_EXHAUSTED", "details": [
				{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaValue": "15"}]},
				{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "%.9fs"}]}}`, left.Seconds()))
		})
	}
}
