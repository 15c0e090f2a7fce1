package ratelimit_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

// The responses of the examples arrive at this time.
var arrived = time.Date(2026, time.November, 21, 12, 0, 0, 0, time.UTC)

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

// Advise returns how long to wait before the next request, and the pace that spreads the
// remaining requests over the time left.
func ExampleAdvise() {
	resp := &http.Response{Header: http.Header{
		"Ratelimit-Policy": {`"burst";q=100;w=60, "daily";q=1000;w=86400`},
		"Ratelimit":        {`"burst";r=0;t=12, "daily";r=990;t=80000`},
	}}
	a := ratelimit.Advise(resp, arrived)
	fmt.Println("wait", a.Wait, "then go at", a.Pace)
	fmt.Println(a.Source, a.Limit.Name)
	// Output:
	// wait 12s then go at 1m20.808080809s
	// limit burst
}

// do sends a request again while it is refused.
func do(client *http.Client, req *http.Request) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		advice := ratelimit.Advise(resp, time.Now())
		if !advice.Refused || advice.Final || attempt == 5 {
			return resp, nil
		}
		resp.Body.Close()
		log.Print(advice)
		time.Sleep(advice.Delay(attempt)) // or until the context of the request ends
	}
}

// A loop that waits as refusals ask, and backs off after refusals that ask for no wait.
func ExampleAdvice_Delay() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
	refusals := 1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refusals--; refusals >= 0 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	req, err := http.NewRequest("GET", server.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := do(server.Client(), req)
	fmt.Println(resp.StatusCode, err)
	// Output:
	// refused, back off
	// 200 <nil>
}

// Set writes both fields, or nothing if a value cannot be written.
func ExampleFields_Set() {
	h := http.Header{}
	f := ratelimit.Fields{
		Policies: []ratelimit.Policy{{Name: "burst", Quota: 100, Window: ratelimit.SecondsOf(60)}},
		Limits:   []ratelimit.Limit{{Name: "burst", Remaining: 37, Reset: ratelimit.SecondsOf(12)}},
	}
	fmt.Println(f.Set(h), h.Get("RateLimit-Policy"), h.Get("RateLimit"))
	f.Limits[0].Name = "café"
	fmt.Println(f.Set(h))
	// Output:
	// <nil> "burst";q=100;w=60 "burst";r=37;t=12
	// ratelimit: member 1 of RateLimit: name: not well-formed, it must be a String of printable ASCII
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

// A gateway allows five requests in ten seconds. Upstream sends only an older form, which then
// also announces the gateway's limit.
func ExampleRestrictHeader() {
	h := http.Header{}
	h.Set("Date", "Sat, 21 Nov 2026 03:40:00 GMT")
	h.Set("X-RateLimit-Limit", "100")
	h.Set("X-RateLimit-Remaining", "40")
	h.Set("X-RateLimit-Reset", "1795232405")
	own := announce.FixedWindow{Name: "gateway", Quota: 5, Used: 1, Window: 10 * time.Second, Left: 10 * time.Second}.Fields()

	arrived := time.Date(2026, time.November, 21, 3, 40, 1, 0, time.UTC)
	err := ratelimit.RestrictHeader(h, http.StatusOK, own, ratelimit.RestrictOptions{Legacy: ratelimit.LegacyOptions{Now: arrived}}) // the zero Now is time.Now()
	if err != nil {
		panic(err) // forward it as it is
	}
	for _, name := range []string{"RateLimit-Policy", "RateLimit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		fmt.Printf("%s: %s\n", name, h.Get(name))
	}
	// Output:
	// RateLimit-Policy: "default";q=100, "gateway";q=5;w=10
	// RateLimit: "default";r=40;t=5, "gateway";r=4;t=10
	// X-RateLimit-Remaining: 4
	// X-RateLimit-Reset: 1795232410
}
