package ratelimit_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/httpfields/ratelimit"
)

// arrived is when the responses of the examples came in.
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
		fmt.Println(err) // about fields that could not be read; f has the others
	}
	for _, l := range f.Limits {
		p, _ := f.PolicyOf(l)
		fmt.Printf("%s: %s: %d of %d, %v\n", f.Dialect, l.Name, l.Remaining, p.Quota, l.Reset)
	}
	// Output:
	// github: core: 4997 of 5000, 30s
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
	// RateLimit-Remaining true
}

func ExampleParseLegacy() {
	h := http.Header{}
	h.Set("X-RateLimit-Limit-Requests", "60")
	h.Set("X-RateLimit-Remaining-Requests", "59")
	h.Set("X-RateLimit-Reset-Requests", "1s")
	h.Set("X-RateLimit-Limit-Tokens", "150000")
	h.Set("X-RateLimit-Remaining-Tokens", "149984")
	h.Set("X-RateLimit-Reset-Tokens", "6m0s")

	f, _ := ratelimit.ParseLegacy(h, ratelimit.LegacyOptions{})
	fmt.Println(f.Dialect)
	for i := range f.Limits {
		fmt.Println(f.Policies[i], f.Limits[i])
	}
	// Output:
	// openai
	// "requests";q=60 "requests";r=59;t=1
	// "tokens";q=150000;qu="tokens" "tokens";r=149984;t=360
}

func ExampleSetLegacy() {
	f := ratelimit.Fields{
		Policies: []ratelimit.Policy{{Name: "default", Quota: 100, Window: ratelimit.SecondsOf(60)}},
		Limits:   []ratelimit.Limit{{Name: "default", Remaining: 37, Reset: ratelimit.SecondsOf(12)}},
	}
	d, _ := ratelimit.LookupDialect("draft-03")
	h := http.Header{}
	if err := ratelimit.SetLegacy(h, d, f, time.Time{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(h)
	// Output:
	// map[Ratelimit-Limit:[100, 100;w=60] Ratelimit-Remaining:[37] Ratelimit-Reset:[12]]
}

// A server that moves to the current fields writes them beside those that its
// clients know.
func ExampleSetLegacy_sideBySide() {
	f := ratelimit.Fields{
		Policies: []ratelimit.Policy{{Name: "default", Quota: 100, Window: ratelimit.SecondsOf(60)}},
		Limits:   []ratelimit.Limit{{Name: "default", Remaining: 37, Reset: ratelimit.SecondsOf(12)}},
	}
	h := http.Header{}
	if err := f.Set(h); err != nil {
		fmt.Println(err)
	}
	for _, name := range []string{"draft-06", "x-ratelimit"} {
		d, _ := ratelimit.LookupDialect(name)
		if err := ratelimit.SetLegacy(h, d, f, arrived); err != nil {
			fmt.Println(err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(h)) {
		fmt.Printf("%s: %s\n", key, h.Get(key))
	}
	// Output:
	// Ratelimit: "default";r=37;t=12
	// Ratelimit-Limit: 100
	// Ratelimit-Policy: "default";q=100;w=60
	// Ratelimit-Remaining: 37
	// Ratelimit-Reset: 12
	// X-Ratelimit-Limit: 100
	// X-Ratelimit-Remaining: 37
	// X-Ratelimit-Reset: 12
}

// A server of one's own may spell its limits in any way.
func ExampleDialect() {
	acme := ratelimit.Dialect{
		Name:      "acme",
		Limit:     "Acme-Quota-*",
		Remaining: "Acme-Left-*",
		Reset:     "Acme-Until",
		Format:    ratelimit.ResetUnix,
		Windows:   map[string]int64{"hour": 3600},
		Units:     map[string]ratelimit.Unit{"bytes": ratelimit.ContentBytes},
	}
	h := http.Header{}
	h.Set("Acme-Quota-Hour", "1000")
	h.Set("Acme-Left-Hour", "0")
	h.Set("Acme-Until", "1795262460")

	f, err := ratelimit.ParseLegacy(h, ratelimit.LegacyOptions{
		Dialects: append([]ratelimit.Dialect{acme}, ratelimit.Dialects()...),
		Now:      arrived,
	})
	fmt.Println(f.Policies, f.Limits, f.Dialect, err)
	// Output:
	// ["hour";q=1000;w=3600] ["hour";r=0;t=60] acme <nil>
}

// Only the one who asked knows that these numbers are milliseconds.
func ExampleLegacyOptions() {
	h := http.Header{}
	h.Set("X-Rate-Limit-Limit", "40")
	h.Set("X-Rate-Limit-Remaining", "39")
	h.Set("X-Rate-Limit-Reset", "1000")

	f, _ := ratelimit.ParseLegacy(h, ratelimit.LegacyOptions{})
	fmt.Println(f.Dialect, f.Limits, f.Guessed)

	d, _ := ratelimit.LookupDialect("x-rate-limit-ms")
	f, _ = ratelimit.ParseLegacy(h, ratelimit.LegacyOptions{Dialects: []ratelimit.Dialect{d}, Name: "bucket"})
	fmt.Println(f.Dialect, f.Limits, f.Guessed)
	// Output:
	// x-rate-limit ["default";r=39;t=1000] true
	// x-rate-limit-ms ["bucket";r=39;t=1] false
}

func ExampleDialects() {
	for _, d := range ratelimit.Dialects() {
		if d.Format == ratelimit.ResetDuration {
			fmt.Println(d.Name, d.Limit)
		}
	}
	// Output:
	// openai X-RateLimit-Limit-*
}

func ExampleLookupDialect() {
	d, ok := ratelimit.LookupDialect("draft-06")
	fmt.Println(ok, d.Limit, d.Remaining, d.Reset, d.Policy)
	// Output:
	// true RateLimit-Limit RateLimit-Remaining RateLimit-Reset RateLimit-Policy
}

func ExampleResetFormat() {
	for _, format := range []ratelimit.ResetFormat{
		ratelimit.ResetDelta, ratelimit.ResetDeltaMillis, ratelimit.ResetUnix, ratelimit.ResetDate, ratelimit.ResetDuration,
	} {
		d := ratelimit.Dialect{Reset: "X-Reset", Format: format}
		f := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "default", Remaining: ratelimit.Unknown, Reset: ratelimit.SecondsOf(90)}}}
		h := http.Header{}
		if err := ratelimit.SetLegacy(h, d, f, arrived); err != nil {
			fmt.Println(err)
		}
		fmt.Println(h.Get("X-Reset"))
	}
	// Output:
	// 90
	// 90000
	// 1795262490
	// Sat, 21 Nov 2026 12:01:30 GMT
	// 1m30s
}
