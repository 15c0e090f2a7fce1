package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

const (
	oneLimit    = `"default";r=50;t=30`
	twoPolicies = `"burst";q=100;w=60, "daily";q=1000;w=86400`
	fullPolicy  = `"burst";q=100;qu="requests";w=60;pk=:dHJpYWwxMjEzMjM=:;acme-burst=1000`
)

// worksAt returns all rows of the table, for responses that arrive now.
func worksAt(now time.Time) []work {
	works := []work{
		parseLimits("`ParseLimits`, `"+oneLimit+"`", oneLimit),
		parsePolicies("`ParsePolicies`, `"+twoPolicies+"`", twoPolicies),
		parsePolicies("`ParsePolicies`, `"+fullPolicy+"`", fullPolicy),
		appendLimits("`AppendLimits` of the first row", oneLimit),
		appendPolicies("`AppendPolicies` of the second row", twoPolicies),
		setX("`XRateLimit.Set`"),
	}
	for _, f := range forms(now) {
		works = append(works, parseAny(f, now))
	}
	for _, n := range []int{1, 16, 128, 1024} {
		w := parsePolicies(fmt.Sprintf("`ParsePolicies`, per member of %d", n), manyPolicies(n))
		w.members = n
		works = append(works, w)
	}
	return works
}

func manyPolicies(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `"policy-%d";q=%d;w=60`, i, 1000+i)
	}
	return b.String()
}

func parseLimits(name, line string) work {
	return work{name: name, contenders: [libraries]*contender{
		ours: inGo(func() ([]ratelimit.Limit, error) { return ratelimit.ParseLimits(line) }),
		sfv:  inGo(func() ([]ratelimit.Limit, error) { return sfvLimits(line) }),
		hand: inGo(func() ([]rate, error) { return handMembers(line) }),
	}}
}

func parsePolicies(name, line string) work {
	return work{name: name, contenders: [libraries]*contender{
		ours: inGo(func() ([]ratelimit.Policy, error) { return ratelimit.ParsePolicies(line) }),
		sfv:  inGo(func() ([]ratelimit.Policy, error) { return sfvPolicies(line) }),
		hand: inGo(func() ([]rate, error) { return handMembers(line) }),
	}}
}

// bufferSize is enough for every written field.
const bufferSize = 256

func appendLimits(name, line string) work {
	limits, _ := ratelimit.ParseLimits(line) // checked by the work that parses it
	buf := make([]byte, 0, bufferSize)
	return work{name: name, contenders: [libraries]*contender{
		ours: inGo(func() ([]byte, error) { return ratelimit.AppendLimits(buf, limits...) }),
		sfv:  inGo(func() (string, error) { return sfvFormatLimits(limits) }),
		hand: inGo(func() ([]byte, error) { return handAppendLimits(buf, limits), nil }),
	}}
}

func appendPolicies(name, line string) work {
	policies, _ := ratelimit.ParsePolicies(line)
	buf := make([]byte, 0, bufferSize)
	return work{name: name, contenders: [libraries]*contender{
		ours: inGo(func() ([]byte, error) { return ratelimit.AppendPolicies(buf, policies...) }),
		sfv:  inGo(func() (string, error) { return sfvFormatPolicies(policies) }),
		hand: inGo(func() ([]byte, error) { return handAppendPolicies(buf, policies), nil }),
	}}
}

// setX writes the fields of one limit in an older form.
func setX(name string) work {
	f := ratelimit.Fields{
		Policies: []ratelimit.Policy{{Name: "default", Quota: 100}},
		Limits:   []ratelimit.Limit{{Name: "default", Remaining: 50, Reset: ratelimit.SecondsOf(30)}},
	}
	h, byHand, now := http.Header{}, http.Header{}, time.Now()
	return work{name: name, contenders: [libraries]*contender{
		ours: inGo(func() (http.Header, error) { return h, ratelimit.XRateLimit.Set(h, f, now) }),
		hand: inGo(func() (http.Header, error) { return byHand, handSetX(byHand, f) }),
	}}
}

// A form is a response with limits, and how others read it.
type form struct {
	name   string
	header http.Header
	sfv    func(http.Header) (ratelimit.Fields, error)
	hand   func(http.Header, time.Time) ([]rate, error)
}

func parseAny(f form, now time.Time) work {
	w := work{name: "`ParseAny`, " + f.name}
	w.contenders[ours] = inGo(func() (ratelimit.Fields, error) {
		return ratelimit.ParseAny(f.header, ratelimit.LegacyOptions{Now: now})
	})
	if f.sfv != nil {
		w.contenders[sfv] = inGo(func() (ratelimit.Fields, error) { return f.sfv(f.header) })
	}
	if f.hand != nil {
		w.contenders[hand] = inGo(func() ([]rate, error) { return f.hand(f.header, now) })
	}
	return w
}

// forms are a response without limits and five with limits, each with twenty other fields.
func forms(now time.Time) []form {
	return []form{
		{name: "no limits", header: response(""), hand: handX},
		{
			name: "current fields", sfv: sfvCurrent, hand: handCurrent,
			header: response(`
				RateLimit-Policy: "default";q=100;w=60
				RateLimit: "default";r=50;t=30`),
		},
		{
			name: "draft-07", sfv: sfvDraft07, hand: handDraft07,
			header: response(`
				RateLimit-Policy: 100;w=60
				RateLimit: limit=100, remaining=50, reset=30`),
		},
		{
			name: "draft-06", hand: handDraft06,
			header: response(`
				RateLimit-Limit: 100
				RateLimit-Policy: 100;w=60
				RateLimit-Remaining: 50
				RateLimit-Reset: 30`),
		},
		{
			name: "GitHub", hand: handX,
			header: response(fmt.Sprintf(`
				X-RateLimit-Limit: 5000
				X-RateLimit-Remaining: 4997
				X-RateLimit-Reset: %d
				X-RateLimit-Resource: core
				X-RateLimit-Used: 3`, now.Unix()+1800)),
		},
		{
			name: "OpenAI", hand: handOpenAI,
			header: response(`
				X-RateLimit-Limit-Requests: 60
				X-RateLimit-Limit-Tokens: 150000
				X-RateLimit-Remaining-Requests: 59
				X-RateLimit-Remaining-Tokens: 149984
				X-RateLimit-Reset-Requests: 1s
				X-RateLimit-Reset-Tokens: 6m0s`),
		}}
}

// response returns a header of lines, and of twenty unrelated ones.
func response(lines string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(lines + others) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			h.Add(name, value)
		}
	}
	return h
}

const others = `
	Accept-Ranges: bytes
	Access-Control-Allow-Origin: *
	Alt-Svc: h3=":443"
	Cache-Control: no-store
	Connection: keep-alive
	Content-Encoding: br
	Content-Language: en
	Content-Security-Policy: default-src 'self'
	Content-Type: application/json
	Etag: W/"5f3a9c"
	Expires: 0
	Link: </items?page=2>; rel="next"
	Referrer-Policy: no-referrer
	Server: example
	Strict-Transport-Security: max-age=31536000
	Vary: Accept-Encoding
	Via: 1.1 example
	X-Content-Type-Options: nosniff
	X-Frame-Options: deny
	X-Request-Id: 8b1d6e0c
`
