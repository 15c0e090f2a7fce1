package main

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// Hand-written code splits the expected fields at commas and semicolons, and reads the numbers. It
// knows the form of the server, and misreads names with a comma, a semicolon or a quote.

func handMembers(line string) ([]rate, error) {
	var rates []rate
	for member := range strings.SplitSeq(line, ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(member), ";")
		r := rate{Name: strings.Trim(name, `"`)}
		for param := range strings.SplitSeq(params, ";") {
			key, value, _ := strings.Cut(param, "=")
			var err error
			switch key {
			case "q":
				r.Quota, err = strconv.ParseInt(value, 10, 64)
			case "w":
				r.Window, err = strconv.ParseInt(value, 10, 64)
			case "r":
				r.Remaining, err = strconv.ParseInt(value, 10, 64)
			case "t":
				r.Reset, err = strconv.ParseInt(value, 10, 64)
			case "qu":
				r.Unit = strings.Trim(value, `"`)
			case "pk":
				var b []byte
				b, err = base64.StdEncoding.DecodeString(strings.Trim(value, ":"))
				r.Key = string(b)
			}
			if err != nil {
				return nil, err
			}
		}
		rates = append(rates, r)
	}
	return rates, nil
}

func handAppendLimits(b []byte, limits []ratelimit.Limit) []byte {
	for i, l := range limits {
		b = handAppendName(b, i, l.Name)
		b = strconv.AppendInt(append(b, ";r="...), l.Remaining, 10)
		if t, ok := l.Reset.Value(); ok {
			b = strconv.AppendInt(append(b, ";t="...), t, 10)
		}
	}
	return b
}

func handAppendPolicies(b []byte, policies []ratelimit.Policy) []byte {
	for i, p := range policies {
		b = handAppendName(b, i, p.Name)
		b = strconv.AppendInt(append(b, ";q="...), p.Quota, 10)
		if w, ok := p.Window.Value(); ok {
			b = strconv.AppendInt(append(b, ";w="...), w, 10)
		}
	}
	return b
}

func handAppendName(b []byte, i int, name string) []byte {
	if i > 0 {
		b = append(b, ", "...)
	}
	return append(append(append(b, '"'), name...), '"')
}

// handSetX writes the first limit and its policy.
func handSetX(h http.Header, f ratelimit.Fields) error {
	h.Set("X-RateLimit-Limit", strconv.FormatInt(f.Policies[0].Quota, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(f.Limits[0].Remaining, 10))
	if reset, ok := f.Limits[0].Reset.Value(); ok {
		h.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
	}
	return nil
}

func handCurrent(h http.Header, _ time.Time) ([]rate, error) {
	policies, err := handMembers(h.Get(ratelimit.PolicyField))
	if err != nil {
		return nil, err
	}
	limits, err := handMembers(h.Get(ratelimit.LimitField))
	if err != nil {
		return nil, err
	}
	for i := range limits {
		for _, p := range policies {
			if p.Name == limits[i].Name {
				limits[i].Quota, limits[i].Window = p.Quota, p.Window
			}
		}
	}
	return limits, nil
}

func handDraft07(h http.Header, _ time.Time) ([]rate, error) {
	r := rate{Name: "default"}
	for member := range strings.SplitSeq(h.Get(ratelimit.LimitField), ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(member), "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, err
		}
		switch key {
		case "limit":
			r.Quota = n
		case "remaining":
			r.Remaining = n
		case "reset":
			r.Reset = n
		}
	}
	var err error
	r.Window, err = handWindow(h, r.Quota)
	return []rate{r}, err
}

// handWindow finds the window of a quota in 100;w=60.
func handWindow(h http.Header, quota int64) (int64, error) {
	for member := range strings.SplitSeq(h.Get(ratelimit.PolicyField), ",") {
		number, params, _ := strings.Cut(strings.TrimSpace(member), ";")
		if n, err := strconv.ParseInt(number, 10, 64); err != nil || n != quota {
			continue
		}
		for param := range strings.SplitSeq(params, ";") {
			if value, ok := strings.CutPrefix(param, "w="); ok {
				return strconv.ParseInt(value, 10, 64)
			}
		}
	}
	return 0, nil
}

// handNumbers reads up to three fields with a number each.
func handNumbers(h http.Header, names ...string) (numbers [3]int64, err error) {
	for i, name := range names {
		if numbers[i], err = strconv.ParseInt(h.Get(name), 10, 64); err != nil {
			return numbers, err
		}
	}
	return numbers, nil
}

func handDraft06(h http.Header, _ time.Time) ([]rate, error) {
	n, err := handNumbers(h, "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
	if err != nil {
		return nil, err
	}
	window, err := handWindow(h, n[0])
	return []rate{{Name: "default", Quota: n[0], Window: window, Remaining: n[1], Reset: n[2]}}, err
}

// handX reads the fields of GitHub, if a response has them.
func handX(h http.Header, now time.Time) ([]rate, error) {
	if h.Get("X-RateLimit-Limit") == "" {
		return nil, nil
	}
	n, err := handNumbers(h, "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
	name := h.Get("X-RateLimit-Resource")
	return []rate{{Name: name, Quota: n[0], Remaining: n[1], Reset: n[2] - now.Unix()}}, err
}

func handOpenAI(h http.Header, _ time.Time) ([]rate, error) {
	requests, err := handDuration(h, "requests",
		"X-RateLimit-Limit-Requests", "X-RateLimit-Remaining-Requests", "X-RateLimit-Reset-Requests")
	if err != nil {
		return nil, err
	}
	tokens, err := handDuration(h, "tokens",
		"X-RateLimit-Limit-Tokens", "X-RateLimit-Remaining-Tokens", "X-RateLimit-Reset-Tokens")
	tokens.Unit = tokens.Name
	return []rate{requests, tokens}, err
}

func handDuration(h http.Header, name, limit, remaining, reset string) (r rate, err error) {
	n, err := handNumbers(h, limit, remaining)
	if err != nil {
		return r, err
	}
	d, err := time.ParseDuration(h.Get(reset))
	return rate{Name: name, Quota: n[0], Remaining: n[1], Reset: int64(d / time.Second)}, err
}
