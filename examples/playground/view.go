package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/report"
)

// Bounds of the page. A field may have 1024 members, and a name may be as long as the text.
const (
	maxRows = 100      // of a list
	maxText = 64 << 10 // bytes to copy
)

// A view is the content of the page: texts, and positions and lengths from 0 to 1.
type view struct {
	Error   string   `json:"error,omitzero"` // instead of everything else
	Heading string   `json:"heading"`
	Notes   []string `json:"notes"`
	Advice  string   `json:"advice"`
	Reason  string   `json:"reason"` // of the advice, or ""
	Tone    string   `json:"tone"`   // of the advice: "go", "wait", or "none"
	Limits  []row    `json:"limits"`
	Ticks   []tick   `json:"ticks"`
	Times   []moment `json:"times"`
	Faults  []fault  `json:"faults"`
	Clean   bool     `json:"clean"` // the response has the current fields, and no findings
	Forms   []form   `json:"forms"`
	JSON    string   `json:"json"` // "" if it is too long to show
}

// A row is a limit. An unknown value is "-".
type row struct {
	Name      string   `json:"name"`
	Key       string   `json:"key"`
	Remaining string   `json:"remaining"`
	Quota     string   `json:"quota"`
	Unit      string   `json:"unit"`
	Window    string   `json:"window"`
	Reset     string   `json:"reset"`
	Guessed   bool     `json:"guessed"` // the unit of Reset
	Filled    *float64 `json:"filled"`  // nil if unknown
	Exhausted bool     `json:"exhausted"`
}

// A fault is one thing that is wrong. At is the byte at fault, or the first one of the member.
// Long text is cut before and after it.
type fault struct {
	Level  string `json:"level"`
	Place  string `json:"place"`  // with the rule, if one is broken
	Cause  string `json:"cause"`  // "" if nothing is malformed
	Remedy string `json:"remedy"` // "" if no rule is broken
	Before string `json:"before"`
	At     string `json:"at"` // "" at the end of the text
	After  string `json:"after"`
	Placed bool   `json:"placed"` // whether the fault has a place in the text
	Line   int    `json:"line"`   // of the text, or 0
}

// A form is a dialect and the limits as its header fields.
type form struct {
	Name  string `json:"name"`
	Note  string `json:"note"`
	Text  string `json:"text"`
	Error string `json:"error"` // why there is no Text, or ""
}

// show returns the view of a pasted text, as JSON.
func show(text string) string {
	b, err := json.Marshal(viewOf(text))
	if err != nil {
		panic(err) // every view can be expressed in JSON
	}
	return string(b)
}

const maxPaste = 1 << 20 // bytes

func viewOf(text string) *view {
	if len(text) > maxPaste {
		return &view{Error: "this is longer than 1 MiB: paste the header alone, or one entry of a HAR file"}
	}
	r, err := report.Read("paste", strings.NewReader(text))
	if err != nil {
		return &view{Error: err.Error()}
	}
	r.Check()
	v := &view{Heading: r.Heading(), Reason: r.Advice.Reason, Limits: rows(r), Forms: forms(r)}
	v.Advice, v.Tone = advice(r)
	v.Ticks, v.Times = timeline(r)
	all := r.Faults()
	v.Faults = faults(all)
	v.Notes = notes(r, len(all))
	v.Clean = r.Dialect == "ratelimit" && len(all) == 0
	var b strings.Builder
	if err := report.WriteJSON(&b, r); err != nil {
		panic(err) // a builder returns no errors
	}
	if b.Len() <= maxText {
		v.JSON = b.String()
	}
	return v
}

func first[T any](list []T) []T { return list[:min(len(list), maxRows)] }

func notes(r *report.Report, faults int) []string {
	list := r.Notes()
	for _, n := range []int{len(r.Limits), faults} {
		if n > maxRows {
			list = append(list, fmt.Sprintf("Of a list of %d only the first %d are shown.", n, maxRows))
		}
	}
	return list
}

// advice returns the advice as a sentence, and its tone.
func advice(r *report.Report) (sentence, tone string) {
	sentence = r.Advice.Headline
	switch {
	case r.Advice.Refused || r.Advice.Asked > 0:
		return sentence, "wait"
	case sentence != "":
		return sentence, "go"
	case len(r.Limits) == 0 && len(r.Malformed) > 0:
		return "Go on: what is malformed is ignored, and nothing else asks to wait.", "none"
	case len(r.Limits) == 0:
		return "This response contains no rate limits.", "none"
	default:
		return "Go on: nothing asks to wait.", "go"
	}
}

func rows(r *report.Report) []row {
	var list []row
	for _, l := range first(r.Limits) {
		out := row{
			Key:       l.Key(),
			Name:      report.Quoted(l.Name),
			Remaining: report.Integer(l.Remaining),
			Quota:     report.Integer(l.Quota),
			Unit:      l.UnitName(),
			Window:    report.Seconds(l.Window),
			Reset:     report.Seconds(l.Reset),
			Guessed:   r.Guessed && l.Reset != nil,
			Exhausted: l.Exhausted(),
		}
		const parts = 1000
		if filled, ok := l.Filled(parts); ok {
			part := float64(filled) / parts
			out.Filled = &part
		}
		list = append(list, out)
	}
	return list
}

// A tick is a mark of the time line, at a part of its length.
type tick struct {
	At   float64 `json:"at"`
	Text string  `json:"text"`
}

// A moment is a row of the time line.
type moment struct {
	Name string   `json:"name"`
	At   *float64 `json:"at"` // nil if unknown
	Text string   `json:"text"`
	Next bool     `json:"next"` // the row of the next request
}

const unknownTime = "no time is known"

// timeline returns the ticks of a logarithmic scale, on which a minute and a month can both
// be seen, and its rows.
func timeline(r *report.Report) ([]tick, []moment) {
	end := r.Advice.Asked
	known := false
	for _, l := range first(r.Limits) {
		if l.Reset != nil {
			known = true
			end = max(end, float64(*l.Reset))
		}
	}
	if !known && end == 0 {
		return nil, nil
	}
	s := newScale(end)
	list := []moment{s.next(r)}
	for _, l := range first(r.Limits) {
		if l.Reset == nil {
			list = append(list, moment{Name: report.Quoted(l.Name), Text: unknownTime})
			continue
		}
		list = append(list, s.moment(report.Quoted(l.Name), float64(*l.Reset), "t ends", r.Arrived))
	}
	return s.ticks(), list
}

// steps are the times, in seconds, that the time line may mark.
var steps = []float64{1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400, 10 * 365 * 86400}

// A scale has the length of the time line, in seconds.
type scale struct{ end float64 }

// newScale returns a scale that ends at a step, if there is one beyond end.
func newScale(end float64) scale {
	if i := slices.IndexFunc(steps, func(step float64) bool { return step >= max(end, 10) }); i >= 0 {
		end = steps[i]
	}
	return scale{end}
}

func (s scale) at(seconds float64) float64 { return math.Log1p(seconds) / math.Log1p(s.end) }

func (s scale) ticks() []tick {
	const apart = 0.1
	list := []tick{{0, "now"}}
	for _, step := range steps {
		if at := s.at(step); at <= 1 && at >= list[len(list)-1].At+apart {
			list = append(list, tick{at, report.Readable(int64(step))})
		}
	}
	return list
}

func (s scale) moment(name string, seconds float64, what string, arrived time.Time) moment {
	at := s.at(seconds)
	m := moment{Name: name, At: &at}
	const century = 100 * 365 * 86400
	switch {
	case seconds == 0:
		m.Text = what + " now"
	case seconds > century:
		m.Text = what + " in more than a century"
	default:
		n := int64(math.Ceil(seconds))
		m.Text = fmt.Sprintf("%s in %s, at %s", what, report.Readable(n),
			arrived.Add(time.Duration(n)*time.Second).UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return m
}

func (s scale) next(r *report.Report) moment {
	m := moment{Name: "next request", Text: unknownTime}
	if !r.Advice.Refused || r.Advice.Asked > 0 {
		m = s.moment(m.Name, r.Advice.Asked, "can be sent", r.Arrived)
	}
	m.Next = true
	return m
}

func faults(all []report.Fault) []fault {
	const columns = 320
	var list []fault
	for _, f := range first(all) {
		out := fault{Level: f.Level, Place: strings.TrimSpace(f.Rule + " " + f.Place), Cause: f.Cause, Remedy: f.Remedy, Placed: f.Offset >= 0, Line: f.Line}
		if out.Placed {
			text, at := report.Excerpt(f.Value, f.Offset, columns)
			end := min(at+1, len(text))
			out.Before, out.At, out.After = text[:at], text[at:end], text[end:]
		}
		list = append(list, out)
	}
	return list
}

// dialects are the names of all forms except the current form.
var dialects = []string{
	"draft-07", "draft-06", "draft-03", "draft-00",
	"x-ratelimit", "x-ratelimit-unix", "x-ratelimit-date", "x-ratelimit-by-name",
	"github", "gitlab", "twitter", "openai", "anthropic",
}

var errTooLongToShow = errors.New("longer than 64 KiB, which is too long to show")

// forms returns the limits in every form, or the reason why a form cannot express them.
func forms(r *report.Report) (list []form) {
	if len(r.Limits) == 0 {
		return nil
	}
	add := func(f form, h http.Header, err error) {
		f.Text = headerText(h)
		if err == nil && len(f.Text) > maxText {
			err = errTooLongToShow
		}
		if err != nil {
			f.Text, f.Error = "", strings.TrimPrefix(err.Error(), "ratelimit: ")
		}
		list = append(list, f)
	}
	h := http.Header{}
	add(form{Name: "current form", Note: "draft-08 to draft-11"}, h, r.Fields.Writable().Set(h))
	for _, name := range dialects {
		d, _ := ratelimit.LookupDialect(name)
		h := http.Header{}
		f := form{Name: name}
		if len(r.Fields.Limits) > 1 && !named(d) {
			f.Note = "the tightest limit alone"
		}
		add(f, h, d.Set(h, r.Fields, r.Arrived))
	}
	return list
}

// named reports whether a dialect has separate fields for each limit.
func named(d *ratelimit.Dialect) bool {
	return slices.ContainsFunc(d.Fields(), func(f ratelimit.DialectField) bool { return strings.Contains(f.Name, "*") })
}

// headerText returns the lines of a header, with names as in the drafts.
func headerText(h http.Header) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[key] {
			fmt.Fprintf(&b, "%s: %s\n", strings.Replace(key, "Ratelimit", "RateLimit", 1), value)
		}
	}
	return b.String()
}
