package ratelimit

import (
	"errors"
	"math"
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

// lexicon returns the index of d's fields, made at first use.
func (d *Dialect) lexicon() *lexicon {
	d.once.Do(func() { d.lex.add(d, ownOrder) })
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

// isCurrent reports whether the strict parser may read a field: its first member is
// a String.
func isCurrent(lines []string) bool {
	line, _ := firstLine(lines)
	return line != "" && line[0] == '"'
}

// parseBeside reads the field RateLimit-Policy next to a well-formed RateLimit. Of
// two names before the parameters the second is the policy's.
func parseBeside(lines []string) ([]Policy, []*FieldError) {
	policies, err := ParsePolicies(lines...)
	if err == nil {
		return policies, nil
	}
	if policies, twice := ParsePolicies(secondNames(lines)...); twice == nil {
		return policies, nil
	}
	return nil, []*FieldError{err.(*FieldError)}
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
	if hasAnchor(key) {
		return true
	}
	return builtin().find(key) != nil
}

// parseLegacy is ParseLegacy: the flow of one reading, from the header to the
// fields. It also returns for how long other fields than Retry-After ask to wait.
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

// maxFields bounds the fields of a response that say something about limits.
const maxFields = 1024

// A foundField is a field that was found in a header.
type foundField struct {
	key     string
	lines   []string
	meaning *meaning
	columns int // it is one of several parallel lists with so many members, 0 if it is not
}

// findFields appends the fields of h that say something about limits, until they
// are too many.
func findFields(found []foundField, h http.Header, o *LegacyOptions) []foundField {
	known, loose := builtin(), false
	for key, lines := range h {
		head, tail := hashes(key)
		if !known.heads.has(head) && !known.tails.has(tail) && !hasAnchor(key) && !o.mayKnow(head) {
			continue // as nearly all keys
		}
		m := o.find(key, head)
		if m == nil {
			m = known.findHashed(key, head)
		}
		if m == nil && (hasAnchor(key) || mayAsk(key)) {
			m = learned(key)
		} else if m == nil {
			loose = loose || mayRemain(key)
		}
		if m != nil && len(lines) > 0 {
			found = append(found, foundField{key: key, lines: lines, meaning: m})
		}
		if len(found) > maxFields {
			return found
		}
	}
	if loose {
		found = findLoose(found, h, o)
	}
	return found
}

// mayKnow reports whether a dialect of the caller's may know a key with that hash.
func (o *LegacyOptions) mayKnow(head uint32) bool {
	for _, d := range o.Dialects {
		if d != nil && d.lexicon().heads.has(head) {
			return true
		}
	}
	return false
}

// learned returns what the words of a key say, or nil.
func learned(key string) *meaning {
	if m, ok := parseKey(key); ok {
		return &m
	}
	return nil
}

// find returns what the dialects of the caller's say of a key with that hash, or
// nil.
func (o *LegacyOptions) find(key string, head uint32) *meaning {
	for _, d := range o.Dialects {
		if d != nil {
			if m := d.lexicon().findHashed(key, head); m != nil {
				return m
			}
		}
	}
	return nil
}

// askedElsewhere returns the longest wait that h asks for in other fields than
// Retry-After, 0 if there is none.
func askedElsewhere(h http.Header, c *clock) (longest time.Duration) {
	for key, lines := range h {
		if !hasAnchor(key) && !mayAsk(key) {
			continue
		}
		if m, ok := parseKey(key); ok && m.kind == waitName && m.policy == "" {
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

// findLoose appends fields without an anchor: those of one policy of which one says
// what remains, and another says anything else, with values that fit.
func findLoose(found []foundField, h http.Header, o *LegacyOptions) []foundField {
	type family struct {
		fields    []foundField
		remaining number
		known     bool // what remains
		enough    bool // one of them says the quota
		other     bool // a field with an anchor says more
		starts    bool // without any other family, this one would be found
	}
	families := map[string]*family{}
	for key, lines := range h {
		m, ok := parseLoose(key)
		if !ok || len(lines) == 0 || isLegacyField(key) {
			continue
		}
		if len(families) > maxFields {
			return found
		}
		if head, _ := hashes(key); o.find(key, head) != nil {
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
		of.enough = of.enough || m.enough
		of.starts = of.starts || mayRemain(key)
		of.fields = append(of.fields, foundField{key: key, lines: lines, meaning: &m})
	}
	for _, f := range found {
		if of := families[f.meaning.policy]; of != nil && f.meaning.kind == plainName {
			of.other = true // X-Rate-Limit-Hourly beside X-Hourly-Requests-Left
		}
	}
	for _, of := range families {
		if !of.starts {
			continue
		}
		of.fields = slices.DeleteFunc(of.fields, func(f foundField) bool { return !f.plausible(of.remaining) })
		has := func(is func(Role) bool) bool {
			return slices.ContainsFunc(of.fields, func(f foundField) bool { return is(f.meaning.role) })
		}
		remaining := of.known && !of.remaining.neg && (of.other || has(func(r Role) bool { return r != RoleRemaining }))
		if remaining || of.enough && has(func(r Role) bool { return r == RoleQuota }) && has(func(r Role) bool { return r == RoleUsed }) {
			found = append(found, of.fields...)
		}
	}
	return found
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

// meaning returns what a field says.
func (f *DialectField) meaning(family string, o order) meaning {
	m := meaning{
		role: f.Role, format: f.Format, policy: f.Policy, window: f.Window, unit: f.Unit, read: f.Read, family: family, order: o,
	}
	switch f.write {
	case tailSyntax:
		m.kind = tailName
	case dictionarySyntax:
		m.kind = anchorName
	}
	return m
}

// A lexicon is what is known of fields by their keys.
type lexicon struct {
	exact map[string]*meaning // by canonical key
	stars []starField
	keys  []string // the canonical names of the fields
	// Filters of keys: by the bytes behind X-, and by the last bytes.
	heads, tails filter
}

// A starField is a field with a * in its name.
type starField struct {
	prefix, suffix string
	meaning        meaning
	policy         string // before that which the * stands for
}

const (
	filterBits = 12
	shortest   = 6 // of which a filter has bytes
)

// A filter is a set of a few bytes of keys, as bits of their hashes.
type filter [1 << filterBits / 64]uint64

func (f *filter) set(hash uint32) { f[hash/64] |= 1 << (hash % 64) }

// has reports whether the bytes may be in the set.
func (f *filter) has(hash uint32) bool { return f[hash/64]>>(hash%64)&1 != 0 }

// hash hashes bytes in any case.
func hash(a, b, c, d byte) uint32 {
	n := (uint32(a) | uint32(b)<<8 | uint32(c)<<16 | uint32(d)<<24) | 0x20202020
	return n * 0x9e3779b1 >> (32 - filterBits) // Fibonacci hashing
}

// hashes returns those of the bytes of a key behind X-, and of its last bytes. A
// short key has one, of some bytes.
func hashes(key string) (head, tail uint32) {
	n := len(key)
	if n < shortest {
		if n > 0 {
			head = hash(key[0], key[n/2], key[n-1], byte(n))
		}
		return head, head
	}
	return hash(key[2], key[3], key[4], key[5]), hash(key[n-4], key[n-3], key[n-2], key[n-1])
}

// setHead and setTail note that a key with the same bytes may be known, or may be
// told by its words.
func (x *lexicon) setHead(key string) {
	head, _ := hashes(key)
	x.heads.set(head)
}

func (x *lexicon) setTail(key string) {
	_, tail := hashes(key)
	x.tails.set(tail)
}

// add adds the fields of a dialect that are valid.
func (x *lexicon) add(d *Dialect, o order) {
	if x.exact == nil {
		x.exact = make(map[string]*meaning, len(d.Fields))
		x.keys = make([]string, 0, len(d.Fields))
	}
	for i := range d.Fields {
		f := &d.Fields[i]
		key := http.CanonicalHeaderKey(f.Name)
		x.keys = append(x.keys, key)
		prefix, suffix, star := strings.Cut(key, "*")
		if f.fault() != nil || x.exact[key] != nil {
			continue
		}
		m := f.meaning(d.Name, o)
		switch {
		case !star:
			x.exact[key] = &m
		default:
			x.stars = append(x.stars, starField{prefix, suffix, m, f.Policy})
		}
		if len(prefix) >= shortest || !star {
			x.setHead(prefix)
		} else { // any key may begin so
			for i := range x.heads {
				x.heads[i] = math.MaxUint64
			}
		}
	}
}

// findHashed returns what is said of a key with that hash, or nil: of the field with that
// very name, else of the one with most letters around its *.
func (x *lexicon) findHashed(key string, head uint32) *meaning {
	if !x.heads.has(head) {
		return nil
	}
	if m := x.exact[key]; m != nil {
		return m
	}
	canonical := http.CanonicalHeaderKey(key)
	if canonical != key {
		if m := x.exact[canonical]; m != nil {
			return m
		}
	}
	var found *starField
	best, star := -1, ""
	for i := range x.stars {
		s := &x.stars[i]
		n := len(s.prefix) + len(s.suffix)
		if n > best && len(canonical) > n && strings.HasPrefix(canonical, s.prefix) && strings.HasSuffix(canonical, s.suffix) {
			if inner := canonical[len(s.prefix) : len(canonical)-len(s.suffix)]; isToken(inner) {
				found, best, star = s, n, inner
			}
		}
	}
	if found == nil {
		return nil
	}
	m := found.meaning
	m.policy = below(found.policy, lowerCase(star))
	return &m
}

// find returns what is said of a key, or nil.
func (x *lexicon) find(key string) *meaning {
	head, _ := hashes(key)
	return x.findHashed(key, head)
}
