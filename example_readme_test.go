package ratelimit_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

// respond returns the response of a handler.
func respond(h http.Handler) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w.Result()
}

// toStdout makes package log write to the output of the example.
func toStdout() {
	log.SetFlags(0)
	log.SetOutput(os.Stdout)
}

// refusal returns the response to a request that exceeds a limit.
func refusal() *http.Response {
	return respond(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := ratelimit.Fields{
			Policies: []ratelimit.Policy{{Name: "burst", Quota: 100, Window: ratelimit.SecondsOf(60)}},
			Limits:   []ratelimit.Limit{{Name: "burst", Reset: ratelimit.SecondsOf(12)}},
		}
		if err := announce.Refuse(w, r, f, ratelimit.NewProblem(ratelimit.QuotaExceeded, "burst")); err != nil {
			log.Print(err)
		}
	}))
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
	toStdout()
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

// The error of a refusal contains the time to come back.
func ExampleRefusedError() {
	toStdout()
	resp := refusal()
	err := ratelimit.Advisor{}.CheckResponse(resp, time.Now())
	var refused *ratelimit.RefusedError
	if errors.As(err, &refused) {
		log.Printf("refused with %d, come back in %v", refused.Status, refused.Advice.Asked) // 0s if the server named no time
	}
	// Output: refused with 429, come back in 12s
}

// A client reads the limits of a response.
func Example_client() {
	toStdout()
	resp := refusal()
	f, err := ratelimit.ParseAny(resp.Header, ratelimit.LegacyOptions{})
	if err != nil {
		log.Print(err) // one bad field hides no good one: f has what could be read
	}
	for _, l := range f.Limits {
		if p, ok := f.PolicyOf(l); ok {
			log.Printf("%s: %d of %d left for %v", l.Name, l.Remaining, p.Quota, l.Reset)
		}
	}
	// Output: burst: 0 of 100 left for 12s
}

// A server that moves to the current fields also writes the older fields that its clients know.
func ExampleDialect_Set() {
	f := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "burst", Remaining: 37, Reset: ratelimit.SecondsOf(12)}}}
	h := http.Header{}
	err := f.Set(h)
	err = errors.Join(err, ratelimit.XRateLimit.Set(h, f, time.Now()))
	fmt.Println(h.Get("RateLimit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset"), err)
	// Output: "burst";r=37;t=12 37 12 <nil>
}

// readAcme reads fields whose names do not reveal their meaning.
func readAcme(resp *http.Response) error {
	acme, err := ratelimit.NewDialect("acme",
		ratelimit.DialectField{Name: "Acme-*-Credits", Role: ratelimit.RoleRemaining, Unit: "credits"},
		ratelimit.DialectField{Name: "Acme-*-Again", Role: ratelimit.RoleReset, Format: ratelimit.TimeUnixMilli})
	if err != nil {
		return err // a name that is no field name, or is there twice
	}
	f, err := ratelimit.ParseAny(resp.Header, ratelimit.LegacyOptions{Dialects: []*ratelimit.Dialect{acme}})
	fmt.Println(f.Dialect, f.Limits[0].Name, f.Limits[0].Remaining)
	return err
}

func Example_readmeDialect() {
	fmt.Println(readAcme(&http.Response{Header: http.Header{
		"Date":                {"Sat, 21 Nov 2026 03:00:00 GMT"},
		"Acme-Search-Credits": {"37"},
		"Acme-Search-Again":   {"1795230012000"},
	}}))
	// Output:
	// acme search 37
	// <nil>
}
