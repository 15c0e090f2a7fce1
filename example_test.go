package ratelimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
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

// ParseLimits reads field lines from other sources than an http.Header, such as gRPC metadata.
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
	// ratelimit: member 1 of RateLimit: parameter r: out of range, it must be an Integer from 0 to 999999999999999
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
	burst := announce.FixedWindow{Name: "burst", Quota: 100, Used: 63, Window: time.Minute, Left: 12 * time.Second}
	daily := announce.FixedWindow{Name: "daily", Quota: 1000, Used: 10, Window: 24 * time.Hour, Left: 80000 * time.Second}
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

// Join announces the limits of two limiters together.
func ExampleFields_Join() {
	minute := announce.FixedWindow{Name: "minute", Quota: 100, Used: 63, Window: time.Minute, Left: 12 * time.Second}
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

// A client library that publishes the end of a window as a point in time adds the reset to the
// Date of the response. The clock of the client does not matter.
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

// arrived is the arrival time of the responses in the examples.
var arrived = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ExampleParseAny() {
	h := http.Header{}
	h.Set("X-RateLimit-Limit", "5000")
	h.Set("X-RateLimit-Remaining", "4997")
	h.Set("X-RateLimit-Used", "3")
	h.Set("X-RateLimit-Resource", "core")
	h.Set("X-RateLimit-Reset", "1795262430")

	f, err := ratelimit.ParseAny(h, ratelimit.LegacyOptions{Now: arrived})
	if err != nil {
		fmt.Println(err) // some fields are unreadable; f has the others
	}
	for _, l := range f.Limits {
		p, _ := f.PolicyOf(l)
		fmt.Printf("%s: %s: %d of %d, %v\n", f.Dialect, l.Name, l.Remaining, p.Quota, l.Reset)
	}
	// Output:
	// x-ratelimit: core: 4997 of 5000, 30s
}

// One malformed field does not hide the others, and what is absent is not zero.
func ExampleParseAny_errors() {
	h := http.Header{}
	h.Set("RateLimit-Limit", "100, 100;w=60")
	h.Set("RateLimit-Remaining", "many")

	f, err := ratelimit.ParseAny(h, ratelimit.LegacyOptions{})
	fmt.Println(f.Policies, len(f.Limits))
	var fault *ratelimit.FieldError
	if errors.As(err, &fault) {
		fmt.Println(fault.Field, errors.Is(fault, ratelimit.ErrSyntax))
	}
	// Output:
	// ["default";q=100;w=60] 0
	// Ratelimit-Remaining true
}

// A dialect reads a vendor's own names. It also writes them, for a server that takes the
// vendor's place.
func ExampleNewDialect() {
	acme, err := ratelimit.NewDialect("acme",
		ratelimit.DialectField{Name: "Acme-Quota", Role: ratelimit.RoleQuota}, // 100/60: quota and window
		ratelimit.DialectField{Name: "Acme-Left", Role: ratelimit.RoleRemaining},
		ratelimit.DialectField{Name: "Acme-Renew", Role: ratelimit.RoleReset, Format: ratelimit.TimeRFC3339},
	)
	if err != nil {
		fmt.Println(err) // such as a name that is not a field name
		return
	}
	h := http.Header{}
	h.Set("Acme-Quota", "100/60")
	h.Set("Acme-Left", "40")
	h.Set("Acme-Renew", "2026-11-21T12:00:30Z")

	f, err := ratelimit.ParseAny(h, ratelimit.LegacyOptions{Dialects: []*ratelimit.Dialect{acme}, Now: arrived})
	fmt.Println(f.Policies, f.Limits, f.Dialect, err)

	h = http.Header{}
	err = acme.Set(h, f, arrived)
	fmt.Println(h, err)
	// Output:
	// ["default";q=100;w=60] ["default";r=40;t=30] acme <nil>
	// map[Acme-Left:[40] Acme-Quota:[100] Acme-Renew:[2026-11-21T12:00:30Z]] <nil>
}

// A dialect can be derived from another one: here from that of GitHub, with one more field.
func ExampleDialect_Fields() {
	mine, err := ratelimit.NewDialect("mine", append(ratelimit.GitHub.Fields(),
		ratelimit.DialectField{Name: "X-Search-Left", Role: ratelimit.RoleRemaining, Policy: "search"})...)
	if err != nil {
		fmt.Println(err)
		return
	}
	h := http.Header{}
	h.Set("X-Search-Left", "7")
	f, _ := ratelimit.ParseAny(h, ratelimit.LegacyOptions{Dialects: []*ratelimit.Dialect{mine}})
	fmt.Println(f)
	// Output:
	// limits "search";r=7; dialect mine
}

// Only a caller who knows the vendor can know that these resets are in milliseconds.
func ExampleLegacyOptions_reset() {
	h := http.Header{}
	h.Set("X-Rate-Limit-Limit", "40")
	h.Set("X-Rate-Limit-Remaining", "39")
	h.Set("X-Rate-Limit-Reset", "5000")

	f, _ := ratelimit.ParseAny(h, ratelimit.LegacyOptions{})
	fmt.Println(f.Limits, f.Guessed)
	f, _ = ratelimit.ParseAny(h, ratelimit.LegacyOptions{Reset: ratelimit.TimeMilli})
	fmt.Println(f.Limits, f.Guessed)
	// Output:
	// ["default";r=39;t=5000] true
	// ["default";r=39;t=5] false
}

// A dialect can override a built-in field: here a limit per day becomes one per hour.
func ExampleLegacyOptions_override() {
	h := http.Header{}
	h.Set("Sforce-Limit-Info", "api-usage=18/5000")

	f, _ := ratelimit.ParseAny(h, ratelimit.LegacyOptions{})
	fmt.Println(f.Dialect, f.Policies, f.Limits)

	mine, _ := ratelimit.NewDialect("mine",
		ratelimit.DialectField{Name: "Sforce-Limit-Info", Role: ratelimit.RoleUsed, Window: ratelimit.SecondsOf(3600)})
	f, _ = ratelimit.ParseAny(h, ratelimit.LegacyOptions{Dialects: []*ratelimit.Dialect{mine}})
	fmt.Println(f.Dialect, f.Policies, f.Limits)
	// Output:
	// salesforce ["api-usage";q=5000;w=86400] ["api-usage";r=4982]
	// mine ["api-usage";q=5000;w=3600] ["api-usage";r=4982]
}

func ExampleLookupDialect() {
	d, ok := ratelimit.LookupDialect("draft-06") // for a name in a configuration file
	fmt.Println(ok, d == ratelimit.Draft06)
	// Output:
	// true true
}

func ExampleTimeFormat() {
	f := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "default", Remaining: 1, Reset: ratelimit.SecondsOf(90)}}}
	for _, format := range []ratelimit.TimeFormat{
		ratelimit.TimeSeconds, ratelimit.TimeMilli, ratelimit.TimeUnix, ratelimit.TimeUnixMilli,
		ratelimit.TimeHTTPDate, ratelimit.TimeRFC3339, ratelimit.TimeDuration,
	} {
		d, _ := ratelimit.NewDialect("mine", ratelimit.DialectField{Name: "X-Reset", Role: ratelimit.RoleReset, Format: format})
		h := http.Header{}
		if err := d.Set(h, f, arrived); err != nil {
			fmt.Println(err)
		}
		fmt.Println(h.Get("X-Reset"))
	}
	// Output:
	// 90
	// 90000
	// 1795262490
	// 1795262490000
	// Sat, 21 Nov 2026 12:01:30 GMT
	// 2026-11-21T12:01:30Z
	// 1m30s
}
