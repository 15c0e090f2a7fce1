package report

import (
	"fmt"
	"net/http"
	"strconv"
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
	why    string
}

func adviceOf(resp *http.Response, received time.Time) Advice {
	a := ratelimit.Advisor{}.Advise(resp, received)
	return Advice{
		Wait:   a.Wait.Seconds(),
		Pace:   a.Pace.Seconds(),
		Source: a.Source.String(),
		Limit:  Printable(a.Limit.Name),
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
		field = Clip(a.Fields.Dialect)
	}
	text := field + " " + Clip(strconv.QuoteToASCII(a.Limit.Name)) + " is exhausted"
	if a.Source == ratelimit.SourceWindow {
		text += ", for its window"
	}
	return text
}

// String returns the advice in words, or "" if the response asks for nothing.
func (a Advice) String() string {
	switch {
	case a.Wait > 0 && a.Capped:
		return fmt.Sprintf("wait %s, then probe (%s)", duration(a.Wait), a.why)
	case a.Wait > 0:
		return fmt.Sprintf("wait %s (%s)", duration(a.Wait), a.why)
	case a.Pace >= 0.001:
		return "go on, a request every " + duration(a.Pace)
	}
	return ""
}

// A Finding is a rule of the specification that the response does not keep.
type Finding struct {
	Rule    string `json:"rule"`
	Level   string `json:"level"`
	Field   string `json:"field"`
	Item    *int   `json:"item,omitzero"`
	Message string `json:"message"`
}

// Check returns the findings about a response. It is not nil if there are none.
func Check(resp *http.Response) []Finding {
	list := []Finding{}
	for _, f := range ratelimit.Check(resp) {
		out := Finding{Rule: f.Rule, Level: f.Level.String(), Field: f.Field, Message: f.Message}
		if f.Item >= 0 {
			out.Item = &f.Item
		}
		list = append(list, out)
	}
	return list
}

// Place returns the field at fault, with the number of its member.
func (f Finding) Place() string {
	if f.Item == nil {
		return f.Field
	}
	return fmt.Sprintf("%s, member %d", f.Field, *f.Item+1)
}
