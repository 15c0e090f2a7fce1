package older

import (
	"cmp"
	"slices"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// MaxFields bounds the fields of a response that say something about limits.
const MaxFields = 1024

// longestName is the length of the longest key whose words are read: to find out what a key
// of a megabyte means would take a tenth of a second.
const longestName = 256

// A Field is a field for limits that was found in a header.
type Field struct {
	Key   string
	Lines []string

	name    *name
	columns int // it is one of several parallel lists with so many members, 0 if it is not
	tally   int // the index of the tally of its only number, -1 if there is none
}

// Form returns the family of the field, as it is spelled.
func (f *Field) Form() string { return f.name.form }

// Role returns the role of the field by its name, or None.
func (f *Field) Role() Role { return f.name.role }

// Policy returns the policy that the field is about by its name, or "".
func (f *Field) Policy() string { return f.name.policy }

// Find appends the fields of h for limits; those that a table names are read as it says.
// A field whose words have to be read counts as well if they say nothing, because to read
// them costs a hundred times as much as to see that another name is none of a limit: ok
// is false if there are more than MaxFields of these.
func Find(found []Field, h map[string][]string, tables []*Table) (_ []Field, ok bool) {
	keys := filters()
	var loose []Field
	var heads filter // of families without an anchor
	looked := 0
	for key, lines := range h {
		if len(key) > longestName || !keys.may(key) && (len(tables) == 0 || !tablesMay(tables, key)) || len(lines) == 0 {
			continue // as nearly all keys
		}
		if looked++; looked > MaxFields {
			return nil, false
		}
		n := nameIn(tables, key)
		if n == nil {
			n = nameOf(key)
		}
		switch n.kind {
		case noKind:
		case looseKind:
			loose = append(loose, Field{Key: key, Lines: lines, name: n})
			if n.role == Remaining || n.role == Used { // without which there is no limit
				heads.set(shortHash(head(key)))
			}
		default:
			found = append(found, Field{Key: key, Lines: lines, name: n})
		}
	}
	if loose == nil { // as nearly always
		return found, true
	}
	begun := len(loose)
	for key, lines := range h {
		if len(key) > longestName || !heads.has(shortHash(head(key))) || keys.may(key) || tablesMay(tables, key) || len(lines) == 0 {
			continue
		}
		if looked++; looked > MaxFields {
			return nil, false
		}
		// It joins a family that begins as it does, and would be looked at without others.
		if n := nameOf(key); n.kind == looseKind && slices.ContainsFunc(loose[:begun], func(f Field) bool {
			return f.name.policy == n.policy && head(f.Key) == head(key)
		}) {
			loose = append(loose, Field{Key: key, Lines: lines, name: n})
		}
	}
	return appendLimits(found, loose), true
}

// head returns the first three bytes of a key behind X-: those of the vendor in
// X-Rl-Remaining and X-Rl-Limit.
func head(key string) string {
	key = key[headAt(key):]
	return key[:min(3, len(key))]
}

// Knows reports whether a key names a field for limits.
func Knows(key string) bool { return HasAnchor(key) || exceptionTable().find(key) != nil }

// tablesMay reports whether one of the tables may have a row for a key.
func tablesMay(tables []*Table, key string) bool {
	for _, t := range tables {
		if t.heads.has(headOf(key)) {
			return true
		}
	}
	return false
}

// nameIn returns what the first of the tables says that has a row for a key, or nil.
func nameIn(tables []*Table, key string) *name {
	for _, t := range tables {
		if n := t.find(key); n != nil {
			return n
		}
	}
	return nil
}

// appendLimits appends those of the fields without an anchor that tell a limit together.
func appendLimits(found, loose []Field) []Field {
	family := func(f *Field) string { return cmp.Or(f.name.policy, f.name.family) }
	slices.SortFunc(loose, func(a, b Field) int { return strings.Compare(family(&a), family(&b)) })
	anchored := found
	for from := 0; from < len(loose); {
		to, policy := from, family(&loose[from])
		for to < len(loose) && family(&loose[to]) == policy {
			to++
		}
		named := slices.ContainsFunc(anchored, func(f Field) bool { return f.name.policy == policy })
		found = append(found, limitFields(loose[from:to], named)...)
		from = to
	}
	return found
}

// limitFields returns the fields of a family if one of them says what remains and another
// something else, or an anchored field does: X-Rate-Limit-Hourly next to
// X-Hourly-Requests-Left (Apollo). Where the names leave no doubt that requests are
// limited, quota and used are enough (Cardmarket, Egnyte). Fields with values that do not
// fit are dropped.
func limitFields(fields []Field, named bool) []Field {
	least := int64(Unknown) // of what remains, as a header has no order
	for i := range fields {
		if n, ok := fields[i].units(); ok && fields[i].name.role == Remaining && (least == Unknown || n < least) {
			least = n
		}
	}
	fields = slices.DeleteFunc(fields, func(f Field) bool { return !f.plausible(least) })
	var said uint // roles, as bits
	certain := false
	for i := range fields {
		n := fields[i].name
		said |= 1 << n.role
		certain = certain || n.loose == proves || n.loose == asks
	}
	several := said&(said-1) != 0
	switch {
	case said&(1<<Remaining) != 0 && (several || named):
	case certain && said&(1<<Quota) != 0 && said&(1<<Used) != 0:
	default:
		return nil
	}
	return fields
}

// units returns the number of units that a field says; 0 for a negative one, since more
// requests than allowed may have been used.
func (f *Field) units() (n int64, ok bool) {
	line, _ := firstLine(f.Lines)
	v, ok := text.ParseCount(line)
	return v.Floor(), ok && (!v.Neg || f.name.loose == asks)
}

// plausible reports whether the value of a field without an anchor can be that of
// a limit: a number that is not negative, a quota that is not lower than what
// remains, or a time.
func (f *Field) plausible(remaining int64) bool {
	n, ok := f.units()
	switch f.name.role {
	case Remaining, Used:
		return ok
	case Quota:
		return ok && n >= max(remaining, 1)
	}
	line, _ := firstLine(f.Lines)
	_, ok = parseMoment(line, f.name.format)
	return ok
}
