package ratelimit

import (
	"cmp"
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

// A part is what stands between two commas of a field.
type part struct {
	line, off int    // where it begins
	text      string // without space around it
	closed    bool   // every quote in it is
}

// parts calls yield for each part of the lines of a field.
func (f *foundField) parts(yield func(p part) bool) {
	for i, line := range f.lines {
		for off := 0; off <= len(line); {
			text, _, closed := cut(line[off:], ',')
			if !yield(part{i, off, trim(text), closed}) {
				return
			}
			off += len(text) + 1
		}
	}
}

// members calls yield for each part that is not blank. What cannot be cut into
// parts is at fault, and so is a part too many.
func (r *reading) members(f *foundField, yield func(p part, value, params string)) {
	n := 0
	for p := range f.parts {
		if p.text == "" {
			continue
		}
		if n++; n > maxMembers {
			r.fault(f, p.line, p.off, ErrTooMany)
			return
		}
		if !p.closed {
			r.fault(f, p.line, p.off, ErrSyntax)
			continue
		}
		value, params, _ := cut(p.text, ';')
		yield(p, trim(value), params)
	}
}

// readDictionary reads limit=100, remaining=50, reset=5 (draft-07 Section 3). It
// returns false if none of these keys is there.
func (r *reading) readDictionary(f *foundField) bool {
	facts := make([]Fact, 0, 3)
	var has [roles]bool
	found := false
	some := foundField{lines: f.several()}
	for p := range some.parts {
		member, _, _ := cut(p.text, ';')
		key, text, _ := strings.Cut(trim(member), "=")
		role, known := dictionaryRole(key)
		if !known {
			continue
		}
		found = true
		if v, ok := parseNumber(text); !ok || v.neg || !p.closed {
			r.fault(f, p.line, p.off, ErrSyntax)
			continue
		}
		if len(facts) == maxMembers {
			r.fault(f, p.line, p.off, ErrTooMany)
			break
		}
		facts = append(facts, Fact{Role: role, Value: text})
		has[role] = true
	}
	switch {
	case !found:
	case !has[RoleQuota] || !has[RoleReset]:
		r.fault(f, 0, 0, ErrMissing)
	default:
		r.takeAll(f, facts, 0)
		r.credit(f, draft07)
	}
	return found
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
// Section 3.1). A further number alone is the quota of another limiter.
func (r *reading) readQuota(f *foundField) {
	lists := *f // its lines that are lists of policies
	for i, line := range f.lines {
		if line = trim(line); !(isJSON(line) || isRecord(line) || isCommas(line) || isNumbers(line)) {
			continue
		}
		if i < maxLines {
			r.readLine(f, RoleQuota, i, line)
		}
		if &lists.lines[0] == &f.lines[0] {
			lists.lines = slices.Clone(f.lines)
		}
		lists.lines[i] = ""
	}
	last := -1 // line
	r.members(&lists, func(at part, value, params string) {
		p, old, isPolicy := readPolicy(value, params)
		begins := at.line > last
		ok := true
		switch first := last < 0; {
		case !first && isPolicy && (params != "" || p.Window.ok && !begins):
			r.listed = append(r.listed, p)
			r.credit(f, generationOf(old))
		case begins || isPolicy:
			ok = r.readFirst(f, value, params)
		default:
			ok = false
		}
		if last = at.line; !ok && f.meaning.clear(value) {
			r.fault(f, at.line, at.off, ErrSyntax)
		}
	})
}

// readFirst reads a member of a list that is a quota, and its parameters.
func (r *reading) readFirst(f *foundField, value, params string) bool {
	facts, ok := readCount(make([]Fact, 0, 3), RoleQuota, value)
	if !ok {
		return false
	}
	p, old, _ := readPolicy("", params)
	r.takeAll(f, p.appendWindow(facts), 0)
	if p.Window.ok {
		r.credit(f, generationOf(old))
	}
	if p.Name == "" && p.Params == nil {
		return true
	}
	if t := r.tally(f, f.meaning.policy, 0); t.refuted != f.meaning.order {
		t.title = cmp.Or(t.title, p.Name)
		if t.params == nil {
			t.params = p.Params
		}
	}
	return true
}

// appendWindow appends the window of a policy, if it has one.
func (p *Policy) appendWindow(facts []Fact) []Fact {
	if p.Window.ok {
		facts = append(facts, Fact{Role: RoleWindow, Format: TimeSeconds, Value: strconv.FormatInt(p.Window.n, 10)})
	}
	return facts
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
	read, before := false, len(r.faults)
	r.members(f, func(at part, value, params string) {
		p, _, ok := readPolicy(value, params)
		if ok {
			r.listed = append(r.listed, p)
			read = true
		} else if value == "" || value[0] != '"' && !is(value[0], alpha) || own {
			r.fault(f, at.line, at.off, ErrSyntax)
		}
	})
	if read {
		r.credit(f, draft06)
	} else if own { // the strict parser knows better what is wrong
		_, err := ParsePolicies(f.lines...)
		r.faults = r.faults[:before]
		r.strictFault(f, err)
	}
}

// readCurrent reads policies in the current form; parseAny has read a well-formed
// RateLimit-Policy before. It returns false if they have another form.
func (r *reading) readCurrent(f *foundField, own bool) bool {
	line := f.line()
	if line == "" || is(line[0], digit) {
		return line == ""
	}
	policies, err := ParsePolicies(f.lines...)
	if err != nil {
		list, ok := readItems(f.lines, policyField)
		if !ok {
			return false
		}
		policies = make([]Policy, len(list))
		for i := range list {
			list[i].policy(&policies[i])
		}
	} else if own {
		return true
	}
	for _, p := range policies {
		p.Unit = cmp.Or(p.Unit, f.meaning.unit)
		r.listed = append(r.listed, p)
	}
	r.credit(f, draft08)
	return true
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

// indexListed drops repeated policies, and makes an index if there are many.
func (r *reading) indexListed() {
	all := r.listed
	r.listed = r.listed[:0]
	if len(all) > manyPolicies {
		r.byQuota = make(map[listedID]int, 3*len(all))
	}
	for i := range all {
		ids := listedIDs(&all[i])
		if _, again := r.findListed(ids[0]); again {
			continue
		}
		for _, id := range ids {
			if _, again := r.findListed(id); r.byQuota != nil && !again {
				r.byQuota[id] = len(r.listed)
			}
		}
		r.listed = append(r.listed, all[i])
	}
}

// findListed returns the index of the first listed policy with that identity.
func (r *reading) findListed(id listedID) (i int, ok bool) {
	if r.byQuota != nil {
		i, ok = r.byQuota[id]
		return i, ok
	}
	i = slices.IndexFunc(r.listed, func(p Policy) bool {
		ids := listedIDs(&p)
		return slices.Contains(ids[:], id)
	})
	return i, i >= 0
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
		case windowKey, windowName:
			old = key == windowName
			p.Window = parseWindow(text)
		case nameName:
			if name := unquote(text); isName(name) {
				p.Name = name
			}
		default:
			p.Params = comment(p.Params, key, text, valued)
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
func comment(ps Params, key, text string, valued bool) Params {
	if !isKey(key) || policyField.find(key) != nil || len(ps) >= maxComments {
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
func readItems(lines []string, field *fieldDef) (list []member, ok bool) {
	all, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(all) > maxMembers {
		return nil, false
	}
	for _, e := range all {
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
		list = append(list, m)
	}
	return list, true
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

// read reads a parameter; def is nil if it is not defined. A number below the least
// is absent.
func (m *member) read(def *paramDef, p Param) (ok bool) {
	if def == nil {
		m.params = append(m.params, p)
		return true
	}
	switch def.param {
	case unitParam:
		m.unit, ok = text(p.Value)
	case keyParam:
		if m.key, ok = p.Value.([]byte); !ok {
			var s string
			s, ok = text(p.Value)
			m.key = []byte(s)
		}
	default:
		var v number
		v, ok = parseNumber(fmt.Sprint(p.Value))
		n := v.ceil()
		if def.param == amountParam {
			n = v.floor()
		}
		if ok = ok && !v.neg; n >= def.least {
			m.num[def.param] = n
			m.seen |= 1 << def.param
		}
	}
	return ok
}

// secondNames drops the first of two names: "fixed window";"api";q=500 is the
// policy api. found reports whether there are any.
func secondNames(lines []string) (line string, found bool) {
	f := foundField{lines: lines}
	var members []string
	for p := range f.parts {
		_, params, _ := cut(p.text, ';')
		if second := trim(params); second != "" && second[0] == '"' {
			p.text, found = second, true
		}
		members = append(members, p.text)
	}
	return strings.Join(members, separator), found
}
