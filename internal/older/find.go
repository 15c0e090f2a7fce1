package older

import (
	"slices"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// MaxFields bounds the fields of a response that may contain limits.
const MaxFields = 1024

// longestName is the length of the longest key, of a header or a record, that is split into words.
// Reading a key of a megabyte would take a tenth of a second.
const longestName = 256

// A Field is a header field that may contain limits, with the meaning of its name.
type Field struct {
	Key   string
	Lines []string

	*name
	columns int // the number of members in each parallel list, or 0
	tally   int // the index of the tally of its last number, or -1
}

// Unlimited reports whether the field has a negative number, or the word unlimited.
func (f *Field) Unlimited() bool {
	line := text.FirstLine(f.Lines)
	v, ok := text.ParseCount(line)
	return ok && v.Neg || isNothing(text.Unquote(line))
}

// Find appends the fields of h that contain limits. If a table has a row for a field, the row defines
// the meaning of the field. Every field with a word for limits counts toward MaxFields, even if it has
// no limit, because reading its words takes time. The result ok is false if there are more than
// MaxFields.
func Find(found []Field, h map[string][]string, tables []*Table) (_ []Field, ok bool) {
	looked, unsure := 0, false
	for key, lines := range h {
		n := nameIn(tables, key)
		if n.kind == otherKind || len(lines) == 0 {
			continue
		}
		if looked++; looked > MaxFields {
			return nil, false
		}
		if n.kind != noKind {
			found = append(found, Field{Key: key, Lines: lines, name: n})
			unsure = unsure || n.kind == looseKind || n.words != nil
		}
	}
	if unsure {
		found = sure(found)
	}
	return found, true
}

// sure drops fields whose meaning the other fields do not confirm. If any server may use a name, its
// row in the vendors' table counts only next to another field of the vendor. Otherwise the words of the
// name are read. Fields without an anchor are confirmed as a family: see limitFields.
func sure(fields []Field) []Field {
	vendors := make(map[string]int, 4)
	for i := range fields {
		vendors[fields[i].Vendor]++
	}
	families := map[string][]Field{} // without an anchor, by policy
	found := fields[:0]
	for _, f := range fields {
		if f.words != nil && vendors[f.Vendor] < 2 {
			f.name = f.words
		}
		if f.kind == looseKind {
			families[f.Policy] = append(families[f.Policy], f)
		} else if f.kind > noKind {
			found = append(found, f)
		}
	}
	anchored, quota := len(found), families["quota"]
	for _, family := range families {
		found = append(found, limitFields(family)...)
	}
	if len(found) > anchored && len(quota) == 1 && quota[0].name != nil && quota[0].Role == Reset { // X-Quota-Reset (Pipl, Egnyte)
		n := *quota[0].name
		n.Policy, n.family = "", "quota" // the reset joins the policy that it fits
		quota[0].name = &n
		found = append(found, quota[0])
	}
	return found
}

// limitFields returns the fields of a family without an anchor if they contain a limit: a remaining next
// to another role. If a name contains a word for something that is counted, a remaining alone is a limit
// too, and so is a quota next to used units or a window. Fields with unsuitable values are dropped.
func limitFields(fields []Field) []Field {
	var said uint // the roles, as bits
	var counted, quota bool
	fields = slices.DeleteFunc(fields, func(f Field) bool {
		roles := f.roles()
		said |= roles
		counted = counted || f.counted && roles != 0
		quota = quota || roles>>Quota&1 != 0 && !f.total
		return roles == 0
	})
	has := func(roles uint) bool { return said&roles != 0 }
	several := said&(said-1) != 0
	if has(1<<Remaining) && (several || counted) || counted && quota && has(1<<Used|1<<Window) { // a disk has a quota too
		return fields
	}
	return nil
}

// roles returns the roles, as bits, that a field without an anchor contains. It returns 0 if the
// value cannot belong to a limit. -1 means unlimited. A remaining below -1 can occur if servers let
// clients exceed the quota. A reset must be a time, unlike X-Session-Refresh: true.
func (f *Field) roles() (roles uint) {
	line := text.FirstLine(f.Lines)
	if line == "" || line == "-1" || line == "0" && f.Role == Quota {
		return 0
	}
	var room [4]Fact
	facts, _ := f.read(room[:0], line, true)
	for i := range facts {
		_, isTime := parseMoment(text.Unquote(facts[i].Value), f.Format, &text.Clock{})
		switch role := facts[i].Role; {
		case facts[i].isPart(f.name): // a part of 100 percent; no Remaining, because batteries have one too
			roles |= 1<<Quota | 1<<Used
		case isTime || role != Reset:
			roles |= 1 << role
		}
	}
	return roles
}

// Readable returns the fields that [Read] uses. A field without a role, such as X-RateLimit-Minute: 10,
// is used only next to another field of its policy. X-RateLimit-Key is not used, and may contain a
// secret.
func Readable(fields []Field) []Field {
	named := map[string]bool{}
	for i := range fields {
		if fields[i].kind != plainKind {
			named[fields[i].Policy] = true
		}
	}
	return slices.DeleteFunc(fields, func(f Field) bool {
		return f.kind == plainKind && !(named[f.Policy] && isCount(text.FirstLine(f.Lines)))
	})
}

// Knows reports whether a key names a field for limits: a vendor's row has it, or it contains the word
// RateLimit, or Rate in front of a role (X-Rate-Remaining).
func Knows(key string) bool {
	n := nameOf(key)
	return n.Vendor != "" || n.hasAnchor
}

// nameIn returns the meaning of a key: from the first table with a row for the key, else from the words
// of the key.
func nameIn(tables []*Table, key string) *name {
	for _, t := range tables {
		if n := t.find(key); n != nil {
			return n
		}
	}
	return nameOf(key)
}

// newName returns the meaning of a key: from the row of a vendor, else from the words of the key.
func newName(key string) name {
	if !isName(key) {
		return name{Row: Row{Key: key}}
	}
	builtin.once.Do(func() { builtin.table = NewTable("", vendorRows()) })
	if found := builtin.table.find(key); found != nil {
		return *found
	}
	return parse(key).known()
}

// isName reports whether a key is a field name of at most longestName bytes. Callers can make
// headers with any key.
func isName(key string) bool { return len(key) <= longestName && text.IsToken(key) }

// known adds the properties that follow from the key, the role and the policy.
func (n name) known() name {
	n.dictionary = strings.EqualFold(n.Key, "RateLimit")
	n.hint = hintOf(n.Policy, n.digits)
	n.place = int(n.order) << 8
	if n.Role != Rate { // a rate comes first, because it decides what a remaining of -1 means
		n.place |= int(n.Role) << 1
	}
	if n.weak {
		n.place++
	}
	return n
}

// hasWait reports whether a key contains "etry", the end of the word retry, or the word wait, in any
// case. At best it reads only every fourth byte (the algorithm of Boyer, Moore and Horspool).
func hasWait(key string) bool {
	for i := 3; i < len(key); {
		switch key[i] | 0x20 {
		case 'y', 't':
			if end := key[i-3 : i+1]; strings.EqualFold(end, "etry") || strings.EqualFold(end, "wait") {
				return true
			}
			i += 2
		case 'r', 'i':
			i++
		case 'a':
			i += 2
		case 'e', 'w':
			i += 3
		default:
			i += 4
		}
	}
	return false
}
