package ratelimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dunglas/httpsfv"
)

// A generation is the draft whose syntax the fields of the drafts show.
type generation uint8

const (
	draft06 generation = iota // nothing
	draft03                   // policies in the field of the quota
	draft00                   // the parameter window, or a date for a reset
	draft07                   // the Dictionary RateLimit
	draft08                   // the current form, read with lenience
)

var generationNames = [...]string{draft06: "draft-06", draft03: "draft-03", draft00: "draft-00", draft07: "draft-07", draft08: "draft-08"}

// readDictionary reads limit=100, remaining=50, reset=5 (draft-07 Section 3). It
// returns false if none of these keys is there.
func (r *reading) readDictionary(f *foundField) bool {
	var facts [3]Fact
	found, has := false, [roles]bool{}
	n := 0
	for i, line := range f.lines {
		for off := 0; off <= len(line); {
			part, _, closed := cut(line[off:], ',')
			at := off
			off += len(part) + 1
			value, _, _ := cut(part, ';')
			key, text, _ := strings.Cut(trim(value), "=")
			m, known := dictionaryRole(key)
			if !known {
				continue
			}
			found = true
			v, ok := parseNumber(text)
			if !ok || v.neg || !closed {
				r.fault(f, i, at, ErrSyntax)
			} else if !has[m] {
				facts[n] = Fact{Role: m, Value: text}
				has[m] = true
				n++
			}
		}
	}
	if !found {
		return false
	}
	if !has[RoleQuota] || !has[RoleReset] {
		r.fault(f, 0, 0, ErrMissing)
	} else if r.takeAll(f, facts[:n], 0) {
		r.credit(f, draft07)
	}
	return true
}

func dictionaryRole(key string) (Role, bool) {
	switch key {
	case "limit":
		return RoleQuota, true
	case "remaining":
		return RoleRemaining, true
	case "reset":
		return RoleReset, true
	}
	return RoleNone, false
}

// readQuota reads a quota, and the policies that may follow it (drafts 00 to 03
// Section 3.1).
func (r *reading) readQuota(f *foundField) {
	line, _ := firstLine(f.lines)
	if line != "" && (isJSON(line) || isRecord(line) || isCommas(line)) {
		r.readValue(f)
		return
	}
	first, n := -1, 0 // line, members
	for i, line := range f.lines {
		open := members(line, func(off int, value, params string) bool {
			if n++; n > maxMembers {
				r.fault(f, i, off, ErrTooMany)
				return false
			}
			ok := true
			if first < 0 {
				first = i
				ok = r.readFirst(f, value, params)
			} else if p, old, isPolicy := readPolicy(value, params); isPolicy && (params != "" || i == first && p.Window.ok) {
				r.listed = append(r.listed, p)
				r.credit(f, generationOf(old))
			} else {
				ok = isPolicy || i > first // the quota of a second limiter, whatever its form
				if i == first && isPolicy {
					r.credit(f, draft03)
				}
			}
			if !ok && f.meaning.clear(value) {
				r.fault(f, i, off, ErrSyntax)
			}
			return true
		})
		if open >= 0 {
			r.fault(f, i, open, ErrSyntax)
		}
		if n > maxMembers {
			return
		}
	}
}

// readFirst reads the first member of a list, the quota, and its parameters.
func (r *reading) readFirst(f *foundField, value, params string) bool {
	var few [2]Fact
	facts, ok := readCount(few[:0], RoleQuota, value)
	ok = ok && r.takeAll(f, facts, 0)
	if params == "" || !ok {
		return ok
	}
	p, old, _ := readPolicy("0", params)
	if t := r.tally(f, f.meaning.policy, 0); t != nil {
		if p.Window.ok {
			t.window = p.Window
			r.credit(f, generationOf(old))
		}
		t.params, t.title = p.Params, p.Name
	}
	return true
}

func generationOf(old bool) generation {
	if old {
		return draft00
	}
	return draft03
}

// readPolicies reads Integer policies (draft-06 Section 3.2), or the current form
// with faults that the strict parser refuses. A word is the name of an algorithm,
// and no policy.
func (r *reading) readPolicies(f *foundField) {
	own := strings.EqualFold(f.key, policyKey)
	if r.readCurrent(f, own) {
		return
	}
	read, n := false, 0
	var faults []*FieldError
	fault := func(line, off int, err error) {
		faults = append(faults, &FieldError{Field: fieldName(f.key), Line: line, Offset: off, Item: -1, Err: err})
	}
	for i, line := range f.lines {
		open := members(line, func(off int, value, params string) bool {
			if n++; n > maxMembers {
				fault(i, off, ErrTooMany)
				return false
			}
			p, _, ok := readPolicy(value, params)
			if ok {
				r.listed = append(r.listed, p)
				read = true
			} else if value == "" || value[0] != '"' && !is(value[0], alpha) || own {
				fault(i, off, ErrSyntax)
			}
			return true
		})
		if open >= 0 {
			fault(i, open, ErrSyntax)
		}
		if n > maxMembers {
			break
		}
	}
	switch {
	case own && !read: // the strict parser knows better what is wrong
		if _, err := ParsePolicies(f.lines...); err != nil {
			r.strictFault(f, err)
		}
		return
	case read:
		r.credit(f, draft06)
	}
	r.faults = append(r.faults, faults...)
}

// readCurrent reads policies in the current form; parseAny has read a well-formed
// RateLimit-Policy before. It returns false if they have another form.
func (r *reading) readCurrent(f *foundField, own bool) bool {
	line, _ := firstLine(f.lines)
	if line == "" || is(line[0], digit) {
		return line == ""
	}
	if policies, err := ParsePolicies(f.lines...); err == nil {
		if !own {
			r.listAll(f, policies)
		}
		return true
	}
	list, ok := readItems(f.lines, policyField)
	if ok {
		r.listAll(f, policiesOf(list))
	}
	return ok
}

// listAll adds policies in the current form.
func (r *reading) listAll(f *foundField, policies []Policy) {
	for _, p := range policies {
		if p.Unit == "" {
			p.Unit = f.meaning.unit
		}
		r.listed = append(r.listed, p)
	}
	r.credit(f, draft08)
}

// A listedID identifies a listed policy. A window of 0 is absent.
type listedID struct {
	quota, window int64
	name          string
}

const (
	anyName   = "\x00" // which no policy has
	anyWindow = -1
)

func listedIDs(p *Policy) [3]listedID {
	return [...]listedID{{p.Quota, p.Window.n, p.Name}, {p.Quota, p.Window.n, anyName}, {p.Quota, anyWindow, anyName}}
}

// indexListed drops repeated policies, and those beyond maxMembers, and makes an
// index if there are many.
func (r *reading) indexListed() {
	all := r.listed
	r.listed = r.listed[:0]
	if len(all) > manyTallies {
		r.byQuota = make(map[listedID]int, 3*len(all))
	}
	for i := range all {
		ids := listedIDs(&all[i])
		if len(r.listed) == maxMembers || r.indexOf(ids[0]) >= 0 {
			continue
		}
		for _, id := range ids {
			if r.byQuota != nil && r.indexOf(id) < 0 {
				r.byQuota[id] = len(r.listed)
			}
		}
		r.listed = append(r.listed, all[i])
	}
}

// indexOf returns the index of the first listed policy with that identity, or -1.
func (r *reading) indexOf(id listedID) int {
	if r.byQuota != nil {
		if i, ok := r.byQuota[id]; ok {
			return i
		}
		return -1
	}
	return slices.IndexFunc(r.listed, func(p Policy) bool {
		ids := listedIDs(&p)
		return slices.Contains(ids[:], id)
	})
}

// members calls yield for each member of a list that is not blank, with its
// parameters and its offset, until yield returns false. It returns the offset of a
// member whose quote is never closed, or -1.
func members(line string, yield func(off int, value, params string) bool) (open int) {
	for rest := line; rest != ""; {
		off := len(line) - len(rest)
		m, tail, ok := cut(rest, ',')
		if !ok {
			return off
		}
		rest = tail
		if m = trim(m); m == "" {
			continue
		}
		value, params, _ := cut(m, ';')
		if !yield(off, trim(value), params) {
			break
		}
	}
	return -1
}

// The parameters of older policies besides w.
const (
	windowName = "window" // draft-polli-00
	nameName   = "name"   // Envoy
)

// readPolicy reads a policy of a list: quota, window, name and comments. ok is
// false if the value is not a number; old is true if the window has the name of
// draft-polli-00.
func readPolicy(value, params string) (p Policy, old, ok bool) {
	p.Quota = Unknown
	count, window, over := strings.Cut(value, "/") // 100/1h
	if n, isNumber := parseCount(trim(count)); isNumber && !n.neg {
		p.Quota, p.Window = n.floor(), parseWindow(trim(window))
		ok = !over || p.Window.ok
	}
	for n := 0; params != "" && n < maxParams; n++ {
		var param string
		param, params, _ = cut(params, ';')
		key, text, valued := strings.Cut(trim(param), "=")
		key, text = strings.ToLower(trim(key)), trim(text)
		switch key {
		case "":
		case windowKey, windowName:
			old = old || key == windowName
			if w := parseWindow(text); w.ok {
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
	return p, old, ok
}

// parseWindow reads the value of w. A window of 0 is absent.
func parseWindow(s string) Seconds {
	if v, ok := parseNumber(unquote(s)); ok {
		return windowOf(v.ceil())
	}
	n, _ := parseSpanOrWord(s)
	return windowOf(n)
}

// maxComments is how many comments of a policy are kept. Looking for a repeated
// key is a linear search, hence the bound.
const maxComments = 64

// comment adds an undefined parameter, if it can be written again.
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

// readItems reads a current field that the strict parser refuses: names that are
// Tokens, no r, Decimals, a partition key that is a String, a w of 0. It returns
// false if it cannot read every member.
func readItems(lines []string, field *fieldDef) (members []member, ok bool) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(list) > maxMembers {
		return nil, false
	}
	for _, e := range list {
		item, isItem := e.(httpsfv.Item)
		if !isItem || len(item.Params.Names()) > maxParams {
			return nil, false
		}
		m := member{num: [integerParams]int64{amountParam: Unknown}}
		if m.name, ok = text(item.Value); !ok {
			return nil, false
		}
		for _, key := range item.Params.Names() {
			v, _ := item.Params.Get(key)
			if !m.read(field.find(key), Param{key, v}) {
				return nil, false
			}
		}
		if m.num[amountParam] == Unknown && (field == policyField || m.seen == 0) {
			return nil, false
		}
		members = append(members, m)
	}
	return members, len(members) > 0
}

// text returns the content of a String or a Token.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case httpsfv.Token:
		return string(v), true
	}
	return "", false
}

// read reads a parameter; def is nil if it is not defined.
func (m *member) read(def *paramDef, p Param) (ok bool) {
	if def == nil {
		m.params = append(m.params, p)
		return true
	}
	switch def.param {
	case unitParam:
		m.unit, ok = text(p.Value)
	case keyParam:
		var s string
		if m.key, ok = p.Value.([]byte); !ok {
			s, ok = text(p.Value)
			m.key = []byte(s)
		}
	default:
		var n number
		if x, isDecimal := p.Value.(float64); isDecimal {
			n, ok = parseNumber(strconv.FormatFloat(x, 'f', -1, 64))
		} else {
			n, ok = parseNumber(fmt.Sprint(p.Value))
		}
		ok = ok && !n.neg
		m.num[def.param] = n.ceil()
		if def.param == amountParam {
			m.num[amountParam] = n.floor()
		}
		m.seen |= 1 << def.param
	}
	return ok
}

// limitsOf and policiesOf convert members.
func limitsOf(members []member) []Limit {
	list := make([]Limit, len(members))
	for i := range members {
		m := &members[i]
		list[i] = Limit{m.name, m.num[amountParam], m.seconds(), m.key, m.params}
	}
	return list
}

func policiesOf(members []member) []Policy {
	list := make([]Policy, len(members))
	for i := range members {
		m := &members[i]
		list[i] = Policy{m.name, m.num[amountParam], Unit(m.unit), windowOf(m.num[timeParam]), m.key, m.params}
	}
	return list
}

// secondNames drops the first of two names: "fixed window";"api";q=500 is the
// policy api.
func secondNames(lines []string) (names []string) {
	for _, line := range lines {
		var b strings.Builder
		members(line, func(_ int, value, params string) bool {
			if b.Len() > 0 {
				b.WriteString(separator)
			}
			if second := trim(params); second != "" && second[0] == '"' {
				value, params = second, ""
			}
			b.WriteString(value)
			if params != "" {
				b.WriteString(";" + params)
			}
			return true
		})
		names = append(names, b.String())
	}
	return names
}
