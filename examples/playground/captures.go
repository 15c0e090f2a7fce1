//go:build !js

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A capture is a response that the page offers.
type capture struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	Text  string `json:"text"`
}

// The groups of captures, in their order.
const (
	services   = "Services"
	frameworks = "Frameworks"
	faulty     = "Malformed"
)

// A source names a capture and the place of its text. Exactly one of wire, vendor and text is set.
type source struct {
	group, name  string
	wire         string // a file of testdata/wire
	vendor, kind string // a case of testdata/vendors
	text         string // the capture itself
}

// sources lists the captures. The page begins with the first, a refusal, because most people
// want to know how long to wait.
var sources = []source{
	{group: services, name: "GitHub: refused", text: githubRefused},
	{group: services, name: "GitHub: most is left", vendor: "GitHub", kind: "through a reverse proxy"},
	{group: services, name: "OpenAI: requests and tokens", vendor: "OpenAI", kind: "doc values, 6m0s"},
	{group: services, name: "Anthropic: refused", vendor: "Anthropic", kind: "429"},
	{group: services, name: "Anthropic: requests and tokens", vendor: "Anthropic", kind: "200"},
	{group: services, name: "Slack: refused, with a wait alone", text: "HTTP/1.1 429 Too Many Requests\nRetry-After: 30\n"},
	{group: services, name: "Cloudflare: the current fields", vendor: "Cloudflare API", kind: "doc examples"},
	{group: frameworks, name: "Middleware of this package: one of two limits refuses", text: middlewareRefused},
	{group: frameworks, name: "express-rate-limit: two limits", wire: "express-draft-8-two-1.http"},
	{group: frameworks, name: "express-rate-limit: one of two is used up", wire: "express-draft-8-two-2.http"},
	{group: frameworks, name: "hono: the form of draft-07", wire: "hono-draft-7-1.http"},
	{group: frameworks, name: "fastify: a reset in an unknown unit", wire: "fastify-default-3.http"},
	{group: frameworks, name: "httprate: a reset as a Unix time", wire: "go-httprate-2.http"},
	{group: faulty, name: "a quote that is not escaped", wire: "express-draft-8-unescaped-1.http"},
	{group: faulty, name: "a fraction", text: "HTTP/1.1 200 OK\nRateLimit-Policy: \"burst\";q=10;w=60\nRateLimit: \"burst\";r=0.5;t=30\n"},
	{group: faulty, name: "a number with words", text: "HTTP/1.1 200 OK\nX-RateLimit-Limit: 5\nX-RateLimit-Remaining: 2 of 5\n"},
	{group: faulty, name: "well-formed, but against the rules", text: unkept},
	{group: faulty, name: "a refusal without limits", text: "HTTP/1.1 429 Too Many Requests\n"},
}

// githubRefused is from GitHub's documentation.
const githubRefused = `HTTP/2 403
date: Tue, 20 Aug 2013 14:50:41 GMT
x-ratelimit-limit: 60
x-ratelimit-remaining: 0
x-ratelimit-used: 60
x-ratelimit-reset: 1377013266
`

// middlewareRefused was captured from examples/server.
const middlewareRefused = `HTTP/1.1 429 Too Many Requests
Cache-Control: no-store
Content-Type: application/problem+json
Ratelimit: "burst";r=0;t=1;pk=:1HN9OskABFRYNmDI:, "daily";r=990;t=87;pk=:1HN9OskABFRYNmDI:
Ratelimit-Policy: "burst";q=10;w=10;pk=:1HN9OskABFRYNmDI:, "daily";q=1000;w=86400;pk=:1HN9OskABFRYNmDI:
Retry-After: 1
X-Ratelimit-Limit: 10
X-Ratelimit-Remaining: 0
X-Ratelimit-Reset: 1
Date: Sun, 22 Nov 2026 14:53:52 GMT

{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":["burst"]}
`

const unkept = `HTTP/1.1 503 Service Unavailable
RateLimit-Policy: "minute";q=10;w=60, "minute";q=20;w=60, "hour";q=100;w=3600
RateLimit: "minute";r=0;t=40, "hour";r=97;t=9000
Retry-After: 20
Cache-Control: max-age=60
`

// captures returns the captures. Most of their texts are in the folder testdata.
func captures(testdata string) ([]byte, error) {
	cases, err := readCases(filepath.Join(testdata, "vendors", "cases.json"))
	if err != nil {
		return nil, err
	}
	var list []capture
	for _, s := range sources {
		c := capture{Group: s.group, Name: s.name, Text: s.text}
		switch {
		case s.wire != "":
			text, err := os.ReadFile(filepath.Join(testdata, "wire", s.wire))
			if err != nil {
				return nil, err
			}
			c.Text = string(text)
		case s.vendor != "":
			i := slices.IndexFunc(cases, func(v vendorCase) bool { return v.Vendor == s.vendor && v.Case == s.kind })
			if i < 0 {
				return nil, fmt.Errorf("there is no case %q of %s", s.kind, s.vendor)
			}
			c.Text = cases[i].text()
		}
		list = append(list, c)
	}
	return json.Marshal(list)
}

// A vendorCase is a response in testdata/vendors.
type vendorCase struct {
	Vendor, Case string
	Status       int
	Headers      []string
	Now          time.Time
}

func readCases(name string) (list []vendorCase, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(text, &list)
}

// text returns the response as HTTP/1.1 text, with a Date. If a reset is a point in time, the
// wait depends on the time of the response.
func (c vendorCase) text() string {
	lines := []string{fmt.Sprintf("HTTP/1.1 %d %s", c.Status, http.StatusText(c.Status))}
	if !c.Now.IsZero() {
		lines = append(lines, "Date: "+c.Now.UTC().Format(http.TimeFormat))
	}
	return strings.Join(append(lines, c.Headers...), "\n") + "\n"
}
