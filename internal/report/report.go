// Package report gathers all that an HTTP response says about rate limits, for
// what prints it (ratelimit inspect) and what shows it (the playground).
package report

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Report is what a response says about rate limits. All of its text is
// printable ASCII, so that no terminal obeys what a server sent.
type Report struct {
	Source    string      `json:"source"`
	Status    string      `json:"status"`
	Dialect   string      `json:"dialect,omitzero"` // how the limits were spelled
	Vendors   []string    `json:"vendors,omitzero"` // whose fields are known by their names
	Guessed   bool        `json:"guessed,omitzero"` // the unit of a reset
	Limits    []Limit     `json:"limits"`
	Malformed []Malformed `json:"malformed"`
	Advice    Advice      `json:"advice"`
	Findings  []Finding   `json:"findings,omitzero"` // nil if not asked for

	Fields  ratelimit.Fields `json:"-"` // out of which Limits was made
	Arrived time.Time        `json:"-"` // the time from which the response was read

	response   *response
	number, of int // which of the responses in the text it is
}

// New reports on a response, without its body. Findings is nil; it is for the caller
// to ask for them by [Report.Check].
func New(source string, resp *http.Response) *Report {
	return newReport(source, &response{Response: resp})
}

func newReport(source string, p *response) *Report {
	arrived := arrival(p.Header)
	fields, err := ratelimit.ParseAny(p.Header, ratelimit.LegacyOptions{Now: arrived.Time})
	return &Report{
		Source:    Printable(source),
		Status:    Printable(strings.TrimSpace(p.Status)),
		Dialect:   fields.Dialect,
		Vendors:   vendorsOf(p.Header, fields.Dialect),
		Guessed:   fields.Guessed,
		Limits:    LimitsOf(fields),
		Malformed: malformedOf(p, err),
		Advice:    adviceOf(p.Response, arrived),
		Fields:    fields,
		Arrived:   arrived.Time,
		response:  p,
	}
}

// vendorsOf returns the vendors with whose rows an older form was read, in their order.
func vendorsOf(h http.Header, dialect string) (list []string) {
	if dialect == "" || strings.HasPrefix(dialect, "ratelimit") && dialect != "ratelimit-lenient" {
		return nil
	}
	found, _ := older.Find(nil, h, nil)
	for i := range found {
		if v := found[i].Vendor(); v != "" {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Speaks reports whether the response says something about rate limits, be it
// malformed, or that it refuses, or how long to wait.
func (r *Report) Speaks() bool {
	return len(r.Limits) > 0 || len(r.Malformed) > 0 || r.Advice.Refused || r.Advice.Asked > 0
}

// Heading returns the status, and the form of the fields in words.
func (r *Report) Heading() string {
	status := r.Status
	if status == "" {
		status = "no status line"
	}
	if r.Dialect == "" {
		return status
	}
	return status + ", " + FormName(r.Dialect)
}

// Notes returns what is to be known of how the response was read, in sentences.
func (r *Report) Notes() []string {
	var list []string
	if r.of > 1 {
		why := ""
		if r.Speaks() {
			why = " that says something about rate limits"
		}
		list = append(list, fmt.Sprintf("Of %d responses this is number %d, the last one%s.", r.of, r.number, why))
	}
	switch p := r.response; p.unread {
	case 0:
	case 1:
		list = append(list, fmt.Sprintf("Line %d of the text is not a header field.", p.first))
	default:
		list = append(list, fmt.Sprintf("%d lines of the text are not header fields; the first of them is line %d.", p.unread, p.first))
	}
	if len(r.Vendors) > 0 {
		list = append(list, fmt.Sprintf("Fields of %s are known by their names.", strings.Join(r.Vendors, ", ")))
	}
	if r.Guessed {
		list = append(list, "Nothing says in which unit a reset is. It was guessed, and is marked.")
	}
	return list
}

// names are the names of header fields as a response spells them, by their keys in
// http.Header.
type names map[string]string

func (n names) add(name string) { n[http.CanonicalHeaderKey(name)] = name }

// of returns the name of a field. The two that the specification defines are called
// as it calls them, because what is said of them names them so.
func (n names) of(field string) string {
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

// until returns the point in time at which a wait ends, if it is known when it began. It has a
// date unless the response is of today and the wait ends today.
func (m moment) until(wait time.Duration) string {
	if !m.known || wait > century {
		return ""
	}
	end := m.Add(wait + time.Second - 1).Truncate(time.Second).UTC() // rounded up
	day, today := end.Format(time.DateOnly), time.Now().UTC().Format(time.DateOnly)
	text := ", until "
	if day != today || m.UTC().Format(time.DateOnly) != today {
		text += day + " "
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

// LimitsOf joins each limit with its policy, and puts the policies to which no
// limit belongs at the end.
func LimitsOf(f ratelimit.Fields) []Limit {
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

// WriteJSON writes the report as indented JSON.
func (r *Report) WriteJSON(w io.Writer) error { return WriteJSON(w, r) }

// IsToken reports whether s can be the name of a field (RFC 9110 Section 5.6.2).
func IsToken(s string) bool { return text.IsToken(s) }
