package ratelimit

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// LegacyOptions are options of [ParseAny]. The zero value is ready to use.
type LegacyOptions struct {
	Dialects []*Dialect // dialects that are read too; if two define the same field, the first counts
	// Reset is the format of a bare number in a reset, if nothing in the response decides. An
	// example is TimeMilli for a server that counts milliseconds. TimeGuess means seconds, and sets
	// Fields.Guessed.
	Reset TimeFormat
	Name  string    // the name of a policy without a name; "" or a name that is not printable ASCII means "default"
	Now   time.Time // when the response arrived; zero is time.Now(); absolute times count from it if there is no Date
}

// A TimeFormat defines which time a number means. Dates, durations with units (6m0s) and
// clocks (00:01:30) are read in any format. The size of a number can overrule the format:
// 1.8e12 is never a number of seconds.
type TimeFormat int

const (
	// TimeGuess decides by size. Numbers from 1e9 on are seconds since the Unix epoch, from
	// 1e11 on milliseconds, from 1e14 on microseconds, and from 1e17 on nanoseconds. Smaller
	// numbers are seconds from now, unless the rest of the response decides otherwise. For
	// writing it means seconds from now.
	TimeGuess     TimeFormat = TimeFormat(older.Guess)
	TimeSeconds   TimeFormat = TimeFormat(older.Seconds)   // seconds from now; fractions are rounded up
	TimeMilli     TimeFormat = TimeFormat(older.Milli)     // milliseconds from now
	TimeUnix      TimeFormat = TimeFormat(older.Unix)      // seconds since the Unix epoch; fractions are rounded up
	TimeUnixMilli TimeFormat = TimeFormat(older.UnixMilli) // milliseconds since the Unix epoch
	TimeHTTPDate  TimeFormat = TimeFormat(older.HTTPDate)  // an HTTP-date (RFC 9110 Section 5.6.7), written as an IMF-fixdate
	TimeRFC3339   TimeFormat = TimeFormat(older.RFC3339)   // a timestamp of RFC 3339, written in UTC
	TimeDuration  TimeFormat = TimeFormat(older.Duration)  // a duration as Go writes it, such as 6m0s or 120ms
)

const defaultName = "default"

// This line does not compile if the constants that packages older and text repeat differ.
var _ = [1]struct{}{}[(maxMembers-older.MaxMembers)|(maxParams-older.MaxParams)|(Unknown-older.Unknown)|(MaxInteger-text.MaxInteger)]

// ParseAny reads the limits that h announces in any form that servers are known to send. These are
// the current fields, the fields of older drafts, X-RateLimit-*, and fields of vendors.
// docs/older.md has the rules.
//
// If RateLimit is well-formed, ParseAny returns the same as [Parse], and reads no other field for
// limits. docs/older.md has one exception. Otherwise all other fields are read, together with a
// well-formed RateLimit-Policy.
//
// A malformed field has no effect on other fields. The error joins a [*FieldError] for each
// malformed field, with the name that was sent. Next to an error, the Fields contain everything
// that could be read. If more than 1024 fields look like limits, none is read (ErrTooMany). At most
// 1024 policies, limits and list elements are read. Once its names are cached, a response without
// limits costs no allocation.
//
// Absent numbers stay absent: Remaining and Quota are [Unknown], Reset is the zero [Seconds].
// Remaining is rounded down, and Reset is rounded up. A reset in the past is 0. A negative
// remaining is 0, unless the quota is unlimited. Numbers above MaxInteger become MaxInteger.
//
// In a reset, a number from 1e9 on is a point in time. Reset is then the time from the field Date to
// that point. o.Now takes the place of Date if Date is absent or more than a day off, or if the response
// comes from a cache. If nothing decides whether a smaller number is in seconds or milliseconds, it is
// read as seconds, and Guessed is set.
//
// ParseAny also reads some malformed current fields, and the form of the draft that follows
// draft-11: Dialect is then "ratelimit-lenient" or "ratelimit-next".
func ParseAny(h http.Header, o LegacyOptions) (Fields, error) {
	f, _, faults := parseAny(h, &o, text.Clock{Header: h, Arrived: o.Now})
	return f, joinFaults(faults)
}

// parseAny is ParseAny with a clock. It also returns the wait that fields other than Retry-After
// ask for, if the limits are not in the current fields.
func parseAny(h http.Header, o *LegacyOptions, clock text.Clock) (f Fields, asked time.Duration, faults []*FieldError) {
	if f, faults, ok := parseCurrent(h); ok {
		return f, 0, faults
	}
	return parseLegacy(h, o, clock)
}

// parseCurrent reads the current fields, or the fields of the next draft. ok is false if RateLimit
// is absent, or in neither form.
func parseCurrent(h http.Header) (f Fields, faults []*FieldError, ok bool) {
	lines := h[draft.LimitKey]
	if isCurrent(lines) {
		if limits, err := ParseLimits(lines...); err == nil {
			f.Limits, f.Dialect = limits, draft.Current
			f.Policies, faults = parseBeside(h[draft.PolicyKey])
			return f, faults, true
		}
	}
	if limits := parseNextLimits(lines); limits != nil {
		f, faults = parseNext(limits, h[draft.PolicyKey])
		return f, faults, true
	}
	return f, nil, false
}

// isCurrent reports whether a field begins with a String, so that the strict parser may read it.
func isCurrent(lines []string) bool { return strings.HasPrefix(text.FirstLine(lines), `"`) }

// parseLegacy reads all fields with limits except a well-formed RateLimit. It also returns
// the wait that fields other than Retry-After ask for.
func parseLegacy(h http.Header, o *LegacyOptions, clock text.Clock) (f Fields, asked time.Duration, faults []*FieldError) {
	var few [8]older.Field // room for the fields of most responses
	var own [4]*older.Table
	found, ok := older.Find(few[:0], h, o.tables(own[:0]))
	switch {
	case !ok:
		return f, asked, []*FieldError{{Offset: -1, Item: -1, Err: ErrTooMany}}
	case len(found) == 0:
		return f, asked, nil
	}
	return readFound(found, o.older(clock))
}

// tables appends the tables of the caller's dialects to list.
func (o *LegacyOptions) tables(list []*older.Table) []*older.Table {
	for _, d := range o.Dialects {
		if d != nil {
			list = append(list, d.table())
		}
	}
	return list
}

// readFound reads the fields that [older.Find] found in a header.
func readFound(found []older.Field, options older.Options) (f Fields, asked time.Duration, faults []*FieldError) {
	var room older.Room
	numbers, r := older.Read(&room, found, &options)
	faults = f.addFound(&numbers, &r)
	return f, r.Asked, faults
}

// addFound adds what [older.Read] has read. It leaves out an older policy if the current fields
// have one of its name.
func (f *Fields) addFound(numbers *older.Numbers, r *older.Result) (faults []*FieldError) {
	for i := range r.Current {
		known := len(f.Policies)
		faults = append(faults, f.addCurrent(&r.Current[i])...)
		f.dropRepeated(known)
	}
	causes := [...]error{older.Syntax: ErrSyntax, older.Missing: ErrMissing, older.TooMany: ErrTooMany}
	for _, e := range r.Faults {
		faults = append(faults, &FieldError{Field: fieldName(e.Key), Line: e.Line, Offset: e.Offset, Item: -1, Err: causes[e.Cause]})
	}
	f.Guessed = r.Guessed
	if len(numbers.Policies)+len(numbers.Limits) > 0 && f.Dialect != draft.Lenient {
		f.Dialect = r.Form
	}
	known := len(f.Policies)
	f.Policies, f.Limits = withRoom(f.Policies, len(numbers.Policies)), withRoom(f.Limits, len(numbers.Limits))
	for i := range numbers.Policies {
		p := &numbers.Policies[i]
		window := Seconds{n: p.Window, ok: p.Window > 0}
		f.Policies = append(f.Policies, Policy{Name: p.Name, Quota: p.Quota, Window: window, Unit: Unit(p.Unit), Params: comments(p.Params)})
	}
	f.dropRepeated(known)
	for i := range numbers.Limits {
		l := &numbers.Limits[i]
		limit := Limit{Name: l.Name, Remaining: l.Remaining}
		if l.Resets {
			limit.Reset = SecondsOf(l.Reset.Ceil())
			f.note(len(f.Limits), l.Reset.Duration())
		}
		f.Limits = append(f.Limits, limit)
	}
	f.Policies, f.Limits = f.Policies[:min(len(f.Policies), maxMembers)], f.Limits[:min(len(f.Limits), maxMembers)]
	return faults
}

// dropRepeated keeps the first policies, as many as known. It drops a later policy if a kept policy
// has its name.
func (f *Fields) dropRepeated(known int) {
	if known == 0 {
		return
	}
	names := make(map[string]bool, known)
	for i := range f.Policies[:known] {
		names[f.Policies[i].Name] = true
	}
	others := slices.DeleteFunc(f.Policies[known:], func(p Policy) bool { return names[p.Name] })
	f.Policies = f.Policies[:known+len(others)]
}

// older converts the options for package older.
func (o *LegacyOptions) older(clock text.Clock) older.Options {
	options := older.Options{Reset: older.Format(o.Reset), Name: o.Name, Clock: clock}
	if o.Name == "" || !text.IsName(o.Name) {
		options.Name = defaultName
	}
	return options
}

// maxComments is the number of comments of a policy that are kept. It is small, because the search
// for a repeated key is linear.
const maxComments = 64

// comments returns the parameters of an Integer policy that are comments (draft-06 Section
// 3.2). It leaves out comments that cannot be written again.
func comments(params string) Params {
	var m member
	for n := 0; params != "" && n < maxParams && len(m.params) < maxComments; n++ {
		var one string
		one, params, _ = text.Cut(params, ';')
		key, value, valued := strings.Cut(text.Trim(one), "=")
		key, value = strings.ToLower(text.Trim(key)), text.Trim(value)
		if strings.HasPrefix(value, "'") {
			value = strconv.Quote(text.Unquote(value))
		}
		if text.IsKey(key) && draft.Policies.Find(key) == nil && key != "window" && key != "name" {
			m.readParam(nil, key, value, valued)
		}
	}
	return m.params
}
