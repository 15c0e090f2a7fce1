package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// accepted reports with status 202 that a job continues, and when to ask again, like many
// APIs that work in the background.
func accepted(h http.Header, _ *visit) { h.Set("Retry-After", "1") }

// silent writes nothing.
func silent(http.Header, *visit) {}

// current writes the current fields.
func current(h http.Header, v *visit) {
	var f ratelimit.Fields
	for _, s := range v.states {
		f.Policies = append(f.Policies, s.policy)
		l := ratelimit.Limit{Name: s.policy.Name, Remaining: s.remaining}
		if s.reset >= 0 {
			l.Reset = ratelimit.CeilSeconds(s.reset)
		}
		f.Limits = append(f.Limits, l)
	}
	if err := f.Set(h); err != nil {
		panic(err) // the limiters above are at fault
	}
}

// untrue writes the current fields with wrong numbers.
func untrue(lie func(s *state, rnd *rand.Rand)) func(http.Header, *visit) {
	return func(h http.Header, v *visit) {
		lie(&v.states[0], v.rnd)
		current(h, v)
	}
}

// inForm writes a form that random servers have too, from a clock that is wrong by skew. Clients can
// detect this only with a Date.
func inForm(name string, skew time.Duration, date bool) func(http.Header, *visit) {
	i := slices.IndexFunc(forms, func(f form) bool { return f.name == name })
	return func(h http.Header, v *visit) {
		forms[i].write(h, v.states, v.now.Add(skew))
		if date {
			h.Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
		}
	}
}

func refuseTooMany(http.Header, *visit) int { return http.StatusTooManyRequests }

func refuseForbidden(http.Header, *visit) int { return http.StatusForbidden }

func refuseRetryAfter(h http.Header, v *visit) int {
	h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(v.states[0].reset.Seconds())), 10))
	return http.StatusTooManyRequests
}

func refuseUnavailable(h http.Header, _ *visit) int {
	h.Set("Retry-After", "1")
	return http.StatusServiceUnavailable
}

// refuseUntil announces when the request could be served.
func refuseUntil(h http.Header, v *visit) int {
	h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(v.wait.Seconds())), 10))
	return http.StatusTooManyRequests
}

// likeOpenAI writes the fields of OpenAI: durations to the millisecond.
func likeOpenAI(h http.Header, v *visit) {
	for _, s := range v.states {
		name := "requests"
		if s.policy.Unit == "tokens" {
			name = "tokens"
		}
		h.Set("x-ratelimit-limit-"+name, strconv.FormatInt(s.policy.Quota, 10))
		h.Set("x-ratelimit-remaining-"+name, strconv.FormatInt(s.remaining, 10))
		reset := s.reset.Truncate(time.Millisecond)
		if reset < s.reset {
			reset += time.Millisecond
		}
		h.Set("x-ratelimit-reset-"+name, reset.String())
	}
}

// likeAnthropic writes the fields of Anthropic: thousands of tokens, and dates.
func likeAnthropic(h http.Header, v *visit) {
	for _, s := range v.states {
		name, remaining := "requests", s.remaining
		if s.policy.Unit == "tokens" {
			name, remaining = s.policy.Name, (s.remaining+500)/1000*1000
		}
		h.Set("anthropic-ratelimit-"+name+"-limit", strconv.FormatInt(s.policy.Quota, 10))
		h.Set("anthropic-ratelimit-"+name+"-remaining", strconv.FormatInt(remaining, 10))
		h.Set("anthropic-ratelimit-"+name+"-reset", v.now.Add(s.reset+time.Second-1).UTC().Format(time.RFC3339))
	}
	h.Set("Date", v.now.UTC().Format(http.TimeFormat))
}

// onRefusal writes fields only on refusals.
func onRefusal(say func(http.Header, *visit)) func(http.Header, *visit) {
	return func(h http.Header, v *visit) {
		if !v.served {
			say(h, v)
		}
	}
}

// A form is how a server announces its limits. clock is the server's time.
type form struct {
	name  string
	times bool // resets are times, which a wrong clock makes wrong
	write func(h http.Header, states []state, clock time.Time)
}

// forms are the forms of random servers. Most forms have one limit, the first of several.
var forms = []form{
	{"current", false, func(h http.Header, states []state, _ time.Time) { current(h, &visit{states: states}) }},
	{"draft-06", false, func(h http.Header, states []state, _ time.Time) {
		s := states[0]
		h.Set("RateLimit-Policy", fmt.Sprintf("%d;w=%s", s.policy.Quota, s.policy.Window))
		writeThree(h, "RateLimit-", s, wholeSeconds(s.reset))
	}},
	{"draft-07", false, func(h http.Header, states []state, _ time.Time) {
		s := states[0]
		h.Set("RateLimit-Policy", fmt.Sprintf("%d;w=%s", s.policy.Quota, s.policy.Window))
		h.Set("RateLimit", fmt.Sprintf("limit=%d, remaining=%d, reset=%s", s.policy.Quota, s.remaining, wholeSeconds(s.reset)))
	}},
	{"X-RateLimit, seconds", false, func(h http.Header, states []state, _ time.Time) {
		writeThree(h, "X-RateLimit-", states[0], wholeSeconds(states[0].reset))
	}},
	{"X-RateLimit, Unix", true, func(h http.Header, states []state, clock time.Time) {
		writeThree(h, "X-RateLimit-", states[0], unixReset(states[0], clock))
	}},
	{"X-RateLimit, date", true, func(h http.Header, states []state, clock time.Time) {
		writeThree(h, "X-RateLimit-", states[0], clock.Add(states[0].reset+time.Second-1).UTC().Format(time.RFC3339))
	}},
	{"GitHub", true, func(h http.Header, states []state, clock time.Time) {
		s := states[0]
		writeThree(h, "X-RateLimit-", s, unixReset(s, clock))
		_, resource, _ := strings.Cut(s.policy.Name, "/")
		h.Set("X-RateLimit-Used", strconv.FormatInt(s.policy.Quota-s.remaining, 10))
		h.Set("X-RateLimit-Resource", "core"+resource)
	}},
	{"OpenAI", false, func(h http.Header, states []state, _ time.Time) { likeOpenAI(h, &visit{states: states[:1]}) }},
	{"Anthropic", true, func(h http.Header, states []state, clock time.Time) {
		s, prefix := states[0], "anthropic-ratelimit-requests-"
		h.Set(prefix+"limit", strconv.FormatInt(s.policy.Quota, 10))
		h.Set(prefix+"remaining", strconv.FormatInt(s.remaining, 10))
		h.Set(prefix+"reset", clock.Add(s.reset+time.Second-1).UTC().Format(time.RFC3339))
	}},
	{"Discord", false, func(h http.Header, states []state, clock time.Time) {
		s := states[0]
		writeThree(h, "X-RateLimit-", s, fmt.Sprintf("%.3f", float64(clock.Add(s.reset).UnixMilli())/1000))
		h.Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", s.reset.Seconds()))
		h.Set("X-RateLimit-Bucket", "abcd1234")
	}},
	{"no fields", false, func(http.Header, []state, time.Time) {}},
}

func writeThree(h http.Header, prefix string, s state, reset string) {
	h.Set(prefix+"Limit", strconv.FormatInt(s.policy.Quota, 10))
	h.Set(prefix+"Remaining", strconv.FormatInt(s.remaining, 10))
	h.Set(prefix+"Reset", reset)
}

func wholeSeconds(d time.Duration) string { return ratelimit.CeilSeconds(d).String() }

func unixReset(s state, clock time.Time) string {
	return strconv.FormatInt(clock.Add(s.reset+time.Second-1).Unix(), 10)
}
