package ratelimit

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The sizes by which a number is a point in time. Seconds since the epoch have at
// most eleven digits until the year 5138; milliseconds had fewer than twelve
// before 1973. From leastNear on, in 1973, seconds may be a point in time if
// something else says so.
const (
	leastNear  = 1e8
	leastUnix  = 1e9
	leastMilli = 1e11
	leastMicro = 1e14
	leastNano  = 1e17
)

// A momentKind is which form of a time a value has.
type momentKind uint8

const (
	noMoment   momentKind = iota // nothing, by a word or a number for that
	spanMoment                   // seconds from now
	bareMoment                   // a small number whose unit nobody has said
	dateMoment                   // a point in time

	moments // their number
)

// A moment is a time as a value says it.
type moment struct {
	kind      momentKind
	written   bool   // as a text that is no number
	short     bool   // as a date whose year has two digits
	units     int64  // of the number make a second; 0 if it is no number, or nobody has said
	number    number // unless it is a date
	span      int64  // seconds, rounded up
	sec, nsec int64  // since the Unix epoch
}

// parseMoment reads a time. A text is read by its shape, a number by its size and
// the format, or in units of per seconds if per is not 0.
func parseMoment(s string, format TimeFormat, per int64) (moment, bool) {
	s = trim(unquote(s))
	if s == "" {
		return moment{}, false
	}
	count, _, _ := strings.Cut(s, ";") // drafts 04 to 06 ask to ignore parameters and further members
	if !isCommas(count) {
		count, _, _ = strings.Cut(count, ",")
	}
	if v, ok := parseCount(trim(count)); ok {
		return numberMoment(v, format, per), true
	}
	if len(s) > maxTime {
		return moment{}, false
	}
	if t, ok := parseTime(s); ok {
		return moment{kind: dateMoment, sec: t.Unix(), nsec: int64(t.Nanosecond()), written: true, short: t.short}, true
	}
	if !is(s[0], digit) {
		return moment{}, isNothing(s)
	}
	span, ok := parseSpan(s)
	if !ok {
		return moment{}, false
	}
	return moment{kind: spanMoment, span: span, written: true}, true
}

// numberMoment reads a number as a time. Its size goes before the format.
func numberMoment(v number, format TimeFormat, per int64) moment {
	least := int64(leastUnix)
	switch format {
	case TimeMilli:
		least = leastMilli // a span of three years
	case TimeUnix:
		least = leastNear
	}
	switch {
	case v == number{n: 1, neg: true}: // -1 is a word for nothing
		return moment{}
	case v.n >= least:
		units := int64(1)
		switch {
		case v.n >= leastNano:
			units = 1e9
		case v.n >= leastMicro:
			units = 1e6
		case v.n >= leastMilli:
			units = 1e3
		}
		sec, nsec := v.split(units)
		return moment{kind: dateMoment, units: units, sec: sec, nsec: nsec}
	case format == TimeMilli:
		return moment{kind: spanMoment, units: 1000, number: v, span: v.ceilDiv(1000)}
	case format == TimeSeconds, format == TimeDuration, v.neg, v.frac > 0, v.n <= 1: // half a millisecond nobody says, and one is as good as a second
		return moment{kind: spanMoment, units: 1, number: v, span: v.ceil() * max(per, 1)}
	}
	return moment{kind: bareMoment, number: v}
}

// needsClock reports whether what a moment means depends on the clock of the response.
func (m *moment) needsClock() bool {
	seconds := m.kind == bareMoment || m.kind == spanMoment && m.units == 1
	return m.kind == dateMoment || seconds && m.number.n >= leastNear
}

// settle makes a number of seconds a point in time that lies near the clock of the
// response, however small it is: a bubble of testing/synctest begins in 2000, where
// Unix seconds look like a span of thirty years. It leaves numbers below leastNear, so
// that small seconds stay what they are beside a clock that stands in 1970.
func (m *moment) settle(c *clock) {
	if m.kind != dateMoment && m.needsClock() && c.near(m.number.n) {
		sec, nsec := m.number.split(1)
		*m = moment{kind: dateMoment, units: 1, sec: sec, nsec: nsec}
	}
}

// seconds returns a moment in seconds from now.
func (m *moment) seconds(c *clock) Seconds {
	switch m.kind {
	case spanMoment:
		return SecondsOf(m.span)
	case bareMoment:
		return SecondsOf(m.number.ceil())
	case dateMoment:
		sec := m.sec
		if m.short {
			sec = textDate{time.Unix(sec, 0).UTC(), true}.in(c.now()).Unix()
		}
		return SecondsOf(c.until(sec, m.nsec))
	}
	return Seconds{}
}

// duration returns a moment as a time from now, with milliseconds if it has them.
func (m *moment) duration(c *clock) time.Duration {
	if m.kind == spanMoment && m.units == 1000 {
		return time.Duration(m.number.ceil()) * time.Millisecond
	}
	d, _ := m.seconds(c).Duration()
	return d
}

// parseCount reads a number. Commas may separate its thousands.
func parseCount(s string) (number, bool) {
	v, ok := parseNumber(s)
	if !ok && isThousands(s) {
		return parseNumber(strings.ReplaceAll(s, ",", ""))
	}
	return v, ok
}

// isCommas reports whether a value has digits, points and commas alone. It may be
// one number, so it is never cut at a comma.
func isCommas(s string) bool {
	for i := range len(s) {
		if !is(s[i], digit) && s[i] != ',' && s[i] != '.' {
			return false
		}
	}
	return strings.IndexByte(strings.TrimSuffix(s, ","), ',') >= 0
}

// isThousands reports whether commas in a number separate thousands: 1,000 or
// 12,345,678.90, but not 12,34, nor 0,100.
func isThousands(s string) bool {
	whole, fraction, _ := strings.Cut(s, ".")
	for i := range len(whole) {
		comma := (len(whole)-i)%4 == 0
		if comma != (whole[i] == ',') || !comma && !is(whole[i], digit) {
			return false
		}
	}
	return whole != "" && whole[0] > '0' && all(fraction, digit)
}

// numbers yields the members of a list of numbers. A comma between two digits may
// separate thousands, and separates no members.
func numbers(line string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from := 0
		for i := range len(line) {
			if line[i] != ',' || 0 < i && i < len(line)-1 && is(line[i-1], digit) && is(line[i+1], digit) {
				continue
			}
			if !yield(trim(line[from:i])) {
				return
			}
			from = i + 1
		}
		yield(trim(line[from:]))
	}
}

// isNumbers reports whether a value with a comma is a list of numbers. Of a longer one
// than is read only the beginning is looked at.
func isNumbers(line string) bool {
	if strings.IndexByte(line, ',') < 0 {
		return false // as nearly all values
	}
	n := 0
	for member := range numbers(line) {
		if _, ok := parseCount(member); !ok {
			return false
		}
		if n++; n > maxMembers {
			break
		}
	}
	return true
}

// isNothing reports whether a value is a word that stands in place of a number:
// there is no limit, it is not known, or the field is a switch.
func isNothing(s string) bool {
	switch strings.ToLower(s) {
	case "unlimited", "infinite", "infinity", "inf", "none", "null", "nil", "undefined", "unknown", "never", "n/a", "∞", "-", "*",
		"true", "false", "yes", "no", "on", "off", "disabled", "enabled", "ok":
		return true
	}
	return false
}

// Values of one role.

// readCount reads the value of a quota, a remaining, or what is used: a number, a
// pair (600/15m), and for a quota also 600 per hour, or a window alone (12h).
func readCount(facts []Fact, role Role, value string) ([]Fact, bool) {
	value = trim(unquote(trim(value)))
	if _, ok := parseCount(value); ok {
		return append(facts, Fact{Role: role, Value: value}), true
	}
	first, second, over := strings.Cut(value, "/")
	if !over && role == RoleQuota {
		first, second, over = strings.Cut(value, " per ")
		first = strings.TrimSuffix(first, " requests")
	}
	if _, ok := parseCount(trim(first)); over && ok {
		facts = append(facts, Fact{Role: role, Value: trim(first)})
		return readOver(facts, role, trim(second))
	}
	if _, ok := parseSpanOrWord(value); ok && role == RoleQuota {
		return append(facts, Fact{Role: RoleWindow, Value: value}), true
	}
	return facts, isNothing(value)
}

// readOver reads what stands behind the slash of a pair: the window of a quota, or
// the quota of the other two, with more in brackets behind it.
func readOver(facts []Fact, role Role, value string) ([]Fact, bool) {
	if role == RoleQuota {
		_, isCount := parseCount(value)
		_, isSpan := parseSpanOrWord(value)
		return append(facts, Fact{Role: RoleWindow, Format: TimeSeconds, Value: value}), isCount || isSpan
	}
	value, _, _ = strings.Cut(value, "(")
	_, ok := parseCount(trim(value))
	return append(facts, Fact{Role: RoleQuota, Value: trim(value)}), ok
}

// parseSpanOrWord reads the length of a window: a duration, or a word (hour).
func parseSpanOrWord(s string) (int64, bool) {
	if len(s) > maxTime {
		return 0, false
	}
	if n := windowOfWord(strings.ToLower(s)); n > 0 {
		return n, true
	}
	return parseSpan(s)
}

// Values of a syntax of their own.

// each calls yield for every part of s that is not blank, with the separator
// before it. Separators within quotes do not count. It returns false if yield does
// for any part.
func each(s, separators string, yield func(before byte, part string) bool) bool {
	ok, before, from, quoted := true, byte(0), 0, false
	for i, n := 0, 0; i <= len(s); i++ {
		if i < len(s) && s[i] == '"' {
			quoted = !quoted
		}
		if i < len(s) && (quoted || strings.IndexByte(separators, s[i]) < 0) {
			continue
		}
		if part := trim(s[from:i]); part != "" {
			if n++; n > 4*maxMembers {
				return false
			}
			ok = yield(before, part) && ok
		}
		if i < len(s) {
			before, from = s[i], i+1
		}
	}
	return ok && !quoted
}

// maxGroup is how much of the name of a group stands before that of each of its
// policies. A header can name a group once, and then a hundred thousand of these.
const maxGroup = 128

// below joins the name of a group of policies with the name of one of them.
func below(group, name string) string {
	if group == "" || name == "" {
		return group + name
	}
	return group[:min(len(group), maxGroup)] + "-" + name
}

// isRecord reports whether a value looks like a record: total=100; remaining=99,
// or user-hour-lim:3600;user-hour-rem:3599.
func isRecord(s string) bool {
	key, _, ok := cutKey(s)
	return ok && is(key[0], alpha) && !strings.Contains(key, ",")
}

// readRecord reads a record. Its keys are the words of field names, or the letters
// q, r, t and w. Any other key, and a part without one, names a policy, whose
// values have the role of the field: minute=5,60;hour=80,1000 is remaining and
// quota, or used and quota.
func readRecord(facts []Fact, role Role, line string) ([]Fact, bool) {
	name, counted := "", "" // counted is the policy whose count stands before a part
	separators := ",;"
	if !strings.ContainsAny(line, separators) && strings.Count(line, "=") > 1 {
		separators = " "
	}
	ok := each(line, separators, func(before byte, part string) bool {
		key, value, keyed := cutKey(part)
		if !keyed {
			if _, isCount := parseCount(part); isCount && before == ',' && counted != "" {
				facts = append(facts, Fact{Policy: counted, Role: RoleQuota, Value: part})
				counted = ""
				return role != RoleQuota
			}
			name = unquote(part)
			return isName(name)
		}
		m, known := recordKey(key)
		switch {
		case known && m.role == RoleName:
			text := unquote(value)
			if name == "" && (len(facts) > 0 || !isName(text)) { // the name of what stands before it
				facts = append(facts, Fact{Role: RoleName, Value: text})
				return true
			}
			name = text
			return isName(name)
		case known && !strings.Contains(value, "/"): // else it is a name that looks like a word
			facts = append(facts, Fact{Policy: below(name, m.policy), Role: m.role, Format: m.format, Value: unquote(value)})
			return true
		case role == RoleNone || wordOf(key).class == stopWord:
			return true
		}
		var fits bool
		from := len(facts)
		facts, fits = readCount(facts, role, value)
		counted = below(name, key)
		for i := from; i < len(facts); i++ {
			facts[i].Policy = counted
		}
		return fits
	})
	return facts, ok
}

// cutKey cuts a part of a record at its first = or colon.
func cutKey(part string) (key, value string, ok bool) {
	end := strings.IndexAny(part, "=:")
	if end <= 0 {
		return "", part, false
	}
	return trim(part[:end]), trim(part[end+1:]), true
}

// recordKey returns the meaning of a key in a record, or in a JSON object.
func recordKey(key string) (meaning, bool) {
	switch key {
	case quotaKey:
		return meaning{role: RoleQuota}, true
	case remainingKey:
		return meaning{role: RoleRemaining}, true
	case resetKey:
		return meaning{role: RoleReset, format: TimeSeconds}, true
	case windowKey:
		return meaning{role: RoleWindow, format: TimeSeconds}, true
	case "b":
		return meaning{role: RoleName}, true
	}
	if len(key) > maxTime {
		return meaning{}, false
	}
	m, ok := parseKey("RateLimit-" + strings.TrimPrefix(dashed(key), "rate-"))
	return m, ok && m.kind == roleName && m.role != RolePolicies
}

// dashed turns a key in camel case, or with underscores, into the name of a field.
func dashed(key string) string {
	b := make([]byte, 0, len(key)+8)
	for i := range len(key) {
		switch c := key[i]; {
		case c == '_' || c == '.':
			b = append(b, '-')
		case i > 0 && 'A' <= c && c <= 'Z' && key[i-1] >= 'a':
			b = append(b, '-', c)
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// Bounds of a JSON text.
const (
	maxJSON  = 64 << 10
	maxDepth = 8
)

// isJSON reports whether a value may be an object or an array in JSON.
func isJSON(s string) bool { return s != "" && (s[0] == '{' || s[0] == '[') }

// parseJSON reads an object or an array in JSON. Some servers write single quotes, as
// Python does.
func parseJSON(s string) (any, bool) {
	if len(s) > maxJSON || !isJSON(s) {
		return nil, false
	}
	var v any
	for _, text := range [...]string{s, strings.ReplaceAll(s, "'", `"`)} {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if dec.Decode(&v) == nil && !dec.More() {
			return v, true
		}
	}
	return nil, false
}

// readJSON reads a JSON object, or an array of objects. Members are known by the
// words of field names. Any other key names a policy, and its number has the role
// of the field.
func readJSON(facts []Fact, role Role, line string) ([]Fact, bool) {
	v, ok := parseJSON(line)
	if !ok {
		return facts, false
	}
	return readObjects(facts, role, "", v, maxDepth), true
}

func readObjects(facts []Fact, role Role, policy string, v any, depth int) []Fact {
	if depth == 0 {
		return facts
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			facts = readObjects(facts, role, policy, e, depth-1)
		}
	case map[string]any:
		policy = below(policy, objectName(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			text, isText := jsonText(v[key])
			m, known := recordKey(key)
			switch named := below(policy, strings.ToLower(key)); {
			case known && m.role == RoleName:
				if !isName(text) {
					facts = append(facts, Fact{Role: RoleName, Value: text})
				}
			case known && isText:
				facts = append(facts, Fact{Policy: below(policy, m.policy), Role: m.role, Format: m.format, Value: text})
			case known:
				facts = readObjects(facts, role, policy, v[key], depth-1)
			case !isText:
				facts = readObjects(facts, role, named, v[key], depth-1)
			case role != RoleNone && wordOf(key).class != stopWord:
				facts = append(facts, Fact{Policy: named, Role: role, Value: text})
			}
		}
	}
	return facts
}

// objectName returns the name of the policy that an object describes, if one of
// its members is that.
func objectName(v map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if m, known := recordKey(key); known && m.role == RoleName {
			if name, ok := v[key].(string); ok && isName(name) {
				return name
			}
		}
	}
	return ""
}

// jsonText returns a number or a string as it is written.
func jsonText(v any) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case string:
		return v, true
	}
	return "", false
}

// Parallel lists.

// columns returns how many numbers or times a list has, 0 for any other value.
func columns(line string, role Role) (n int) {
	sep := columnSeparator(line)
	ok := sep != "" && each(line, sep, func(_ byte, part string) (ok bool) {
		n++
		if _, ok = parseNumber(part); ok {
			return true
		}
		switch role {
		case RoleReset:
			_, ok = parseMoment(part, TimeGuess, 0)
		case RoleWindow:
			_, ok = parseSpanOrWord(part)
		}
		return ok
	})
	if !ok || n < 2 || sep == "/" && n < 3 { // 32/40 is a pair
		return 0
	}
	return n
}

// columnSeparator returns what may separate the members of a list, "" if nothing.
func columnSeparator(line string) (sep string) {
	for i := range len(line) {
		switch line[i] {
		case ',':
			return ","
		case '|', '/':
			sep = line[i : i+1]
		}
	}
	return sep
}

// Values of vendors.

// readQuotaPairs and readUsedPairs read 100:1,1000:10 (Riot): a number, and the
// window in seconds. If there are several, the window names the policy.
func readQuotaPairs(facts []Fact, line string) ([]Fact, bool) {
	return readPairs(facts, RoleQuota, line)
}

func readUsedPairs(facts []Fact, line string) ([]Fact, bool) {
	return readPairs(facts, RoleUsed, line)
}

func readPairs(facts []Fact, role Role, line string) ([]Fact, bool) {
	several := strings.IndexByte(line, ',') >= 0
	ok := each(line, ",", func(_ byte, pair string) bool {
		count, window, _ := strings.Cut(pair, ":")
		w, ok := parseNumber(trim(window))
		if n, isNumber := parseNumber(trim(count)); !ok || !isNumber || n.neg || w.ceil() < minWindow {
			return false
		}
		policy := ""
		if several {
			policy = strconv.FormatInt(w.ceil(), 10)
		}
		facts = append(facts, Fact{Policy: policy, Role: role, Value: trim(count)},
			Fact{Policy: policy, Role: RoleWindow, Format: TimeSeconds, Value: trim(window)})
		return true
	})
	return facts, ok
}

// readHeads reads Microsoft.Compute/HighCostGet3Min;46 (Azure): a policy, and what
// remains of it.
func readHeads(facts []Fact, line string) ([]Fact, bool) {
	ok := each(line, ",", func(_ byte, part string) bool {
		name, remaining, _ := strings.Cut(part, ";")
		facts = append(facts, Fact{Policy: trim(name), Role: RoleRemaining, Value: trim(remaining)})
		return true
	})
	return facts, ok
}

// readBans reads 60:default;error:organization:reason (Sentry): for 60 seconds
// nothing of these categories is allowed in that scope.
func readBans(facts []Fact, line string) ([]Fact, bool) {
	ok := each(line, ",", func(_ byte, part string) bool {
		seconds, rest, _ := strings.Cut(part, ":")
		categories, rest, _ := strings.Cut(rest, ":")
		scope, _, _ := strings.Cut(rest, ":")
		name := strings.Trim(trim(categories)+":"+trim(scope), ":")
		if _, ok := parseNumber(trim(seconds)); !ok {
			return false
		}
		facts = append(facts, Fact{Policy: name, Role: RoleRemaining, Value: "0"},
			Fact{Policy: name, Role: RoleReset, Format: TimeSeconds, Value: trim(seconds)})
		return true
	})
	return facts, ok
}

// readProse reads Remaining: 394 Time until reset: 3589 (Pingdom).
func readProse(facts []Fact, line string) ([]Fact, bool) {
	before := len(facts)
	for _, said := range [...]struct {
		words string
		role  Role
	}{{"Remaining:", RoleRemaining}, {"reset:", RoleReset}} {
		_, rest, _ := strings.Cut(line, said.words)
		rest = trim(rest)
		if end := skip(rest, 0, digit); end > 0 {
			facts = append(facts, Fact{Role: said.role, Format: TimeSeconds, Value: rest[:end]})
		}
	}
	return facts, len(facts) > before
}

// readPercents reads JSON whose numbers are percentages of what has been spent, at
// any depth (Meta). Of several for one policy the highest counts. A number alone is of
// no policy.
func readPercents(facts []Fact, line string) ([]Fact, bool) {
	line = trim(line)
	if _, isCount := parseCount(line); isCount {
		return facts, true
	}
	v, ok := parseJSON(line)
	if !ok {
		return facts, false
	}
	percents := appendPercents(nil, v, maxDepth)
	slices.SortFunc(percents, func(a, b percent) int {
		return cmp.Or(strings.Compare(a.policy, b.policy), cmp.Compare(b.used, a.used), cmp.Compare(b.regain, a.regain))
	})
	percents = slices.CompactFunc(percents, func(a, b percent) bool { return a.policy == b.policy })
	for _, p := range percents {
		remaining := int64(math.Floor(100 - min(max(p.used, 0), 100)))
		facts = append(facts, Fact{Policy: p.policy, Role: RoleQuota, Value: "100"},
			Fact{Policy: p.policy, Role: RoleRemaining, Value: strconv.FormatInt(remaining, 10)})
		if p.regain > 0 {
			facts = append(facts, Fact{Policy: p.policy, Role: RoleReset, Format: TimeSeconds, Value: strconv.FormatInt(p.regain, 10)})
		}
	}
	return facts, true
}

// A percent is how much has been spent, and in how many seconds it is regained; 0
// is not known.
type percent struct {
	policy string
	used   float64
	regain int64
}

func appendPercents(list []percent, v any, depth int) []percent {
	if depth == 0 {
		return list
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			list = appendPercents(list, e, depth-1)
		}
	case map[string]any:
		group, _ := v["type"].(string)
		for key, value := range v {
			used, isNumber := jsonFloat(value)
			if name := below(group, key); !isNumber {
				list = appendPercents(list, value, depth-1)
			} else if isPercent(key) {
				list = append(list, percent{name, used, regain(v)})
			}
		}
	}
	return list
}

func jsonFloat(v any) (float64, bool) {
	n, ok := v.(json.Number)
	x, err := n.Float64()
	return x, ok && err == nil
}

// isPercent reports whether a member is a percentage.
func isPercent(key string) bool {
	switch key {
	case "call_count", "total_cputime", "total_time":
		return true
	}
	return strings.HasSuffix(key, "_pct")
}

// regain returns the seconds until access is regained, which an object gives in
// minutes or in seconds; 0 is not known.
func regain(v map[string]any) int64 {
	minutes, _ := jsonFloat(v["estimated_time_to_regain_access"])
	seconds, _ := jsonFloat(v["reset_time_duration"])
	return int64(min(math.Ceil(max(minutes*60, seconds)), leastUnix-1))
}
