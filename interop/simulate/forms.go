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
		v.clock = v.now.Add(skew)
		forms[i].write(h, v)
		if date {
			h.Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
		}
	}
}

// A refusal is a status, and writes a Retry-After or nothing.
type refusal struct {
	status int
	write  func(http.Header, *visit)
}

var tooMany = refusal{http.StatusTooManyRequests, silent}

// inASecond asks to come back in a second. With status 202 it reports that a job continues, and when
// to ask again, like many APIs that work in the background.
func inASecond(h http.Header, _ *visit) { h.Set("Retry-After", "1") }

// numberOf returns a number of seconds, rounded up.
func numberOf(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

// untilReset asks to come back when the first limit is reset.
func untilReset(h http.Header, v *visit) { h.Set("Retry-After", numberOf(v.states[0].reset)) }

// untilServed asks to come back when the request could be served.
func untilServed(h http.Header, v *visit) { h.Set("Retry-After", numberOf(v.wait)) }

func untilDate(h http.Header, v *visit) {
	h.Set("Retry-After", v.clock.Add(max(v.wait, time.Second)+time.Second-1).UTC().Format(http.TimeFormat))
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
		h.Set("anthropic-ratelimit-"+name+"-reset", dateOf(s, v.clock))
	}
}

// onRefusal writes fields only on refusals.
func onRefusal(say func(http.Header, *visit)) func(http.Header, *visit) {
	return func(h http.Header, v *visit) {
		if !v.served {
			say(h, v)
		}
	}
}

// A form is how a server announces its limits.
type form struct {
	name  string
	times bool // resets are times, which a wrong clock makes wrong
	write func(http.Header, *visit)
}

// forms are the forms of random servers. All but the first have one limit, the first of several.
var forms = []form{
	{"current", false, current},
	{"draft-06", false, func(h http.Header, v *visit) {
		h.Set("RateLimit-Policy", policyWithWindow(v.states[0]))
		writeThree(h, "RateLimit-", v.states[0], numberOf(v.states[0].reset))
	}},
	{"draft-07", false, func(h http.Header, v *visit) {
		s := v.states[0]
		h.Set("RateLimit-Policy", policyWithWindow(s))
		h.Set("RateLimit", fmt.Sprintf("limit=%d, remaining=%d, reset=%s", s.policy.Quota, s.remaining, numberOf(s.reset)))
	}},
	{"X-RateLimit, seconds", false, func(h http.Header, v *visit) {
		writeThree(h, "X-RateLimit-", v.states[0], numberOf(v.states[0].reset))
	}},
	{"X-RateLimit, Unix", true, func(h http.Header, v *visit) {
		writeThree(h, "X-RateLimit-", v.states[0], unixOf(v.states[0], v.clock))
	}},
	{"X-RateLimit, date", true, func(h http.Header, v *visit) {
		writeThree(h, "X-RateLimit-", v.states[0], dateOf(v.states[0], v.clock))
	}},
	{"GitHub", true, func(h http.Header, v *visit) {
		s := v.states[0]
		writeThree(h, "X-RateLimit-", s, unixOf(s, v.clock))
		_, resource, _ := strings.Cut(s.policy.Name, "/")
		h.Set("X-RateLimit-Used", strconv.FormatInt(s.policy.Quota-s.remaining, 10))
		h.Set("X-RateLimit-Resource", "core"+resource)
	}},
	{"OpenAI", false, likeOpenAI},
	{"Anthropic", true, likeAnthropic},
	{"Discord", false, func(h http.Header, v *visit) {
		s := v.states[0]
		writeThree(h, "X-RateLimit-", s, fmt.Sprintf("%.3f", float64(v.clock.Add(s.reset).UnixMilli())/1000))
		h.Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", s.reset.Seconds()))
		h.Set("X-RateLimit-Bucket", "abcd1234")
	}},
	{"no fields", false, silent},
}

func policyWithWindow(s state) string {
	seconds, _ := s.policy.Window.Value()
	return fmt.Sprintf("%d;w=%d", s.policy.Quota, seconds)
}

func writeThree(h http.Header, prefix string, s state, reset string) {
	h.Set(prefix+"Limit", strconv.FormatInt(s.policy.Quota, 10))
	h.Set(prefix+"Remaining", strconv.FormatInt(s.remaining, 10))
	h.Set(prefix+"Reset", reset)
}

// unixOf and dateOf round up.
func unixOf(s state, clock time.Time) string {
	return strconv.FormatInt(clock.Add(s.reset+time.Second-1).Unix(), 10)
}

func dateOf(s state, clock time.Time) string {
	return clock.Add(s.reset + time.Second - 1).UTC().Format(time.RFC3339)
}
