package ratelimit

import (
	"errors"
	"net/http"
	"slices"
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
	// 3.3).
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
	// the response says otherwise. It is written as seconds from now.
	TimeGuess TimeFormat = iota
	// TimeSeconds is seconds from now; fractions are rounded up.
	TimeSeconds
	// TimeMillis is milliseconds from now.
	TimeMillis
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
	Policy string // "" is the policy of the field, or of the response; else the field's own policy goes before it, with a dash
	Role   Role
	Format TimeFormat // of a time
	Value  string     // one number, name or time, as it was sent
}

// A DialectField says what a header field means.
type DialectField struct {
	// Name is the name of the field, such as "X-Acme-Calls-Left". One * in it
	// stands for the name of the policy, which is read in lower case.
	Name   string
	Role   Role
	Format TimeFormat // of a time
	Policy string     // whose field it is; with a * in Name it goes before that, with a dash
	Window Seconds    // of its policies, where no field says
	Unit   Unit       // of its policies, where no field says
	// Read appends the facts of a value that has a syntax of its own, and
	// reports whether it is well-formed; it is called for each line. nil reads
	// one value of Role.
	Read func(facts []Fact, value string) ([]Fact, bool)

	write syntax // how the drafts' own fields are written
}

// A Dialect is how a server spells its limits: for reading, in addition to the
// words that [ParseAny] knows, and for writing. It must not be copied or changed
// after its first use. To derive one from another, copy its Fields:
//
//	&Dialect{Name: "acme", Fields: append(slices.Clone(GitHub.Fields), …)}
type Dialect struct {
	Name   string
	Fields []DialectField

	once sync.Once
	lex  lexicon
}

// lexicon returns the fields of d, made ready.
func (d *Dialect) lexicon() *lexicon {
	d.once.Do(func() { d.lex.add(d) })
	return &d.lex
}

// Validate returns the first thing that is wrong with d, as a [*FieldError] with
// the name of the field: a name that is not the name of a field or has more than
// one * (ErrSyntax), a name for the second time, whatever its case
// (ErrDuplicate), a role or a format that does not exist (ErrRange), a policy
// that is not printable ASCII (ErrSyntax). [ParseAny] and [Dialect.Set] do not
// use such fields.
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

// LegacyOptions are options of [ParseLegacy] and [ParseAny]. The zero value is
// ready to use.
type LegacyOptions struct {
	// Dialects say what the fields that they name mean; of two for one field
	// the first counts. All other fields are read by their words.
	Dialects []*Dialect
	// Reset is what a small bare number in a reset is where nothing in the
	// response tells: TimeMillis, say, for a server that is known to count so.
	// TimeGuess takes it for seconds, and sets Fields.Guessed.
	Reset TimeFormat
	// Name is the name of a policy where the response has none, in printable
	// ASCII; "" is "default".
	Name string
	// Now is when the response arrived, from which absolute times count where
	// it has no Date; zero is time.Now().
	Now time.Time
}

const defaultName = "default"

// ParseLegacy reads all that h says about limits in other fields than RateLimit
// and RateLimit-Policy, and these two where [Parse] refuses them; see
// [ParseAny], which most callers want.
//
// A field is known by the words of its name: [X-][vendor-]RateLimit, then the
// policy and the role in any order, then the unit of a time, as in
// X-RateLimit-Remaining-Minute or Acme-Rate-Limit-Requests-Reset-Ms. Without the
// word RateLimit, X-Acme-Remaining is read beside X-Acme-Limit, X-Acme-Used or
// X-Acme-Reset. Some fifty fields that words do not tell are known by
// their names.
//
// Fields are judged one by one: a malformed one leaves the others as they are
// and is joined into the error, as a [*FieldError] with its name as it was sent.
// What is absent stays absent: Remaining and Quota are [Unknown], Reset is the
// zero [Seconds]. Fractions of what remains are rounded down, those of resets
// up; a negative remaining is 0, and so is a reset in the past. Numbers above
// MaxInteger become MaxInteger. Units spent without a quota are a policy with
// the parameter "used", and no limit.
//
// Absolute times count from the field Date, unless it is more than a day off or
// the field Age says that the response is an old one; then from o.Now. A policy
// is named by the words between the anchor and the role, or by a field for the
// name, or by a parameter "name", else o.Name. Of Integer policies the one with
// the quota of the limit has that name, any other is named by quota and window,
// as 1000/3600. Comments in a policy (burst=1000) are its Params, at most 64 of
// them. A response with more than 1024 such fields is not read.
//
// A bare number in a reset is seconds in the fields of the drafts
// (RateLimit-Reset). Elsewhere its unit is settled by its size, by a word of the
// name (Ms, After), by the window that it has to fit into, or by a Retry-After
// that it agrees with, either as seconds or as milliseconds. Where nothing
// settles it, o.Reset does; without that it is seconds, and Guessed is set.
func ParseLegacy(h http.Header, o LegacyOptions) (Fields, error) {
	f, _, faults := parseLegacy(h, &o)
	return f, joinFaults(faults)
}

// ParseAny reads what h says about limits, in whatever form. If there is a
// well-formed field RateLimit the result is that of [Parse], and no other limits
// are looked at. Else it is that of [ParseLegacy], joined by the current policies
// if RateLimit-Policy is well-formed.
//
// A malformed RateLimit-Policy next to a well-formed RateLimit is ignored, except
// for one form in use: two names before the parameters, of which the second is
// the policy's.
//
// The error joins a [*FieldError] for each field that could not be read in any
// way; what is returned with it may be used. A response without fields of rate
// limits costs no allocation.
func ParseAny(h http.Header, o LegacyOptions) (Fields, error) {
	f, _, faults := parseAny(h, &o)
	return f, joinFaults(faults)
}

// parseAny is ParseAny. It also returns for how long other fields than
// Retry-After ask to wait, unless the limits are in the current field.
func parseAny(h http.Header, o *LegacyOptions) (f Fields, asked time.Duration, faults []*FieldError) {
	policyLines, limitLines := h[policyKey], h[limitKey]
	if len(policyLines) == 0 && len(limitLines) == 0 {
		return parseLegacy(h, o)
	}
	policies, err := ParsePolicies(policyLines...)
	limits, _ := ParseLimits(limitLines...) // what is wrong, the reading says
	if limits != nil {
		if err != nil {
			if twice, twiceErr := ParsePolicies(secondNames(policyLines)...); twiceErr == nil {
				policies = twice
			} else {
				faults = append(faults, err.(*FieldError))
			}
		}
		return Fields{Policies: policies, Limits: limits, Dialect: currentDialect}, 0, faults
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

// joinPolicies returns the current policies and those of older fields that have
// another name.
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

// joinFaults joins the faults, one for each line of a field.
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

// isLegacyField reports whether limits are read from a field of that key.
func isLegacyField(key string) bool {
	return hasAnchor(key) || exceptions().knows(key)
}

// parseLegacy is ParseLegacy: the flow of one reading, from the header to the
// fields. It also returns for how long other fields than Retry-After ask to wait.
func parseLegacy(h http.Header, o *LegacyOptions) (f Fields, asked time.Duration, faults []*FieldError) {
	var r reading
	r.options = *o
	if !r.find(h) {
		return f, asked, nil
	}
	if len(r.found()) > maxFields {
		return f, asked, []*FieldError{r.tooMany()}
	}
	r.sort()
	r.clock = readClock(h, o.Now)
	r.wait, _ = readRetryAfter(h, o.Now)
	r.align()
	for i := range r.found() {
		r.read(&r.found()[i])
	}
	return r.fields(), r.asked, r.faults
}

// maxFields bounds the fields of a response that say something about limits.
const maxFields = 1024

// A foundField is a field that was found in a header.
type foundField struct {
	key     string
	lines   []string
	meaning meaning
	columns int // it is one of several parallel lists with so many members, 0 if it is not
}

// find notes the fields of h that say something about limits, and whether there
// are any.
func (r *reading) find(h http.Header) bool {
	known := exceptions()
	loose := false
	for key, lines := range h {
		if len(lines) == 0 {
			continue
		}
		anchored := hasAnchor(key)
		if len(r.options.Dialects) > 0 && r.look(key, lines) {
			continue
		}
		if f, star := known.find(key); f != nil {
			r.note(key, lines, f.meaning(star, known.names[f], exceptionOrder))
			continue
		}
		if anchored {
			if m, ok := parseKey(key); ok {
				r.note(key, lines, m)
			}
			continue
		}
		if mayAsk(key) {
			if m, ok := parseWait(key); ok {
				r.note(key, lines, m)
			}
			continue
		}
		loose = loose || mayRemain(key)
	}
	if loose {
		r.findLoose(h)
	}
	return r.n > 0
}

// askedElsewhere returns the longest wait that h asks for in other fields than
// Retry-After, 0 if there is none.
func askedElsewhere(h http.Header, c *clock) (longest time.Duration) {
	for key, lines := range h {
		m, ok := meaning{}, false
		switch {
		case hasAnchor(key):
			m, ok = parseKey(key)
		case mayAsk(key):
			m, ok = parseWait(key)
		}
		if ok && m.kind == waitName && m.policy == "" {
			longest = max(longest, m.wait(lines, c))
		}
	}
	return longest
}

// wait returns the wait that the lines of a field ask for. One of 0 asks for
// nothing: some send it with every response.
func (m *meaning) wait(lines []string, c *clock) time.Duration {
	line, _ := firstLine(lines)
	t, _ := parseMoment(line, m.format, m.per)
	d, _ := t.duration(c)
	return d
}

// findLoose notes fields without an anchor: those of one policy of which one says
// what remains, and another says anything else, with values that fit.
func (r *reading) findLoose(h http.Header) {
	type family struct {
		fields    []foundField
		remaining number
		known     bool // what remains
		allotted  bool // the quota
	}
	families := map[string]*family{}
	for key, lines := range h {
		if len(lines) == 0 || hasAnchor(key) || exceptions().knows(key) || r.own(key) || len(families) > maxFields {
			continue
		}
		m, ok := parseLoose(key)
		if !ok {
			continue
		}
		group := m.family
		if m.policy != "" {
			group = m.policy
		}
		of := families[group]
		if of == nil {
			of = &family{}
			families[group] = of
		}
		if line, _ := firstLine(lines); m.role == RoleRemaining && !of.known {
			of.remaining, of.known = parseCount(line)
		}
		of.allotted = of.allotted || m.allotted
		of.fields = append(of.fields, foundField{key: key, lines: lines, meaning: m})
	}
	for _, of := range families {
		of.fields = slices.DeleteFunc(of.fields, func(f foundField) bool { return !f.plausible(of.remaining) })
		has := func(is func(Role) bool) bool {
			return slices.ContainsFunc(of.fields, func(f foundField) bool { return is(f.meaning.role) })
		}
		remaining := of.known && !of.remaining.neg && has(func(r Role) bool { return r != RoleRemaining })
		if remaining || of.allotted && has(func(r Role) bool { return r == RoleQuota }) && has(func(r Role) bool { return r == RoleUsed }) {
			for _, f := range of.fields {
				r.note(f.key, f.lines, f.meaning)
			}
		}
	}
}

// plausible reports whether the value of a field without an anchor is one of a
// limit: one number, a quota no lower than what remains, or a time.
func (f *foundField) plausible(remaining number) bool {
	line, _ := firstLine(f.lines)
	v, isCount := parseCount(line)
	switch f.meaning.role {
	case RoleRemaining, RoleUsed:
		return isCount && !v.neg
	case RoleQuota:
		return isCount && !v.neg && v.n >= max(remaining.n, 1)
	}
	_, ok := parseMoment(line, f.meaning.format, f.meaning.per)
	return ok && line != ""
}

// look notes a field that a dialect of the caller's knows, and reports whether one
// does.
func (r *reading) look(key string, lines []string) bool {
	for _, d := range r.options.Dialects {
		if d == nil {
			continue
		}
		if f, star := d.lexicon().find(key); f != nil {
			r.note(key, lines, f.meaning(star, d.Name, ownOrder))
			return true
		}
	}
	return false
}

// own reports whether a dialect of the caller's knows a key.
func (r *reading) own(key string) bool {
	return slices.ContainsFunc(r.options.Dialects, func(d *Dialect) bool { return d != nil && d.lexicon().knows(key) })
}

// meaning returns what a field says, of which the * stands for a part of its key.
func (f *DialectField) meaning(star, family string, o order) meaning {
	policy := f.Policy
	if star != "" {
		policy = below(policy, lowerCase(star))
	}
	m := meaning{
		role: f.Role, format: f.Format, policy: policy, window: f.Window, unit: f.Unit, read: f.Read, family: family, order: o,
	}
	switch f.write {
	case tailSyntax:
		m.kind = tailName
	case dictionarySyntax:
		m.kind = anchorName
	}
	return m
}

// A lexicon is the fields of dialects by their keys.
type lexicon struct {
	exact map[string]*DialectField // by canonical key
	stars []starField
	names map[*DialectField]string // of their dialects
	heads [1 << headBits / 8]uint8 // which heads of keys occur, by bit
}

// A starField is a field with a * in its name.
type starField struct {
	prefix, suffix string
	field          *DialectField
}

const (
	headBits  = 10
	headBytes = 6
)

// headOf hashes the first bytes of a key, in any case.
func headOf(key string) uint32 {
	var n uint32
	for i := range min(len(key), headBytes) {
		n = n*31 + uint32(key[i]|0x20)
	}
	return n * 0x9e3779b1 >> (32 - headBits) // Fibonacci hashing
}

// add adds the fields of a dialect that are valid.
func (x *lexicon) add(d *Dialect) {
	if x.exact == nil {
		x.exact = make(map[string]*DialectField, len(d.Fields))
		x.names = make(map[*DialectField]string, len(d.Fields))
	}
	for i := range d.Fields {
		f := &d.Fields[i]
		key := http.CanonicalHeaderKey(f.Name)
		prefix, suffix, star := strings.Cut(key, "*")
		if f.fault() != nil || x.exact[key] != nil {
			continue
		}
		x.names[f] = d.Name
		head := headOf(key)
		if star {
			x.stars = append(x.stars, starField{prefix, suffix, f})
			if len(prefix) < headBytes { // any key may begin so
				for i := range x.heads {
					x.heads[i] = 0xff
				}
			}
			head = headOf(prefix)
		} else {
			x.exact[key] = f
		}
		x.heads[head/8] |= 1 << (head % 8)
	}
}

// mayKnow is a quick look whether find may find a key.
func (x *lexicon) mayKnow(key string) bool {
	head := headOf(key)
	return x.heads[head/8]&(1<<(head%8)) != 0
}

func (x *lexicon) knows(key string) bool {
	f, _ := x.find(key)
	return f != nil
}

// find returns the field of a key, and what the * in its name stands for: the
// field with that very name, else the one with most letters around its *.
func (x *lexicon) find(key string) (f *DialectField, star string) {
	if !x.mayKnow(key) {
		return nil, ""
	}
	key = http.CanonicalHeaderKey(key)
	if f := x.exact[key]; f != nil {
		return f, ""
	}
	best := -1
	for i := range x.stars {
		s := &x.stars[i]
		n := len(s.prefix) + len(s.suffix)
		if n > best && len(key) > n && strings.HasPrefix(key, s.prefix) && strings.HasSuffix(key, s.suffix) {
			if inner := key[len(s.prefix) : len(key)-len(s.suffix)]; isToken(inner) {
				f, star, best = s.field, inner, n
			}
		}
	}
	return f, star
}
