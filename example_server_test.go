package ratelimit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/httpfields/ratelimit"
)

// A client turns a refusal into an error, and finds it again with errors.As.
func ExampleProblem() {
	server := httptest.NewServer(ratelimit.NewProblem(ratelimit.QuotaExceeded, "daily"))
	defer server.Close()

	get := func(url string) error {
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode < 400 {
			return nil
		}
		p, err := ratelimit.ReadProblem(resp)
		if err != nil {
			return errors.New(resp.Status) // it does not say why
		}
		return fmt.Errorf("get greeting: %w", p)
	}
	err := get(server.URL)
	fmt.Println(err)

	var p *ratelimit.Problem
	if errors.As(err, &p) && p.Type == ratelimit.QuotaExceeded {
		fmt.Println("exceeded:", p.ViolatedPolicies)
	}
	// Output:
	// get greeting: ratelimit: problem 429 Quota Exceeded
	// exceeded: [daily]
}

func ExampleNewProblem() {
	p := ratelimit.NewProblem(ratelimit.TemporaryReducedCapacity, "hourly")
	p.Detail = "One of three data centres is down."
	fmt.Println(p.Status, p.Title)
	fmt.Println(p)
	// Output:
	// 503 Temporary Reduced Capacity
	// ratelimit: problem 503 Temporary Reduced Capacity: One of three data centres is down.
}

func ExampleProblem_Error() {
	p := &ratelimit.Problem{Type: "https://example.com/probs/asleep", Detail: "Come back in the morning."}
	fmt.Println(p.Error())
	// Output:
	// ratelimit: problem https://example.com/probs/asleep: Come back in the morning.
}

// Extensions stand beside the other members.
func ExampleProblem_MarshalJSON() {
	p := ratelimit.NewProblem(ratelimit.AbnormalUsageDetected, "burst")
	p.Extensions = map[string]json.RawMessage{"support": json.RawMessage(`"https://example.com/help?topic=7"`)}
	b, err := p.MarshalJSON()
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
	// Output:
	// {"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Abnormal Usage Detected","status":429,"violated-policies":["burst"],"support":"https://example.com/help?topic=7"}
}

// A member of the wrong type hides none of the others.
func ExampleProblem_UnmarshalJSON() {
	var p ratelimit.Problem
	err := json.Unmarshal([]byte(`{"title": "Slow down", "status": "429", "violated-policies": ["burst"], "balance": 30}`), &p)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Title, p.Status, p.ViolatedPolicies, string(p.Extensions["balance"]))
	// Output:
	// Slow down 0 [burst] 30
}

// A problem is a handler.
func ExampleProblem_ServeHTTP() {
	mux := http.NewServeMux()
	mux.Handle("/export", ratelimit.NewProblem(ratelimit.TemporaryReducedCapacity))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/export", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Header().Get("Cache-Control"))
	// Output:
	// 503 application/problem+json no-store
}

func ExampleReadProblem() {
	w := httptest.NewRecorder()
	ratelimit.NewProblem(ratelimit.QuotaExceeded, "burst").ServeHTTP(w, nil)
	resp := w.Result()
	defer resp.Body.Close()

	p, err := ratelimit.ReadProblem(resp)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Title, p.ViolatedPolicies)

	_, err = ratelimit.ReadProblem(&http.Response{Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(nil)})
	fmt.Println(err)
	// Output:
	// Quota Exceeded [burst]
	// ratelimit: problem document: media type is not application/problem+json: wrong type
}
