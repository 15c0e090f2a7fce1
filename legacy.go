package ratelimit

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Role is which part of a limit a field, or a value in it, tells.
type Role int

const (
	// RoleNone says nothing about limits: the field is not read.
	RoleNone Role = iota
	// RoleQuota is the quota, in quota units; 100/60 is quota and window.
	RoleQuota
	// RoleRemaining is what remains of the quota; 60/100 is remaining and quota.
	RoleRemaining
	// RoleUsed is what has been spent of the quota; 40/100 is used and quota.
	RoleUsed
	// RoleReset is when more becomes available, as a time.
	RoleReset
	// RoleWindow is the length of the window, as a time.
	RoleWindow
	// RoleName is the name of the policy.
	RoleName
	// RolePolicies is a list of Integer policies, 100;w=60 (draft-06 Section
	// 3.2).
	RolePolicies

	roles // their number
)

// A TimeFormat is what a number means that stands for a time. Dates, durations
// with units (6m0s) and clocks (00:01:30) show by their shape what they are, and
// are read in any format. The size of a number goes before its format where the
// two cannot be reconciled: 1.8e12 is never a number of seconds.
type TimeFormat int

const (
	// TimeGuess is by shape and size: from 1e9 on a number is seconds since the
	// Unix epoch, from 1e11 on milliseconds, from 1e14 on microseconds, from
	// 1e17 on nanoseconds. A smaller one is seconds from now, unless the rest of
	// the response says otherwise, or it is 1e8 or more and lies, as seconds since the
	// epoch, within a month of the response's Date or arrival, as in a bubble of
	// testing/synctest. It is written as seconds from now.
	TimeGuess TimeFormat = iota
	// TimeSeconds is seconds from now; fractions are rounded up.
	TimeSeconds
	// TimeMilli is milliseconds from now.
	TimeMilli
	// TimeUnix is seconds since the Unix epoch; fractions are rounded up.
	TimeUnix
	// TimeUnixMilli is milliseconds since the Unix epoch.
	TimeUnixMilli
	// TimeHTTPDate is an HTTP-date (RFC 9110 Section 5.6.7), written as an
	// IMF-fixdate.
	TimeHTTPDate
	// TimeRFC3339 is a timestamp of RFC 3339, written in UTC.
	TimeRFC3339
	// TimeDuration is a duration as Go writes it, such as 6m0s or 120ms.
	TimeDuration

	timeFormats // their number
)

// A Fact is one thing that a field says: a number, a name or a time, of one
// policy.
type Fact struct {
	// Policy is the name of the policy. "" is the Policy of the DialectField, and
	// if that is empty too, the policy of the response. If both have a name, they
	// are joined by a dash, that of the field first.
	Policy string
	// Role is what the value tells. One value cannot tell RoleNone or RolePolicies:
	// the line is then malformed.
	Role Role
	// Format is how a value of RoleReset or RoleWindow is counted.
	Format TimeFormat
	// Value is one number, name or time, as it was sent.
	Value string
}

// A DialectField says what a header field means.
type DialectField struct {
	// Name is the name of the field, such as "X-Acme-Calls-Left". One * in it
	// stands for the name of the policy, which is read in lower case.
	Name string
	// Role is what the field tells, unless Read says that. A field with RoleNone
	// and without Read is not read, even if its words would tell something.
	Role Role
	// Format is how a field with RoleReset or RoleWindow is counted.
	Format TimeFormat
	// Policy is the name of the policy that the field belongs to. "" is the policy
	// of the response. With a * in Name, Policy and what the * stands for are
	// joined by a dash.
	Policy string
	// Window is the window of the policy if neither a field of the response nor
	// the policy's name tells it, from 1 to MaxInteger seconds, or absent.
	Window Seconds
	// Unit is the quota unit of the policy if no field of the response tells it.
	// "" is absent and means Requests.
	Unit Unit
	// Read appends the facts of a value that has a syntax of its own, and
	// reports whether it is well-formed; it is called for each of the first 16
	// lines. nil reads one value of Role.
	Read func(facts []Fact, value string) ([]Fact, bool)

	write syntax // how the drafts' own fields are written
}

// A Dialect is how a server spells its limits: for reading, in addition to the
// words that [ParseAny] knows, and for writing. It must not be copied or changed
// after its first use. To derive one from another, copy its Fields:
//
//	&Dialect{Name: "acme", Fields: append(slices.Clone(GitHub.Fields), …)}
type Dialect struct {
	// Name becomes Fields.Dialect where the dialect has read something. Give it
	// one: "" there says that nothing was found.
	Name string
	// Fields are the fields of the dialect.
	Fields []DialectField

	once sync.Once
	lex  lexicon
}

// lexicon returns the index of d's fields, made at first use.
func (d *Dialect) lexicon() *lexicon {
	d.once.Do(func() { d.lex.add(d, ownOrder) })
	return &d.lex
}

// Validate returns the first thing that is wrong with d, as a [*FieldError] with
// the name of the field: a name that is not the name of a field or has more than
// one * (ErrSyntax), a name for the second time, whatever its case
// (ErrDuplicate), a role or a format that does not exist, a window below 1 or
// above MaxInteger (ErrRange), a policy or a unit that is not printable ASCII
// (ErrSyntax). [ParseAny] and [Dialect.Set] do not use such fields. The Name of d
// may be any.
func (d *Dialect) Validate() error {
	seen := make(map[string]bool, len(d.Fields))
	for i := range d.Fields {
		f := &d.Fields[i]
		if err := f.fault(); err != nil {
			return &FieldError{Field: f.Name, Offset: -1, Item: -1, Err: err}
		}
		key := http.CanonicalHeaderKey(f.Name)
		if seen[key] {
			return &FieldError{Field: f.Name, Offset: -1, Item: -1, Err: ErrDuplicate}
		}
		seen[key] = true
	}
	return nil
}

func (f *DialectField) fault() error {
	switch {
	case !isToken(f.Name), strings.Count(f.Name, "*") > 1, !isName(f.Policy), !isName(string(f.Unit)):
		return ErrSyntax
	case f.Role < 0 || f.Role >= roles, f.Format < 0 || f.Format >= timeFormats, f.Window.ok && !isInteger(f.Window.n, minWindow):
		return ErrRange
	}
	return nil
}

// LegacyOptions are options of [ParseAny]. The zero value is
// ready to use.
type LegacyOptions struct {
	// Dialects say what the fields that they name mean; of two for one field
	// the first counts. All other fields are read by their words.
	Dialects []*Dialect
	// Reset is how a bare number in a reset is counted if neither its size (see
	// [TimeGuess]) nor anything else in the response tells: TimeMilli, say, for a server that is known to count so.
	// TimeGuess takes it for seconds, and sets Fields.Guessed.
	Reset TimeFormat
	// Name is the name of a policy if the response has none. "" is "default", and
	// so is a name that is not printable ASCII.
	Name string
	// Now is when the response arrived, from which absolute times count where
	// it has no Date; zero is time.Now().
	Now time.Time
}

const defaultName = "default"

// ParseAny reads what h says about limits, in whatever form.
//
// If there is a well-formed RateLimit, the result is that of [Parse], and no
// other field for limits is looked at. A malformed RateLimit-Policy next to it is
// ignored, except for one form in use: two names before the parameters, of which
// the second is the policy's. Otherwise all other fields are read, and joined by
// the current policies if RateLimit-Policy is well-formed.
//
// # Malformed current fields
//
// Clients ignore a malformed RateLimit or RateLimit-Policy (draft-11 Section 7), and so
// does [Parse]. ParseAny reads some of them with lenience, as servers in use write them;
// Fields.Dialect is then "draft-08":
//
//	RateLimit: "burst";r=0.5;t=30           a Decimal: r=0, t=30
//	RateLimit: burst;r=37;t=12.5            a Token for the name: r=37, t=13
//	RateLimit: "burst";t=30                 r is missing: Unknown
//	RateLimit-Policy: "burst";q=100;w=0     no window
//	RateLimit-Policy: "burst";q=100;pk="x"  a String for the partition key
//
// If one member of a field cannot be read even so, the field is ignored as a whole, and
// is in the error; only Integer policies are judged one by one.
//
// # Names
//
// A field is known by the words of its name: [X-][vendor-]RateLimit, then the
// policy and the role in any order, then the unit of a time, as in
// X-RateLimit-Remaining-Minute or Acme-Rate-Limit-Requests-Reset-Ms. Without the
// word RateLimit, X-Acme-Remaining is read if there is also X-Acme-Limit,
// X-Acme-Used or X-Acme-Reset. Some seventy more fields are known by their whole
// names.
//
// A policy is named by the words between RateLimit and the role, or by a field
// for the name, or by a parameter "name", else by o.Name. Of Integer policies the
// one with the quota of the limit has that name; any other is named by quota and
// window, as 1000/3600. Where a name stands before others, as that of a group, it is
// cut to 128 bytes.
//
// # Values
//
// What is absent stays absent: Remaining and Quota are [Unknown], Reset is the
// zero [Seconds]. Fractions of what remains are rounded down, those of resets up.
// A negative remaining is 0, and so is a reset in the past. Numbers above
// MaxInteger become MaxInteger. Units spent without a quota are a policy with the
// parameter "used", and no limit. Comments in a policy (burst=1000) are its
// Params, at most 64 of them.
//
// Two limiters on the way may both have written a field, so that it has several lines,
// or a list of numbers in one. If these lists are parallel to those of other fields of
// their family (X-RateLimit-Limit: 10, 1000 and X-RateLimit-Remaining: 9, 950), each
// column is a policy. Else nobody can tell whose number is whose: the lowest remaining,
// the highest used, the latest reset and the lowest quota count, of the first 16 lines.
// Lists of policies take all members of all lines. If two fields say one number, such
// as RateLimit-Remaining and X-RateLimit-Remaining, that of the drafts goes before X-,
// and X- before a vendor's.
//
// Absolute times count from the field Date, unless it is more than a day off or
// the field Age says that the response is an old one; then from o.Now.
//
// # Units of times
//
// A bare number in a reset is seconds in the fields of the drafts
// (RateLimit-Reset). In any other field its unit is settled by the first of these
// that applies:
//   - its size: from 1e9 on it is a point in time, and from 1e8 on if it is near
//     (see [TimeGuess]);
//   - a word of the name, such as Ms or After;
//   - the window into which it has to fit, which may also refute seconds in the
//     fields of the drafts; where a field has several numbers, only a window in the
//     policy's name does, as any other may be that of another limiter;
//   - a date in another field with which it agrees;
//   - o.Reset.
//
// If none applies it is seconds, and Guessed is set. A Retry-After settles nothing,
// because it counts to another moment: that of the next unit of a bucket, or of
// another limiter. A window is seconds, unless milliseconds make a usual length of it
// and seconds do not; that sets Guessed too.
//
// # Dialect
//
// Fields.Dialect names the form that the fields show. It is "ratelimit" for the current
// one; "draft-00", "draft-03", "draft-06" or "draft-07" by the syntax in the drafts' own
// names; "draft-08" as above; the name of a dialect in o.Dialects, or of a vendor whose
// fields are known by their whole names ("shopify"), if that was read first; else the
// family as it is spelled, in lower case: "x-ratelimit", "anthropic-ratelimit". A
// response of GitHub is "x-ratelimit" too, as its fields look like those of many
// servers: "github" is the name of a [Dialect] to write, and is the result only where
// o.Dialects has [GitHub].
//
// # Errors
//
// Fields are judged one by one. A malformed one leaves the others as they are and
// is joined into the error, as a [*FieldError] with its name as it was sent; the
// Fields that are returned with it may be used. A response with more than 1024
// fields for limits is not read (ErrTooMany); fields that look like these by a part of
// their names count with them. Of more than 1024 policies or limits the first 1024 are
// read, and so are the first 1024 numbers of a list. A response without any costs no
// allocation.
func ParseAny(h http.Header, o LegacyOptions) (Fields, error) {
	f, _, faults := parseAny(h, &o)
	return f, joinFaults(faults)
}

// parseAny is ParseAny. It also returns how long fields other than Retry-After ask
// to wait, if the limits are not in the current field.
func parseAny(h http.Header, o *LegacyOptions) (f Fields, asked time.Duration, faults []*FieldError) {
	policyLines, limitLines := h[policyKey], h[limitKey]
	var policies []Policy
	if isCurrent(limitLines) {
		var err error
		if f.Limits, err = ParseLimits(limitLines...); err == nil {
			f.Policies, faults = parseBeside(policyLines)
			f.Dialect = currentDialect
			return f, 0, faults
		}
	}
	if isCurrent(policyLines) {
		policies, _ = ParsePolicies(policyLines...) // what is wrong, the reading says
	}
	f, asked, faults = parseLegacy(h, o)
	if policies != nil {
		f.Policies = joinPolicies(policies, f.Policies)
		if f.Dialect == "" {
			f.Dialect = currentDialect
		}
	}
	return f, asked, faults
}

// isCurrent reports whether the first member of a field is a String, so that the
// strict parser may read it.
func isCurrent(lines []string) bool {
	line, _ := firstLine(lines)
	return line != "" && line[0] == '"'
}

// parseBeside reads RateLimit-Policy if RateLimit is well-formed.
func parseBeside(lines []string) ([]Policy, []*FieldError) {
	policies, err := ParsePolicies(lines...)
	if err == nil {
		return policies, nil
	}
	if line, found := secondNames(lines); found {
		if policies, err := ParsePolicies(line); err == nil {
			return policies, nil
		}
	}
	return nil, []*FieldError{err.(*FieldError)}
}

// joinPolicies appends to the current policies those older ones that have other
// names.
func joinPolicies(current, older []Policy) []Policy {
	names := make(map[string]bool, len(current))
	for i := range current {
		names[nameID(current[i].Name)] = true
	}
	for i := range older {
		if !names[nameID(older[i].Name)] {
			current = append(current, older[i])
		}
	}
	return current[:min(len(current), maxMembers)]
}

// joinFaults joins errors, one for each line of a field.
func joinFaults(faults []*FieldError) error {
	if len(faults) == 0 {
		return nil
	}
	type place struct {
		field string
		line  int
	}
	seen := make(map[place]bool, len(faults))
	errs := make([]error, 0, len(faults))
	for _, e := range faults {
		at := place{e.Field, e.Line}
		if !seen[at] {
			seen[at] = true
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// parseLegacy reads all fields for limits but those of the current form: from the
// header to fields, to facts, to policies and limits. It also returns how long fields other than Retry-After ask to wait.
func parseLegacy(h http.Header, o *LegacyOptions) (f Fields, asked time.Duration, faults []*FieldError) {
	var few [8]foundField // so that most responses need no memory but that of the result
	found := findFields(few[:0], h, o)
	switch {
	case len(found) == 0:
		return f, asked, nil
	case len(found) > maxFields:
		return f, asked, []*FieldError{{Offset: -1, Item: -1, Err: ErrTooMany}}
	}
	return readFields(found, h, o)
}

// readFields reads the fields that were found in a header.
func readFields(found []foundField, h http.Header, o *LegacyOptions) (f Fields, asked time.Duration, faults []*FieldError) {
	sortFields(found)
	align(found)
	r := reading{options: *o, header: h}
	for i := range found {
		r.read(&found[i])
	}
	return r.fields(), r.asked, r.faults
}
