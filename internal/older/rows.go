package older

import (
	"net/textproto"
	"strings"
	"sync"

	"github.com/httpfields/ratelimit/internal/text"
)

// A Fact is one thing that a field says: a number, a name or a time, of one policy.
type Fact struct {
	Policy string // "" means the policy of the field
	Role   Role
	Format Format // of a time
	Value  string

	item // of a policy, or of a quota in a list
}

// A Row says what a field means whose words do not tell it. The columns are those of a
// field of a caller's dialect.
type Row struct {
	Name   string // its key in http.Header; one * stands for the name of the policy
	Role   Role
	Format Format // of a time
	Policy string // whose it is; in front of what the * stands for
	Window int64  // the seconds of its window, if no field says; 0 is none
	Unit   string // its quota unit, if no field says

	vendor  string // of a row of this package
	columns string // the policies of parallel lists of two members, apart by a blank
	// Read appends the facts of a value that has a syntax of its own, and reports whether it
	// is well-formed; nil reads one value of Role.
	Read func(facts []Fact, value string) ([]Fact, bool)
}

// A Table finds rows by the keys of fields.
type Table struct {
	exact map[string]*name
	stars []star
	heads filter // of the rows' keys
}

// A star is a row with a * in its name.
type star struct {
	prefix, suffix string
	name           name
}

// NewTable returns a table of rows for the dialect of a name. Of two rows for one key the
// first counts.
func NewTable(dialect string, rows []Row) *Table {
	t := &Table{exact: make(map[string]*name, len(rows))}
	for _, row := range rows {
		t.add(dialect, row, ownOrder)
	}
	return t
}

// add adds a row. A vendor's row belongs to the family of its vendor, unless its name begins
// as those of the drafts, or with X-RateLimit.
func (t *Table) add(dialect string, row Row, o order) {
	key := textproto.CanonicalMIMEHeaderKey(row.Name)
	n := name{
		key: key, kind: roleKind, order: o, role: row.Role, format: row.Format, policy: row.Policy,
		window: row.Window, unit: row.Unit, form: dialect, row: &row,
	}
	if row.Role == None && row.Read == nil {
		n.kind = noKind
	}
	prefix, suffix, starred := strings.Cut(key, "*")
	if o == rowOrder {
		n.family = dialect
		said, first := sentence(nil, key)
		if a, ok := findAnchor(said); ok && place(first, a) < vendorOrder {
			n.family, n.order, n.form = "", place(first, a), formOf(place(first, a), key[:a.end])
		}
		if !row.isVendors() {
			words := parse(key)
			n.words = words.knowing()
		}
	}
	if starred {
		t.stars = append(t.stars, star{prefix, suffix, n})
	} else if t.exact[key] == nil {
		t.exact[key] = n.knowing()
	}
	t.heads.setHead(prefix, starred)
}

// find returns what a key means, or nil. The row with that very name goes before one with
// a *; of these the one with most letters around the * counts.
func (t *Table) find(key string) *name {
	if !t.heads.has(headOf(key)) {
		return nil
	}
	if n := t.exact[key]; n != nil {
		return n
	}
	canonical := textproto.CanonicalMIMEHeaderKey(key)
	if n := t.exact[canonical]; n != nil {
		return n
	}
	var found *star
	for i := range t.stars {
		s := &t.stars[i]
		if (found == nil || len(s.prefix+s.suffix) > len(found.prefix+found.suffix)) && text.IsToken(s.inner(canonical)) {
			found = s
		}
	}
	if found == nil {
		return nil
	}
	n := found.name
	n.policy = below(n.policy, strings.ToLower(found.inner(canonical)))
	return n.knowing()
}

// Field returns a field with the meaning of the row for its key, which has to be there.
func (t *Table) Field(key string, lines []string) Field {
	return Field{Key: key, Lines: lines, name: t.find(key)}
}

// Role returns the role of the row for a key, and whether there is one.
func (t *Table) Role(key string) (Role, bool) {
	if n := t.find(key); n != nil {
		return n.role, true
	}
	return None, false
}

// inner returns what the * stands for in a key, "" if the key is another.
func (s *star) inner(key string) string {
	end := len(key) - len(s.suffix)
	if end <= len(s.prefix) || !strings.HasPrefix(key, s.prefix) || !strings.HasSuffix(key, s.suffix) {
		return ""
	}
	return key[len(s.prefix):end]
}

var builtin struct {
	once  sync.Once
	table Table
}

// vendorTable returns the table of the vendors' rows, made at first use.
func vendorTable() *Table {
	builtin.once.Do(func() {
		rows := vendorRows()
		builtin.table.exact = make(map[string]*name, 2*len(rows))
		for _, row := range rows {
			builtin.table.add(row.vendor, row, rowOrder)
		}
	})
	return &builtin.table
}
