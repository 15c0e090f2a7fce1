package ratelimit

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

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
			b.quota, b.used = q.floor(), u.ceil()
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
		b.quota = n.floor()
	}
}

// columnWindows name the columns of a list without windows (Strava).
var columnWindows = [...]string{"15min", "daily"}

// readColumns reads 600,30000.
func (r *reading) readColumns(f *field, group, line string) bool {
	if f.role == columnsRole && strings.IndexByte(line, ',') < 0 {
		r.seen |= doubtSign
	}
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
		b.remaining = remaining.floor()
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
	return parseNumber(rest[:skip(rest, 0, digit)])
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
	b.quota, b.reset = values[limitRole].floor(), SecondsOf(values[resetRole].ceil())
	if has[remainingRole] {
		b.remaining = values[remainingRole].floor()
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
		it, ok := parseItem(value, params, limitField)
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
		it, ok := parseItem(value, params, policyField)
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
func salvage(h http.Header, dialects []Dialect) []Policy {
	rows := builtin.rows
	if dialects != nil {
		rows = compile(dialects)
	}
	for i := range rows {
		if f, _ := rows[i].field(policyKey); f != nil && f.role == listPolicyRole {
			r := reading{h: h, row: &rows[i]}
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
	def := field.find(key)
	if def == nil {
		it.params = comment(it.params, key, text, valued, field)
		return true
	}
	switch def.param {
	case amountParam:
		if field == policyField {
			it.quota = n.floor()
		} else {
			it.remaining = n.floor()
		}
	case timeParam:
		if field == limitField {
			it.reset = SecondsOf(n.ceil())
		} else if n.ceil() >= minWindow { // draft-08 allowed 0
			it.window = SecondsOf(n.ceil())
		}
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
	s, kind := scanBareItem(text)
	switch kind {
	case bytesKind:
		it.key = s.bytes
	case stringKind:
		it.key = []byte(s.str)
	default:
		return false
	}
	return true
}
