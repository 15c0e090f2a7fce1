package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// An advice is what a client should do after a response.
type advice struct {
	Wait   float64 `json:"wait"`          // in seconds, as Pace
	Pace   float64 `json:"pace,omitzero"` // between requests
	Source string  `json:"source"`
	Limit  string  `json:"limit,omitzero"` // name of the limit that decided
	Capped bool    `json:"capped,omitzero"`
	why    string
}

func adviceOf(resp *http.Response, received time.Time) advice {
	a := ratelimit.Client{}.Advise(resp, received)
	return advice{
		Wait:   a.Wait.Seconds(),
		Pace:   a.Pace.Seconds(),
		Source: a.Source.String(),
		Limit:  printable(a.Limit.Name),
		Capped: a.Capped,
		why:    why(a),
	}
}

func why(a ratelimit.Advice) string {
	if a.Source == ratelimit.SourceRetryAfter {
		return "Retry-After"
	}
	field := ratelimit.LimitField
	if a.Fields.Dialect != "ratelimit" {
		field = clip(a.Fields.Dialect)
	}
	text := field + " " + clip(strconv.QuoteToASCII(a.Limit.Name)) + " is exhausted"
	if a.Source == ratelimit.SourceWindow {
		text += ", for its window"
	}
	return text
}

func printAdvice(w io.Writer, r *report) {
	switch a := r.Advice; {
	case a.Wait > 0 && a.Capped:
		fmt.Fprintf(w, "wait %s, then probe (%s)\n", formatDuration(a.Wait), a.why)
	case a.Wait > 0:
		fmt.Fprintf(w, "wait %s (%s)\n", formatDuration(a.Wait), a.why)
	case a.Pace >= 0.001:
		fmt.Fprintf(w, "go on, a request every %s\n", formatDuration(a.Pace))
	}
}

// formatDuration writes seconds, with at most three decimals.
func formatDuration(seconds float64) string {
	s := strconv.FormatFloat(seconds, 'f', 3, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".") + "s"
}

// A finding is a rule of the specification that the response does not keep.
type finding struct {
	Rule    string `json:"rule"`
	Level   string `json:"level"`
	Field   string `json:"field"`
	Item    *int   `json:"item,omitzero"`
	Message string `json:"message"`
}

func findingsOf(resp *http.Response) []finding {
	list := []finding{}
	for _, f := range ratelimit.Check(resp) {
		out := finding{Rule: f.Rule, Level: f.Level.String(), Field: f.Field, Message: f.Message}
		if f.Item >= 0 {
			out.Item = &f.Item
		}
		list = append(list, out)
	}
	return list
}

func printFindings(w io.Writer, r *report) {
	if r.Findings != nil && len(r.Findings) == 0 {
		fmt.Fprintln(w, "no findings")
	}
	for _, f := range r.Findings {
		item := ""
		if f.Item != nil {
			item = fmt.Sprintf(", member %d", *f.Item+1)
		}
		fmt.Fprintf(w, "%s (%s) %s%s: %s\n", f.Rule, f.Level, f.Field, item, f.Message)
	}
}
