package ratelimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit"
)

// An error has a place and a cause.
func ExampleFieldError() {
	line := `"burst";r=37;t=12, "daily";r="990"`
	_, err := ratelimit.ParseLimits(line)

	var e *ratelimit.FieldError
	if errors.As(err, &e) {
		fmt.Println(line)
		fmt.Println(strings.Repeat(" ", e.Offset) + "^ " + e.Err.Error())
	}
	fmt.Println(errors.Is(err, ratelimit.ErrType))
	// Output:
	// "burst";r=37;t=12, "daily";r="990"
	//                              ^ wrong type
	// true
}

// The two fields are judged separately.
func ExampleParse() {
	h := http.Header{
		"Ratelimit-Policy": {`100;w=60`}, // the form of an older draft
		"Ratelimit":        {`"default";r=50;t=30`},
	}
	f, err := ratelimit.Parse(h)
	fmt.Println(f.Policies, f.Limits)
	fmt.Println(err)
	// Output:
	// [] ["default";r=50;t=30]
	// ratelimit: member 1 of RateLimit-Policy, line 1, byte 1: name: wrong type, it must be a String of printable ASCII
}

func ExampleParsePolicies() {
	policies, err := ratelimit.ParsePolicies(`"peruser";q=65535;qu="content-bytes";w=10;pk=:QXBwLTk5OQ==:`)
	if err != nil {
		panic(err)
	}
	for _, p := range policies {
		fmt.Printf("%s: %d %s in %v, key %s\n", p.Name, p.Quota, p.Unit, p.Window, p.PartitionKey)
	}
	// Output:
	// peruser: 65535 content-bytes in 10s, key App-999
}

// Field lines that did not come in an http.Header, such as gRPC metadata.
func ExampleParseLimits() {
	metadata := map[string][]string{"ratelimit": {`"burst";r=37;t=12`, `"daily";r=990`}}
	limits, err := ratelimit.ParseLimits(metadata["ratelimit"]...)
	for _, l := range limits {
		fmt.Println(l.Name, l.Remaining, l.Reset)
	}
	fmt.Println(err)
	// Output:
	// burst 37 12s
	// daily 990 absent
	// <nil>
}

func ExampleFormatPolicies() {
	s, err := ratelimit.FormatPolicies(
		ratelimit.Policy{Name: "default", Quota: 100, Window: ratelimit.SecondsOf(10)},
		ratelimit.Policy{Name: "slots", Quota: 5, Unit: ratelimit.ConcurrentRequests},
	)
	fmt.Println(s, err)
	// Output:
	// "default";q=100;w=10, "slots";q=5;qu="concurrent-requests" <nil>
}

func ExampleFormatLimits() {
	s, err := ratelimit.FormatLimits(ratelimit.Limit{Name: "default", Remaining: 50, Reset: ratelimit.SecondsOf(30)})
	fmt.Println(s, err)
	_, err = ratelimit.FormatLimits(ratelimit.Limit{Name: "default", Remaining: -3})
	fmt.Println(err)
	// Output:
	// "default";r=50;t=30 <nil>
	// ratelimit: member 1 of RateLimit: parameter r: out of range, it must be an Integer from 0
}

func ExampleAppendLimits() {
	buf := make([]byte, 0, 128) // reused over many responses
	for remaining := range int64(3) {
		line, err := ratelimit.AppendLimits(buf[:0], ratelimit.Limit{Name: "default", Remaining: remaining})
		fmt.Println(string(line), err)
	}
	// Output:
	// "default";r=0 <nil>
	// "default";r=1 <nil>
	// "default";r=2 <nil>
}

// A second limiter adds its limits to those of the first.
func ExampleFields_Add() {
	h := http.Header{}
	burst := ratelimit.FixedWindow{Name: "burst", Quota: 100, Used: 63, Window: time.Minute, Left: 12 * time.Second}
	daily := ratelimit.FixedWindow{Name: "daily", Quota: 1000, Used: 10, Window: 24 * time.Hour, Left: 80000 * time.Second}
	_ = burst.Fields().Set(h)
	_ = daily.Fields().Add(h)
	fmt.Println(strings.Join(h.Values(ratelimit.PolicyField), "\n"))
	fmt.Println(strings.Join(h.Values(ratelimit.LimitField), "\n"))
	// Output:
	// "burst";q=100;w=60
	// "daily";q=1000;w=86400
	// "burst";r=37;t=12
	// "daily";r=990;t=80000
}

// The limits of two limiters, announced together.
func ExampleFields_Join() {
	minute := ratelimit.FixedWindow{Name: "minute", Quota: 100, Used: 63, Window: time.Minute, Left: 12 * time.Second}
	tokens := ratelimit.Fields{
		Policies: []ratelimit.Policy{{Name: "tokens", Quota: 30000, Unit: "tokens", Window: ratelimit.SecondsOf(60)}},
		Limits:   []ratelimit.Limit{{Name: "tokens", Remaining: 12000, Reset: ratelimit.SecondsOf(12)}},
	}
	h := http.Header{}
	_ = minute.Fields().Join(tokens).Set(h)
	fmt.Println(h.Get(ratelimit.PolicyField))
	fmt.Println(h.Get(ratelimit.LimitField))
	// Output:
	// "minute";q=100;w=60, "tokens";q=30000;qu="tokens";w=60
	// "minute";r=37;t=12, "tokens";r=12000;t=12
}

func ExamplePolicy() {
	p := ratelimit.Policy{
		Name:         "peruser",
		Quota:        65535,
		Unit:         ratelimit.ContentBytes,
		Window:       ratelimit.SecondsOf(10),
		PartitionKey: []byte("App-999"),
		Params:       ratelimit.Params{{Key: "acme-burst", Value: int64(1000)}},
	}
	fmt.Println(p)
	// Output:
	// "peruser";q=65535;qu="content-bytes";w=10;pk=:QXBwLTk5OQ==:;acme-burst=1000
}

func ExampleLimit() {
	fmt.Println(ratelimit.Limit{Name: "default", Remaining: 50, Reset: ratelimit.SecondsOf(30)})
	fmt.Println(ratelimit.Limit{Name: "default", Remaining: 50}) // no window
	// Output:
	// "default";r=50;t=30
	// "default";r=50
}

func ExampleLimit_Equal() {
	a := ratelimit.Limit{Name: "default", Reset: ratelimit.SecondsOf(0)}
	b := ratelimit.Limit{Name: "default"}
	fmt.Println(a.Equal(a), a.Equal(b))
	// Output:
	// true false
}

// Parameters that the specification does not define are kept.
func ExampleParams_Get() {
	policies, _ := ratelimit.ParsePolicies(`"sliding";q=100;w=60;burst=1000;comment="sliding window"`)
	burst, ok := policies[0].Params.Get("burst")
	fmt.Println(burst, ok)
	_, ok = policies[0].Params.Get("w") // w is the field Window
	fmt.Println(ok)
	// Output:
	// 1000 true
	// false
}

func ExampleSeconds() {
	var absent ratelimit.Seconds
	zero := ratelimit.SecondsOf(0)
	fmt.Println(absent, zero, absent == zero)

	_, ok := absent.Value()
	fmt.Println(ok)
	d, ok := ratelimit.SecondsOf(ratelimit.MaxInteger).Duration() // saturates
	fmt.Println(d > 0, ok)
	// Output:
	// absent 0s false
	// false
	// true true
}

// An absent unit means requests, and units that are not registered are kept.
func ExampleUnit() {
	policies, _ := ratelimit.ParsePolicies(`"calls";q=100, "traffic";q=65535;qu="content-bytes", "work";q=9;qu="acme-points"`)
	for _, p := range policies {
		fmt.Printf("%s %q\n", p.Name, p.Unit)
	}
	// Output:
	// calls ""
	// traffic "content-bytes"
	// work "acme-points"
}

func ExampleParam() {
	p := ratelimit.Policy{Name: "default", Quota: 100, Params: ratelimit.Params{
		{Key: "acme-burst", Value: int64(1000)},
		{Key: "acme-kind", Value: httpsfv.Token("sliding")},
		{Key: "acme-note", Value: "per user"},
		{Key: "acme-shared", Value: true},
	}}
	fmt.Println(p)
	// Output:
	// "default";q=100;acme-burst=1000;acme-kind=sliding;acme-note="per user";acme-shared
}

// A client library that has published the end of a window as a point in time gets it from
// the Date of the response. The clock of the client does not count.
func ExampleSeconds_After() {
	h := http.Header{"Date": {"Mon, 23 Nov 2026 12:00:00 GMT"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1795436430"}}
	received := time.Date(2026, 11, 23, 12, 7, 1, 0, time.UTC) // by a clock that is wrong
	fields, _ := ratelimit.ParseAny(h, ratelimit.LegacyOptions{Now: received})
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		date = received
	}
	reset, ok := fields.Limits[0].Reset.After(date)
	fmt.Println(reset.UTC(), reset.Unix(), ok)
	// Output: 2026-11-23 12:20:30 +0000 UTC 1795436430 true
}

// A limiter knows the time more precisely than the field. Rounding up keeps a client from coming
// back early.
func ExampleCeilSeconds() {
	fmt.Println(ratelimit.CeilSeconds(1500*time.Millisecond), ratelimit.CeilSeconds(-time.Second))
	// Output:
	// 2s 0s
}

func ExampleFields_Set() {
	h := http.Header{}
	f := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "default", Remaining: 50}, {Name: "café"}}}
	fmt.Println(f.Set(h))
	fmt.Println(len(h)) // all or nothing
	// Output:
	// ratelimit: member 2 of RateLimit: name: not well-formed, it must be a String of printable ASCII
	// 0
}

func ExampleFields_PolicyOf() {
	f, _ := ratelimit.Parse(http.Header{
		"Ratelimit-Policy": {`"peruser";q=100;w=60;pk=:QWxpY2U=:`}, // the key is on the policy alone
		"Ratelimit":        {`"peruser";r=42;t=7`},
	})
	p, ok := f.PolicyOf(f.Limits[0])
	fmt.Println(p.Quota, p.Window, string(p.PartitionKey), ok)
	// Output:
	// 100 60s Alice true
}

func ExampleFields_Tightest() {
	f, _ := ratelimit.Parse(http.Header{
		"Ratelimit": {`"burst";r=37;t=12, "daily";r=3;t=80000`},
	})
	l, ok := f.Tightest()
	fmt.Println(l, ok)
	// Output:
	// "daily";r=3;t=80000 true
}

func ExampleFields_Validate() {
	f := ratelimit.Fields{Policies: []ratelimit.Policy{{Name: "default", Quota: 1}, {Name: "default", Quota: 2}}}
	fmt.Println(f.Validate())
	// Output:
	// ratelimit: member 2 of RateLimit-Policy: duplicate
}
