package older

import (
	_ "embed"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/httpfields/ratelimit/internal/text"
)

// vendorTableText has rows for the fields of vendors that words cannot define: names without the usual
// words, values with their own syntax, and windows and units that no field contains. If a vendor has a
// plus sign, any server may use the name of the field. The row then counts only next to another field
// of the vendor. A window is in seconds. The windows of parallel lists are separated by a bar, and also
// name the policies. testdata/vendors has a case for each row. Only RestrictHeader needs the row of
// X-Discogs-RateLimit.
//
//go:embed vendors.txt
var vendorTableText string

// Formats of other values, and of times that are only read.
const (
	bans     = Duration + 1 + iota // see readBans
	percents                       // see readPercents
	minutes                        // from now
	Fraction                       // a part of the quota: 0.42
	Percent                        // the same in percent: 42
)

// vendorRows returns the rows of the table.
func vendorRows() (rows []Row) {
	roles := strings.Fields("none quota remaining used reset window name policies subname rate status")
	formats := strings.Fields("- seconds milliseconds unix unix-milliseconds http-date rfc3339 duration bans percents minutes part percent")
	for line := range strings.Lines(vendorTableText) {
		c := strings.Fields(line)
		role, format := Role(slices.Index(roles, c[2])), Format(slices.Index(formats, c[3]))
		for i := range c {
			c[i] = strings.TrimPrefix(c[i], "-")
		}
		row := Row{Key: c[1], Role: role, Format: format, Policy: c[4], Unit: c[6]}
		row.Vendor, row.shared = strings.CutSuffix(c[0], "+")
		if row.Window, _ = strconv.ParseInt(c[5], 10, 64); row.Window == 0 {
			row.columns = c[5]
		}
		rows = append(rows, row)
	}
	return rows[1:] // without the titles
}

// readBans reads 60:default;error:organization:reason (Sentry). It means that for 60 seconds no request
// of the categories default and error is allowed in the scope organization.
func readBans(line string) (facts []Fact, ok bool) {
	ok = true
	for ban := range strings.SplitSeq(line, ",") {
		if len(facts) >= 8*MaxMembers {
			return facts, false
		}
		seconds, rest, _ := strings.Cut(ban, ":")
		if !isCount(text.Trim(seconds)) { // or the ban would have no end
			ok = false
			continue
		}
		categories, rest, _ := strings.Cut(rest, ":")
		scope, _, _ := strings.Cut(rest, ":")
		policy := strings.Trim(text.Trim(categories)+":"+text.Trim(scope), ":")
		facts = append(facts, Fact{Policy: policy, Role: Remaining, Value: "0"},
			Fact{Policy: policy, Role: Reset, Format: Seconds, Value: text.Trim(seconds)})
	}
	return facts, ok
}

// readPercents reads JSON with percentages of used units, at any depth (Meta).
func readPercents(line string) ([]Fact, bool) {
	v, ok := parseJSON(line)
	return appendPercents(nil, v, maxDepth), ok
}

func appendPercents(facts []Fact, v any, depth int) []Fact {
	if depth == 0 { // JSON may be deep
		return facts
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			facts = appendPercents(facts, e, depth-1)
		}
	case map[string]any:
		group, _ := v["type"].(string)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			policy := below(group, key)
			switch used, _ := v[key].(json.Number); {
			case used == "":
				facts = appendPercents(facts, v[key], depth-1)
			case isPercent(key):
				facts = append(facts, Fact{Policy: policy, Role: Used, Format: Percent, Value: used.String()})
				if seconds := regain(v); seconds != "0" {
					facts = append(facts, Fact{Policy: policy, Role: Reset, Format: Seconds, Value: seconds})
				}
			}
		}
	}
	return facts
}

// isPercent reports whether a member is a percentage.
func isPercent(key string) bool {
	return key == "call_count" || key == "total_cputime" || key == "total_time" || strings.HasSuffix(key, "_pct")
}

// regain returns the seconds until access is regained. An object contains minutes or seconds. If it
// contains both, the later time counts.
func regain(v map[string]any) string {
	minutes, _ := v["estimated_time_to_regain_access"].(json.Number)
	seconds, _ := v["reset_time_duration"].(json.Number)
	n, _ := text.ParseNumber(minutes.String())
	m, _ := text.ParseNumber(seconds.String())
	return strconv.FormatInt(max(text.SaturatingMul(n.Ceil(), 60), m.Ceil()), 10)
}

// A Row defines a field that words cannot define, or a field of a caller's dialect.
type Row struct {
	Key    string // in http.Header; one * matches the name of the policy
	Role   Role
	Format Format // of a time
	Policy string // in lower case, "" if there is none; it precedes the match of the *
	Window int64  // the seconds of the policy's window, if no field has one; 0 is absent
	Unit   string // the quota unit, if no field has one

	Vendor  string // of a row in this package, or ""
	shared  bool   // the row counts only next to another field of its vendor
	columns string // the policies of parallel lists with two members, separated by a bar
}

// A Table finds rows by the keys of fields.
type Table struct {
	names        []name
	starts, ends uint32 // the first and last letters of their keys, as bits
}

// letterBit returns a bit for a letter of either case, and all bits for a *.
func letterBit(b byte) uint32 {
	if b == '*' {
		return math.MaxUint32
	}
	return 1 << (b & 31)
}

// NewTable returns the table of a dialect's rows. If two rows have one key, the first counts. A
// vendor's row belongs to the vendor's family, unless its name begins with RateLimit or
// X-RateLimit.
func NewTable(dialect string, rows []Row) *Table {
	t := &Table{}
	for _, row := range rows {
		n := name{Row: row, kind: roleKind, Form: dialect, star: strings.IndexByte(row.Key, '*')}
		if row.Role == None {
			n.kind = noKind
		}
		if row.Vendor != "" {
			words := parse(row.Key).known()
			n.family, n.order, n.Form = row.Vendor, rowOrder, row.Vendor
			if words.hasAnchor && words.order < vendorOrder {
				n.family, n.order, n.Form = "", words.order, words.Form
			}
			if row.shared {
				n.words = &words
			}
		}
		t.names = append(t.names, n.known())
		t.starts |= letterBit(row.Key[0])
		t.ends |= letterBit(row.Key[len(row.Key)-1])
	}
	return t
}

// find returns the meaning of a key, in any case, or nil. If several rows match the key, the row with
// the most letters decides.
func (t *Table) find(key string) *name {
	var found *name
	var policy string
	if key == "" || t.starts&letterBit(key[0]) == 0 || t.ends&letterBit(key[len(key)-1]) == 0 { // a fast path for nearly all keys
		return nil
	}
	for i := range t.names {
		n := &t.names[i]
		if star, ok := n.match(key); ok && (found == nil || len(star) < len(policy)) {
			found, policy = n, star
		}
	}
	if policy == "" {
		return found
	}
	n := *found
	n.Key, n.Policy = key, below(n.Policy, strings.ToLower(policy))
	n = n.known()
	return &n
}

// match reports whether a row is for a key, and returns the text that the * of the row matches, at
// least one byte.
func (n *name) match(key string) (star string, ok bool) {
	if n.star < 0 {
		return "", len(key) == len(n.Key) && strings.EqualFold(key, n.Key)
	}
	prefix, suffix := n.Key[:n.star], n.Key[n.star+1:]
	end := len(key) - len(suffix)
	if end <= len(prefix) || !strings.EqualFold(key[:len(prefix)], prefix) || !strings.EqualFold(key[end:], suffix) {
		return "", false
	}
	return key[len(prefix):end], text.IsToken(key)
}

// Field returns a field with the meaning that the table has for its key. The row must exist.
func (t *Table) Field(key string, lines []string) Field {
	return Field{Key: key, Lines: lines, name: t.find(key)}
}

// Role returns the role of the row for a key, and false if there is no row. The role is None for a
// part of a quota.
func (t *Table) Role(key string) (Role, bool) {
	n := t.find(key)
	if n == nil || n.Format >= Fraction {
		return None, n != nil
	}
	return n.Role, true
}

// builtin has the table of the rows of vendors. It is made at first use.
var builtin struct {
	once  sync.Once
	table *Table
}
