package report

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// An Advice is the wait or the pace that a response asks of a client.
type Advice struct {
	Wait    float64 `json:"wait"`           // in seconds, like Pace and Asked
	Asked   float64 `json:"asked,omitzero"` // the wait that the server asks for, which may be longer
	Pace    float64 `json:"pace,omitzero"`  // between requests
	Source  string  `json:"source"`
	Limit   string  `json:"limit,omitzero"`   // name of the limit that decided
	Capped  bool    `json:"capped,omitzero"`  // Wait is shorter than Asked
	Refused bool    `json:"refused,omitzero"` // by a limit, whatever else the response contains

	Headline string `json:"-"` // a sentence, or "" if the response asks for nothing
	Reason   string `json:"-"` // the source, or ""
}

func adviceOf(resp *http.Response, received moment) Advice {
	a := ratelimit.Advise(resp, received.Time)
	out := Advice{
		Wait:    a.Wait.Seconds(),
		Asked:   a.Asked.Seconds(),
		Pace:    a.Pace.Seconds(),
		Source:  a.Source.String(),
		Limit:   Printable(a.Limit.Name),
		Capped:  a.Capped,
		Refused: a.Refused,

		Headline: headline(a, received),
	}
	if a.Source != ratelimit.SourceNone && (a.Asked > 0 || a.Refused) {
		out.Reason = reason(a)
	}
	return out
}

// headline returns a sentence about the wait or the pace that a response asks for, or about a missing
// time. It returns "" if there is nothing to do.
func headline(a ratelimit.Advice, received moment) string {
	wait := ""
	switch {
	case a.Asked > 0:
		wait = "Wait " + duration(a.Asked) + received.until(a.Asked)
	case a.Refused && a.Source != ratelimit.SourceNone:
		wait = "The server asks for no wait"
	case a.Refused:
		wait = "The server names no time: back off, and double the wait each time"
	case a.Source == ratelimit.SourceNone && slices.ContainsFunc(a.Fields.Limits, func(l ratelimit.Limit) bool { return l.Remaining == 0 }):
		wait = "Nothing remains, and the server names no time"
	case a.Pace >= time.Millisecond:
		wait = fmt.Sprintf("Go on. To make the quota last, leave %s between requests", duration(a.Pace))
	default:
		return ""
	}
	if a.Refused {
		wait = "Refused. " + wait
	}
	return wait + "."
}

func reason(a ratelimit.Advice) string {
	if a.Source == ratelimit.SourceRetryAfter {
		return "Retry-After"
	}
	field := ratelimit.LimitField
	if a.Fields.Dialect != "ratelimit" {
		field = Clip(a.Fields.Dialect)
	}
	text := field + " " + Quoted(a.Limit.Name) + " is exhausted"
	if a.Limit.Remaining == ratelimit.Unknown {
		text = field + " " + Quoted(a.Limit.Name) + " may have refused"
	}
	if a.Source == ratelimit.SourceWindow {
		text += ", for its window"
	}
	return text
}

// String returns the headline with the reason.
func (a Advice) String() string {
	if a.Reason == "" {
		return a.Headline
	}
	return fmt.Sprintf("%s (%s).", strings.TrimSuffix(a.Headline, "."), a.Reason)
}
