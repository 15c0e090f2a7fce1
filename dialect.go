package ratelimit

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Role is the part of a limit that a field contains.
type Role int

const (
	RoleNone      Role = Role(older.None)      // nothing about limits: the field is not read
	RoleQuota     Role = Role(older.Quota)     // the quota, in quota units; 100/60 is quota and window
	RoleRemaining Role = Role(older.Remaining) // what remains of the quota; 60/100 is remaining and quota
	RoleUsed      Role = Role(older.Used)      // what has been spent of the quota; 40/100 is used and quota
	RoleReset     Role = Role(older.Reset)     // when more becomes available, as a time
	RoleWindow    Role = Role(older.Window)    // the length of the window, as a time
	RoleName      Role = Role(older.Name)      // the name of the policy
	RolePolicies  Role = Role(older.Policies)  // a list of Integer policies, 100;w=60 (draft-06 Section 3.2)

	RoleUsedFraction = RolePolicies + 1 // the used part of the quota, from 0 to 1: 0.42; if no other number is known, the quota is 100 percent
	RoleUsedPercent  = RolePolicies + 2 // the same part in percent: 42
)

// A DialectField defines a header field.
type DialectField struct {
	// Name is the name of the field, such as "X-Acme-Calls-Left". It may contain one *, which
	// matches the name of the policy. That name is read in lower case. Do not name a field that
	// HTTP defines, such as Date: [Dialect.Set] would overwrite it.
	Name   string
	Role   Role       // the part of a limit in the field; a field with RoleNone is not read
	Format TimeFormat // the form of the time in a field with RoleReset or RoleWindow
	Policy string     // the name of the policy, such as "burst"; "" is the policy of the response; the match of a * in Name is appended: "burst-search"
	Window Seconds    // the window of the policy, such as SecondsOf(60), if the response has none; may be absent
	Unit   Unit       // the unit of the policy, if no field has one; "" is absent

	behind string // the key of windows if all policies follow a quota (drafts 00 to 03), or ""
}

// A Dialect defines the fields in which a server announces its limits. [ParseAny] reads these
// fields in addition to the fields that it knows. [Dialect.Set] writes them. A Dialect cannot be
// changed, and is safe for concurrent use. The zero Dialect has no fields; [NewDialect] makes
// others.
type Dialect struct {
	name   string
	usual  string         // the names of the fields for the usual roles, with their words in place of a #
	reset  TimeFormat     // of the usual field for the reset
	behind string         // of the usual field for the quota
	fields []DialectField // the others

	once   sync.Once // makes the next five at first use, so that unused dialects cost nothing
	all    []DialectField
	rows   *older.Table
	keys   []string // of all fields
	many   bool     // a name contains a *, so every limit is written
	counts bool     // a field has a quota or a remaining

	custom bool // NewDialect made it
}

// NewDialect returns a dialect. If [ParseAny] reads its fields, [Fields.Dialect] is its name. To
// derive a dialect from another, add to a copy of its fields:
//
//	NewDialect("acme", append(GitHub.Fields(), …)...)
//
// If a field cannot be used, NewDialect returns a [*FieldError] with its name. The error
// wraps ErrSyntax if the name is not a field name, or contains more than one *. It also
// wraps ErrSyntax if the policy or the unit is not printable ASCII. It wraps ErrDuplicate
// if the name is repeated, in any case of letters. It wraps ErrRange if the role or the
// format does not exist, or if the window is below 1 or above MaxInteger.
func NewDialect(name string, fields ...DialectField) (*Dialect, error) {
	fields = slices.Clone(fields)
	seen := make(map[string]bool, len(fields))
	for i := range fields {
		f := &fields[i]
		if err := f.fault(); err != nil {
			return nil, refuse(f.Name, err)
		}
		key := http.CanonicalHeaderKey(f.Name)
		if seen[key] {
			return nil, refuse(f.Name, ErrDuplicate)
		}
		seen[key] = true
	}
	return &Dialect{name: name, fields: fields, custom: true}, nil
}

// Name returns the name of d, such as "github".
func (d *Dialect) Name() string { return d.name }

// Fields returns a copy of the fields of d.
func (d *Dialect) Fields() []DialectField {
	d.table()
	return slices.Clone(d.all)
}

// table returns the fields of d as rows.
func (d *Dialect) table() *older.Table {
	d.once.Do(func() {
		if d.usual != "" {
			for _, f := range []DialectField{
				{Name: "Limit", Role: RoleQuota, behind: d.behind}, {Name: "Remaining", Role: RoleRemaining}, {Name: "Reset", Role: RoleReset, Format: d.reset},
			} {
				f.Name = strings.Replace(d.usual, "#", f.Name, 1)
				d.all = append(d.all, f)
			}
		}
		d.all = append(d.all, d.fields...)
		var rows []older.Row
		for i := range d.all {
			f := &d.all[i]
			d.keys = append(d.keys, http.CanonicalHeaderKey(f.Name))
			d.many = d.many || f.Role != RoleNone && strings.Contains(f.Name, "*")
			d.counts = d.counts || f.Role == RoleQuota || f.Role == RoleRemaining
			row := older.Row{Key: f.Name, Role: older.Role(f.Role), Format: older.Format(f.Format), Policy: f.Policy, Window: f.Window.n, Unit: string(f.Unit)}
			if f.Role > RolePolicies {
				row.Role, row.Format = older.Used, older.Fraction+older.Format(f.Role-RoleUsedFraction)
			}
			rows = append(rows, row)
		}
		d.rows = older.NewTable(d.name, rows)
	})
	return d.rows
}

// fault returns why the field cannot be used.
func (f *DialectField) fault() error {
	switch {
	case !isDialectName(f.Name), !text.IsName(f.Policy), !text.IsName(string(f.Unit)):
		return ErrSyntax
	case f.Role < 0 || f.Role > RoleUsedPercent, f.Format < 0 || f.Format > TimeDuration, f.Window.ok && !sf.IsInteger(f.Window.n, draft.MinWindow):
		return ErrRange
	}
	return nil
}

// isDialectName reports whether a field of a dialect can have a name.
func isDialectName(name string) bool { return text.IsToken(name) && strings.Count(name, "*") <= 1 }

// refuse returns an error about the field with a name.
func refuse(name string, cause error) error {
	return &FieldError{Field: name, Offset: -1, Item: -1, Err: cause}
}

// These are the dialects that most programs write, for [Dialect.Set] and [LegacyOptions].
// [LookupDialect] has more. They are pure data, so unused dialects are not in a program's binary.
var (
	Draft06        = &draft06        // draft-ietf-04 to -06: RateLimit-Limit: 100 and RateLimit-Policy: 100;w=60
	Draft07        = &draft07        // draft-ietf-07: RateLimit: limit=100, remaining=50, reset=5; needs a quota and a reset, and no current fields
	XRateLimit     = &xRateLimit     // X-RateLimit-* with the reset in seconds from now: throttled, fastify, Envoy
	XRateLimitUnix = &xRateLimitUnix // the same with the reset in Unix seconds: Laravel, ulule/limiter, go-chi/httprate
	GitHub         = &gitHub         // X-RateLimit-* with the used units, the policy's name as the resource, and the reset in Unix seconds
	OpenAI         = &openAI         // X-RateLimit-Limit-Requests and the like, with the reset as a duration
	Anthropic      = &anthropic      // Anthropic-RateLimit-Requests-Limit and the like, with the reset as a timestamp of RFC 3339
)

// All dialects. docs/older.md has a table of them.
var (
	// draft-polli-00: RateLimit-Limit: 100, 100;window=60
	draft00 = Dialect{name: "draft-00", usual: "RateLimit-#", reset: TimeSeconds, behind: "window"}
	// draft-polli-01 to draft-ietf-03: RateLimit-Limit: 100, 100;w=60
	draft03 = Dialect{name: "draft-03", usual: "RateLimit-#", reset: TimeSeconds, behind: "w"}
	draft06 = Dialect{name: "draft-06", usual: "RateLimit-#", reset: TimeSeconds, fields: []DialectField{
		{Name: "RateLimit-Policy", Role: RolePolicies}}}
	draft07 = Dialect{name: "draft-07", fields: []DialectField{
		{Name: "RateLimit", Role: RoleQuota, Format: TimeSeconds}, {Name: "RateLimit-Policy", Role: RolePolicies}}}
	xRateLimit       = Dialect{name: "x-ratelimit", usual: "X-RateLimit-#", reset: TimeSeconds}
	xRateLimitUnix   = Dialect{name: "x-ratelimit-unix", usual: "X-RateLimit-#", reset: TimeUnix}
	xRateLimitDate   = Dialect{name: "x-ratelimit-date", usual: "X-RateLimit-#", reset: TimeRFC3339}      // Mastodon, Atlassian
	xRateLimitByName = Dialect{name: "x-ratelimit-by-name", usual: "X-RateLimit-#-*", reset: TimeSeconds} // Kong, the throttler of NestJS
	twitter          = Dialect{name: "twitter", usual: "X-Rate-Limit-#", reset: TimeUnix}                 // X, Okta
	gitHub           = Dialect{name: "github", usual: "X-RateLimit-#", reset: TimeUnix, fields: []DialectField{
		{Name: "X-RateLimit-Used", Role: RoleUsed}, {Name: "X-RateLimit-Resource", Role: RoleName}}}
	gitLab = Dialect{name: "gitlab", usual: "RateLimit-#", reset: TimeUnix, fields: []DialectField{
		{Name: "RateLimit-Observed", Role: RoleUsed}, {Name: "RateLimit-Name", Role: RoleName}}}
	openAI    = Dialect{name: "openai", usual: "X-RateLimit-#-*", reset: TimeDuration}
	anthropic = Dialect{name: "anthropic", usual: "Anthropic-RateLimit-*-#", reset: TimeRFC3339}
)

// LookupDialect returns the dialect with a name in lower case, such as "draft-06" or "github",
// for a flag or a configuration file. It returns nil and false if there is none. docs/older.md
// lists the names.
func LookupDialect(name string) (*Dialect, bool) {
	for _, d := range []*Dialect{
		&draft00, &draft03, &draft06, &draft07, &xRateLimit, &xRateLimitUnix, &xRateLimitDate, &xRateLimitByName, &twitter,
		&gitHub, &gitLab, &openAI, &anthropic,
	} {
		if d.name == name {
			return d, true
		}
	}
	return nil, false
}
