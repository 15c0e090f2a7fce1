package ratelimit

import (
	"math/bits"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// Bounds of a field. A sender cannot rely on more (RFC 9651 Sections 3.1 and 3.1.2). A
// parameter that is written twice counts once. The number of written parameters is bounded
// too, so that the work stays linear.
const (
	maxMembers = 1024
	maxParams  = 256
	maxWritten = 4 * maxParams
)

const manyParams = 64 // from this number on, a map finds a repeated extension parameter

// Parse reads the fields RateLimit-Policy and RateLimit of h. For older fields see [ParseAny]. The
// header h is from the header section of a response. These fields MUST NOT be in trailers (draft-11
// Sections 3.1 and 4.1).
//
// A malformed field is nil in the result, and the error joins a [*FieldError] for it. Clients may
// use the result, because malformed fields MUST be ignored (draft-11 Section 7). An absent or blank
// field is nil, and no error.
func Parse(h http.Header) (Fields, error) {
	var f Fields
	var policyErr, limitErr error
	f.Policies, policyErr = ParsePolicies(h[draft.PolicyKey]...)
	f.Limits, limitErr = ParseLimits(h[draft.LimitKey]...)
	if f.Policies != nil || f.Limits != nil {
		f.Dialect = draft.Current
	}
	return f, text.JoinErrors(policyErr, limitErr)
}

// ParsePolicies reads the field RateLimit-Policy (draft-11 Section 3). lines are its field lines in
// order. Together they are one List (RFC 9110 Section 5.2). Without lines, or with one blank line,
// the result is nil. On error it is nil too, because a field is valid as a whole or not at all (RFC
// 9651 Section 4.2). The error is a [*FieldError] that wraps ErrSyntax, ErrType, ErrMissing,
// ErrRange or ErrTooMany.
//
//go:noinline
func ParsePolicies(lines ...string) ([]Policy, error) {
	return parseList[Policy](draft.Policies, lines)
}

// ParseLimits reads the field RateLimit (draft-11 Section 4) as [ParsePolicies] reads
// RateLimit-Policy.
//
//go:noinline
func ParseLimits(lines ...string) ([]Limit, error) {
	return parseList[Limit](draft.Limits, lines)
}

// parseList reads the lines of a field as one List. Its exported callers are not inlined, because
// the argument of a generic function of another package escapes to the heap.
func parseList[T Policy | Limit](field *draft.Field, lines []string) ([]T, error) {
	if len(lines) == 0 { // as in most responses
		return nil, nil
	}
	p := parser{Scanner: sf.Scanner{Text: strings.Join(lines, separator)}, field: field, item: -1}
	var list []T
	for p.next() {
		if list == nil {
			list = make([]T, 0, p.estimate())
		}
		list = append(list, *new(T))
		p.member.store(&list[p.item])
	}
	if p.err != nil {
		return nil, p.fieldError(lines)
	}
	return list, nil
}

// estimate returns the number of members that the List may contain, so that one allocation has
// room for all. It is called after the first member.
func (p *parser) estimate() int {
	const shortest = len(`"";q=1,`) // bounds the memory that a text of commas can reserve
	rest := p.Text[p.i:]
	return 1 + min(strings.Count(rest, ","), len(rest)/shortest, maxMembers-1)
}

const separator = ", " // between two joined lines, RFC 9651 Section 4.2

// A member has the parts of the current member that were read so far.
type member struct {
	name   string
	seen   uint8                     // the slots of the defined parameters that were read, as bits
	bad    uint8                     // the slots of the parameters that break their definition, as bits
	num    [draft.IntegerSlots]int64 // the values, by slot
	offs   [draft.Slots]int          // where the values start, by slot
	kinds  [draft.Slots]sf.Kind      // the types of the values, by slot
	unit   string
	key    []byte
	params Params         // the parameters that the field does not define
	index  map[string]int // the indices of params by key, see Params.find
}

// store sets to, a *Policy or a *Limit, to the member.
func (m *member) store(to any) {
	time := Seconds{m.num[draft.TimeSlot], m.seen&(1<<draft.TimeSlot) != 0}
	switch to := to.(type) {
	case *Policy:
		*to = Policy{m.name, m.num[draft.AmountSlot], Unit(m.unit), time, m.key, m.params}
	case *Limit:
		*to = Limit{m.name, m.num[draft.AmountSlot], time, m.key, m.params}
	}
}

// A parser reads the lines of a field, joined by ", " (RFC 9651 Section 4.2).
//
// The methods that read a part of the text take the offset of its first byte, and return the
// offset behind it.
type parser struct {
	sf.Scanner // of the joined lines
	field      *draft.Field
	i          int // the offset after the current member
	item       int // the index of the current member, -1 before the first
	member     member

	// The fault, if err is not nil: the offset, the key of the parameter, and the cause.
	err error
	off int
	key string

	tokens bool // names may be Tokens
}

// fail stores a fault, and returns false.
func (p *parser) fail(off int, key string, cause error) bool {
	p.off, p.key, p.err = off, key, cause
	return false
}

// fieldError returns the stored fault, with its position in the lines that were joined.
func (p *parser) fieldError(lines []string) *FieldError {
	e := &FieldError{Field: p.field.Name, Offset: p.off, Item: p.item, Param: p.key, Err: p.err}
	for e.Offset > len(lines[e.Line]) {
		e.Offset -= len(lines[e.Line]) + len(separator)
		e.Line++
	}
	return e
}

// next reads the next member of the List (RFC 9651 Section 4.2.1) by the rules of the field. It
// returns false at the end of the List, and at a fault.
//
//	sf-list = list-member *( OWS "," OWS list-member )
func (p *parser) next() bool {
	if p.item < 0 {
		p.i = text.Past(p.Text, 0, text.Space)
	}
	if p.i == len(p.Text) {
		return false
	}
	if p.item >= 0 {
		p.i = text.Past(p.Text, p.i+1, text.OWS) // past the comma
		m := &p.member
		m.seen, m.bad, m.unit, m.key, m.params = 0, 0, "", nil, nil
		m.num[draft.TimeSlot] = 0
		clear(m.index)
	}
	p.item++
	if p.item == maxMembers && p.i < len(p.Text) && p.Text[p.i] != ',' {
		return p.fail(p.i, "", ErrTooMany)
	}
	return p.readMember()
}

// readMember reads one Item (RFC 9651 Section 4.2.3), whose value is a String (draft-11
// Sections 3 and 4), up to the next separator.
//
//	sf-item = bare-item parameters
func (p *parser) readMember() bool {
	m, s, start := &p.member, p.Text, p.i
	if start < len(s) && s[start] == '(' { // an Inner List, which is not allowed here
		return p.fail(start, "", ErrType)
	}
	kind, i := p.Read(start)
	if kind == sf.None {
		return p.fail(start, "", ErrSyntax)
	}
	m.name = p.String
	named := kind == sf.String
	if kind == sf.Other && p.tokens {
		var token httpsfv.Token
		token, named = p.Other.(httpsfv.Token)
		m.name = string(token)
	}
	if !p.readParams(i) {
		return false
	}
	p.i = text.Past(s, p.i, text.OWS)
	if p.i < len(s) && s[p.i] != ',' {
		return p.fail(p.i, "", ErrSyntax)
	}
	if !named {
		return p.fail(start, "", ErrType)
	}
	if m.seen&draft.Required != draft.Required || m.bad != 0 {
		p.judge(start)
		return false
	}
	return true
}

// judge stores the first fault in the member at start. A missing parameter is a fault at start. It
// runs after the whole member was read, because a later duplicate replaces an earlier parameter
// (RFC 9651 Section 4.2.3.2).
func (p *parser) judge(start int) {
	m := &p.member
	p.off = len(p.Text)
	for i := range p.field.Params {
		d := &p.field.Params[i]
		bit := uint8(1) << d.Slot
		off, err := m.offs[d.Slot], ErrRange
		switch {
		case m.seen&bit == 0 && draft.Required&bit != 0:
			off, err = start, ErrMissing
		case m.bad&bit == 0:
			continue
		case m.kinds[d.Slot] != d.Kind:
			err = ErrType
		}
		if off < p.off {
			p.fail(off, d.Key, err)
		}
	}
}

// readParams reads the parameters of a member (RFC 9651 Section 4.2.3.2).
//
//	parameters = *( ";" *SP param-key [ "=" bare-item ] )
//	param-key  = ( lcalpha / "*" ) *( lcalpha / DIGIT / "_" / "-" / "." / "*" )
func (p *parser) readParams(i int) bool {
	m, s := &p.member, p.Text
	for n := 0; i < len(s) && s[i] == ';'; n++ {
		off := text.Past(s, i+1, text.Space)
		i = text.PastKey(s, off)
		if i == off {
			return p.fail(off, "", ErrSyntax)
		}
		key := s[off:i]
		def := p.field.Find(key)
		if n >= maxParams && m.full(key, def, n) {
			return p.fail(off, "", ErrTooMany)
		}
		kind := sf.Other
		if i < len(s) && s[i] == '=' {
			off = i + 1
			if kind, i = p.Read(off); kind == sf.None {
				return p.fail(off, key, ErrSyntax)
			}
		} else {
			p.Other = true
		}
		if def != nil {
			m.set(def, kind, off, &p.Scanner)
		} else {
			m.setParam(key, p.Value(kind))
		}
	}
	p.i = i
	return true
}

// full reports whether a member has no room for the parameter key after n parameters that were written.
// def is the definition of key, or nil. A repeated key takes no room, but counts toward maxWritten.
func (m *member) full(key string, def *draft.Param, n int) bool {
	known := def != nil && m.seen&(1<<def.Slot) != 0
	if def == nil {
		known = m.params.find(key, &m.index) >= 0
	}
	return n == maxWritten || !known && bits.OnesCount8(m.seen)+len(m.params) >= maxParams
}

// set stores the item that s read last, which begins at off, as the defined parameter d. It
// replaces an earlier value.
func (m *member) set(d *draft.Param, kind sf.Kind, off int, s *sf.Scanner) {
	bit := uint8(1) << d.Slot
	m.seen |= bit
	m.bad &^= bit
	m.kinds[d.Slot], m.offs[d.Slot] = kind, off
	switch {
	case kind != d.Kind || s.Int < d.Least:
		m.bad |= bit
	case d.Slot == draft.UnitSlot:
		m.unit = s.String
	case d.Slot == draft.KeySlot:
		m.key = s.Bytes
	default:
		m.num[d.Slot] = s.Int
	}
}

// setParam adds an extension parameter. If the key is a duplicate, it replaces the earlier
// value in place (RFC 9651 Section 4.2.3.2).
func (m *member) setParam(key string, value any) {
	if at := m.params.find(key, &m.index); at >= 0 {
		m.params[at].Value = value
		return
	}
	m.params = append(m.params, Param{key, value})
}

// find returns the index of the parameter with a key, or -1. If there are many parameters, it uses
// a map, because searches would take quadratic time. known is a map of the parameters that were
// indexed so far.
func (ps Params) find(key string, known *map[string]int) int {
	if len(ps) < manyParams {
		return ps.index(key)
	}
	if *known == nil {
		*known = make(map[string]int, maxParams)
	}
	for i := len(*known); i < len(ps); i++ {
		(*known)[ps[i].Key] = i
	}
	if i, ok := (*known)[key]; ok {
		return i
	}
	return -1
}
