package ratelimittest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// A vendor is what the fields of an API cannot express of a server. The zero vendor is none.
type vendor struct {
	own           bool                          // finish writes the limits in place of the current fields
	finish        func(h http.Header, v *visit) // changes the header of a response that announces limits
	untilFull     bool                          // resets are when the whole quota is back
	countsRefused bool                          // refused requests use units too
	leastWait     time.Duration                 // the shortest Retry-After
	contentType   string                        // of body
	body          string                        // of a refusal, in place of a problem document
}

// A likeness is how a vendor limits requests.
type likeness struct {
	name string
	API  func() *API
}

// The limits are those of a small account, or of the documented example. testdata/vendors.txt has
// the responses that the fields, the statuses and the forms of the values are from.
var likenesses = []likeness{
	{"github", func() *API {
		// The primary limit of REST requests. A secondary limit is not announced.
		return &API{
			Limits:   []Limit{limit("core", 5000, 3600, "", WindowFromFirst)},
			Dialects: []*ratelimit.Dialect{ratelimit.GitHub}, Status: http.StatusForbidden, Bare: true,
			like: vendor{contentType: jsonType, body: `{"message":"API rate limit exceeded"}`},
		}
	}},
	{"openai", func() *API {
		return &API{
			Limits: []Limit{
				limit("requests", 500, 60, "", TokenBucket),
				limit("tokens", 30_000, 60, "tokens", TokenBucket),
			},
			Dialects: []*ratelimit.Dialect{ratelimit.OpenAI}, Cost: modelCost,
			like: vendor{
				finish: openAIResets, untilFull: true, contentType: jsonType,
				body: `{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
			},
		}
	}},
	{"anthropic", func() *API {
		return &API{
			Limits: []Limit{
				limit("requests", 50, 60, "", TokenBucket),
				limit("tokens", 38_000, 60, "tokens", TokenBucket),
				limit("input-tokens", 30_000, 60, "input-tokens", TokenBucket),
				limit("output-tokens", 8000, 60, "output-tokens", TokenBucket),
			},
			Dialects: []*ratelimit.Dialect{ratelimit.Anthropic}, Cost: modelCost,
			like: vendor{
				untilFull: true, contentType: jsonType,
				body: `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit"}}`,
			},
		}
	}},
	{"cloudflare", func() *API {
		return &API{
			Limits: []Limit{limit("default", 1200, 300, "", SlidingCounter)},
			like:   vendor{contentType: jsonType, body: `{"success":false,"errors":[{"code":971,"message":"Please wait and consider throttling your request speed"}]}`},
		}
	}},
	{"express", func() *API {
		// express-rate-limit with standardHeaders: 'draft-8'. The key is the hash of an address.
		l := limit("60-in-1min", 60, 60, "", WindowFromFirst)
		l.Policy.PartitionKey = []byte("12ca17b49af2")
		return &API{
			Limits: []Limit{l},
			like: vendor{
				finish: expressSpaces, contentType: "text/html; charset=utf-8",
				body: "Too many requests, please try again later.",
			},
		}
	}},
	{"nginx", func() *API {
		// limit_req with rate=10r/s, and burst=20 nodelay. limit_req_status is 503 by default.
		l := limit("limit_req", 10, 1, "", TokenBucket)
		l.Burst = 21
		return silent(l, http.StatusServiceUnavailable, vendor{contentType: "text/html", body: page("503 Service Temporarily Unavailable")})
	}},
	{"haproxy", func() *API {
		// A stick table with http_req_rate(10s), which counts denied requests too.
		l := limit("http_req_rate", 20, 10, "", SlidingCounter)
		return silent(l, 0, vendor{countsRefused: true, contentType: "text/html", body: page("429 Too Many Requests")})
	}},
	{"shopify", func() *API {
		// The REST API: a bucket that leaks two requests a second.
		return &API{
			Limits: []Limit{limit("shop", 40, 20, "", TokenBucket)},
			like: vendor{
				own: true, finish: shopifyCallLimit, leastWait: 2 * time.Second, contentType: jsonType,
				body: `{"errors":"Exceeded 2 calls per second for api client. Reduce request rates to resume uninterrupted service."}`,
			},
		}
	}},
	{"discord", func() *API {
		return &API{
			Limits: []Limit{limit("abcd1234", 5, 5, "", WindowFromFirst)},
			like: vendor{
				own: true, finish: discordBucket, contentType: jsonType,
				body: `{"message":"You are being rate limited.","global":false}`,
			},
		}
	}},
	{"bare429", func() *API { return silent(limit("bare", 10, 10, "", WindowFromFirst), 0, vendor{}) }},
}

// Like returns an API that announces and refuses as a vendor does: "github", "openai",
// "anthropic", "cloudflare", "express", "nginx", "haproxy", "shopify", "discord", "bare429". Its
// fields may be changed before the first request. With a smaller quota, tests are shorter:
//
//	api, err := ratelimittest.Like("github")
//	…
//	api.Limits[0].Policy.Quota = 3
//
// "nginx", "haproxy" and "bare429" announce nothing, and refuse without Retry-After. "openai" and
// "anthropic" count a token for every four bytes of a request, at least one, as input and again as
// output. The error for another name lists the names.
func Like(vendor string) (*API, error) {
	var names []string
	for i := range likenesses {
		if likenesses[i].name == vendor {
			return likenesses[i].API(), nil
		}
		names = append(names, likenesses[i].name)
	}
	return nil, fmt.Errorf("ratelimittest: unknown vendor %.20q: use %s", vendor, strings.Join(names, ", "))
}

const jsonType = "application/json; charset=utf-8"

func limit(name string, quota, window int64, unit ratelimit.Unit, kind Kind) Limit {
	return Limit{Policy: ratelimit.Policy{Name: name, Quota: quota, Window: ratelimit.SecondsOf(window), Unit: unit}, Kind: kind}
}

// silent returns an API that announces nothing.
func silent(l Limit, status int, v vendor) *API {
	return &API{Limits: []Limit{l}, Silent: true, Bare: true, Status: status, like: v}
}

// page returns a page of HTML.
func page(title string) string {
	return "<html>\n<head><title>" + title + "</title></head>\n<body><h1>" + title + "</h1></body>\n</html>\n"
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
	whole := d.Truncate(time.Millisecond)
	if whole < d {
		whole += time.Millisecond
	}
	return whole
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
		reset := ceilMilli(s.reset)
		h.Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", reset.Seconds()))
		h.Set("X-RateLimit-Reset", fmt.Sprintf("%.3f", float64(v.now.Add(reset).UnixMilli()+1)/1000))
	}
	if v.refused() {
		h.Set("X-RateLimit-Scope", "user")
	}
}
