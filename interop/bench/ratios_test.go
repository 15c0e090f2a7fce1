package main

import (
	"maps"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/obey"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

const (
	current      = "RateLimit-Policy: \"default\";q=100;w=60\nRateLimit: " + oneLimit
	currentLimit = "RateLimit: " + oneLimit
)

// fieldsOf parses the values of the two fields.
func fieldsOf(b *testing.B, policies, limits string) ratelimit.Fields {
	f, err := ratelimit.Parse(http.Header{"Ratelimit-Policy": {policies}, "Ratelimit": {limits}})
	require.NoError(b, err)
	return f
}

// parsed is one limit in the current form, read by httpsfv.
func parsed() *contender {
	return inGo(func() (httpsfv.List, error) { return httpsfv.UnmarshalList([]string{oneLimit}) })
}

// done turns a function without results into a contender.
func done(do func()) *contender {
	return inGo(func() (struct{}, error) {
		do()
		return struct{}{}, nil
	})
}

// otherForms are responses that the table of docs/speed.md does not have.
var otherForms = []form{
	{name: "ids of a cloud", header: response(`
		X-Amzn-Requestid: 5bbd2b3c-6f8a-4f0f-8d3f-0a7b6c5d4e3f
		X-Amzn-Trace-Id: Root=1-5759e988-bd862e3fe1be46a994272793
		X-Ms-Request-Id: 6a5d4b3c-1f2e-4d3c-8b7a-9f8e7d6c5b4a`)},
	{name: "a look-alike", header: response("X-Acme-Remaining: 5")},
	{name: "words", header: response(`
		Acme-Rate-Limit-Limit: 60
		Acme-Rate-Limit-Remaining: 56
		Acme-Rate-Limit-Reset: 30s`)},
	{name: "x-ratelimit", header: response(`
		X-RateLimit-Limit: 60
		X-RateLimit-Remaining: 56
		X-RateLimit-Reset: 30`)},
	{name: "anthropic", header: response(`
		Anthropic-RateLimit-Requests-Limit: 50
		Anthropic-RateLimit-Requests-Remaining: 49
		Anthropic-RateLimit-Requests-Reset: 2026-11-21T03:00:30Z`)},
}

// BenchmarkLegacyRatios measures the older forms, and a dialect of the caller, relative to
// httpsfv and one limit in the current form.
func BenchmarkLegacyRatios(b *testing.B) {
	now := time.Now()
	mine, err := ratelimit.NewDialect("mine",
		ratelimit.DialectField{Name: "Acme-Quota", Role: ratelimit.RoleQuota}, ratelimit.DialectField{Name: "Acme-Left", Role: ratelimit.RoleRemaining})
	require.NoError(b, err)
	for _, f := range append(forms(now), otherForms...) {
		parse := func(dialects ...*ratelimit.Dialect) *contender {
			return inGo(func() (ratelimit.Fields, error) {
				return ratelimit.ParseAny(f.header, ratelimit.LegacyOptions{Now: now, Dialects: dialects})
			})
		}
		b.Run("ParseAny/"+f.name, func(b *testing.B) { benchRatio(b, parse(), parsed()) })
		b.Run("OneDialect/"+f.name, func(b *testing.B) { benchRatio(b, parse(mine), parse()) })
	}
}

// BenchmarkPartyRatios measures the work of clients and servers, relative to the same.
func BenchmarkPartyRatios(b *testing.B) {
	now := time.Now()
	resp := &http.Response{StatusCode: http.StatusOK, Header: response(current)}
	github := response(`
		X-RateLimit-Limit: 5000
		X-RateLimit-Remaining: 4997
		X-RateLimit-Used: 3
		X-RateLimit-Resource: core
		X-RateLimit-Reset: ` + strconv.FormatInt(now.Unix()+60, 10))
	own := fieldsOf(b, `"gateway";q=10;w=1`, `"gateway";r=4;t=1`)
	left := fieldsOf(b, `"default";q=100;w=60`, oneLimit)
	refused := fieldsOf(b, `"default";q=100;w=60`, `"default";r=0;t=30`)
	problem := ratelimit.NewProblem(ratelimit.QuotaExceeded, "default")
	h, w, r := http.Header{}, &sink{header: response("")}, &http.Request{Method: http.MethodGet}
	for _, bc := range []struct {
		name string
		work func() error
	}{
		{"Set", func() error { return ratelimit.XRateLimit.Set(h, left, now) }},
		{"RestrictHeader, and a copy of the header", func() error {
			return ratelimit.RestrictHeader(maps.Clone(github), http.StatusOK, own, ratelimit.RestrictOptions{Legacy: ratelimit.LegacyOptions{Now: now}})
		}},
		{"Refuse", func() error { return announce.Refuse(w, r, refused, problem) }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			benchRatio(b, inGo(func() (struct{}, error) { return struct{}{}, bc.work() }), parsed())
		})
	}
	for _, bc := range []struct {
		name string
		work func()
	}{
		{"Advise", func() { ratelimit.Advise(resp, now) }},
		{"Check", func() { ratelimittest.Check(resp) }},
		{"Expose", func() {
			delete(resp.Header, "Access-Control-Expose-Headers")
			ratelimit.Expose(resp.Header)
		}},
	} {
		b.Run(bc.name, func(b *testing.B) { benchRatio(b, done(bc.work), parsed()) })
	}
}

// A shelf is a base of a Transport that answers from memory.
type shelf struct{ resp *http.Response }

func (s *shelf) RoundTrip(*http.Request) (*http.Response, error) { return s.resp, nil }

// passing is a Transport that sends requests to a number of origins, one after the other.
func passing(b *testing.B, origins int, resp *http.Response) *contender {
	var requests []*http.Request
	for i := range origins {
		req, err := http.NewRequest(http.MethodGet, "http://"+strconv.Itoa(i)+".example/", nil)
		require.NoError(b, err)
		requests = append(requests, req)
	}
	rt, i := &obey.Transport{Base: &shelf{resp}}, 0
	return inGo(func() (*http.Response, error) {
		i++
		return rt.RoundTrip(requests[i%origins])
	})
}

// BenchmarkRoundTripRatios compares a Transport's work: for a response without fields to
// reading it, for many keys to one, and for the current fields to a parse by httpsfv with checks.
func BenchmarkRoundTripRatios(b *testing.B) {
	silent := response("")
	b.Run("silent against ParseAny", func(b *testing.B) {
		benchRatio(b, passing(b, 1, &http.Response{Header: silent}), inGo(func() (ratelimit.Fields, error) {
			return ratelimit.ParseAny(silent, ratelimit.LegacyOptions{})
		}))
	})
	b.Run("2000 keys against one", func(b *testing.B) {
		resp := &http.Response{Header: response(currentLimit)}
		benchRatio(b, passing(b, 2000, resp), passing(b, 1, resp))
	})
	b.Run("current fields against httpsfv", func(b *testing.B) {
		resp := &http.Response{Header: http.Header{"Ratelimit": {oneLimit}}}
		benchRatio(b, passing(b, 1, resp), inGo(func() ([]ratelimit.Limit, error) { return sfvLimits(oneLimit) }))
	})
}
