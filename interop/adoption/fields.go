// Package adoption has code for other projects that announce limits. README.md describes it.
package adoption

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/utils"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

// rateLimitFields returns RateLimit-Policy and RateLimit with a member for each limit of a
// request. A limit without a name is called after its unit, such as minute; a second one
// minute-2. Envoy appends both headers, so members of the upstream service remain.
func rateLimitFields(statuses []*pb.RateLimitResponse_DescriptorStatus) ([]*core.HeaderValue, error) {
	var fields ratelimit.Fields
	used := map[string]int{}
	for _, status := range statuses {
		limit := status.GetCurrentLimit()
		if limit == nil {
			continue // no limit matches the descriptor, or it is unlimited
		}
		name := cmp.Or(limit.Name, strings.ToLower(limit.Unit.String()))
		if used[name]++; used[name] > 1 {
			name = fmt.Sprint(name, "-", used[name])
		}
		window := announce.FixedWindow{
			Name:   name,
			Quota:  int64(limit.RequestsPerUnit),
			Used:   int64(limit.RequestsPerUnit) - int64(status.LimitRemaining),
			Window: time.Duration(utils.UnitToDivider(limit.Unit)) * time.Second,
			Left:   status.DurationUntilReset.AsDuration(),
		}
		fields = fields.Join(window.Fields())
	}
	h := http.Header{}
	if err := fields.Add(h); err != nil {
		return nil, err // a configured name that is not ASCII; Fields.Validate finds it at start
	}
	var headers []*core.HeaderValue
	for _, key := range []string{ratelimit.PolicyField, ratelimit.LimitField} {
		if value := h.Get(key); value != "" { // without limits there is nothing to announce
			headers = append(headers, &core.HeaderValue{Key: key, Value: value})
		}
	}
	return headers, nil
}
