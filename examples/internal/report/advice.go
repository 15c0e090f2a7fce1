package report

import (
	"fmt"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
)

// An Advice is what a client should do after a response.
type Advice struct {
	Wait   float64 `json:"wait"`          // in seconds, as Pace
	Pace   float64 `json:"pace,omitzero"` // between requests
	Source string  `json:"source"`
	Limit  string  `json:"limit,omitzero"` // name of the limit that decided
	Capped bool    `json:"capped,omitzero"`

	Asked   float64 `json:"-"` // the wait that the server asks for, in seconds
	Refused bool    `json:"-"` // by a limit: whatever else the response says is no invitation
	text    string
}

func adviceOf(resp *http.Response, received moment) Advice {
	a := ratelimit.Advisor{}.Advise(resp, received.Time)
	return Advice{
		Wait:    a.Wait.Seconds(),
		Pace:    a.Pace.Seconds(),
		Source:  a.Source.String(),
		Limit:   Printable(a.Limit.Name),
		Capped:  a.Capped,
		Asked:   a.Asked.Seconds(),
		Refused: a.Refused,
		text:    sentence(a, received),
	}
}

// sentence says what the server asks for, which may be longer than what a Transport
// obeys.
func sentence(a ratelimit.Advice, received moment) string {
	switch {
	case a.Asked > century:
		return fmt.Sprintf("Wait more than a century (%s).", why(a))
	case a.Asked > 0:
		return fmt.Sprintf("Wait %s%s (%s).", duration(a.Asked), received.until(a.Asked), why(a))
	case a.Refused && a.Source != ratelimit.SourceNone:
		return fmt.Sprintf("Refused; it asks for no wait (%s).", why(a))
	case a.Refused:
		return "Refused; it does not say for how long."
	case a.Pace >= time.Millisecond:
		return fmt.Sprintf("Go on. To make %s last: one request every %s.", paced(a.Fields), duration(a.Pace))
	}
	return ""
}

func why(a ratelimit.Advice) string {
	if a.Source == ratelimit.SourceRetryAfter {
		return "Retry-After"
	}
	field := ratelimit.LimitField
	if a.Fields.Dialect != "ratelimit" {
		field = Clip(a.Fields.Dialect)
	}
	text := field + " " + quoted(a.Limit.Name) + " is exhausted"
	if a.Source == ratelimit.SourceWindow {
		text += ", for its window"
	}
	return text
}

// paced returns the name of the limit that sets the pace: the one that asks for the
// slowest by itself.
func paced(f ratelimit.Fields) string {
	name, slowest := "it", time.Duration(0)
	for _, l := range f.Limits {
		alone := ratelimit.Fields{Limits: []ratelimit.Limit{l}}
		if p, ok := f.PolicyOf(l); ok {
			alone.Policies = []ratelimit.Policy{p}
		}
		h := http.Header{}
		if alone.Writable().Set(h) != nil {
			continue
		}
		if a := (ratelimit.Advisor{}).Advise(&http.Response{Header: h}, time.Time{}); a.Pace > slowest {
			name, slowest = quoted(l.Name), a.Pace
		}
	}
	return name
}

// String returns the advice in sentences, or "" if the response asks for nothing.
func (a Advice) String() string { return a.text }

// Note says what a Transport makes of a long wait, or returns "".
func (a Advice) Note() string {
	if !a.Capped {
		return ""
	}
	return fmt.Sprintf("A Transport would probe after %s.", duration(ratelimit.DefaultMaxWait))
}

// A Finding is a rule of the specification that the response does not keep.
type Finding struct {
	Rule    string `json:"rule"`
	Level   string `json:"level"`
	Field   string `json:"field"`
	Item    *int   `json:"item,omitzero"`
	Message string `json:"message"`
}

// Check sets the findings about the response that the report is about. They are not
// nil if there are none.
func (r *Report) Check(resp *http.Response) {
	r.Findings = []Finding{}
	for _, f := range ratelimit.Check(resp) {
		out := Finding{Rule: f.Rule, Level: f.Level.String(), Field: r.names.of(f.Field), Message: f.Message}
		if f.Item >= 0 {
			out.Item = &f.Item
		}
		r.Findings = append(r.Findings, out)
	}
}

// Place returns the field at fault, with the number of its member.
func (f Finding) Place() string {
	if f.Item == nil {
		return f.Field
	}
	return fmt.Sprintf("%s, member %d", f.Field, *f.Item+1)
}
