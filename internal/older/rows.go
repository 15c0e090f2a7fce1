package older

import (
	"strings"
	"sync"

	"github.com/httpfields/ratelimit/internal/text"
)

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
type Table struct{ rows []tableRow }

// A tableRow is a row with what its name says. Without a * its prefix is the whole key.
type tableRow struct {
	prefix, suffix string
	starred        bool
	name           name
}

// NewTable returns a table of rows for the dialect of a name. Of two rows for one key the
// first counts.
func NewTable(dialect string, rows []Row) *Table {
	t := &Table{}
	for _, row := range rows {
		t.add(dialect, row, ownOrder)
	}
	return t
}

// add adds a row. A vendor's row belongs to the family of its vendor, unless its name begins
// as those of the drafts, or with X-RateLimit.
func (t *Table) add(dialect string, row Row, o order) {
	n := name{
		key: row.Name, kind: roleKind, order: o, role: row.Role, format: row.Format, policy: row.Policy,
		window: row.Window, unit: row.Unit, form: dialect, row: &row,
	}
	if row.Role == None && row.Read == nil {
		n.kind = noKind
	}
	if o == rowOrder {
		n.family = dialect
		said, first := sentence(nil, row.Name)
		if a, ok := findAnchor(said); ok && place(first, a) < vendorOrder {
			n.family, n.order, n.form = "", place(first, a), formOf(place(first, a), row.Name[:a.end])
		}
		if !row.isVendors() {
			words := parse(row.Name)
			n.words = &words
		}
	}
	prefix, suffix, starred := strings.Cut(row.Name, "*")
	t.rows = append(t.rows, tableRow{prefix, suffix, starred, n.known()})
}

// find returns what a key means, or nil: that of the row with most letters, in any case.
func (t *Table) find(key string) *name {
	var found *tableRow
	for i := range t.rows {
		r := &t.rows[i]
		if r.matches(key) && (found == nil || len(r.prefix)+len(r.suffix) > len(found.prefix)+len(found.suffix)) {
			found = r
		}
	}
	switch {
	case found == nil:
		return nil
	case !found.starred:
		return &found.name
	}
	n := found.name
	n.policy = below(n.policy, strings.ToLower(key[len(found.prefix):len(key)-len(found.suffix)]))
	n = n.known()
	return &n
}

// matches reports whether a row is for a key. A * stands for at least one byte.
func (r *tableRow) matches(key string) bool {
	rest := len(key) - len(r.prefix) - len(r.suffix)
	return (rest > 0 && r.starred || rest == 0 && !r.starred) &&
		strings.EqualFold(key[:len(r.prefix)], r.prefix) && strings.EqualFold(key[len(key)-len(r.suffix):], r.suffix) && text.IsToken(key)
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

var builtin struct {
	once  sync.Once
	table Table
}

// vendorTable returns the table of the vendors' rows, made at first use.
func vendorTable() *Table {
	builtin.once.Do(func() {
		for _, row := range vendorRows() {
			builtin.table.add(row.vendor, row, rowOrder)
		}
	})
	return &builtin.table
}
