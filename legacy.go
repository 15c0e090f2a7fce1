package ratelimit

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
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
// Fields that have been read may be spelled in more ways than the columns say:
// a built-in dialect knows synonyms (X-RateLimit-Total), and some have a syntax
// of their own (32/40), which is read and cannot be written.
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
	// needs are signs that the dialect can be told by in the same way.
	needs sign
	// hint says that nothing tells the dialect: it has to be asked for.
	hint bool
	// seconds says that a number below 1e9 is seconds by definition, and no
	// guess.
	seconds bool
	// beside says that fields without a * are read only beside such with one.
	beside bool
	// dash says that -1 is no number but "unknown".
	dash bool
	// window is the parameter of a policy's window, where policies are written
	// into Limit: window (draft-polli-00), w (drafts 01 to 03).
	window string
}

// A cell is a field of a dialect beside its columns.
type cell struct {
	role   role
	name   string
	group  string      // names the policy, if there is no * in name
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
)

// LegacyOptions are options of [ParseLegacy] and [ParseAny]. The zero value is
// ready to use.
type LegacyOptions struct {
	// Dialects are tried in order; nil is those of [Dialects].
	Dialects []Dialect
	// Name is the name of a policy where the response has none; "" is
	// "default".
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
// one with the quota of the limit has that name, any other is named by quota and window,
// as 1000/3600. Comments upon a policy (burst=1000) are its Params.
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
		if policyErr != nil && o.Dialects == nil {
			if f.Policies = salvage(h); f.Policies != nil {
				policyErr = nil
			}
		}
		return f, policyErr
	}
	f, seen, faults := parseLegacy(h, &o)
	if policies != nil {
		f.Policies = joinPolicies(policies, f.Policies)
		if f.Dialect == "" {
			f.Dialect = currentDialect
		}
	}
	if e, ok := policyErr.(*FieldError); ok && seen&policySign == 0 {
		faults = append(faults, e)
	}
	if e, ok := limitErr.(*FieldError); ok && seen&limitSign == 0 {
		faults = append(faults, e)
	}
	return f, joinFaults(faults)
}

// joinPolicies returns the current policies and those of a dialect that have
// another name.
func joinPolicies(current, legacy []Policy) []Policy {
	if len(current) == 0 {
		return legacy
	}
	names := make(map[string]bool, len(current))
	for i := range current {
		names[current[i].Name] = true
	}
	for i := range legacy {
		if !names[legacy[i].Name] {
			current = append(current, legacy[i])
		}
	}
	return current
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
	return key[len(p.prefix) : len(key)-len(p.suffix)], true
}

func compileRow(d *Dialect) row {
	r := row{d: d}
	add := func(c cell) {
		if c.name == "" {
			return
		}
		f := field{c, patternOf(c.name)}
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
	if r.d.hint {
		return false
	}
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
	heads [headBits]bool // of the first bytes of all names
}

type starred struct {
	pattern
	rows rowSet
}

const (
	headBits  = 1 << 10
	headBytes = 6
	// rateWord is in almost every name; one without it is found by its head.
	rateWord = "imit"
)

// head hashes the first bytes of a key.
func head(key string) (n uint32) {
	for i := range min(len(key), headBytes) {
		n = n*31 + uint32(key[i])
	}
	return n % headBits
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
				patterns = append(patterns, c.pattern)
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
		if !x.heads[head(key)] && !strings.Contains(key, rateWord) {
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
	params    Params // of the policy
}

// A reading is a response that is being read.
type reading struct {
	h       http.Header
	name    string // of a policy without one
	now     time.Time
	ref     time.Time // what absolute times count from, zero if not known yet
	row     *row
	buckets []bucket
	index   map[string]int // of buckets, if they are many
	listed  []Policy       // from lists of policies
	limits  []Limit        // from lists of limits
	title   string         // of the policy, from a field
	tail    string         // second half of the title
	seen    sign
	guessed bool
	starred bool // a * has been read
	faults  []*FieldError
	space   [4]bucket
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

// parseRows tries rows that are not in the index: first those that can be told
// from others, then the rest.
func parseRows(h http.Header, o *LegacyOptions, rows []row) (f Fields, seen sign, faults []*FieldError) {
	var r reading
	r.begin(h, o)
	for _, sure := range []bool{true, false} {
		for i := range rows {
			row := &rows[i]
			told := row.d.hint || len(row.marks) > 0 || row.d.needs != 0
			if sure && !row.marked(h) || !sure && !told {
				continue
			}
			if f, ok := r.try(row, sure); ok {
				return f, r.seen, r.faults
			}
		}
	}
	return Fields{}, 0, r.faults
}

func (r *reading) begin(h http.Header, o *LegacyOptions) {
	r.h, r.name, r.now = h, o.Name, o.Now
	if r.name == "" {
		r.name = defaultName
	}
}

// try reads the response by a row. If sure, the row has to be told from others.
func (r *reading) try(row *row, sure bool) (Fields, bool) {
	before := len(r.faults)
	r.row, r.buckets, r.index, r.listed, r.limits = row, r.space[:0], nil, nil, nil
	r.title, r.tail, r.seen, r.guessed, r.starred = "", "", 0, false, false
	r.readExact()
	if row.starred {
		r.readStarred()
		if row.d.beside && !r.starred {
			r.faults = r.faults[:before]
			return Fields{}, false
		}
	}
	if sure && row.d.needs != 0 && r.seen&row.d.needs == 0 {
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

// hasStar reports whether the dialect names policies in its columns.
func (d *Dialect) hasStar() bool {
	return strings.Contains(d.Limit, "*") || strings.Contains(d.Remaining, "*")
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
		r.read(f, lower(star), r.h[key])
	}
}

// lower is strings.ToLower without an allocation for the usual words.
func lower(s string) string {
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
		return &r.buckets[i]
	}
	if len(r.buckets) == maxMembers {
		r.fault(f, name, 0, 0, ErrTooMany)
		return nil
	}
	r.buckets = append(r.buckets, bucket{name: name, quota: Unknown, remaining: Unknown, used: Unknown})
	if r.index != nil {
		r.index[name] = len(r.buckets) - 1
	} else if len(r.buckets) > manyBuckets {
		r.index = make(map[string]int, 2*len(r.buckets))
		for i := range r.buckets {
			r.index[r.buckets[i].name] = i
		}
	}
	return &r.buckets[len(r.buckets)-1]
}

func (r *reading) find(name string) int {
	if r.index != nil {
		if i, ok := r.index[name]; ok {
			return i
		}
		return -1
	}
	for i := range r.buckets {
		if r.buckets[i].name == name {
			return i
		}
	}
	return -1
}

// read reads one field, of the policy that the * names.
func (r *reading) read(f *field, star string, lines []string) {
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
		if line == "" {
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

func trim(s string) string { return strings.Trim(s, " \t") }

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

// isName reports whether s can be a String (RFC 9651 Section 3.3.3).
func isName(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// cut cuts s at the first separator outside of quotes. ok is false if a quote is
// never closed.
func cut(s string, sep byte) (head, tail string, ok bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && c == sep:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", !quoted
}

// unquote returns the content of a quoted string, or s if it is none. Single
// quotes are taken off as well.
func unquote(s string) string {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '"' && s[0] != '\'' {
		return s
	}
	in := s[1 : len(s)-1]
	if s[0] == '\'' || strings.IndexByte(in, '\\') < 0 {
		return in
	}
	b := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		if in[i] == '\\' && i+1 < len(in) {
			i++
		}
		b = append(b, in[i])
	}
	return string(b)
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
	first := true
	r.members(f, star, lines, func(_, _ int, value, params string) bool {
		if first {
			first = false
			return r.readQuota(b, value, params)
		}
		r.seen |= listSign
		p, more := r.policy(value, params)
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
		if p.Name != "" && r.title == "" {
			r.title = p.Name
		}
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
			b.quota = n.count()
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
		p.Quota = n.count()
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
			p.Params = comment(p.Params, key, text, valued, &policyField)
		}
	}
	return p, more
}

// The parameters of legacy policies, beside w.
const (
	windowName = "window" // draft-polli-00
	nameName   = "name"   // Envoy
)

// comment adds a parameter that is not defined, if it can be written.
func comment(ps Params, key, text string, valued bool, field *fieldDef) Params {
	if skipKey(key, 0) < len(key) || field.defines(paramOf(key)) || len(ps) > maxParams-4 {
		return ps
	}
	var v any = true
	if valued {
		v = commentValue(text)
	}
	if v == nil {
		return ps
	}
	return ps.set(key, v)
}

// commentValue returns the value of a comment: a number, a quoted string or a
// token.
func commentValue(text string) any {
	var p parser
	p.s, p.last = text, true
	kind, end := p.readBareItem(0)
	if kind != absent && end == len(text) {
		return p.any(kind)
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
	case r.unknown(n):
	case n.neg:
		b.remaining = 0
	default:
		b.remaining = n.count()
	}
	return true
}

// unknown reports whether a number is the -1 of a dialect for which that is no
// number.
func (r *reading) unknown(n number) bool {
	return r.row.d.dash && n == number{n: 1, neg: true}
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
		w = n.scaled(1000)
	case strings.HasSuffix(name, "-Interval") && w >= leastMillis:
		// Nobody who counts in seconds writes so many of them without a unit.
		w, r.guessed = n.scaled(1000), true
	}
	if w >= minWindow && !n.neg {
		b.window = SecondsOf(w)
	}
	return true
}

// leastMillis is the number from which an interval is milliseconds.
const leastMillis = 1000

// readRate reads requests per second, as a policy that allows no more.
func (b *bucket) readRate(line string) bool {
	n, ok := parseNumber(line)
	if !ok || n.neg {
		return false
	}
	switch {
	case n.n > 0:
		b.quota, b.window = n.count(), SecondsOf(1)
	case n.frac > 0:
		b.quota, b.window = 1, SecondsOf((second+n.frac-1)/n.frac)
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
	for i := range r.buckets {
		b := &r.buckets[i]
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
		f.Policies = make([]Policy, 0, policies)
		f.Policies = r.policies(f.Policies)
	}
	if limits > 0 {
		f.Limits = append(make([]Limit, 0, limits), r.limits...)
		for i := range r.buckets {
			if b := &r.buckets[i]; b.hasLimit() {
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
	if i < 0 || len(r.buckets) < 2 {
		return
	}
	plain := &r.buckets[i]
	best := -1
	for j := range r.buckets {
		b := &r.buckets[j]
		switch {
		case j == i || b.quota == Unknown && b.remaining == Unknown:
		case plain.quota == Unknown && plain.remaining == Unknown:
			if best < 0 || b.tighter(&r.buckets[best]) {
				best = j
			}
		case best < 0 && plain.quota == b.quota && plain.remaining == b.remaining:
			best = j
		}
	}
	if best < 0 {
		return
	}
	b := &r.buckets[best]
	if !b.reset.ok {
		b.reset, b.absolute = plain.reset, plain.absolute
		b.guessed = plain.guessed
	}
	r.buckets = slices.Delete(r.buckets, i, i+1)
	r.index = nil
}

func (b *bucket) tighter(c *bucket) bool {
	l, m := b.limit(), c.limit()
	return l.tighter(&m)
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
	for i := range r.buckets {
		b := &r.buckets[i]
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

// Numbers, lengths and points in time.

const second = int64(time.Second)

// A number is a decimal number, saturated, with its fraction in billionths,
// rounded up.
type number struct {
	n, frac int64
	neg     bool
}

const farthest = 1 << 60 // beyond any number of seconds; sums of a few fit

// parseNumber reads digits, a sign before them, and a fraction behind.
func parseNumber(s string) (v number, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		v.neg = s[0] == '-'
		s = s[1:]
	}
	end := skip(s, 0, digit)
	for i := range end {
		v.n = min(v.n*10+int64(s[i]-'0'), farthest)
	}
	if end == len(s) || end == 0 || s[end] != '.' {
		return v, end > 0 && end == len(s)
	}
	s = s[end+1:]
	v.frac, ok = billionths(s)
	return v, ok
}

// billionths reads the digits behind a decimal point, rounded up.
func billionths(s string) (frac int64, ok bool) {
	unit := second
	for i := range len(s) {
		if !is(s[i], digit) {
			return 0, false
		}
		switch unit /= 10; {
		case unit > 0:
			frac += int64(s[i]-'0') * unit
		case s[i] > '0':
			frac, _ = min(frac, second-2), unit
			return frac + 1, skip(s, i, digit) == len(s)
		}
	}
	return frac, true
}

// count is the number as quota units, rounded down.
func (v number) count() int64 { return min(v.n, MaxInteger) }

// ceil is the number rounded up.
func (v number) ceil() int64 { return v.scaled(1) }

// scaled is the number divided and rounded up, 0 if it is negative.
func (v number) scaled(by int64) int64 {
	if v.neg {
		return 0
	}
	n := v.n / by
	if v.n%by > 0 || v.frac > 0 {
		n++
	}
	return min(n, MaxInteger)
}

// instant is the number as a point in time, of which there are so many units a
// second.
func (v number) instant(units int64) (sec, nsec int64) {
	if v.neg {
		return 0, 0
	}
	return v.n / units, v.n%units*(second/units) + (v.frac+units-1)/units
}

// durationUnits are nanoseconds by unit.
var durationUnits = map[string]int64{
	"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6,
	"s": second, "sec": second, "secs": second, "second": second, "seconds": second,
	"m": 60 * second, "min": 60 * second, "mins": 60 * second, "minute": 60 * second, "minutes": 60 * second,
	"h": 3600 * second, "hr": 3600 * second, "hour": 3600 * second, "hours": 3600 * second,
	"d": 86400 * second, "day": 86400 * second, "days": 86400 * second,
	"w": 604800 * second, "week": 604800 * second, "weeks": 604800 * second,
}

// parseDuration reads a duration as Go writes it, with days and weeks, and
// returns seconds, rounded up.
func parseDuration(s string) (n int64, ok bool) {
	var sec, nsec int64
	for s != "" {
		end := skipNumber(s)
		v, ok := parseNumber(s[:end])
		s = strings.TrimLeft(s[end:], " ")
		end = skipUnit(s)
		unit, known := durationUnits[s[:end]]
		if !ok || !known || v.neg {
			return 0, false
		}
		s = strings.TrimLeft(s[end:], " ")
		if unit >= second {
			unit /= second
			sec += min(v.n, farthest/unit) * unit
			sec += v.frac * unit / second
			nsec += v.frac * unit % second
		} else {
			part, rest := v.instant(second / unit)
			sec += part
			nsec += rest
		}
		sec, nsec = min(sec+nsec/second, farthest), nsec%second
	}
	if nsec > 0 {
		sec++
	}
	return min(sec, MaxInteger), true
}

func skipNumber(s string) int {
	i := 0
	for i < len(s) && (is(s[i], digit) || s[i] == '.') {
		i++
	}
	return i
}

// skipUnit moves past letters, and what begins µ and μ.
func skipUnit(s string) int {
	i := 0
	for i < len(s) && (is(s[i], alpha) || s[i] >= 0x80) {
		i++
	}
	return i
}

// parseClock reads hh:mm:ss, with days before it (1.02:03:04) and a fraction
// behind.
func parseClock(s string) (n int64, ok bool) {
	parts := strings.SplitN(s, ":", 4)
	if len(parts) != 3 {
		return 0, false
	}
	days, hours, has := strings.Cut(parts[0], ".")
	if !has {
		days, hours = "0", days
	}
	d, ok1 := parseNumber(days)
	h, ok2 := parseNumber(hours)
	m, ok3 := parseNumber(parts[1])
	sec, ok4 := parseNumber(parts[2])
	if !(ok1 && ok2 && ok3 && ok4) || d.neg || h.neg || m.neg || sec.neg || m.frac > 0 {
		return 0, false
	}
	total := min(d.n, MaxInteger)*86400 + min(h.n, MaxInteger)*3600 + min(m.n, MaxInteger)*60 + sec.ceil()
	return min(total, MaxInteger), true
}

// parseWindow reads the length of a window: seconds, a duration, or the word
// for one. One of 0 is absent.
func parseWindow(s string) (Seconds, bool) {
	n, ok := int64(0), false
	if v, isNumber := parseNumber(unquote(s)); isNumber {
		n, ok = v.ceil(), true
	} else if len(s) <= maxTime {
		if n, ok = commonWindows[strings.ToLower(s)]; !ok {
			n, ok = parseSpan(s)
		}
	}
	if n < minWindow {
		return Seconds{}, ok
	}
	return SecondsOf(n), ok
}

// parseSpan reads a duration in any of its forms.
func parseSpan(s string) (int64, bool) {
	switch {
	case s == "":
		return 0, false
	case strings.IndexByte(s, ':') >= 0:
		return parseClock(s)
	case is(s[0], digit):
		return parseDuration(s)
	}
	return parseDuration("1" + s) // 600/h
}

// maxTime is the length of the longest text that is read as a date or a
// duration.
const maxTime = 128

// How a reset was read.
const (
	absoluteHow = 1 << iota // a point in time
	guessedHow              // its unit was guessed
	dateHow                 // it was an HTTP-date
)

// reset reads a reset. It is absent if the dialect has a word for that.
func (r *reading) reset(s string, format ResetFormat) (n Seconds, how int, ok bool) {
	s = unquote(s)
	if s == "" {
		return Seconds{}, 0, false
	}
	if v, ok := parseNumber(s[:numberEnd(s)]); ok {
		if r.unknown(v) {
			return Seconds{}, 0, true
		}
		n, how := r.number(v, format)
		return SecondsOf(n), how, true
	}
	if len(s) > maxTime {
		return Seconds{}, 0, false
	}
	if t, ok := parseTimestamp(s); ok {
		return SecondsOf(r.until(t.Unix(), int64(t.Nanosecond()))), absoluteHow, true
	}
	if !is(s[0], digit) {
		t, ok := parseDate(s)
		return Seconds{r.untilOK(t, ok), ok}, absoluteHow | dateHow, ok
	}
	span, ok := parseSpan(s)
	return Seconds{span, ok}, 0, ok
}

// numberEnd is where the parameters begin that a number may have, which drafts
// 04 to 06 ask to ignore.
func numberEnd(s string) int {
	i := strings.IndexAny(s, ";, \t")
	if i < 0 || !is(s[0], digit) && s[0] != '-' && s[0] != '+' {
		return len(s)
	}
	if c := s[i]; c == ' ' || c == '\t' {
		if rest := strings.TrimLeft(s[i:], " \t"); rest[0] != ';' && rest[0] != ',' {
			return len(s)
		}
	}
	return i
}

func (r *reading) untilOK(t time.Time, ok bool) int64 {
	if !ok {
		return 0
	}
	return r.until(t.Unix(), 0)
}

// Sizes that tell the unit of a reset: until the year 5138, seconds since the
// epoch have at most eleven digits, and before 1973 milliseconds had fewer than
// twelve.
const (
	leastUnix   = 1e9
	leastMilli  = 1e11
	leastMicro  = 1e14
	leastNano   = 1e17
	milliUnits  = 1e3
	microUnits  = 1e6
	nanoUnits   = 1e9
	secondUnits = 1
)

// number returns what a number says, in seconds from now.
func (r *reading) number(v number, format ResetFormat) (n int64, how int) {
	how = absoluteHow
	units := int64(secondUnits)
	switch format {
	case ResetDelta, ResetDuration:
		return v.ceil(), 0
	case ResetDeltaMillis:
		return v.scaled(milliUnits), 0
	case ResetUnix:
	case ResetUnixMillis:
		units = milliUnits
	default:
		how |= guessedHow
		switch {
		case v.n < leastUnix || v.neg:
			if r.row.d.seconds {
				return v.ceil(), 0
			}
			return v.ceil(), guessedHow
		case v.n >= leastNano:
			units = nanoUnits
		case v.n >= leastMicro:
			units = microUnits
		case v.n >= leastMilli:
			units = milliUnits
		}
	}
	sec, nsec := v.instant(units)
	return r.until(sec, nsec), how
}

// until returns the seconds until a point in time, rounded up, or 0.
func (r *reading) until(sec, nsec int64) int64 {
	if r.ref.IsZero() {
		r.ref = r.reference()
	}
	n := sec - r.ref.Unix()
	if nsec > int64(r.ref.Nanosecond()) {
		n++
	}
	return min(max(n, 0), MaxInteger)
}

// reference returns when the response was made by the clock of the server, or,
// if it does not say or is an old one from a cache, when it arrived.
func (r *reading) reference() time.Time {
	if dates := r.h["Date"]; len(dates) > 0 && !aged(r.h) {
		if t, ok := parseDate(dates[0]); ok {
			return t
		}
	}
	if r.now.IsZero() {
		r.now = time.Now()
	}
	return r.now
}

// aged reports whether the response comes out of a cache (RFC 9111 Section
// 5.1).
func aged(h http.Header) bool {
	for _, line := range h["Age"] {
		if n, ok := parseNumber(trim(line)); ok && !n.neg && (n.n > 0 || n.frac > 0) {
			return true
		}
	}
	return false
}

// parseTimestamp reads a timestamp of RFC 3339 and its neighbours: a space for
// the T, no seconds, any number of digits of fraction, an offset without colon
// or with a space before it, no zone (which is UTC), and the zone name that Go
// adds.
func parseTimestamp(s string) (time.Time, bool) {
	const form = "0000-00-00T00:00"
	if len(s) < len(form) || s[10] != 'T' && s[10] != 't' && s[10] != ' ' {
		return time.Time{}, false
	}
	for i := range len(form) {
		if i != 10 && (form[i] == '0') != is(s[i], digit) || form[i] != '0' && i != 10 && form[i] != s[i] {
			return time.Time{}, false
		}
	}
	sec, nsec, rest, ok := parseSeconds(s[len(form):])
	if !ok {
		return time.Time{}, false
	}
	offset, ok := parseZone(rest)
	if !ok {
		return time.Time{}, false
	}
	year, month, day, hour, minute := atoi(s[:4]), atoi(s[5:7]), atoi(s[8:10]), atoi(s[11:13]), atoi(s[14:16])
	t := time.Date(year, time.Month(month), day, hour, minute, sec, nsec, time.UTC)
	if month < 1 || month > 12 || t.Day() != day || hour > 24 || minute > 59 || sec > 60 {
		return time.Time{}, false
	}
	return t.Add(-time.Duration(offset) * time.Minute), true
}

// parseSeconds reads :05.123, if it is there.
func parseSeconds(s string) (sec, nsec int, rest string, ok bool) {
	if s == "" || s[0] != ':' {
		return 0, 0, s, true
	}
	if len(s) < len(":00") || !is(s[1], digit) || !is(s[2], digit) {
		return 0, 0, s, false
	}
	sec, rest = atoi(s[1:3]), s[3:]
	if rest == "" || rest[0] != '.' && rest[0] != ',' {
		return sec, 0, rest, true
	}
	end := skip(rest, 1, digit)
	frac, ok := billionths(rest[1:end])
	return sec, int(frac), rest[end:], ok && end > 1
}

// parseZone reads the offset of a timestamp, in minutes.
func parseZone(s string) (minutes int, ok bool) {
	s = strings.TrimLeft(s, " ")
	switch s {
	case "", "Z", "z", "UTC", "GMT":
		return 0, true
	}
	const form = "+00:00"
	offset, _, _ := strings.Cut(s, " ") // then comes the name of the zone
	sign := 1
	switch offset[0] {
	case '-':
		sign = -1
	case '+':
	default:
		return 0, false
	}
	digits := offset[1:]
	if len(offset) == len(form) && offset[3] == ':' {
		digits = offset[1:3] + offset[4:]
	}
	if skip(digits, 0, digit) < len(digits) || len(digits) != len("00") && len(digits) != len("0000") {
		return 0, false
	}
	minutes = 60 * atoi(digits[:2])
	if len(digits) > 2 {
		minutes += atoi(digits[2:])
	}
	return sign * minutes, true
}

// atoi reads digits that have been checked.
func atoi(s string) (n int) {
	for i := range len(s) {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// parseDate reads an HTTP-date in its three forms (RFC 9110 Section 5.6.7),
// with other zones than GMT, and what Date.toString writes in JavaScript.
func parseDate(s string) (time.Time, bool) {
	if t, err := http.ParseTime(s); err == nil {
		return t, true
	}
	if zoneless, ok := strings.CutSuffix(s, " UTC"); ok {
		t, err := http.ParseTime(zoneless + " GMT")
		return t, err == nil
	}
	s, _, _ = strings.Cut(s, " (")
	for _, layout := range []string{time.RFC1123Z, "Mon Jan _2 2006 15:04:05 GMT-0700"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// windowOf returns the seconds of a policy by its name: that of the whole, of a
// number of seconds before the first dash, of a part with a unit (24hour), of a
// part that is a word, from the last; 0 if there are none.
func windowOf(windows map[string]int64, name string) int64 {
	if len(windows) == 0 {
		return 0
	}
	if n, ok := windows[name]; ok {
		return n
	}
	if end := skip(name, 0, digit); end > 0 && (end == len(name) || name[end] == '-') {
		v, _ := parseNumber(name[:end])
		return v.count()
	}
	for rest := name; rest != ""; {
		part := lastPart(rest)
		rest = rest[:max(len(rest)-len(part)-1, 0)]
		if n, ok := windows[lower(part)]; ok {
			return n
		}
		if part != "" && is(part[0], digit) && is(part[len(part)-1], alpha) && len(part) <= maxTime {
			if n, ok := parseDuration(part); ok {
				return n
			}
		}
	}
	return windows["*"]
}

// lastPart returns what is behind the last separator of a name.
func lastPart(name string) string {
	return name[strings.LastIndexAny(name, "-_/")+1:]
}

// unitOf returns the unit of a policy by its name, as windowOf.
func unitOf(units map[string]Unit, name string) Unit {
	if len(units) == 0 {
		return ""
	}
	if u, ok := units[name]; ok {
		return u
	}
	for rest := name; rest != ""; {
		part := lastPart(rest)
		rest = rest[:max(len(rest)-len(part)-1, 0)]
		if u, ok := units[part]; ok {
			return u
		}
	}
	return units["*"]
}

// Syntaxes of their own, each shared by the dialects that have it.

// readSyntax reads a field that is more than one number.
func (r *reading) readSyntax(f *field, star, name string, lines []string) {
	switch f.role {
	case dictionaryRole:
		r.readDictionary(f, lines)
		return
	case listRole:
		r.readList(f, lines)
		return
	case listPolicyRole:
		r.readListPolicies(f, lines, false)
		return
	}
	for i, line := range lines {
		ok := true
		switch f.role {
		case ratioRole:
			ok = r.readRatios(f, name, line)
		case recordRole:
			ok = r.readRecords(f, name, line)
		case pairsRole, pairsUsedRole:
			ok = r.readPairs(f, name, line)
		case columnsRole, columnUsedRole:
			ok = r.readColumns(f, name, line)
		case headRole:
			ok = r.readHeads(f, line)
		case secondsRole:
			ok = r.readSeconds(f, line)
		case proseRole:
			ok = r.readProse(f, name, line)
		case percentRole:
			ok = r.readPercent(f, line)
		}
		if !ok {
			r.fault(f, star, i, 0, ErrSyntax)
		}
	}
}

// each calls yield for the parts of s between separators outside of quotes,
// without those that are empty. It is false if yield is for any part.
func each(s string, sep byte, yield func(part string) bool) bool {
	ok := true
	for n := 0; s != ""; {
		var part string
		var closed bool
		part, s, closed = cut(s, sep)
		if part = trim(part); part == "" {
			continue
		}
		if n++; !closed || n > maxMembers || !yield(part) {
			ok = false
		}
		if n > maxMembers {
			break
		}
	}
	return ok
}

// below returns the name of one of several policies in a field.
func below(group, name string) string {
	if group == "" || name == "" {
		return group + name
	}
	return group + "/" + name
}

// readRatios reads 32/40, and api-usage=18/5000; per-app-api-usage=1/250(app):
// units spent, and quota.
func (r *reading) readRatios(f *field, group, line string) bool {
	return each(line, ';', func(part string) bool {
		key, ratio, named := strings.Cut(part, "=")
		if !named {
			key, ratio = "", part
		}
		ratio, _, _ = strings.Cut(ratio, "(")
		used, quota, ok := strings.Cut(ratio, "/")
		u, ok1 := parseNumber(trim(used))
		q, ok2 := parseNumber(trim(quota))
		name := below(group, trim(key))
		if !ok || !ok1 || !ok2 || q.neg || !isName(name) {
			return false
		}
		if b := r.bucket(f, name); b != nil {
			b.quota, b.used = q.count(), u.ceil()
		}
		return true
	})
}

// The names of the numbers in a record.
var recordNames = map[string]role{
	"total": limitRole, "limit": limitRole, quotaKey: limitRole,
	"remaining": remainingRole, remainingKey: remainingRole,
	"resets": resetRole, "reset": resetRole, resetKey: resetRole,
	usedName: usedRole, windowKey: windowRole, windowName: windowRole,
	"b": bucketRole, "bucket": bucketRole, nameName: bucketRole,
}

// readRecords reads total=100; remaining=99; resets=41, and lists of such
// records with a name, b=per_hour;q=100;r=90;t=3600,b=per_day;...
func (r *reading) readRecords(f *field, group, line string) bool {
	return each(line, ',', func(record string) bool {
		name := group
		var values [bucketRole]string
		ok := each(record, ';', func(part string) bool {
			key, value, valued := strings.Cut(part, "=")
			role, known := recordNames[strings.ToLower(trim(key))]
			switch {
			case !valued:
				name = below(group, unquote(part))
			case known && role == bucketRole:
				name = below(group, unquote(trim(value)))
			case known:
				values[role] = trim(value)
			}
			return true
		})
		return ok && isName(name) && r.readRecord(f, name, &values)
	})
}

// readRecord reads the numbers of a record.
func (r *reading) readRecord(f *field, name string, values *[bucketRole]string) bool {
	b := r.bucket(f, name)
	if b == nil {
		return true
	}
	ok := true
	for i, value := range values {
		if value == "" {
			continue
		}
		switch role(i) {
		case limitRole:
			ok = r.readQuota(b, value, "") && ok
		case remainingRole:
			ok = r.readRemaining(b, value) && ok
		case resetRole:
			ok = r.readReset(f, b, value) && ok
		case usedRole:
			ok = r.readUsed(b, value) && ok
		case windowRole:
			ok = r.readWindow(f, b, value) && ok
		}
	}
	return ok
}

// readPairs reads 100:1,1000:10, a number and the seconds of the window that it
// is about. Where there is more than one, the window is part of the name.
func (r *reading) readPairs(f *field, group, line string) bool {
	several := strings.IndexByte(line, ',') >= 0
	return each(line, ',', func(pair string) bool {
		count, window, _ := strings.Cut(pair, ":")
		n, ok1 := parseNumber(trim(count))
		w, ok2 := parseNumber(trim(window))
		if !ok1 || !ok2 || n.neg || w.ceil() < minWindow {
			return false
		}
		name := group
		if several {
			name = below(group, strconv.FormatInt(w.ceil(), 10))
		}
		if b := r.bucket(f, name); b != nil {
			b.window = SecondsOf(w.ceil())
			b.setCount(f.role == pairsUsedRole, n)
		}
		return true
	})
}

func (b *bucket) setCount(used bool, n number) {
	if used {
		b.used = n.ceil()
	} else {
		b.quota = n.count()
	}
}

// columnWindows name the columns of a list without windows (Strava).
var columnWindows = [...]string{"15min", "daily"}

// readColumns reads 600,30000.
func (r *reading) readColumns(f *field, group, line string) bool {
	i := 0
	return each(line, ',', func(column string) bool {
		n, ok := parseNumber(column)
		if !ok || n.neg || i == len(columnWindows) {
			return false
		}
		if b := r.bucket(f, below(group, columnWindows[i])); b != nil {
			b.setCount(f.role == columnUsedRole, n)
		}
		i++
		return true
	})
}

// readHeads reads Microsoft.Compute/HighCostGet3Min;46: the name of a policy,
// and what remains.
func (r *reading) readHeads(f *field, line string) bool {
	return each(line, ',', func(m string) bool {
		name, remaining, _ := strings.Cut(m, ";")
		name = trim(name)
		if _, ok := parseNumber(trim(remaining)); !ok || !isName(name) {
			return false
		}
		b := r.bucket(f, name)
		return b == nil || r.readRemaining(b, trim(remaining))
	})
}

// readSeconds reads 60:default;error:organization:reason, seconds in which
// nothing of the categories is allowed in the scope.
func (r *reading) readSeconds(f *field, line string) bool {
	return each(line, ',', func(m string) bool {
		seconds, rest, _ := strings.Cut(m, ":")
		n, ok := parseNumber(trim(seconds))
		categories, rest, _ := strings.Cut(rest, ":")
		scope, _, _ := strings.Cut(rest, ":")
		name := strings.Trim(trim(categories)+":"+trim(scope), ":")
		if !ok || !isName(name) {
			return false
		}
		if b := r.bucket(f, name); b != nil {
			b.remaining = 0
			b.reset = SecondsOf(max(b.reset.n, n.ceil()))
		}
		return true
	})
}

// readProse reads Remaining: 394 Time until reset: 3589.
func (r *reading) readProse(f *field, name, line string) bool {
	remaining, ok1 := numberBehind(line, "Remaining:")
	reset, ok2 := numberBehind(line, "reset:")
	if !ok1 && !ok2 {
		return false
	}
	b := r.bucket(f, name)
	if b != nil && ok1 {
		b.remaining = remaining.count()
	}
	if b != nil && ok2 {
		b.reset = SecondsOf(reset.ceil())
	}
	return true
}

func numberBehind(s, word string) (number, bool) {
	_, rest, ok := strings.Cut(s, word)
	if !ok {
		return number{}, false
	}
	rest = strings.TrimLeft(rest, " ")
	return parseNumber(rest[:skipNumber(rest)])
}

// maxJSON bounds a JSON text, which is not read in one go.
const maxJSON = 64 << 10

// readPercent reads JSON in which numbers say how many percent of something
// have been spent (Meta).
func (r *reading) readPercent(f *field, line string) bool {
	var v any
	if len(line) > maxJSON || json.Unmarshal([]byte(line), &v) != nil {
		return false
	}
	r.percents(f, v)
	return true
}

// percents reads the objects in v, at any depth.
func (r *reading) percents(f *field, v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			r.percents(f, e)
		}
	case map[string]any:
		group, _ := v["type"].(string)
		reset := regain(v)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n, ok := v[key].(float64)
			if !ok {
				r.percents(f, v[key])
			} else if name := below(group, key); isPercent(key) && isName(name) {
				r.percent(f, name, n, reset)
			}
		}
	}
}

// isPercent reports whether a member is a percentage.
func isPercent(key string) bool {
	switch key {
	case "call_count", "total_cputime", "total_time":
		return true
	}
	return strings.HasSuffix(key, "_pct")
}

// regain returns when access is regained: minutes, or seconds.
func regain(v map[string]any) Seconds {
	minutes, _ := v["estimated_time_to_regain_access"].(float64)
	seconds, _ := v["reset_time_duration"].(float64)
	n := math.Ceil(max(minutes*60, seconds))
	if !(n > 0) {
		return Seconds{}
	}
	return SecondsOf(int64(min(n, MaxInteger)))
}

func (r *reading) percent(f *field, name string, used float64, reset Seconds) {
	const whole = 100
	b := r.bucket(f, name)
	if b == nil {
		return
	}
	remaining := int64(math.Floor(whole - min(max(used, 0), whole)))
	if b.quota == Unknown || remaining < b.remaining {
		b.quota, b.remaining, b.reset = whole, remaining, reset
	}
}

// readDictionary reads limit=100, remaining=50, reset=5 (draft-07 Section 3).
// What has none of these names is of another generation.
func (r *reading) readDictionary(f *field, lines []string) {
	var values [resetRole + 1]number
	var has [resetRole + 1]bool
	found := false
	r.members(f, "", lines, func(_, _ int, value, _ string) bool {
		key, text, _ := strings.Cut(value, "=")
		i := slices.Index(dictionaryKeys[:], key)
		if i < 0 {
			return true
		}
		found = true
		n, ok := parseNumber(text)
		values[i], has[i] = n, ok && !n.neg
		return has[i]
	})
	if !found {
		return
	}
	r.seen |= limitSign
	if !has[limitRole] || !has[resetRole] {
		r.fault(f, "", 0, 0, ErrMissing)
		return
	}
	b := r.bucket(f, "")
	b.quota, b.reset = values[limitRole].count(), SecondsOf(values[resetRole].ceil())
	if has[remainingRole] {
		b.remaining = values[remainingRole].count()
	}
}

// dictionaryKeys are the keys of draft-07, by role.
var dictionaryKeys = [...]string{limitRole: "limit", remainingRole: "remaining", resetRole: "reset"}

// readList reads the field RateLimit of drafts 08 to 11 where the strict parser
// does not: names that are Tokens, no r, a partition key that is a String.
func (r *reading) readList(f *field, lines []string) {
	if limits, err := ParseLimits(lines...); err == nil {
		if f.key != limitKey {
			r.limits = limits
		}
		return
	}
	var limits []Limit
	ok := len(r.faults)
	r.members(f, "", lines, func(_, _ int, value, params string) bool {
		it, ok := parseItem(value, params, &limitField)
		if !ok || it.remaining == Unknown && !it.reset.ok {
			return false
		}
		limits = append(limits, Limit{it.name, it.remaining, it.reset, it.key, it.params})
		return true
	})
	if len(r.faults) > ok {
		return
	}
	r.seen |= limitSign
	r.limits = append(r.limits, limits...)
}

// readListPolicies reads the field RateLimit-Policy of drafts 08 to 11 in the
// same way, and with two names, of which the second counts (Hugging Face). If
// twice, it reads nothing else.
func (r *reading) readListPolicies(f *field, lines []string, twice bool) {
	if policies, err := ParsePolicies(lines...); err == nil {
		if f.key != policyKey || len(r.limits) > 0 {
			r.addPolicies(policies)
		}
		return
	}
	var policies []Policy
	faults := len(r.faults)
	r.members(f, "", lines, func(_, _ int, value, params string) bool {
		it, ok := parseItem(value, params, &policyField)
		if !ok || it.quota == Unknown || twice && !it.twice {
			return false
		}
		policies = append(policies, Policy{it.name, it.quota, it.unit, it.window, it.key, it.params})
		return true
	})
	if len(r.faults) > faults {
		r.faults = r.faults[:faults] // whether it is one, the strict parser says
		return
	}
	r.seen |= policySign
	r.addPolicies(policies)
}

func (r *reading) addPolicies(policies []Policy) {
	for _, p := range policies {
		if p.Unit == "" {
			p.Unit = unitOf(r.row.d.Units, p.Name)
		}
		r.list(p)
	}
}

// salvage reads the policies of a response whose RateLimit is well-formed and
// whose RateLimit-Policy has two names for each policy.
func salvage(h http.Header) []Policy {
	for i := range builtin.rows {
		row := &builtin.rows[i]
		if f, _ := row.field(policyKey); f != nil && f.role == listPolicyRole {
			r := reading{h: h, row: row}
			r.readListPolicies(f, h[policyKey], true)
			return r.listed
		}
	}
	return nil
}

// An item is a member of the current fields, as read with lenience.
type item struct {
	name             string
	twice            bool // it had two names
	quota, remaining int64
	reset, window    Seconds
	unit             Unit
	key              []byte
	params           Params
}

// parseItem reads an item whose value is a String or a Token.
func parseItem(value, params string, field *fieldDef) (it item, ok bool) {
	it.quota, it.remaining = Unknown, Unknown
	it.name = unquote(value)
	if value == "" || value[0] != '"' && !is(value[0], alpha) || !isName(it.name) || strings.Contains(value, "=") && value[0] != '"' {
		return it, false
	}
	for n := 0; params != ""; n++ {
		var param string
		param, params, ok = cut(params, ';')
		if param = trim(param); !ok || n == maxParams || param == "" {
			return it, false
		}
		if !it.param(param, field) {
			return it, false
		}
	}
	return it, true
}

// param reads one parameter.
func (it *item) param(param string, field *fieldDef) bool {
	if param[0] == '"' {
		it.name, it.twice = unquote(param), true
		return isName(it.name)
	}
	key, text, valued := strings.Cut(param, "=")
	n, isNumber := parseNumber(text)
	isNumber = isNumber && !n.neg
	id := paramOf(key)
	if !field.defines(id) {
		it.params = comment(it.params, key, text, valued, field)
		return true
	}
	switch id {
	case quotaParam:
		it.quota = n.count()
	case windowParam:
		if n.ceil() >= minWindow { // draft-08 allowed 0
			it.window = SecondsOf(n.ceil())
		}
	case remainingParam:
		it.remaining = n.count()
	case resetParam:
		it.reset = SecondsOf(n.ceil())
	case unitParam:
		it.unit = Unit(unquote(text))
		return isName(string(it.unit))
	case keyParam:
		return it.partition(text)
	}
	return isNumber
}

// partition reads a partition key, a Byte Sequence or a String.
func (it *item) partition(text string) bool {
	var p parser
	p.s, p.last = text, true
	kind, end := p.readBareItem(0)
	switch {
	case end < len(text):
		return false
	case kind == bytesKind:
		it.key = p.bytes
	case kind == stringKind:
		it.key = []byte(p.str)
	default:
		return false
	}
	return true
}
