package ratelimit

import (
	"errors"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A ResetFormat is what a number in the field of a reset means. Dates and
// durations show by their shape what they are, and are read in any format.
type ResetFormat int

const (
	// ResetGuess reads a number by its size: below 1e9 seconds from now, below
	// 1e11 seconds since the Unix epoch, below 1e14 milliseconds, below 1e17
	// microseconds, from there nanoseconds since then. It writes seconds from
	// now.
	ResetGuess ResetFormat = iota
	// ResetDelta is seconds from now; fractions are rounded up.
	ResetDelta
	// ResetDeltaMillis is milliseconds from now.
	ResetDeltaMillis
	// ResetUnix is seconds since the Unix epoch; fractions are rounded up.
	ResetUnix
	// ResetUnixMillis is milliseconds since the Unix epoch.
	ResetUnixMillis
	// ResetDate is an HTTP-date (RFC 9110 Section 5.6.7) in any of its three
	// forms, with the zone UTC as well as GMT, or a timestamp of RFC 3339. It
	// reads a number as ResetGuess does, and writes an IMF-fixdate.
	ResetDate
	// ResetDuration is a duration as Go writes it, such as 6m0s or 120ms. A
	// number without a unit is seconds.
	ResetDuration
)

// A Dialect says how a server spells its limits: a field for each number. An
// empty column is a number that the dialect does not have. [Dialects] lists
// those that are built in; others may be made up.
//
// A * in a name stands for the name of the policy, which follows in lower case:
// X-RateLimit-Limit-* reads X-RateLimit-Limit-Minute for the policy minute.
// Where Limit and Remaining have none, the dialect reports on one policy.
//
// A built-in dialect may read more than its columns say: synonyms of their names
// (X-RateLimit-Total), limits beside its own, and a syntax of its own (32/40),
// which is read and cannot be written.
type Dialect struct {
	Name      string // of the dialect: "draft-06", "x-ratelimit", "openai"
	Limit     string // field of the quota, in quota units
	Remaining string // field of what remains of it, in quota units
	Reset     string // field of the reset, in Format
	Used      string // field of the quota units spent, which with Remaining or Limit gives the other
	Window    string // field of the length of the window: seconds, or a duration; milliseconds if its name ends in Ms or Milliseconds
	Bucket    string // field of the name of the policy, where none of the above has a *
	Policy    string // field of Integer policies, 100;w=60 (draft-06 Section 3.3)

	Format  ResetFormat      // what a number in Reset means
	Windows map[string]int64 // seconds by name of the policy, or by a part of it ("minute" in "tokens-minute"); "*" is any other name
	Units   map[string]Unit  // unit by name of the policy, in the same way

	traits
}

// traits are what else the table says of a dialect.
type traits struct {
	// syntax is the role of the field Limit, if it is not a plain number.
	syntax role
	// group names the policy of the columns, where the dialect has others
	// beside it; "" is LegacyOptions.Name.
	group string
	// more are fields beside the columns. Of two for one number the first that
	// can be read counts.
	more []cell
	// marks are fields that the dialect can be told by. Without one of them it
	// leaves the response to other dialects.
	marks []string
	all   bool // all marks have to be there
	// doubt says that a value which the dialect does not write, such as a point in
	// time in the last century, tells the response to be of another.
	doubt bool
	// needs are signs that the dialect can be told by in the same way.
	needs sign
	// hint says that nothing tells the dialect: it has to be asked for, before
	// those that look like it.
	hint bool
	// seconds says that a number below 1e9 is seconds by definition, and no
	// guess.
	seconds bool
	// beside says that fields without a * are read only beside such with one.
	beside bool
	// dash says that -1 is no number but "unknown", resetDash that it is so for a
	// reset.
	dash, resetDash bool
	// window is the parameter of a policy's window, where policies are written
	// into Limit: window (draft-polli-00), w (drafts 01 to 03).
	window string
}

// A cell is a field of a dialect beside its columns.
type cell struct {
	role   role
	name   string
	group  string      // names the policy; with a * in name it comes before what that stands for
	format ResetFormat // of a reset
}

// A role is what a field says.
type role uint8

const (
	limitRole role = iota
	remainingRole
	resetRole
	usedRole
	windowRole
	bucketRole
	policyRole
	// The syntaxes that are not a number each.
	ignoredRole    // says nothing, although it looks as if it did
	tailRole       // second half of a policy's name
	secondsRole    // reset in one response, remaining is 0: Sentry
	ratioRole      // 32/40, used and quota
	recordRole     // total=100; remaining=99; resets=41
	pairsRole      // 100:1,1000:10, quota and window
	pairsUsedRole  // 5:1,10:10, the same of units spent
	columnsRole    // 600,30000: the quota of 15 minutes and of the day
	columnUsedRole // 314,27536: the same of units spent
	headRole       // Policy/Name;46: a name and what remains
	rateRole       // 0.5, requests per second
	percentRole    // JSON with percentages
	proseRole      // Remaining: 394 Time until reset: 3589
	dictionaryRole // draft-07 Section 3
	listRole       // the current RateLimit, read with lenience
	listPolicyRole // the current RateLimit-Policy, in the same way
)

// A sign is something seen in a response that tells one generation of the
// specification from another.
type sign uint8

const (
	windowSign sign = 1 << iota // the parameter window (draft-polli-00)
	dateSign                    // a date for a reset (the same)
	listSign                    // policies in the field of the quota (drafts 00 to 03)
	policySign                  // policies in RateLimit-Policy that are not of the current form
	limitSign                   // limits in RateLimit, likewise
	doubtSign                   // a value that the dialect does not write
)

// LegacyOptions are options of [ParseLegacy] and [ParseAny]. The zero value is
// ready to use.
type LegacyOptions struct {
	// Dialects are tried in order; nil is those of [Dialects].
	Dialects []Dialect
	// Name is the name of a policy where the response has none, in printable
	// ASCII; "" is "default".
	Name string
	// Now is when the response arrived, from which absolute times count where
	// it has no Date; zero is time.Now().
	Now time.Time
}

const defaultName = "default"

// ParseLegacy reads what h says about limits in the first dialect that yields a
// limit or a policy. The current fields, RateLimit-Policy and RateLimit, are
// not read where [Parse] accepts them; see [ParseAny].
//
// Fields are judged one by one: a malformed one leaves the others as they are
// and is joined into the error, as a [*FieldError] with its name. What is
// absent stays absent: Remaining is [Unknown], Reset the zero [Seconds], and
// without a quota there is no policy. Fractions of what remains are rounded
// down, of resets up; a negative remaining is 0, and so is a reset in the past.
// Numbers above MaxInteger become MaxInteger. A limit of which only the spent
// units are known has them as the parameter "used".
//
// Absolute times count from the field Date, unless the field Age says that it
// is old, then from o.Now. A policy is named by the dialect's *, or by a field
// for the name, or by a parameter "name", else o.Name. Of Integer policies the
// one with the quota of the limit has that name, any other is named by quota and
// window, as 1000/3600. Comments upon a policy (burst=1000) are its Params, at
// most 64 of them; there are at most 1024 policies and 1024 limits.
func ParseLegacy(h http.Header, o LegacyOptions) (Fields, error) {
	f, _, faults := parseLegacy(h, &o)
	return f, joinFaults(faults)
}

// ParseAny reads what h says about limits, in whatever form. If there is a
// well-formed field RateLimit the result is that of [Parse], and other limits
// are not looked at. Else it is that of [ParseLegacy], joined by the current
// policies if RateLimit-Policy is well-formed. Else there may be such policies
// alone.
//
// A malformed RateLimit-Policy beside a well-formed RateLimit is ignored, but
// for one form in use: two names before the parameters, of which the second
// counts.
//
// The error joins a [*FieldError] for each field that could not be read in any
// way; what is returned beside it may be used. A response without fields of
// rate limits costs no allocation.
func ParseAny(h http.Header, o LegacyOptions) (Fields, error) {
	policyLines, limitLines := h[policyKey], h[limitKey]
	if len(policyLines) == 0 && len(limitLines) == 0 {
		return ParseLegacy(h, o)
	}
	policies, policyErr := ParsePolicies(policyLines...)
	limits, limitErr := ParseLimits(limitLines...)
	if limits != nil {
		f := Fields{Policies: policies, Limits: limits, Dialect: currentDialect}
		if policyErr != nil {
			if f.Policies = salvage(h, o.Dialects); f.Policies != nil {
				policyErr = nil
			}
		}
		return f, errors.Join(policyErr)
	}
	f, seen, faults := parseLegacy(h, &o)
	if policies != nil {
		f.Policies = joinPolicies(policies, f.Policies)
		if f.Dialect == "" {
			f.Dialect = currentDialect
		}
	}
	if seen&policySign == 0 {
		faults = preferStrict(policyErr, faults)
	}
	if seen&limitSign == 0 {
		faults = preferStrict(limitErr, faults)
	}
	return f, joinFaults(faults)
}

// preferStrict puts what the strict parser says of a field that no dialect could
// read in the place of what the dialects say.
func preferStrict(err error, faults []*FieldError) []*FieldError {
	strict, ok := err.(*FieldError)
	if !ok {
		return faults
	}
	faults = slices.DeleteFunc(faults, func(e *FieldError) bool { return e.Field == strict.Field })
	return append(faults, strict)
}

// joinPolicies returns the current policies and those of a dialect that have
// another name.
func joinPolicies(current, legacy []Policy) []Policy {
	names := make(map[string]bool, len(current))
	for i := range current {
		names[current[i].Name] = true
	}
	for i := range legacy {
		if !names[legacy[i].Name] {
			current = append(current, legacy[i])
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
		at := place{http.CanonicalHeaderKey(e.Field), e.Line}
		if !seen[at] {
			seen[at] = true
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// isLegacyField reports whether a key of http.Header may be that of an older
// field.
func isLegacyField(key string) bool {
	lower := strings.ToLower(key)
	key = http.CanonicalHeaderKey(key)
	return strings.Contains(lower, "ratelimit") || strings.Contains(lower, "rate-limit") ||
		slices.ContainsFunc(builtin.rows, func(r row) bool { return r.owns(key) })
}

// Compiled dialects.

// A row is a dialect with the keys under which http.Header holds its fields.
type row struct {
	d       *Dialect
	cells   []field
	marks   []pattern
	starred bool
}

type field struct {
	cell
	pattern
	shared bool // several policies have their reset from it
}

// A pattern is the canonical key of a field, or what surrounds a * in it.
type pattern struct {
	key            string // if there is no *
	prefix, suffix string
	star           bool
}

func patternOf(name string) pattern {
	key := http.CanonicalHeaderKey(name)
	prefix, suffix, star := strings.Cut(key, "*")
	if !star {
		return pattern{key: key}
	}
	return pattern{prefix: prefix, suffix: suffix, star: true}
}

// match returns what the * stands for in a key.
func (p *pattern) match(key string) (star string, ok bool) {
	switch {
	case !p.star:
		return "", key == p.key
	case len(key) <= len(p.prefix)+len(p.suffix):
		return "", false
	case key[:len(p.prefix)] != p.prefix || key[len(key)-len(p.suffix):] != p.suffix:
		return "", false
	}
	star = key[len(p.prefix) : len(key)-len(p.suffix)]
	return star, isToken(star) // a header made by hand may have any key
}

func compileRow(d *Dialect) row {
	r := row{d: d}
	add := func(c cell) {
		if c.name == "" {
			return
		}
		f := field{cell: c, pattern: patternOf(c.name)}
		for i := range r.cells {
			if other := &r.cells[i]; c.role == resetRole && other.role == resetRole && other.pattern == f.pattern {
				other.shared, f.shared = true, true
			}
		}
		r.starred = r.starred || f.star
		r.cells = append(r.cells, f)
	}
	for i, name := range d.columns() {
		c := cell{role(i), name, d.group, d.Format}
		if c.role == limitRole && d.syntax != limitRole {
			c.role = d.syntax
		}
		add(c)
	}
	for _, c := range d.more {
		add(c)
	}
	for _, name := range d.marks {
		r.marks = append(r.marks, patternOf(name))
	}
	return r
}

// columns returns the names of the fields by role.
func (d *Dialect) columns() [policyRole + 1]string {
	return [...]string{d.Limit, d.Remaining, d.Reset, d.Used, d.Window, d.Bucket, d.Policy}
}

func compile(dialects []Dialect) []row {
	rows := make([]row, len(dialects))
	for i := range dialects {
		rows[i] = compileRow(&dialects[i])
	}
	return rows
}

// field returns the cell that a key is read by: one with that very name, else
// the one with most letters around its *.
func (r *row) field(key string) (f *field, star string) {
	best := -1
	for i := range r.cells {
		c := &r.cells[i]
		s, ok := c.match(key)
		if !ok {
			continue
		}
		if !c.star {
			return c, ""
		}
		if n := len(c.prefix) + len(c.suffix); n > best {
			f, star, best = c, s, n
		}
	}
	return f, star
}

func (r *row) owns(key string) bool {
	f, _ := r.field(key)
	return f != nil
}

// marked reports whether the response has the marks of the dialect, if it needs
// any.
func (r *row) marked(h http.Header) bool {
	for i := range r.marks {
		if has(h, &r.marks[i]) != r.d.all {
			return !r.d.all
		}
	}
	return r.d.all || len(r.marks) == 0
}

func has(h http.Header, p *pattern) bool {
	if !p.star {
		return len(h[p.key]) > 0
	}
	for key := range h {
		if _, ok := p.match(key); ok {
			return true
		}
	}
	return false
}

// A rowSet is a set of rows of the built-in table.
type rowSet [2]uint64

func (s *rowSet) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s *rowSet) join(t rowSet) {
	for i := range s {
		s[i] |= t[i]
	}
}

// next returns the first row from i on, or -1.
func (s *rowSet) next(i int) int {
	for w := i / 64; w < len(s); w++ {
		rest := s[w]
		if w == i/64 {
			rest &= ^uint64(0) << (i % 64)
		}
		if rest != 0 {
			return w*64 + bits.TrailingZeros64(rest)
		}
	}
	return -1
}

// An index finds the rows of the built-in table that a key may be read by. A
// row with marks is found by these alone.
type index struct {
	rows  []row
	exact map[string]rowSet
	stars []starred
	heads [1 << headBits]bool // of the first bytes of all names
}

type starred struct {
	pattern
	rows rowSet
}

// Nearly all fields of a response are none of the table. They are told by their
// first bytes; those that begin with vendorPrefix and a * must have rateWord.
const (
	headBits     = 13
	headBytes    = 6
	vendorPrefix = "X-"
	rateWord     = "imit"
)

// head hashes the first bytes of a key.
func head(key string) uint32 {
	var n uint32
	if len(key) < headBytes {
		for i := range len(key) {
			n = n*31 + uint32(key[i])
		}
		return n % (1 << headBits)
	}
	n = uint32(key[2]) | uint32(key[3])<<8 | uint32(key[4])<<16 | uint32(key[5])<<24
	n ^= uint32(key[0])<<3 ^ uint32(key[1])<<11
	return n * 0x9e3779b1 >> (32 - headBits) // Fibonacci hashing
}

func newIndex(rows []row) *index {
	x := &index{rows: rows, exact: map[string]rowSet{}}
	stars := map[pattern]rowSet{}
	for i := range rows {
		if rows[i].d.hint {
			continue
		}
		patterns := rows[i].marks
		if len(patterns) == 0 {
			for _, c := range rows[i].cells {
				if c.star || !rows[i].d.beside {
					patterns = append(patterns, c.pattern)
				}
			}
		}
		for _, p := range patterns {
			set := stars[p]
			set.add(i)
			stars[p] = set
		}
	}
	for p, set := range stars {
		x.heads[head(p.key+p.prefix)] = true
		if p.star {
			x.stars = append(x.stars, starred{p, set})
		} else {
			x.exact[p.key] = set
		}
	}
	for key, set := range x.exact {
		x.exact[key] = x.starRows(key, set)
	}
	return x
}

// starRows adds to set the rows that a key is found in by a *.
func (x *index) starRows(key string, set rowSet) rowSet {
	for i := range x.stars {
		if _, ok := x.stars[i].match(key); ok {
			set.join(x.stars[i].rows)
		}
	}
	return set
}

// find returns the rows that the fields of h may be read by.
func (x *index) find(h http.Header) (set rowSet) {
	for key := range h {
		if !x.heads[head(key)] && !(strings.HasPrefix(key, vendorPrefix) && strings.Contains(key, rateWord)) {
			continue
		}
		if rows, ok := x.exact[key]; ok {
			set.join(rows)
		} else {
			set.join(x.starRows(key, rowSet{}))
		}
	}
	return set
}

// Reading.

// A bucket is what has been read of one policy.
type bucket struct {
	name      string
	quota     int64 // Unknown if absent, as the next two
	remaining int64
	used      int64
	window    Seconds
	reset     Seconds
	absolute  bool // the reset was a point in time
	guessed   bool // the unit of the reset was
	unit      Unit
	title     string // from a parameter
	params    Params // of the policy
}

// A reading is a response that is being read.
type reading struct {
	h       http.Header
	name    string // of a policy without one
	clock   clock
	row     *row
	n       int // of buckets
	few     [4]bucket
	more    []bucket
	index   map[string]int // of buckets, if they are many
	listed  []Policy       // from lists of policies
	limits  []Limit        // from lists of limits
	title   string         // of the policy, from a field
	tail    string         // second half of the title
	star    string         // what the * of the current field stands for
	seen    sign
	guessed bool
	starred bool // a * has been read
	faults  []*FieldError
}

// at returns a bucket. The first few are part of the reading, which so needs no
// memory but that of its result.
func (r *reading) at(i int) *bucket {
	if i < len(r.few) {
		return &r.few[i]
	}
	return &r.more[i-len(r.few)]
}

const manyBuckets = 16

// parseLegacy is ParseLegacy; seen are the signs of what has been read.
func parseLegacy(h http.Header, o *LegacyOptions) (f Fields, seen sign, faults []*FieldError) {
	if o.Dialects != nil {
		return parseRows(h, o, compile(o.Dialects))
	}
	set := builtin.find(h)
	if set == (rowSet{}) {
		return Fields{}, 0, nil
	}
	var r reading
	r.begin(h, o)
	for i := set.next(0); i >= 0; i = set.next(i + 1) {
		row := &builtin.rows[i]
		if row.d.all && !row.marked(h) {
			continue
		}
		if f, ok := r.try(row, true); ok {
			return f, r.seen, r.faults
		}
	}
	return Fields{}, 0, r.faults
}

// parseRows tries rows that are not in the index, and if all of them are such
// that something has to tell them from others, then without that.
func parseRows(h http.Header, o *LegacyOptions, rows []row) (f Fields, seen sign, faults []*FieldError) {
	var r reading
	r.begin(h, o)
	told := true
	for i := range rows {
		row := &rows[i]
		told = told && (len(row.marks) > 0 || row.d.needs != 0)
		if row.marked(h) {
			if f, ok := r.try(row, true); ok {
				return f, r.seen, r.faults
			}
		}
	}
	for i := range rows {
		if told {
			if f, ok := r.try(&rows[i], false); ok {
				return f, r.seen, r.faults
			}
		}
	}
	return Fields{}, 0, r.faults
}

func (r *reading) begin(h http.Header, o *LegacyOptions) {
	r.h, r.name, r.clock = h, o.Name, readClock(h, o.Now)
	if r.name == "" {
		r.name = defaultName
	}
}

// try reads the response by a row. If sure, the row has to be told from others.
func (r *reading) try(row *row, sure bool) (Fields, bool) {
	before := len(r.faults)
	r.row, r.n, r.more, r.index, r.listed, r.limits = row, 0, nil, nil, nil, nil
	r.title, r.tail, r.seen, r.guessed, r.starred = "", "", 0, false, false
	r.readExact()
	if row.starred {
		r.readStarred()
		if row.d.beside && !r.starred {
			r.faults = r.faults[:before]
			return Fields{}, false
		}
	}
	if sure && (row.d.needs != 0 && r.seen&row.d.needs == 0 || row.d.doubt && r.seen&doubtSign != 0) {
		r.faults = r.faults[:before]
		return Fields{}, false
	}
	f := r.fields()
	if len(f.Policies)+len(f.Limits) == 0 {
		return Fields{}, false
	}
	// What an earlier row could not read, and this one can, is no fault.
	mine := r.faults[before:]
	r.faults = slices.DeleteFunc(r.faults[:before:before], func(e *FieldError) bool {
		return row.owns(http.CanonicalHeaderKey(e.Field))
	})
	r.faults = append(r.faults, mine...)
	return f, true
}

// readExact reads the fields without a *, in the order of the row.
func (r *reading) readExact() {
	for i := range r.row.cells {
		f := &r.row.cells[i]
		if f.star {
			continue
		}
		if lines := r.h[f.key]; len(lines) > 0 {
			r.read(f, "", lines)
		}
	}
}

// readStarred reads the fields with a *, in the order of their keys.
func (r *reading) readStarred() {
	var keys []string
	for key := range r.h {
		if f, _ := r.row.field(key); f != nil && f.star && len(r.h[key]) > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		f, star := r.row.field(key)
		r.starred = r.starred || f.role != ignoredRole
		r.read(f, lowerCase(star), r.h[key])
	}
}

// lowerCase is strings.ToLower without an allocation for the usual words.
func lowerCase(s string) string {
	if word, ok := words[s]; ok {
		return word
	}
	return strings.ToLower(s)
}

// fault joins the fault of a field into the error. off counts from the start of
// the line.
func (r *reading) fault(f *field, star string, line, off int, err error) {
	name := f.name
	if f.star {
		name = strings.Replace(name, "*", star, 1)
	}
	r.faults = append(r.faults, &FieldError{Field: name, Line: line, Offset: off, Item: -1, Err: err})
}

// bucket returns the bucket of a name, a new one if there is none yet. It is
// nil if there are too many.
func (r *reading) bucket(f *field, name string) *bucket {
	if i := r.find(name); i >= 0 {
		return r.at(i)
	}
	if r.n == maxMembers {
		r.fault(f, r.star, 0, 0, ErrTooMany)
		return nil
	}
	if r.n >= len(r.few) {
		r.more = append(r.more, bucket{})
	}
	r.n++
	b := r.at(r.n - 1)
	*b = bucket{name: name, quota: Unknown, remaining: Unknown, used: Unknown}
	if r.index != nil {
		r.index[name] = r.n - 1
	} else if r.n > manyBuckets {
		r.index = make(map[string]int, 2*r.n)
		for i := range r.n {
			r.index[r.at(i).name] = i
		}
	}
	return b
}

// find returns the index of the bucket of a name, or -1.
func (r *reading) find(name string) int {
	if r.index != nil {
		if i, ok := r.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range r.n {
		if r.at(i).name == name {
			return i
		}
	}
	return -1
}

// read reads one field, of the policy that the * names.
func (r *reading) read(f *field, star string, lines []string) {
	r.star = star
	name := f.group
	switch {
	case f.star && name != "":
		name += "-" + star
	case f.star:
		name = star
	}
	switch f.role {
	case ignoredRole:
	case bucketRole:
		r.readTitle(f, &r.title, lines)
	case tailRole:
		r.readTitle(f, &r.tail, lines)
	case policyRole:
		r.readPolicies(f, star, lines)
	case limitRole, remainingRole, resetRole, usedRole, windowRole, rateRole:
		line, i := firstLine(lines)
		if line == "" || f.shared && r.find(name) < 0 {
			return
		}
		if b := r.bucket(f, name); b != nil {
			r.readNumber(f, star, b, lines, line, i)
		}
	default:
		r.readSyntax(f, star, name, lines)
	}
}

// firstLine returns the first line that is not blank. Fields of one number
// should have one line; a second comes from a second limiter, whose numbers
// must not be mixed with those of the first.
func firstLine(lines []string) (line string, i int) {
	for i, line := range lines {
		if line = trim(line); line != "" {
			return line, i
		}
	}
	return "", 0
}

// readNumber reads a field of one number.
func (r *reading) readNumber(f *field, star string, b *bucket, lines []string, line string, i int) {
	ok := true
	switch f.role {
	case limitRole:
		r.readLimit(f, star, b, lines)
	case remainingRole:
		ok = r.readRemaining(b, line)
	case resetRole:
		ok = r.readReset(f, b, line)
	case usedRole:
		ok = r.readUsed(b, line)
	case windowRole:
		ok = r.readWindow(f, b, line)
	case rateRole:
		ok = b.readRate(line)
	}
	if !ok {
		r.fault(f, star, i, strings.Index(lines[i], line), ErrSyntax)
	}
}

// readTitle reads a policy's name.
func (r *reading) readTitle(f *field, title *string, lines []string) {
	line, i := firstLine(lines)
	if *title != "" || line == "" {
		return
	}
	name := unquote(line)
	if !isName(name) {
		r.fault(f, "", i, strings.Index(lines[i], line), ErrSyntax)
		return
	}
	*title = name
}

// members calls yield for each member of the lists in lines that is not empty,
// until it returns false. It reports the faults of the lists.
func (r *reading) members(f *field, star string, lines []string, yield func(i, off int, value, params string) bool) {
	n := 0
	for i, line := range lines {
		for rest := line; rest != ""; {
			off := len(line) - len(rest)
			m, tail, ok := cut(rest, ',')
			if !ok {
				r.fault(f, star, i, off, ErrSyntax)
				break
			}
			rest = tail
			if m = trim(m); m == "" {
				continue
			}
			if n++; n > maxMembers {
				r.fault(f, star, i, off, ErrTooMany)
				return
			}
			value, params, _ := cut(m, ';')
			if !yield(i, off, trim(value), params) {
				r.fault(f, star, i, off, ErrSyntax)
			}
		}
	}
}

// readLimit reads a quota, and the policies that may follow it (drafts 00 to 03
// Section 3.1).
func (r *reading) readLimit(f *field, star string, b *bucket, lines []string) {
	first := -1 // line
	r.members(f, star, lines, func(i, _ int, value, params string) bool {
		if first < 0 {
			first = i
			return r.readQuota(b, value, params)
		}
		p, more := r.policy(value, params)
		if i > first && !more { // the quota of a second limiter
			other := bucket{quota: Unknown}
			return r.readQuota(&other, value, "")
		}
		r.seen |= listSign
		if p.Quota != Unknown && more {
			r.list(p)
		}
		return p.Quota != Unknown
	})
}

// readQuota reads 100, with parameters (100;w=60), with a window (600/15m), or
// a window alone (12h).
func (r *reading) readQuota(b *bucket, value, params string) bool {
	if b.quota != Unknown {
		return true
	}
	if params != "" {
		p, _ := r.policy("0", params)
		b.window, b.params = p.Window, p.Params
		if p.Window.ok {
			r.seen |= listSign
		}
		b.title = p.Name
	}
	count, window, over := strings.Cut(value, "/")
	if n, ok := parseNumber(trim(count)); ok {
		if over {
			w, ok := parseWindow(trim(window))
			if !ok {
				return false
			}
			b.window = w
		}
		if !n.neg { // -1 is another word for unlimited
			b.quota = n.floor()
		}
		return true
	}
	if w, ok := parseWindow(value); ok && !over {
		b.window = w
		return true
	}
	return unlimited(value)
}

// unlimited reports whether a word says that there is no limit.
func unlimited(s string) bool {
	for _, word := range []string{"unlimited", "infinite", "infinity", "inf", "none", "null", "disabled", "off", "false"} {
		if strings.EqualFold(s, word) {
			return true
		}
	}
	return s == "∞" || s == "-" || s == "*"
}

// list adds a policy of a list, unless it is there.
func (r *reading) list(p Policy) {
	for i := range r.listed {
		if q := &r.listed[i]; q.Quota == p.Quota && q.Window == p.Window && q.Name == p.Name {
			return
		}
	}
	if len(r.listed) < maxMembers {
		r.listed = append(r.listed, p)
	}
}

// readPolicies reads Integer policies (draft-06 Section 3.3). Members of the
// current form are for the strict parser, and a word is no policy but the name
// of an algorithm.
func (r *reading) readPolicies(f *field, star string, lines []string) {
	r.members(f, star, lines, func(_, _ int, value, params string) bool {
		p, _ := r.policy(value, params)
		if p.Quota != Unknown {
			r.seen |= policySign
			r.list(p)
			return true
		}
		return value != "" && (value[0] == '"' || is(value[0], alpha))
	})
}

// policy reads a policy of a list: quota, window, name, and the comments. more
// says that it has parameters. Its quota is Unknown if it is no number.
func (r *reading) policy(value, params string) (p Policy, more bool) {
	p.Quota = Unknown
	if n, ok := parseNumber(value); ok && !n.neg {
		p.Quota = n.floor()
	}
	for n := 0; params != "" && n < maxParams; n++ {
		var param string
		param, params, _ = cut(params, ';')
		key, text, valued := strings.Cut(trim(param), "=")
		key, text = strings.ToLower(trim(key)), trim(text)
		if key == "" || key[0] == '"' {
			continue
		}
		more = true
		switch key {
		case windowKey, windowName:
			if key == windowName {
				r.seen |= windowSign
			}
			if w, ok := parseWindow(text); ok {
				p.Window = w
			}
		case nameName:
			if name := unquote(text); isName(name) {
				p.Name = name
			}
		default:
			p.Params = comment(p.Params, key, text, valued, policyField)
		}
	}
	return p, more
}

// The parameters of legacy policies, beside w.
const (
	windowName = "window" // draft-polli-00
	nameName   = "name"   // Envoy
)

// maxComments is how many comments of a policy are kept. To find a repeated one
// among them costs its time with every other.
const maxComments = 64

// comment adds a parameter that is not defined, if it can be written.
func comment(ps Params, key, text string, valued bool, field *fieldDef) Params {
	if !isKey(key) || field.find(key) != nil || len(ps) >= maxComments {
		return ps
	}
	var v any = true
	if valued {
		v = commentValue(text)
	}
	if v == nil {
		return ps
	}
	if i := ps.index(key); i >= 0 {
		ps[i].Value = v
		return ps
	}
	return append(ps, Param{key, v})
}

// commentValue returns the value of a comment: a number, a quoted string or a
// token.
func commentValue(text string) any {
	if s, kind := scanBareItem(text); kind != absent {
		return s.any(kind)
	}
	if name := unquote(text); name != text && isName(name) {
		return name
	}
	return nil
}

// readRemaining reads what remains: a number, of which parameters and further
// members say what the field of the quota says.
func (r *reading) readRemaining(b *bucket, line string) bool {
	if b.remaining != Unknown {
		return true
	}
	member, _, ok := cut(line, ',')
	value, params, _ := cut(member, ';')
	if !ok {
		return false
	}
	if params != "" && !b.window.ok {
		p, _ := r.policy("0", params)
		b.window = p.Window
	}
	value = trim(value)
	n, ok := parseNumber(value)
	switch {
	case !ok:
		return unlimited(value)
	case r.row.d.dash && n.isDash():
	case n.neg:
		b.remaining = 0
	default:
		b.remaining = n.floor()
	}
	return true
}

// isDash reports whether a number is the -1 that for some dialects is none.
func (v number) isDash() bool {
	return v == number{n: 1, neg: true}
}

// readUsed reads the units spent; what is begun is spent.
func (r *reading) readUsed(b *bucket, line string) bool {
	n, ok := parseNumber(line)
	if !ok {
		return false
	}
	if !n.neg && b.used == Unknown {
		b.used = n.ceil()
	}
	return true
}

// readWindow reads the length of the window.
func (r *reading) readWindow(f *field, b *bucket, line string) bool {
	if b.window.ok {
		return true
	}
	n, ok := parseNumber(line)
	if !ok {
		b.window, ok = parseWindow(line)
		return ok
	}
	w := n.ceil()
	name := f.key + f.suffix
	switch {
	case strings.HasSuffix(name, "-Ms") || strings.HasSuffix(name, "-Milliseconds"):
		w = n.ceilDiv(1000)
	case strings.HasSuffix(name, "-Interval") && w > 0 && w%intervalMillis == 0:
		// Who counts in seconds writes 3600 or 86400.
		w, r.guessed = n.ceilDiv(1000), true
	}
	if w >= minWindow && !n.neg {
		b.window = SecondsOf(w)
	}
	return true
}

// intervalMillis is the number of which an interval in milliseconds is a multiple.
const intervalMillis = 1000

// readRate reads requests per second, as a policy that allows no more.
func (b *bucket) readRate(line string) bool {
	n, ok := parseNumber(line)
	if !ok || n.neg {
		return false
	}
	b.quota, b.window = n.floor(), SecondsOf(1)
	if n.n == 0 && n.frac > 0 {
		b.quota, b.window = 1, SecondsOf((billion+n.frac-1)/n.frac)
	}
	return true
}

// readReset reads a reset. One that counts from now is better than a point in
// time, which needs two clocks to agree.
func (r *reading) readReset(f *field, b *bucket, line string) bool {
	s, how, ok := r.reset(line, f.format)
	if !ok {
		return false
	}
	if how&dateHow != 0 {
		r.seen |= dateSign
	}
	absolute := how&absoluteHow != 0
	if s.ok && (!b.reset.ok || b.absolute && !absolute) {
		b.reset, b.absolute = s, absolute
		b.guessed = how&guessedHow != 0
	}
	return true
}

// fields makes the result of what has been read.
func (r *reading) fields() Fields {
	r.fold()
	policies, limits := len(r.listed), len(r.limits)
	for i := range r.n {
		b := r.at(i)
		r.derive(b)
		r.guessed = r.guessed || b.guessed
		if b.quota != Unknown {
			policies++
		}
		if b.hasLimit() {
			limits++
		}
	}
	f := Fields{Dialect: r.row.d.Name, Guessed: r.guessed}
	if policies > 0 {
		f.Policies = r.policies(make([]Policy, 0, policies))
	}
	if limits > 0 {
		f.Limits = append(make([]Limit, 0, limits), r.limits...)
		for i := range r.n {
			if b := r.at(i); b.hasLimit() {
				f.Limits = append(f.Limits, b.limit())
			}
		}
		f.Limits = f.Limits[:min(limits, maxMembers)]
	}
	return f
}

// fold gives what has been read for no named policy to the named one that it is
// about: the one with the same numbers, else, if it is a reset alone, the one
// that the client runs into first.
func (r *reading) fold() {
	i := r.find("")
	if i < 0 || r.n < 2 {
		return
	}
	plain := r.at(i)
	best := r.sameAs(plain)
	if plain.quota == Unknown && plain.remaining == Unknown {
		best = r.tightest()
	}
	if best == nil {
		return
	}
	if !best.reset.ok {
		best.reset, best.absolute, best.guessed = plain.reset, plain.absolute, plain.guessed
	}
	for r.n--; i < r.n; i++ {
		*r.at(i) = *r.at(i + 1)
	}
}

// sameAs returns the named bucket with the numbers of b.
func (r *reading) sameAs(b *bucket) *bucket {
	for i := range r.n {
		if c := r.at(i); c.name != "" && c.quota == b.quota && c.remaining == b.remaining {
			return c
		}
	}
	return nil
}

// tightest returns the named bucket that the client runs into first.
func (r *reading) tightest() (best *bucket) {
	for i := range r.n {
		b := r.at(i)
		if b.name != "" && (b.quota != Unknown || b.remaining != Unknown) && (best == nil || b.tighter(best)) {
			best = b
		}
	}
	return best
}

func (b *bucket) tighter(c *bucket) bool {
	l, m := leftOf(&Limit{Remaining: b.remaining, Reset: b.reset}, &noPolicy, 0), leftOf(&Limit{Remaining: c.remaining, Reset: c.reset}, &noPolicy, 1)
	return l.less(m)
}

// derive fills in what follows from the rest.
func (r *reading) derive(b *bucket) {
	switch {
	case b.used == Unknown:
	case b.quota == Unknown && b.remaining != Unknown:
		b.quota = min(b.remaining+b.used, MaxInteger)
	case b.quota != Unknown && b.remaining == Unknown:
		b.remaining = max(b.quota-b.used, 0)
	}
	if b.name == "" {
		b.name = r.mainName(b)
	}
	d := r.row.d
	if !b.window.ok {
		if n := windowOf(d.Windows, b.name); n >= minWindow {
			b.window = SecondsOf(min(n, MaxInteger))
		}
	}
	if b.unit == "" && isName(string(unitOf(d.Units, b.name))) {
		b.unit = unitOf(d.Units, b.name)
	}
}

// mainName is the name of a policy that the names of the fields do not tell.
func (r *reading) mainName(b *bucket) string {
	switch {
	case r.title != "" && r.tail != "":
		return r.title + "/" + r.tail
	case r.title != "" || r.tail != "":
		return r.title + r.tail
	case b.title != "":
		return b.title
	}
	if i := r.listedWith(b.quota); i >= 0 && r.listed[i].Name != "" {
		return r.listed[i].Name
	}
	return r.name
}

// listedWith returns the first listed policy with a quota, or -1.
func (r *reading) listedWith(quota int64) int {
	for i := range r.listed {
		if quota != Unknown && r.listed[i].Quota == quota {
			return i
		}
	}
	return -1
}

// policies appends the policies: that of a limit which no list has, and the
// lists, of which the policy with the quota of the limit has its name.
func (r *reading) policies(list []Policy) []Policy {
	joined := make([]int, 0, 4)
	for i := range r.n {
		b := r.at(i)
		if b.quota == Unknown {
			continue
		}
		if at := r.listedWith(b.quota); at >= 0 && !slices.Contains(joined, at) {
			p := &r.listed[at]
			p.Name, p.Unit = b.name, b.unit
			if !p.Window.ok {
				p.Window = b.window
			}
			joined = append(joined, at)
			continue
		}
		list = append(list, Policy{Name: b.name, Quota: b.quota, Unit: b.unit, Window: b.window, Params: b.params})
	}
	for i := range r.listed {
		p := r.listed[i]
		if p.Name == "" {
			p.Name = policyName(&p)
		}
		list = append(list, p)
	}
	return list[:min(len(list), maxMembers)]
}

// policyName names an Integer policy.
func policyName(p *Policy) string {
	b := strconv.AppendInt(nil, p.Quota, 10)
	if p.Window.ok {
		b = append(b, '/')
		b = strconv.AppendInt(b, p.Window.n, 10)
	}
	return string(b)
}

// hasLimit reports whether there is anything to say beside the policy.
func (b *bucket) hasLimit() bool {
	return b.remaining != Unknown || b.reset.ok || b.quota == Unknown && b.used != Unknown
}

func (b *bucket) limit() Limit {
	l := Limit{Name: b.name, Remaining: b.remaining, Reset: b.reset}
	if b.remaining == Unknown && b.quota == Unknown && b.used != Unknown {
		l.Params = Params{{usedName, b.used}}
	}
	return l
}

const usedName = "used"
