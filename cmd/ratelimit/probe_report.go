package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/report"
	"github.com/httpfields/ratelimit/ratelimittest"
)

type probeReport struct {
	URL      string           `json:"url"`
	Stopped  string           `json:"stopped"` // why no more requests are sent, or ""
	Sent     int              `json:"sent"`
	Answered int              `json:"answered"`
	Refused  int              `json:"refused"`
	Requests []line           `json:"requests"` // in the order of their answers
	Findings []report.Finding `json:"findings"`
	NotSeen  []string         `json:"not_seen"` // the rules that the run could not test
	Models   []string         `json:"models"`   // the behaviour of each limit

	require  bool // a request must be refused
	started  time.Time
	sequence ratelimittest.Sequence
	names    []string         // of limits, in the order of their first response
	failure  error            // the first one
	widths   [mostColumns]int // of the limits in a row
}

// A line is a request with its answer.
type line struct {
	At      float64        `json:"at"`             // when it was sent, in seconds after the start
	Status  int            `json:"status"`         // 0 if no answer came
	Refused bool           `json:"refused"`        // by a limit
	Asked   *float64       `json:"wait,omitempty"` // requested by a refusal, in seconds
	Form    string         `json:"form,omitempty"` // dialect of the limits
	Limits  []report.Limit `json:"limits"`         // the first ones, with texts of a bounded length

	sent, received, until time.Time // until is the end of the requested wait; zero if there is none
	policies              bool      // the response announces policies
	retryAfter            bool      // Retry-After asks to wait
}

// add adds a response, and returns its line. If the response was lost, resp is nil, and err is the
// cause. If the request was cut off by the end of the run, both are nil.
func (r *probeReport) add(resp *http.Response, err error, sent, received time.Time) line {
	l := line{At: sent.Sub(r.started).Seconds(), Limits: []report.Limit{}, sent: sent, received: received}
	for _, f := range r.sequence.Add(resp, sent, received) {
		r.Findings = append(r.Findings, report.FindingOf(f))
	}
	if resp == nil {
		if r.failure == nil {
			r.failure = err
		}
		r.Requests = append(r.Requests, l)
		return l
	}
	a := ratelimit.Advisor{MaxWait: math.MaxInt64}.Advise(resp, received)
	r.Answered++
	if a.Refused {
		r.Refused++
	}
	l.Status, l.Refused, l.Form = resp.StatusCode, a.Refused, a.Fields.Dialect
	if l.Refused && a.Source != ratelimit.SourceNone {
		s := a.Asked.Seconds()
		l.Asked, l.until = &s, received.Add(a.Asked)
		l.retryAfter = a.Source == ratelimit.SourceRetryAfter
	}
	l.policies = len(a.Fields.Policies) > 0
	limits := report.LimitsOf(a.Fields) // policies without a limit are at the end
	for _, limit := range limits[:min(len(a.Fields.Limits), mostLimits)] {
		limit = *limit.Kept()
		l.Limits = append(l.Limits, limit)
		if !slices.Contains(r.names, limit.Name) && len(r.names) < mostColumns {
			r.names = append(r.names, limit.Name)
		}
	}
	r.Requests = append(r.Requests, l)
	return l
}

// complete sets the conclusions from all answers. In JSON null would not be an array.
func (r *probeReport) complete() {
	r.Requests, r.Findings = append([]line{}, r.Requests...), append([]report.Finding{}, r.Findings...)
	r.NotSeen, r.Models = r.notSeen(), []string{}
	for _, model := range r.sequence.Models() {
		r.Models = append(r.Models, report.Printable(model))
	}
}

func (r *probeReport) status() int {
	switch {
	case r.Stopped == interrupted:
		return exitInterrupted
	case len(r.names) == 0, r.require && r.Refused == 0, slices.ContainsFunc(r.Findings, report.Finding.IsFault):
		return exitDoubtful
	}
	return exitFine
}

func (r *probeReport) summary() string {
	text := fmt.Sprintf("%s: %d sent, %d answered, %d refused; %s", r.URL, r.Sent, r.Answered, r.Refused, r.Stopped)
	if len(r.names) == 0 {
		text += "; the server sends no rate limits"
	}
	if r.require && r.Refused == 0 {
		text += "; no request was refused"
	}
	return text
}

// The bounds of the report: limits in a row and in the table, and limits of a response.
const mostColumns, mostLimits = 6, 32

// notSeen lists the rules that the run could not test.
func (r *probeReport) notSeen() []string {
	const least = 4 // responses that show how the remaining quota falls
	var first, until time.Time
	var served, policies int
	var counted, exhausted, waited, retryAfter bool
	for _, l := range r.Requests {
		if len(l.Limits) > 0 && first.IsZero() {
			first = l.received
		}
		if len(l.Limits) > 0 && !l.Refused {
			served++
		}
		if l.policies {
			policies++
		}
		counted = counted || len(l.Limits) > 0 && l.sent.Sub(first) >= 2*time.Second
		exhausted = exhausted || slices.ContainsFunc(l.Limits, report.Limit.Exhausted)
		waited = waited || !until.IsZero() && !l.sent.Before(until)
		retryAfter = retryAfter || l.retryAfter
		if !l.until.IsZero() {
			until = l.until
		}
	}
	list := []string{}
	rule := func(tried bool, text string) {
		if !tried {
			list = append(list, text)
		}
	}
	rule(served >= least, "the remaining quota falls with each request")
	rule(counted, "resets count down")
	rule(exhausted, "a request is refused when nothing remains")
	rule(r.Refused > 0, "no request is refused while something remains")
	rule(waited, "quota returns after the requested wait")
	rule(retryAfter, "Retry-After does not end before the reset")
	rule(policies > 1, "policies stay the same")
	return list
}

// writeText writes the report for people, without the rows.
func (r *probeReport) writeText(w io.Writer) error {
	var b bytes.Buffer
	r.writeLimits(&b)
	if len(r.Findings) == 0 && len(r.names) > 0 {
		fmt.Fprintln(&b, "no findings")
	}
	for _, f := range r.Findings {
		fmt.Fprintln(&b, f.Source)
	}
	for _, rule := range r.NotSeen {
		fmt.Fprintf(&b, "not seen: %s\n", rule)
	}
	for _, model := range r.Models {
		fmt.Fprintln(&b, model)
	}
	fmt.Fprintln(&b, r.summary())
	_, err := b.WriteTo(w)
	return err
}

func (r *probeReport) writeLimits(b *bytes.Buffer) {
	if len(r.names) == 0 {
		b.WriteString("\nno rate limits found\n\n")
		return
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nNAME\tFORM\tQUOTA\tWINDOW\tREMAINING\tRESET\tRESPONSES")
	for _, name := range r.names {
		var remaining, resets []*int64
		var quota, window *int64
		form, responses := "", 0
		for _, l := range r.Requests {
			for _, limit := range l.Limits {
				if limit.Name != name {
					continue
				}
				responses++
				form = l.Form
				quota, window = cmp.Or(limit.Quota, quota), cmp.Or(limit.Window, window)
				remaining, resets = append(remaining, limit.Remaining), append(resets, limit.Reset)
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", report.Quoted(name), report.FormName(form),
			report.Integer(quota), report.Seconds(window), span(remaining, report.Integer), span(resets, report.Seconds), responses)
	}
	table.Flush()
	b.WriteByte('\n')
}

// span returns the highest and the lowest of the numbers that are not nil, such as "3 to 0". text
// formats a number or nil.
func span(numbers []*int64, text func(*int64) string) string {
	numbers = slices.DeleteFunc(numbers, func(n *int64) bool { return n == nil })
	if len(numbers) == 0 {
		return text(nil)
	}
	byValue := func(a, b *int64) int { return cmp.Compare(*a, *b) }
	low, high := text(slices.MinFunc(numbers, byValue)), text(slices.MaxFunc(numbers, byValue))
	if low == high {
		return low
	}
	return high + " to " + low
}

// row returns a line as text.
func (r *probeReport) row(l line) string {
	status := fmt.Sprint(l.Status)
	if l.Status == 0 {
		status = "lost"
	}
	row := fmt.Sprintf("%8.3fs  %-4s", l.At, status)
	for i, limit := range l.Limits[:min(len(l.Limits), mostColumns)] {
		cell := fmt.Sprintf("%s %s r=%s t=%s", report.Quoted(limit.Name), bar(limit), report.Integer(limit.Remaining), report.Integer(limit.Reset))
		r.widths[i] = max(r.widths[i], len(cell))
		row += fmt.Sprintf("  %-*s", r.widths[i], cell)
	}
	switch {
	case l.Refused && l.Asked != nil:
		row += fmt.Sprintf("  refused, wait %gs", *l.Asked)
	case l.Refused:
		row += "  refused without a wait"
	case l.Status/100 == 3 && l.Status != http.StatusNotModified && len(l.Limits) == 0:
		row += "  a redirect, which is not followed"
	}
	return strings.TrimRight(row, " ")
}
