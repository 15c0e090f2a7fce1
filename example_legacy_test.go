package ratelimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
)

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

// A vendor has names of its own. A dialect reads them, and writes them for a server that
// replaces the vendor's.
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

// A dialect is derived from another: here that of GitHub, with one more field.
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
