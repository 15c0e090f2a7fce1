package ratelimittest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// A vendor defines how a server limits requests. Like copies the fields that an API has too.
type vendor struct {
	name         string
	limits       []Limit
	dialect      *ratelimit.Dialect // nil is the current form
	status       int
	silent, bare bool
	cost         func(*http.Request) map[ratelimit.Unit]int64

	own           bool                          // finish writes the limits in place of the current fields
	finish        func(h http.Header, v *visit) // changes the header of a response that announces limits
	untilFull     bool                          // resets are when the whole quota is back
	countsRefused bool                          // refused requests use units too
	leastWait     time.Duration                 // the shortest Retry-After
	body          string                        // of a refusal, in place of a problem document
	html          bool                          // the body is HTML, not JSON
}

// The limits are from a small account, or from a documented example. The fields, the statuses and the
// forms of the values are from the responses in testdata/vendors.txt.
var vendors = []vendor{
	{
		name: "github", limits: []Limit{limit("core", 5000, 3600, "", WindowFromFirst)}, dialect: ratelimit.GitHub,
		status: http.StatusForbidden, bare: true, body: `{"message":"API rate limit exceeded"}`,
	}, {
		name: "openai", dialect: ratelimit.OpenAI, cost: modelCost, finish: openAIResets, untilFull: true,
		limits: []Limit{limit("requests", 500, 60, "", TokenBucket), limit("tokens", 30_000, 60, "tokens", TokenBucket)},
		body:   `{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
	}, {
		name: "anthropic", dialect: ratelimit.Anthropic, cost: modelCost, untilFull: true,
		limits: []Limit{
			limit("requests", 50, 60, "", TokenBucket), limit("tokens", 38_000, 60, "tokens", TokenBucket),
			limit("input-tokens", 30_000, 60, "input-tokens", TokenBucket), limit("output-tokens", 8000, 60, "output-tokens", TokenBucket),
		},
		body: `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit"}}`,
	}, {
		name: "cloudflare", limits: []Limit{limit("default", 1200, 300, "", SlidingCounter)},
		body: `{"success":false,"errors":[{"code":971,"message":"Please wait and consider throttling your request speed"}]}`,
	}, { // express-rate-limit with standardHeaders: 'draft-8'; the key is the hash of an address
		name: "express", finish: expressSpaces, html: true, body: "Too many requests, please try again later.",
		limits: []Limit{{Kind: WindowFromFirst, Policy: ratelimit.Policy{
			Name: "60-in-1min", Quota: 60, Window: ratelimit.SecondsOf(60), PartitionKey: []byte("12ca17b49af2"),
		}}},
	}, { // limit_req with rate=10r/s, and burst=20 nodelay; limit_req_status is 503 by default
		name: "nginx", silent: true, bare: true, status: http.StatusServiceUnavailable, html: true,
		limits: []Limit{{Kind: TokenBucket, Burst: 21, Policy: ratelimit.Policy{Quota: 10, Window: ratelimit.SecondsOf(1)}}},
		body:   "<html>\n<head><title>503 Service Temporarily Unavailable</title></head>\n</html>\n",
	}, { // a stick table with http_req_rate(10s), which counts denied requests too
		name: "haproxy", limits: []Limit{limit("", 20, 10, "", SlidingCounter)}, silent: true, bare: true,
		countsRefused: true, html: true, body: "<html><body><h1>429 Too Many Requests</h1>\n</body></html>\n",
	}, { // the REST API: a bucket that leaks two requests a second
		name: "shopify", limits: []Limit{limit("shop", 40, 20, "", TokenBucket)}, own: true, finish: shopifyCallLimit,
		leastWait: 2 * time.Second, body: `{"errors":"Exceeded 2 calls per second for api client."}`,
	}, {
		name: "discord", limits: []Limit{limit("abcd1234", 5, 5, "", WindowFromFirst)}, own: true, finish: discordBucket,
		body: `{"message":"You are being rate limited.","global":false}`,
	},
	{name: "bare429", limits: []Limit{limit("", 10, 10, "", WindowFromFirst)}, silent: true, bare: true},
}

func limit(name string, quota, window int64, unit ratelimit.Unit, kind Kind) Limit {
	return Limit{Policy: ratelimit.Policy{Name: name, Quota: quota, Window: ratelimit.SecondsOf(window), Unit: unit}, Kind: kind}
}

// Like returns an API that announces and refuses as a vendor does: "github", "openai",
// "anthropic", "cloudflare", "express", "nginx", "haproxy", "shopify", "discord", "bare429". Its
// fields may be changed before the first request. With a smaller quota, tests are shorter:
//
//	api, err := ratelimittest.Like("github")
//	…
//	api.Limits[0].Policy.Quota = 3
//
// "nginx", "haproxy" and "bare429" announce nothing, and refuse without Retry-After. For "openai" and
// "anthropic" a request of n bytes takes n ÷ 4 input tokens, at least one, and as many output tokens.
// If the name is unknown, the error lists all names.
func Like(vendor string) (*API, error) {
	var names []string
	for _, v := range vendors {
		if v.name != vendor {
			names = append(names, v.name)
			continue
		}
		a := &API{Limits: slices.Clone(v.limits), Status: v.status, Silent: v.silent, Bare: v.bare, Cost: v.cost, like: v}
		if v.dialect != nil {
			a.Dialects = []*ratelimit.Dialect{v.dialect}
		}
		return a, nil
	}
	return nil, fmt.Errorf("ratelimittest: unknown vendor %.20q: use %s", vendor, strings.Join(names, ", "))
}

// modelCost is the Cost of a language model.
func modelCost(r *http.Request) map[ratelimit.Unit]int64 {
	const bytesPerToken = 4
	n := max(r.ContentLength/bytesPerToken, 1)
	return map[ratelimit.Unit]int64{"input-tokens": n, "output-tokens": n, "tokens": 2 * n}
}

// openAIResets writes resets with their milliseconds, such as 120ms.
func openAIResets(h http.Header, v *visit) {
	for _, s := range v.states {
		key := http.CanonicalHeaderKey("X-RateLimit-Reset-" + s.limit.Name)
		if len(h[key]) > 0 {
			h[key] = []string{ceilMilli(s.reset).String()}
		}
	}
}

// ceilMilli rounds up to milliseconds.
func ceilMilli(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// expressSpaces writes the fields as express-rate-limit does: with spaces, and without the key in
// RateLimit.
func expressSpaces(h http.Header, v *visit) {
	f := fieldsOf(v.states)
	for i := range f.Limits {
		f.Limits[i].PartitionKey = nil
	}
	must("the current fields", f.Set(h))
	for _, key := range []string{"Ratelimit", "Ratelimit-Policy"} {
		for i, line := range h[key] {
			h[key][i] = strings.ReplaceAll(line, ";", "; ")
		}
	}
}

// shopifyCallLimit writes how much is used, as 32/40, and Retry-After as 2.0.
func shopifyCallLimit(h http.Header, v *visit) {
	s := v.tightest()
	h.Set("X-Shopify-Shop-Api-Call-Limit", fmt.Sprintf("%d/%d", s.policy.Quota-s.limit.Remaining, s.policy.Quota))
	if wait := h.Get("Retry-After"); wait != "" {
		h.Set("Retry-After", wait+".0")
	}
}

// tightest returns the state that [ratelimit.Fields.Tightest] selects.
func (v *visit) tightest() *state {
	l, _ := fieldsOf(v.states).Tightest()
	return &v.states[slices.IndexFunc(v.states, func(s state) bool { return s.limit.Name == l.Name })]
}

// discordBucket writes the limit with the least left, and both of its resets in milliseconds.
func discordBucket(h http.Header, v *visit) {
	s := v.tightest()
	h.Set("X-RateLimit-Limit", fmt.Sprint(s.policy.Quota))
	h.Set("X-RateLimit-Remaining", fmt.Sprint(s.limit.Remaining))
	h.Set("X-RateLimit-Bucket", s.limit.Name)
	if s.reset != unknown {
		end := v.now.Add(s.reset + time.Millisecond - 1).UnixMilli() // rounded up
		h.Set("X-RateLimit-Reset", fmt.Sprintf("%d.%03d", end/1000, end%1000))
		h.Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", ceilMilli(s.reset).Seconds()))
	}
	if v.refused() {
		h.Set("X-RateLimit-Scope", "user")
	}
}
