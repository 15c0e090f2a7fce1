package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/report"
)

// A probeReport is what a run has shown.
type probeReport struct {
	address  string
	started  time.Time
	stopped  string
	sequence ratelimit.Sequence
	lines    []line
	names    []string // of limits, in the order in which they came
	answered int
	refused  int
	failure  error // the first, where no answer came
	findings []ratelimit.Finding
	seen     seen
	widths   [mostColumns]int // of the limits in a row
}

// A line is one request in the time line.
type line struct {
	At      float64        `json:"at"`             // seconds from the beginning to when it was sent
	Took    float64        `json:"took"`           // seconds until the answer
	Status  int            `json:"status"`         // 0 if there was none
	Refused bool           `json:"refused"`        // by a limit
	Asked   *float64       `json:"wait,omitempty"` // seconds that a refusal asks to wait
	Form    string         `json:"form,omitempty"` // in which it says its limits
	Limits  []report.Limit `json:"limits"`
}

// add notes an answer, and returns its line.
func (r *probeReport) add(a answer) line {
	l := line{At: a.sent.Sub(r.started).Seconds(), Took: a.received.Sub(a.sent).Seconds(), Limits: []report.Limit{}}
	if a.resp == nil {
		if r.failure == nil {
			r.failure = a.err
		}
		r.sequence.Add(nil, a.sent, a.received)
		r.lines = append(r.lines, l)
		return l
	}
	r.answered++
	if a.advice.Refused {
		r.refused++
	}
	r.findings = append(r.findings, r.sequence.Add(a.resp, a.sent, a.received)...)
	l.Status, l.Refused, l.Form = a.resp.StatusCode, a.advice.Refused, a.advice.Fields.Dialect
	if l.Refused && a.advice.Source != ratelimit.SourceNone {
		s := a.advice.Asked.Seconds()
		l.Asked = &s
	}
	all := report.LimitsOf(a.advice.Fields) // the policies without a limit are at its end
	l.Limits = all[:len(a.advice.Fields.Limits)]
	for _, limit := range l.Limits {
		if !slices.Contains(r.names, limit.Name) && len(r.names) < mostColumns {
			r.names = append(r.names, limit.Name)
		}
	}
	r.seen.add(a)
	r.lines = append(r.lines, l)
	return l
}

// exitInterrupted is the exit status after an interrupt, as that of a shell.
const exitInterrupted = 130

// status returns the exit status of the run.
func (r *probeReport) status(requireRefusal bool) int {
	switch {
	case r.stopped == interrupted:
		return exitInterrupted
	case len(r.names) == 0, requireRefusal && r.refused == 0:
		return exitDoubtful
	}
	for _, f := range r.findings {
		if f.Level > ratelimit.LevelNote {
			return exitDoubtful
		}
	}
	return exitFine
}

// behaviour returns what the server behaves like, in a sentence for each limit.
func (r *probeReport) behaviour() []string {
	list := []string{}
	for _, model := range r.sequence.Models() {
		list = append(list, report.Printable(model))
	}
	return list
}

// summary returns the last line of the report.
func (r *probeReport) summary() string {
	text := fmt.Sprintf("%s: %d sent, %d answered, %d refused; %s", r.address, len(r.lines), r.answered, r.refused, r.stopped)
	if len(r.names) == 0 {
		text += "; the server sends no rate limits"
	}
	return text
}

// mostColumns is the largest number of limits in a row and in the table.
const mostColumns = 6

// seen is what has happened in a run, so that rules could be tried.
type seen struct {
	spent     int // served responses that say what remains
	counted   bool
	exhausted bool
	refused   bool
	after     bool // a request after the wait that a refusal asked for
	retry     bool
	older     bool // older fields beside current ones
	policies  int
	first     time.Time
	until     time.Time // the end of the wait
}

func (s *seen) add(a answer) {
	f := a.advice.Fields
	if len(f.Policies) > 0 {
		s.policies++
	}
	for _, l := range f.Limits {
		s.exhausted = s.exhausted || l.Remaining == 0
	}
	if len(f.Limits) > 0 {
		if s.first.IsZero() {
			s.first = a.received
		}
		s.counted = s.counted || a.sent.Sub(s.first) >= 2*time.Second
		if !a.advice.Refused {
			s.spent++
		}
	}
	s.after = s.after || !s.until.IsZero() && !a.sent.Before(s.until)
	if a.advice.Refused {
		s.refused = true
		s.retry = s.retry || a.advice.Source == ratelimit.SourceRetryAfter
		if a.advice.Source != ratelimit.SourceNone {
			s.until = a.received.Add(a.advice.Asked)
		}
	}
	s.older = s.older || bothForms(a.resp.Header)
}

// bothForms reports whether a header has current fields and older ones.
func bothForms(h http.Header) bool {
	if len(h[http.CanonicalHeaderKey(ratelimit.LimitField)]) == 0 {
		return false
	}
	older := h.Clone()
	older.Del(ratelimit.LimitField)
	older.Del(ratelimit.PolicyField)
	f, _ := ratelimit.ParseAny(older, ratelimit.LegacyOptions{})
	return len(f.Limits) > 0
}

// notSeen lists the rules that could not be tried.
func (s *seen) notSeen() []string {
	const least = 4 // responses that show how what remains falls
	list := []string{}
	for _, rule := range []struct {
		tried bool
		text  string
	}{
		{s.spent >= least, "what remains falls by what is spent"},
		{s.counted, "resets go down with the clock"},
		{s.exhausted, "at nothing remaining a request is refused"},
		{s.refused, "a refusal comes when nothing remains, and not before"},
		{s.after, "something comes back after the wait that a refusal asks for"},
		{s.retry, "Retry-After is not before the reset"},
		{s.older, "older and current fields agree"},
		{s.policies > 1, "policies stay the same"},
	} {
		if !rule.tried {
			list = append(list, rule.text)
		}
	}
	return list
}

// writeJSON writes the report as one object.
func (r *probeReport) writeJSON(w io.Writer) error {
	findings := []report.Finding{}
	for _, f := range r.findings {
		findings = append(findings, report.FindingOf(f))
	}
	return report.WriteJSON(w, struct {
		URL      string           `json:"url"`
		Stopped  string           `json:"stopped"`
		Sent     int              `json:"sent"`
		Answered int              `json:"answered"`
		Refused  int              `json:"refused"`
		Requests []line           `json:"requests"`
		Findings []report.Finding `json:"findings"`
		NotSeen  []string         `json:"not_seen"`
		Models   []string         `json:"models"` // what each limit behaves like
	}{r.address, r.stopped, len(r.lines), r.answered, r.refused, r.lines, findings, r.seen.notSeen(), r.behaviour()})
}

// writeText writes the report for people, without the rows.
func (r *probeReport) writeText(w io.Writer) error {
	var b bytes.Buffer
	r.writeLimits(&b)
	if len(r.findings) == 0 && len(r.names) > 0 {
		fmt.Fprintln(&b, "no findings")
	}
	for _, f := range r.findings {
		fmt.Fprintln(&b, f)
	}
	for _, rule := range r.seen.notSeen() {
		fmt.Fprintf(&b, "not seen: %s\n", rule)
	}
	for _, model := range r.behaviour() {
		fmt.Fprintln(&b, "behaves like", model)
	}
	fmt.Fprintln(&b, r.summary())
	_, err := b.WriteTo(w)
	return err
}

// writeLimits writes a table of the limits.
func (r *probeReport) writeLimits(b *bytes.Buffer) {
	if len(r.names) == 0 {
		b.WriteString("\nno rate limits found\n\n")
		return
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nNAME\tFORM\tQUOTA\tWINDOW\tREMAINING\tRESET\tRESPONSES")
	for _, name := range r.names {
		var left, until span
		var quota, window *int64
		form, responses := "", 0
		for _, l := range r.lines {
			for _, limit := range l.Limits {
				if limit.Name != name {
					continue
				}
				responses++
				form = l.Form
				quota, window = cmp.Or(limit.Quota, quota), cmp.Or(limit.Window, window)
				left.add(limit.Remaining)
				until.add(limit.Reset)
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", report.Quoted(name), report.FormName(form),
			report.Integer(quota), report.Seconds(window), left.text(report.Integer), until.text(report.Seconds), responses)
	}
	table.Flush()
	b.WriteByte('\n')
}

// A span is the lowest and the highest of some numbers.
type span struct{ low, high *int64 }

func (s *span) add(n *int64) {
	if n == nil {
		return
	}
	if s.low == nil || *n < *s.low {
		s.low = n
	}
	if s.high == nil || *n > *s.high {
		s.high = n
	}
}

// text returns "3 to 0".
func (s span) text(of func(*int64) string) string {
	if s.low == nil || *s.low == *s.high {
		return of(s.low)
	}
	return of(s.high) + " to " + of(s.low)
}

// row returns a line of the time line.
func (r *probeReport) row(l line) string {
	status := fmt.Sprint(l.Status)
	if l.Status == 0 {
		status = "lost"
	}
	row := fmt.Sprintf("%8.3fs  %-4s", l.At, status)
	for i, limit := range l.Limits {
		if i == mostColumns {
			break
		}
		cell := fmt.Sprintf("%s %s r=%s t=%s", report.Quoted(limit.Name), bar(limit), report.Integer(limit.Remaining), report.Integer(limit.Reset))
		r.widths[i] = max(r.widths[i], len(cell))
		row += fmt.Sprintf("  %-*s", r.widths[i], cell)
	}
	switch {
	case l.Refused && l.Asked != nil:
		row += fmt.Sprintf("  refused, wait %gs", *l.Asked)
	case l.Refused:
		row += "  refused without a wait"
	}
	return strings.TrimRight(row, " ")
}
