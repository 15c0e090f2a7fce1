// Package report gathers all that an HTTP response says about rate limits, for
// the examples that print it (inspect) or show it (playground).
package report

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// A Report is what a response says about rate limits. All of its text is
// printable ASCII, so that no terminal obeys what a server sent.
type Report struct {
	Source    string      `json:"source"`
	Status    string      `json:"status"`
	Dialect   string      `json:"dialect,omitzero"` // how the limits were spelled
	Guessed   bool        `json:"guessed,omitzero"` // the unit of a reset
	Limits    []Limit     `json:"limits"`
	Malformed []Malformed `json:"malformed"`
	Advice    Advice      `json:"advice"`
	Findings  []Finding   `json:"findings,omitzero"` // nil if not asked for

	Fields  ratelimit.Fields `json:"-"` // out of which Limits was made
	Arrived time.Time        `json:"-"` // the time from which the response was read
	names   Names
}

// Names are the names of header fields as a response spells them, by their keys in
// http.Header.
type Names map[string]string

// Add adds a name.
func (n Names) Add(name string) { n[http.CanonicalHeaderKey(name)] = name }

// of returns the name of a field. The two that the specification defines are called
// as it calls them, because what is said of them names them so.
func (n Names) of(field string) string {
	if name, ok := n[field]; ok && !strings.EqualFold(name, ratelimit.LimitField) && !strings.EqualFold(name, ratelimit.PolicyField) {
		return Printable(name)
	}
	return field
}

// A Limit is a limit joined with its policy, or either alone. nil and "" are
// absent, but in Name.
type Limit struct {
	Name         string `json:"name"`
	PartitionKey []byte `json:"partition_key,omitzero"`
	Remaining    *int64 `json:"remaining,omitzero"`
	Quota        *int64 `json:"quota,omitzero"`
	Unit         string `json:"unit,omitzero"`
	Window       *int64 `json:"window,omitzero"` // in seconds, as Reset
	Reset        *int64 `json:"reset,omitzero"`
}

// A Malformed is a field that had to be ignored. Where no byte is at fault, but
// the response as a whole, Offset is -1, and Field and Value are "".
type Malformed struct {
	Field  string `json:"field"`
	Line   int    `json:"line"`
	Offset int    `json:"offset"` // counts bytes, each of which is one character of Value
	Item   *int   `json:"item,omitzero"`
	Param  string `json:"param,omitzero"`
	Error  string `json:"error"`
	Value  string `json:"value"`
}

// New reports on a response, without its body. names may be nil. Findings is nil; it
// is for the caller to ask for them by [Report.Check].
func New(source string, resp *http.Response, names Names) *Report {
	arrived := arrival(resp.Header)
	fields, err := ratelimit.ParseAny(resp.Header, ratelimit.LegacyOptions{Now: arrived.Time})
	return &Report{
		Source:    Printable(source),
		Status:    Printable(strings.TrimSpace(resp.Status)),
		Dialect:   fields.Dialect,
		Guessed:   fields.Guessed,
		Limits:    limitsOf(fields),
		Malformed: malformedOf(resp.Header, names, err),
		Advice:    adviceOf(resp, arrived),
		Fields:    fields,
		Arrived:   arrived.Time,
		names:     names,
	}
}

// A moment is when a response arrived.
type moment struct {
	time.Time
	known bool // by its Date
}

// arrival returns when a response arrived: at its Date (RFC 9110 Section
// 6.6.1), because it may have been kept, and the points in time that it names
// have nothing to do with the day on which it is read. Without one it is now.
func arrival(h http.Header) moment {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return moment{date, true}
	}
	return moment{Time: time.Now()}
}

// until returns the point in time at which a wait ends, if it is known when it began.
func (m moment) until(wait time.Duration) string {
	if !m.known {
		return ""
	}
	begin, end := m.UTC(), m.Add(wait+time.Second-1).Truncate(time.Second).UTC() // rounded up
	text := ", until "
	if begin.Format(time.DateOnly) != end.Format(time.DateOnly) {
		text += end.Format(time.DateOnly) + " "
	}
	return text + strings.TrimSuffix(end.Format(time.TimeOnly), ":00") + " UTC"
}

// An identity is what a limit and its policy have in common.
type identity struct {
	name, key string
	keyed     bool
}

func identityOf(p ratelimit.Policy) identity {
	return identity{p.Name, string(p.PartitionKey), p.PartitionKey != nil}
}

// limitsOf joins each limit with its policy, and puts the policies to which no
// limit belongs at the end.
func limitsOf(f ratelimit.Fields) []Limit {
	list := []Limit{} // null would be no array in JSON
	joined := map[identity]bool{}
	for _, l := range f.Limits {
		p, ok := f.PolicyOf(l)
		if !ok {
			list = append(list, limitOf(l))
			continue
		}
		list = append(list, limitOf(l).with(p))
		joined[identityOf(p)] = true
	}
	for _, p := range f.Policies {
		id := identityOf(p)
		if !joined[id] {
			list = append(list, Limit{Name: p.Name}.with(p))
		}
		// Limits belong to the first of an identity; a repeated one is on its own.
		delete(joined, id)
	}
	return list
}

func limitOf(l ratelimit.Limit) Limit {
	return Limit{Name: l.Name, PartitionKey: l.PartitionKey, Remaining: known(l.Remaining), Reset: secondsOf(l.Reset)}
}

func (l Limit) with(p ratelimit.Policy) Limit {
	if l.PartitionKey == nil {
		l.PartitionKey = p.PartitionKey
	}
	l.Quota = known(p.Quota)
	l.Unit = string(p.Unit)
	l.Window = secondsOf(p.Window)
	return l
}

func known(n int64) *int64 {
	if n == ratelimit.Unknown {
		return nil
	}
	return &n
}

func secondsOf(s ratelimit.Seconds) *int64 {
	n, ok := s.Value()
	if !ok {
		return nil
	}
	return &n
}

func malformedOf(h http.Header, names Names, err error) []Malformed {
	list := []Malformed{}
	for _, e := range fieldErrors(err) {
		spelled := *e
		spelled.Field = names.of(e.Field)
		m := Malformed{Field: spelled.Field, Line: e.Line, Offset: e.Offset, Param: e.Param, Error: spelled.Error()}
		if lines := h.Values(e.Field); e.Line < len(lines) {
			m.Value = Printable(lines[e.Line])
		}
		if e.Item >= 0 {
			m.Item = &e.Item
		}
		list = append(list, m)
	}
	return list
}

// fieldErrors returns the errors that err joins.
func fieldErrors(err error) []*ratelimit.FieldError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var list []*ratelimit.FieldError
		for _, err := range joined.Unwrap() {
			list = append(list, fieldErrors(err)...)
		}
		return list
	}
	var e *ratelimit.FieldError
	if errors.As(err, &e) {
		return []*ratelimit.FieldError{e}
	}
	return nil
}

// WriteJSON writes the report as indented JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
