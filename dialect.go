package ratelimit

import (
	"net/http"
	"strings"
	"sync"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Role is which part of a limit a field, or a value in it, tells.
type Role int

const (
	RoleNone      Role = iota // nothing about limits: the field is not read
	RoleQuota                 // the quota, in quota units; 100/60 is quota and window
	RoleRemaining             // what remains of the quota; 60/100 is remaining and quota
	RoleUsed                  // what has been spent of the quota; 40/100 is used and quota
	RoleReset                 // when more becomes available, as a time
	RoleWindow                // the length of the window, as a time
	RoleName                  // the name of the policy
	RolePolicies              // a list of Integer policies, 100;w=60 (draft-06 Section 3.2)

	roleCount // their number
)

// A TimeFormat is what a number means that stands for a time. Dates, durations with
// units (6m0s) and clocks (00:01:30) are known by their shape, and read in any format. A
// number too large for its format is read by its size: 1.8e12 is never a number of
// seconds.
type TimeFormat int

const (
	// TimeGuess is by size: from 1e9 on seconds since the Unix epoch, from 1e11 on
	// milliseconds, from 1e14 on microseconds, from 1e17 on nanoseconds. A smaller
	// number is seconds from now, unless the rest of the response says otherwise, or it
	// is 1e8 or more and lies, as seconds since the epoch, within a month of the
	// response. It is written as seconds from now.
	TimeGuess     TimeFormat = iota
	TimeSeconds              // seconds from now; fractions are rounded up
	TimeMilli                // milliseconds from now
	TimeUnix                 // seconds since the Unix epoch; fractions are rounded up
	TimeUnixMilli            // milliseconds since the Unix epoch
	TimeHTTPDate             // an HTTP-date (RFC 9110 Section 5.6.7), written as an IMF-fixdate
	TimeRFC3339              // a timestamp of RFC 3339, written in UTC
	TimeDuration             // a duration as Go writes it, such as 6m0s or 120ms

	timeFormats // their number
)

// A Fact is one thing that a field says: a number, a name or a time, of one policy.
type Fact struct {
	// Policy is the name of the policy. "" is the Policy of the DialectField or, if that is
	// empty too, the policy of the response. Two names are joined by a dash, that of the
	// field first.
	Policy string
	Role   Role       // what Value means; RoleNone and RolePolicies make the line malformed
	Format TimeFormat // how a value of RoleReset or RoleWindow is counted
	Value  string     // one number, name or time, as it was sent
}

// A DialectField says what a header field means.
type DialectField struct {
	// Name is the name of the field, such as "X-Acme-Calls-Left". One * in it stands for
	// the name of the policy, which is read in lower case.
	Name   string
	Role   Role       // what the field tells, unless Read says that; with RoleNone and without Read it is not read
	Format TimeFormat // how a field with RoleReset or RoleWindow is counted
	Policy string     // the policy of the field, such as "burst"; "" is that of the response; a * in Name follows it after a dash
	Window Seconds    // of the policy, such as SecondsOf(60), if nothing in the response tells it; may be absent
	Unit   Unit       // of the policy, if no field tells it; "" is absent
	// Read appends the facts of a value that has a syntax of its own, and reports
	// whether it is well-formed; it is called for each of the first 16 lines. nil reads
	// one value of Role.
	Read func(facts []Fact, value string) ([]Fact, bool)

	write syntax // how the drafts' own fields are written
}

// A syntax is how a field is written whose value is more than one number.
type syntax uint8

const (
	plainSyntax      syntax = iota
	windowSyntax            // policies behind the quota, with window (draft-polli-00)
	quotaSyntax             // the same with w (drafts 01 to 03)
	dictionarySyntax        // limit=100, remaining=50, reset=5 (draft-07)
)

// A Dialect is how a server spells its limits: for reading, in addition to the words
// that [ParseAny] knows, and for writing. It must not be copied or changed after its
// first use. To derive one from another, copy its Fields:
//
//	&Dialect{Name: "acme", Fields: append(slices.Clone(GitHub.Fields), …)}
type Dialect struct {
	Name   string         // becomes Fields.Dialect where the dialect has read something; it should not be ""
	Fields []DialectField // what each field means

	once   sync.Once
	fields *older.Table
	keys   []string // of the fields
	all    bool     // a name carries a *: every limit is written
	bad    error    // why it cannot be written
}

// table returns the fields of d as rows, made at first use.
func (d *Dialect) table() *older.Table {
	d.once.Do(func() {
		rows := make([]older.Row, 0, len(d.Fields))
		for i := range d.Fields {
			f := &d.Fields[i]
			d.keys = append(d.keys, http.CanonicalHeaderKey(f.Name))
			d.all = d.all || f.starred() && f.Role != RoleNone
			if f.fault() == nil {
				rows = append(rows, f.row())
			}
		}
		d.fields, d.bad = older.NewTable(d.Name, rows), d.unwritable()
	})
	return d.fields
}

// row returns the field as package older knows it.
func (f *DialectField) row() older.Row {
	row := older.Row{
		Name: f.Name, Role: older.Role(f.Role), Format: text.Format(f.Format), Policy: f.Policy,
		Window: f.Window.n, Unit: string(f.Unit),
	}
	if read := f.Read; read != nil {
		row.Read = func(_ []older.Fact, value string) (facts []older.Fact, ok bool) {
			said, ok := read(nil, value)
			for _, fact := range said {
				if fact.Role <= RoleNone || fact.Role >= RolePolicies || fact.Format < 0 || fact.Format >= timeFormats {
					ok = false
					continue
				}
				facts = append(facts, older.Fact{
					Policy: fact.Policy, Role: older.Role(fact.Role), Format: text.Format(fact.Format), Value: fact.Value,
				})
			}
			return facts, ok
		}
	}
	return row
}

// Validate returns the first thing that is wrong with d, as a [*FieldError] with the
// name of the field: a name that is no field name or has more than one *, a policy or a
// unit that is not printable ASCII (ErrSyntax); a name for the second time, whatever its
// case (ErrDuplicate); a role or a format that does not exist, a window below 1 or above
// MaxInteger (ErrRange). [ParseAny] and [Dialect.Set] do not use such fields.
func (d *Dialect) Validate() error {
	seen := make(map[string]bool, len(d.Fields))
	for i := range d.Fields {
		f := &d.Fields[i]
		if err := f.fault(); err != nil {
			return refuse(f.Name, err)
		}
		key := http.CanonicalHeaderKey(f.Name)
		if seen[key] {
			return refuse(f.Name, ErrDuplicate)
		}
		seen[key] = true
	}
	return nil
}

func (f *DialectField) fault() error {
	switch {
	case !text.IsToken(f.Name), strings.Count(f.Name, "*") > 1, !text.IsName(f.Policy), !text.IsName(string(f.Unit)):
		return ErrSyntax
	case f.Role < 0 || f.Role >= roleCount, f.Format < 0 || f.Format >= timeFormats, f.Window.ok && !sf.IsInteger(f.Window.n, minWindow):
		return ErrRange
	}
	return nil
}

// refuse is the error about a field.
func refuse(name string, cause error) error {
	return &FieldError{Field: name, Offset: -1, Item: -1, Err: cause}
}

// unwritable returns the fault of the first field that cannot be written, or nil.
func (d *Dialect) unwritable() error {
	for i := range d.Fields {
		field := &d.Fields[i]
		if err := field.fault(); err != nil {
			return refuse(field.Name, err)
		}
		if field.unwritable() {
			return refuse(field.Name, ErrType)
		}
	}
	return nil
}

// unwritable reports whether the field has a syntax of its own, which can only be
// read.
func (f *DialectField) unwritable() bool { return f.Read != nil && f.Role != RoleNone }

// starred reports whether the policy's name is in that of the field.
func (f *DialectField) starred() bool { return strings.IndexByte(f.Name, '*') >= 0 }

// The dialects that servers write, for [Dialect.Set] and [LegacyOptions]. They are data
// alone; a program that uses none of them has none in its binary. docs/older.md lists
// their fields.
var (
	Draft00          = &draft00          // draft-polli-00: RateLimit-Limit: 100, 100;window=60
	Draft03          = &draft03          // draft-polli-01 to draft-ietf-03: RateLimit-Limit: 100, 100;w=60
	Draft06          = &draft06          // draft-ietf-04 to -06: RateLimit-Limit: 100 and RateLimit-Policy: 100;w=60
	Draft07          = &draft07          // draft-ietf-07: RateLimit: limit=100, remaining=50, reset=5; needs a quota and a reset, and no current fields
	XRateLimit       = &xRateLimit       // X-RateLimit-*, a reset in seconds from now: throttled, fastify, Envoy
	XRateLimitUnix   = &xRateLimitUnix   // the same, a reset in Unix seconds: Laravel, ulule/limiter, go-chi/httprate
	XRateLimitDate   = &xRateLimitDate   // the same, a timestamp of RFC 3339 for a reset: Mastodon, Atlassian
	XRateLimitByName = &xRateLimitByName // X-RateLimit-Limit-Minute, a reset in seconds: Kong, the throttler of NestJS
	Twitter          = &twitter          // X-Rate-Limit-*, a reset in Unix seconds: X (Twitter), Okta
	GitHub           = &gitHub           // X-RateLimit-* with what is used, and the policy's name as the resource; Unix seconds
	GitLab           = &gitLab           // RateLimit-*, a reset in Unix seconds
	OpenAI           = &openAI           // X-RateLimit-Limit-Requests, a duration for a reset
	Anthropic        = &anthropic        // Anthropic-RateLimit-Requests-Limit, a timestamp of RFC 3339 for a reset
)

// The fields of these dialects.
var (
	draft00 = Dialect{Name: "draft-00", Fields: []DialectField{
		{Name: "RateLimit-Limit", Role: RoleQuota, write: windowSyntax}, {Name: "RateLimit-Remaining", Role: RoleRemaining},
		{Name: "RateLimit-Reset", Role: RoleReset, Format: TimeSeconds},
	}}
	draft03 = Dialect{Name: "draft-03", Fields: []DialectField{
		{Name: "RateLimit-Limit", Role: RoleQuota, write: quotaSyntax}, {Name: "RateLimit-Remaining", Role: RoleRemaining},
		{Name: "RateLimit-Reset", Role: RoleReset, Format: TimeSeconds},
	}}
	draft06 = Dialect{Name: "draft-06", Fields: []DialectField{
		{Name: "RateLimit-Limit", Role: RoleQuota}, {Name: "RateLimit-Remaining", Role: RoleRemaining},
		{Name: "RateLimit-Reset", Role: RoleReset, Format: TimeSeconds}, {Name: "RateLimit-Policy", Role: RolePolicies},
	}}
	draft07 = Dialect{Name: "draft-07", Fields: []DialectField{
		{Name: "RateLimit", Role: RoleQuota, Format: TimeSeconds, write: dictionarySyntax}, {Name: "RateLimit-Policy", Role: RolePolicies},
	}}
	xRateLimit = Dialect{Name: "x-ratelimit", Fields: []DialectField{
		{Name: "X-RateLimit-Limit", Role: RoleQuota}, {Name: "X-RateLimit-Remaining", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset", Role: RoleReset, Format: TimeSeconds},
	}}
	xRateLimitUnix = Dialect{Name: "x-ratelimit-unix", Fields: []DialectField{
		{Name: "X-RateLimit-Limit", Role: RoleQuota}, {Name: "X-RateLimit-Remaining", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset", Role: RoleReset, Format: TimeUnix},
	}}
	xRateLimitDate = Dialect{Name: "x-ratelimit-date", Fields: []DialectField{
		{Name: "X-RateLimit-Limit", Role: RoleQuota}, {Name: "X-RateLimit-Remaining", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset", Role: RoleReset, Format: TimeRFC3339},
	}}
	xRateLimitByName = Dialect{Name: "x-ratelimit-by-name", Fields: []DialectField{
		{Name: "X-RateLimit-Limit-*", Role: RoleQuota}, {Name: "X-RateLimit-Remaining-*", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset-*", Role: RoleReset, Format: TimeSeconds},
	}}
	twitter = Dialect{Name: "twitter", Fields: []DialectField{
		{Name: "X-Rate-Limit-Limit", Role: RoleQuota}, {Name: "X-Rate-Limit-Remaining", Role: RoleRemaining},
		{Name: "X-Rate-Limit-Reset", Role: RoleReset, Format: TimeUnix},
	}}
	gitHub = Dialect{Name: "github", Fields: []DialectField{
		{Name: "X-RateLimit-Limit", Role: RoleQuota}, {Name: "X-RateLimit-Remaining", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset", Role: RoleReset, Format: TimeUnix}, {Name: "X-RateLimit-Used", Role: RoleUsed},
		{Name: "X-RateLimit-Resource", Role: RoleName},
	}}
	gitLab = Dialect{Name: "gitlab", Fields: []DialectField{
		{Name: "RateLimit-Limit", Role: RoleQuota}, {Name: "RateLimit-Remaining", Role: RoleRemaining},
		{Name: "RateLimit-Reset", Role: RoleReset, Format: TimeUnix}, {Name: "RateLimit-Observed", Role: RoleUsed},
		{Name: "RateLimit-Name", Role: RoleName},
	}}
	openAI = Dialect{Name: "openai", Fields: []DialectField{
		{Name: "X-RateLimit-Limit-*", Role: RoleQuota}, {Name: "X-RateLimit-Remaining-*", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset-*", Role: RoleReset, Format: TimeDuration},
	}}
	anthropic = Dialect{Name: "anthropic", Fields: []DialectField{
		{Name: "Anthropic-RateLimit-*-Limit", Role: RoleQuota},
		{Name: "Anthropic-RateLimit-*-Remaining", Role: RoleRemaining},
		{Name: "Anthropic-RateLimit-*-Reset", Role: RoleReset, Format: TimeRFC3339},
	}}
)

// LookupDialect returns the variable of this package with that Dialect.Name, such as
// "draft-06" or "github", for a flag or a configuration file; if there is none, nil and
// false.
func LookupDialect(name string) (*Dialect, bool) {
	for _, d := range []*Dialect{
		Draft00, Draft03, Draft06, Draft07, XRateLimit, XRateLimitUnix, XRateLimitDate, XRateLimitByName, Twitter,
		GitHub, GitLab, OpenAI, Anthropic,
	} {
		if d.Name == name {
			return d, true
		}
	}
	return nil, false
}
