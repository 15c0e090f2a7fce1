// Package report describes the rate limits of an HTTP response. The command ratelimit inspect and
// the playground show what it returns.
package report

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Report describes the rate limits of a response. All of its text is printable ASCII, so that a
// server cannot control a terminal.
type Report struct {
	Source    string      `json:"source"`
	Number    int         `json:"number,omitzero"` // of the response, from 1, if [Each] found several
	Host      string      `json:"host,omitzero"`   // if the text contains it
	Status    string      `json:"status"`
	Dialect   string      `json:"form,omitzero"`    // of the limits, a dialect
	Vendors   []string    `json:"vendors,omitzero"` // known by the names of their fields
	Guessed   bool        `json:"guessed,omitzero"` // the unit of a reset is a guess
	Limits    []Limit     `json:"limits"`
	Malformed []Malformed `json:"malformed"`
	Advice    Advice      `json:"advice"`
	Findings  []Finding   `json:"findings,omitzero"` // nil before Check

	Fields  ratelimit.Fields `json:"-"` // the source of Limits
	Arrived time.Time        `json:"-"` // the clock of the response

	response   *response
	number, of int // the number of the response in the text, and the number of all responses
}

// New reports on the status and the header of a response. It sets no Findings; call [Report.Check].
func New(source string, resp *http.Response) *Report {
	return newReport(source, &response{Response: resp})
}

func newReport(source string, p *response) *Report {
	arrived := arrival(p.Header)
	fields, err := ratelimit.ParseAny(p.Header, ratelimit.LegacyOptions{Now: arrived.Time})
	r := &Report{
		Source:    Printable(source),
		Host:      p.hostName(),
		Status:    Printable(strings.TrimSpace(p.Status)),
		Dialect:   fields.Dialect,
		Guessed:   fields.Guessed,
		Limits:    LimitsOf(fields),
		Malformed: []Malformed{}, // in JSON null would not be an array
		Advice:    adviceOf(p.Response, arrived),
		Fields:    fields,
		Arrived:   arrived.Time,
		response:  p,
	}
	if r.IsOlder() {
		r.Vendors = vendorsOf(p.Header)
	}
	faults, _ := err.(text.Several)
	for _, e := range faults {
		r.Malformed = append(r.Malformed, p.malformed(e.(*ratelimit.FieldError)))
	}
	return r
}

// vendorsOf returns the vendors whose rows were used to read an older form, sorted.
func vendorsOf(h http.Header) (list []string) {
	found, _ := older.Find(nil, h, nil)
	for i := range found {
		if v := found[i].Vendor; v != "" {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// IsOlder reports whether the limits are in an older form.
func (r *Report) IsOlder() bool {
	return r.Dialect != "" && !strings.HasPrefix(r.Dialect, "ratelimit")
}

// Speaks reports whether the response has limits, malformed ones too, refuses, or asks to wait.
func (r *Report) Speaks() bool {
	return len(r.Limits) > 0 || len(r.Malformed) > 0 || r.Advice.Refused || r.Advice.Asked > 0
}

// Heading returns the status and the form of the limits.
func (r *Report) Heading() string {
	status := cmp.Or(r.Status, "no status line")
	if r.Dialect == "" {
		return status
	}
	return status + ", " + FormName(r.Dialect)
}

// Notes returns sentences on how the response was read.
func (r *Report) Notes() []string {
	var list []string
	if r.of > 1 {
		why := ""
		if r.Speaks() {
			why = " with rate limits"
		}
		list = append(list, fmt.Sprintf("Of %d responses this is number %d, the last one%s.", r.of, r.number, why))
	}
	if p := r.response; p.unread > 0 {
		list = append(list, fmt.Sprintf("Lines of the text that are not header fields: %d, the first is line %d.", p.unread, p.first))
	}
	if len(r.Vendors) > 0 {
		list = append(list, fmt.Sprintf("Fields of %s are known by their names.", strings.Join(r.Vendors, ", ")))
	}
	if r.Guessed {
		list = append(list, "The unit of a reset is a guess, which is marked.")
	}
	if wait := r.ignored(); wait > 0 {
		list = append(list, fmt.Sprintf("Retry-After is ignored (%s): after a success it counts only next to well-formed RateLimit fields, or if nothing remains.", duration(wait)))
	}
	if len(r.Limits) == 0 && r.response.StatusCode/100 == 3 && r.response.Header.Get("Location") != "" {
		list = append(list, "This response is a redirect: inspect the address in its Location.")
	}
	return list
}

// ignored returns the wait of Retry-After if clients ignore it.
func (r *Report) ignored() time.Duration {
	h := r.response.Header
	if h.Get("Retry-After") == "" || r.Advice.Source == ratelimit.SourceRetryAfter.String() {
		return 0
	}
	wait, _ := ratelimit.ParseRetryAfter(h, r.Arrived)
	return wait
}

// A Limit is a limit joined with its policy, or only one of the two. nil and "" mean absent, except in
// Name.
type Limit struct {
	Name         string `json:"name"`
	PartitionKey []byte `json:"partition_key,omitzero"`
	Remaining    *int64 `json:"remaining,omitzero"`
	Quota        *int64 `json:"quota,omitzero"`
	Unit         string `json:"unit,omitzero"`
	Window       *int64 `json:"window,omitzero"` // in seconds, like Reset
	Reset        *int64 `json:"reset,omitzero"`
}

// A moment is the time at which a response arrived.
type moment struct {
	time.Time
	known bool // from its Date
}

// arrival returns the Date of a response (RFC 9110 Section 6.6.1), because the response may have been
// saved long ago. Without a Date it returns now.
func arrival(h http.Header) moment {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return moment{date, true}
	}
	return moment{Time: time.Now()}
}

// until returns the end of a wait as text. It returns "" if the arrival is not known, or if the wait is
// longer than a century. The end has a date unless the wait starts and ends today.
func (m moment) until(wait time.Duration) string {
	if !m.known || wait > century {
		return ""
	}
	end := m.Add(wait + time.Second - 1).Truncate(time.Second).UTC() // rounded up
	day, today := end.Format(time.DateOnly), time.Now().UTC().Format(time.DateOnly)
	date := ""
	if day != today || m.UTC().Format(time.DateOnly) != today {
		date = day + " "
	}
	return ", until " + date + strings.TrimSuffix(end.Format(time.TimeOnly), ":00") + " UTC"
}

// LimitsOf joins each limit with its policy. Policies without a limit follow at the end.
func LimitsOf(f ratelimit.Fields) []Limit {
	list := []Limit{} // in JSON null would not be an array
	joined := make(map[*ratelimit.Policy]bool)
	for l, p := range f.Pairs() {
		limit := Limit{Name: l.Name, PartitionKey: l.PartitionKey, Remaining: known(l.Remaining), Reset: secondsOf(l.Reset)}
		list = append(list, limit.with(p))
		joined[p] = true
	}
	for i := range f.Policies {
		if p := &f.Policies[i]; !joined[p] {
			list = append(list, Limit{Name: p.Name}.with(p))
		}
	}
	return list
}

func (l Limit) with(p *ratelimit.Policy) Limit {
	if l.PartitionKey == nil {
		l.PartitionKey = p.PartitionKey
	}
	l.Quota = known(p.Quota)
	l.Unit = string(p.Unit)
	l.Window = secondsOf(p.Window)
	return l
}

// known returns nil for -1, which is ratelimit.Unknown.
func known[T int | int64](n T) *T {
	if n < 0 {
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
