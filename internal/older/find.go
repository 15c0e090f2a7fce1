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

// Vendor returns the vendor whose row has read the field, or "".
func (f *Field) Vendor() string {
	if f.name.row == nil {
		return ""
	}
	return f.name.row.vendor
}

// Find appends the fields of h for limits. A table decides what the fields in it mean. A
// field whose words have to be read counts even if they mean nothing, because that costs a
// hundred times as much as to refuse another name: ok is false if there are more than
// MaxFields of them.
func Find(found []Field, h map[string][]string, tables []*Table) (_ []Field, ok bool) {
	keys := filters()
	var loose []Field
	looked, shared := 0, false
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
		switch f := (Field{Key: key, Lines: lines, name: n}); {
		case n.words != nil: // as few fields
			shared = true
			fallthrough
		case n.kind == looseKind:
			loose = append(loose, f)
		case n.kind != noKind:
			found = append(found, f)
		}
	}
	if shared {
		found, loose = settleVendors(found, loose)
	}
	if loose == nil { // as nearly always
		return found, true
	}
	return appendLimits(found, loose), true
}

// settleVendors decides about fields with rows whose names any server may use: the row
// counts next to another field of its vendor, else the words of the name do.
func settleVendors(found, loose []Field) (_, rest []Field) {
	seen := make(map[string]int, 4)
	for i := range loose {
		seen[loose[i].Vendor()]++
	}
	for i := range found {
		seen[found[i].Vendor()]++
	}
	for _, f := range loose {
		if f.name.words != nil && seen[f.Vendor()] < 2 {
			f.name = f.name.words
		}
		switch f.name.kind {
		case noKind:
		case looseKind:
			rest = append(rest, f)
		default:
			found = append(found, f)
		}
	}
	return found, rest
}

// Knows reports whether a key names a field for limits.
func Knows(key string) bool { return HasAnchor(key) || vendorTable().find(key) != nil }

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

// limitFields returns the fields of a family if they contain a limit: what remains, and
// something else; or what remains alone, or a quota next to what is used or to a window, of
// something that is counted. An anchored field of that policy is something else, too:
// X-Rate-Limit-Hourly next to X-Hourly-Requests-Left (Apollo). Fields with values that do
// not fit are dropped.
func limitFields(fields []Field, named bool) []Field {
	least := int64(Unknown) // of what remains, as a header has no order
	quota := false
	for i := range fields {
		n, ok := fields[i].units()
		if ok && fields[i].name.role == Remaining && (least == Unknown || n < least) {
			least = n
		}
		quota = quota || ok && fields[i].name.role == Quota
	}
	var said uint // roles, as bits
	counted, total := false, false
	fields = slices.DeleteFunc(fields, func(f Field) bool {
		roles := f.roles(least, quota)
		said |= roles
		counted = counted || roles != 0 && f.name.counted
		total = total || f.name.total
		return roles == 0
	})
	has := func(roles ...Role) bool {
		return slices.ContainsFunc(roles, func(r Role) bool { return said>>r&1 != 0 })
	}
	several := said&(said-1) != 0
	if has(Remaining) && (several || named || counted) || counted && !total && has(Quota) && has(Used, Window) {
		return fields
	}
	return nil
}

// units returns the number of units that a field contains.
func (f *Field) units() (n int64, ok bool) {
	line, _ := firstLine(f.Lines)
	v, ok := text.ParseCount(line)
	if v.Neg {
		return 0, ok && f.name.counted // more than the quota may have been used
	}
	return v.Floor(), ok
}

// roles returns the roles, as bits, of what a field without an anchor contains; 0 if its
// value cannot be that of a limit. A quota is not lower than what remains. Without a quota,
// a remaining of -1 is a word for unlimited.
func (f *Field) roles(remaining int64, quota bool) (roles uint) {
	line, _ := firstLine(f.Lines)
	n, ok := f.units()
	switch {
	case ok && f.name.role == Quota && n < max(remaining, 1), !quota && line == "-1", line == "":
		return 0
	case !ok && strings.HasPrefix(line, "-"):
		return 0
	}
	var room [4]Fact
	facts, bad := f.read(room[:0], line, true)
	for i := range facts {
		if !facts[i].readable(f.name.format) {
			return 0
		}
		roles |= 1 << facts[i].Role
	}
	if bad != noFault {
		return 0
	}
	return roles
}

// readable reports whether the value of a fact has the form of its role.
func (f *Fact) readable(format Format) bool {
	switch f.Role {
	case Reset:
		_, ok := parseMoment(f.Value, cmp.Or(f.Format, format))
		return ok
	case Window:
		return parseWindow(f.Value) > 0
	case Quota, Remaining, Used:
		return isCount(f.Value) || isNothing(f.Value)
	}
	return f.Role != None
}
