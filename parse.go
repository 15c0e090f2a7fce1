package ratelimit

import (
	"encoding/base64"
	"errors"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Bounds of a field. Those of members and parameters are the least that
// RFC 9651 Sections 3.1 and 3.1.2 let a parser support. A parameter that is
// written twice counts once, but work has to stay linear: so the number of those
// written is bounded too.
const (
	maxMembers = 1024
	maxParams  = 256
	maxWritten = 4 * maxParams
)

const manyParams = 16 // beyond, a map finds them

// The causes of a [FieldError]; test for them with [errors.Is].
var (
	// ErrSyntax says that the text is not a structured field (RFC 9651), or
	// that a value to be written cannot be one: a character outside the
	// printable ASCII range in a String, an illegal parameter key or Token.
	ErrSyntax = errors.New("not well-formed")
	// ErrType says that a member or a parameter has another type than the
	// specification gives it, as in r="5", or that a Go value has a type that
	// is not listed at [Param].
	ErrType = errors.New("wrong type")
	// ErrMissing says that a required parameter is absent, or that a text
	// which has to hold one member holds none.
	ErrMissing = errors.New("missing")
	// ErrRange says that a number is outside what the parameter allows.
	ErrRange = errors.New("out of range")
	// ErrDuplicate says that a key of [Params] is repeated or is a parameter
	// which has a struct field of its own, or that a name and partition key
	// occur twice in one field ([Fields.Validate]).
	ErrDuplicate = errors.New("duplicate")
	// ErrConflict says that two parties mean different things by one name
	// ([Restrict]).
	ErrConflict = errors.New("conflict")
	// ErrTooMany says that a field has more than 1024 members, a member more
	// than 256 parameters (or one that repeats them, more than 1024 in all), a
	// text which has to hold one member several, or a response more than 1024
	// older fields.
	ErrTooMany = errors.New("too many")
)

// A FieldError says what is wrong with a field, and where. Its text never
// repeats the content of the field, which may hold a partition key.
type FieldError struct {
	Field  string // PolicyField, LimitField or the name of an older field, as it was sent; "" is all of them
	Line   int    // index of the field line, from 0
	Offset int    // byte in that line where the offending token starts, from 0, the line's length at its end; -1 when not parsing
	Item   int    // index of the member over all lines, from 0; -1 where there is none
	Param  string // key of the parameter, "" if the member itself is at fault
	Err    error  // ErrSyntax, ErrType, ErrMissing, ErrRange, ErrDuplicate, ErrConflict or ErrTooMany
}

// Error names the place, the cause, and what is allowed there. For humans it
// counts members, lines and bytes from 1, unlike the fields of e. It names a
// parameter only if the specification defines it.
func (e *FieldError) Error() string {
	b := append([]byte("ratelimit: "), e.place()...)
	if e.Offset >= 0 {
		b = append(b, ", line "...)
		b = strconv.AppendInt(b, int64(e.Line)+1, 10)
		b = append(b, ", byte "...)
		b = strconv.AppendInt(b, int64(e.Offset)+1, 10)
	}
	subject, form := e.subject()
	b = append(append(b, subject...), ": "...)
	if e.Err != nil {
		b = append(b, e.Err.Error()...)
	}
	switch e.Err {
	case ErrSyntax, ErrType, ErrRange:
		if form != "" {
			b = append(append(b, ", it has to be "...), form...)
		}
	}
	return string(b)
}

// place returns the field, and the member of it.
func (e *FieldError) place() string {
	switch {
	case e.Field == "":
		return "fields of limits"
	case e.Item < 0:
		return e.Field
	}
	return "member " + strconv.Itoa(e.Item+1) + " of " + e.Field
}

// subject returns what of the member is at fault, and the form that it should
// have.
func (e *FieldError) subject() (subject, form string) {
	if e.Param == "" {
		if e.Item >= 0 && (e.Err == ErrType || e.Err == ErrSyntax && e.Offset < 0) {
			return ": name", nameForm
		}
		return "", ""
	}
	if def := fieldOf(e.Field).find(e.Param); def != nil {
		return ": parameter " + def.key, def.form
	}
	return ": an extension parameter", ""
}

// Unwrap returns e.Err.
func (e *FieldError) Unwrap() error { return e.Err }

// kind is the type of a bare item, RFC 9651 Section 3.3.
type kind uint8

const (
	absent kind = iota
	integerKind
	stringKind
	bytesKind
	otherKind // Decimal, Token, Boolean, Date, Display String: left to httpsfv
)

// The keys of the defined parameters. No other place spells them.
const (
	quotaKey     = "q"
	unitKey      = "qu"
	windowKey    = "w"
	remainingKey = "r"
	resetKey     = "t"
	partitionKey = "pk"
)

// A param is the place of a defined parameter in a member. A field has at most
// one parameter for each.
type param uint8

const (
	amountParam   param = iota // of quota units
	timeParam                  // in seconds
	keyParam                   // the partition key
	unitParam                  // the quota unit
	definedParams              // their number

	integerParams = keyParam // the places before are those of Integers
)

// A paramDef says what the specification says of a parameter of a field.
type paramDef struct {
	key   string
	param param
	kind  kind
	least int64  // value of an Integer
	form  string // how it is written, for humans
	rule  string // id in CONFORMANCE.md of the rule for its form
}

// A fieldDef says what the specification says of a field. The same key may mean
// another parameter in another field.
type fieldDef struct {
	name     string
	key      string // in http.Header
	params   []paramDef
	required uint8 // which of them have to be there, by bit
	// Ids in CONFORMANCE.md of the rules that the field is a List, that its
	// names are Strings, that its required parameter is there, and that it is
	// never in a trailer.
	listRule, nameRule, missingRule, trailerRule string

	byLast [256]uint8 // 1 + index in params, by the last byte of the key, which tells them apart
}

func newField(f fieldDef) *fieldDef {
	for i := range f.params {
		key := f.params[i].key
		f.byLast[key[len(key)-1]] = uint8(i + 1)
	}
	return &f
}

const (
	nameForm  = "a String of printable ASCII"
	minWindow = 1 // draft-11 Section 3.1.3
)

var (
	policyField = newField(fieldDef{
		name: PolicyField, key: policyKey,
		params: []paramDef{
			{key: quotaKey, param: amountParam, kind: integerKind, form: "an Integer from 0", rule: "P13"},                     // draft-11 Section 3.1.1
			{key: unitKey, param: unitParam, kind: stringKind, form: nameForm, rule: "P14"},                                    // 3.1.2
			{key: windowKey, param: timeParam, kind: integerKind, least: minWindow, form: "an Integer from 1", rule: "P16"},    // 3.1.3
			{key: partitionKey, param: keyParam, kind: bytesKind, form: "a Byte Sequence, base64 between colons", rule: "P17"}, // 3.1.4
		},
		required: 1 << amountParam,
		listRule: "P1", nameRule: "P2", missingRule: "P6", trailerRule: "P12",
	})
	limitField = newField(fieldDef{
		name: LimitField, key: limitKey,
		params: []paramDef{
			{key: remainingKey, param: amountParam, kind: integerKind, form: "an Integer from 0", rule: "L5"},                  // 4.1.1
			{key: resetKey, param: timeParam, kind: integerKind, form: "an Integer from 0", rule: "L7"},                        // 4.1.2
			{key: partitionKey, param: keyParam, kind: bytesKind, form: "a Byte Sequence, base64 between colons", rule: "L10"}, // 4.1.3
		},
		required: 1 << amountParam,
		listRule: "L1", nameRule: "L1", missingRule: "L2", trailerRule: "L4",
	})
)

// fieldOf returns the definition of a field by its name, nil for an older one.
func fieldOf(name string) *fieldDef {
	switch name {
	case PolicyField:
		return policyField
	case LimitField:
		return limitField
	}
	return nil
}

// find returns the definition of a parameter, nil if the field defines none of
// that key.
func (f *fieldDef) find(key string) *paramDef {
	if f == nil || key == "" {
		return nil
	}
	i := int(f.byLast[key[len(key)-1]]) - 1
	if i < 0 || f.params[i].key != key {
		return nil
	}
	return &f.params[i]
}

// ParsePolicies reads the field lines of RateLimit-Policy (draft-11 Section 3),
// as found in http.Header under its canonical key, combined as HTTP combines
// them (RFC 9110 Section 5.2). Without a line, or with a single one that is empty
// or all spaces, the result is nil and there is no error.
//
// A field is all or nothing: on error the result is nil and the error is a
// [*FieldError]. Names and Strings may share memory with the lines; partition
// keys do not.
func ParsePolicies(lines ...string) ([]Policy, error) {
	return parseList[Policy](policyField, maxMembers, lines)
}

// ParseLimits reads the field lines of RateLimit (draft-11 Section 4), in the
// same way as [ParsePolicies].
func ParseLimits(lines ...string) ([]Limit, error) {
	return parseList[Limit](limitField, maxMembers, lines)
}

// parseList reads a List with at most so many members.
func parseList[T Policy | Limit](field *fieldDef, most int, lines []string) ([]T, error) {
	var p parser
	p.field, p.most, p.item = field, most, -1
	var list []T
	for p.next(lines) {
		if list == nil {
			list = make([]T, 0, p.estimate(lines))
		}
		if len(list) < cap(list) {
			list = list[:len(list)+1]
		} else {
			list = append(list, *new(T))
		}
		switch m := any(&list[p.item]).(type) { // a method value would let p escape
		case *Policy:
			p.member.policy(m)
		case *Limit:
			p.member.limit(m)
		}
	}
	switch {
	case p.cut:
		list, err := parseList[T](field, most, join(lines))
		return list, unjoin(err, lines)
	case p.err != nil:
		return nil, p.fieldError()
	}
	return list, nil
}

// estimate returns, after the first member, how many there may be, so that one
// allocation holds them. No member is shorter than seven bytes, as `"";q=1,` is,
// which bounds what a text of commas can make us reserve.
func (p *parser) estimate(lines []string) int {
	const shortest = 7
	if p.last && p.i == len(p.s) {
		return 1
	}
	n := 1 + min(strings.Count(p.s[p.i:], ","), (len(p.s)-p.i)/shortest)
	for _, line := range lines[p.line+1:] {
		n += 1 + min(strings.Count(line, ","), len(line)/shortest)
	}
	return min(n, maxMembers)
}

const separator = ", " // between lines, RFC 9651 Section 4.2

func join(lines []string) []string { return []string{strings.Join(lines, separator)} }

// unjoin moves the position in err from the joined lines to the lines.
func unjoin(err error, lines []string) error {
	e, ok := err.(*FieldError)
	if !ok {
		return err
	}
	for e.Offset > len(lines[e.Line]) {
		e.Offset -= len(lines[e.Line]) + len(separator)
		e.Line++
	}
	return e
}

// A member is what has been read of one member of the List.
type member struct {
	off    int // where it starts, in the current line
	name   string
	seen   uint8 // which parameters are there, by bit
	bad    uint8 // which of them break their definition
	num    [integerParams]int64
	offs   [definedParams]int // where the bare items start, in the current line
	kinds  [definedParams]kind
	unit   string
	key    []byte
	params Params
}

func (m *member) seconds() Seconds {
	if m.seen&(1<<timeParam) == 0 {
		return Seconds{}
	}
	return SecondsOf(m.num[timeParam])
}

func (m *member) policy(p *Policy) {
	p.Name = m.name
	p.Quota = m.num[amountParam]
	p.Unit = Unit(m.unit)
	p.Window = m.seconds()
	p.PartitionKey = m.key
	p.Params = m.params
}

func (m *member) limit(l *Limit) {
	l.Name = m.name
	l.Remaining = m.num[amountParam]
	l.Reset = m.seconds()
	l.PartitionKey = m.key
	l.Params = m.params
}

// A parser reads the lines as if they were joined by ", " (RFC 9651 Section
// 4.2). It need not join them, as a member cannot hold a comma outside of a
// String; where a line ends inside of one it gives up and sets cut.
//
// Its methods take the offset where they begin in the current line, and return
// the one where they ended.
type parser struct {
	scanner // of the current line
	field   *fieldDef
	most    int // members
	line    int // index of the current line
	i       int // where the current member ends
	item    int // its index, -1 before the first
	member  member

	index map[string]int // of member.params by key, where there are many

	// The failure, if err is not nil.
	err error
	off int
	key string
}

func (p *parser) fail(off int, key string, cause error) bool {
	p.off, p.key, p.err = off, key, cause
	return false
}

func (p *parser) fieldError() *FieldError {
	return &FieldError{Field: p.field.name, Line: p.line, Offset: p.off, Item: p.item, Param: p.key, Err: p.err}
}

// next reads the next member, if there is one: RFC 9651 Section 4.2.1, with the
// rules of the field for each member.
func (p *parser) next(lines []string) bool {
	if p.item < 0 {
		if !p.begin(lines) {
			return false
		}
	} else {
		if !p.comma(lines) {
			return false
		}
		m := &p.member
		m.seen, m.bad, m.unit, m.key, m.params = 0, 0, "", nil, nil
	}
	p.item++
	if p.item == p.most && p.i < len(p.s) && p.s[p.i] != ',' {
		return p.fail(p.i, "", ErrTooMany)
	}
	return p.readMember()
}

// begin passes the spaces before the List, and reports whether one is there.
func (p *parser) begin(lines []string) bool {
	if len(lines) == 0 {
		return false
	}
	p.s, p.last = lines[0], len(lines) == 1
	p.i = skip(p.s, 0, sp)
	return p.i < len(p.s) || !p.last
}

// comma passes what separates two members, a comma in the line or the end of a
// line that is not the last, and reports whether it is there.
func (p *parser) comma(lines []string) bool {
	switch {
	case p.i < len(p.s):
		p.i++
	case p.last:
		return false
	default:
		p.line++
		p.s, p.i, p.last = lines[p.line], 0, p.line == len(lines)-1
	}
	p.i = skip(p.s, p.i, ows)
	return true
}

// readMember is RFC 9651 Section 4.2.3, for an item whose value is a String, up
// to what separates it from the next.
func (p *parser) readMember() bool {
	m, s, start := &p.member, p.s, p.i
	m.off = start
	kind, i := absent, start
	switch {
	case start == len(s):
	case s[start] == '"':
		kind, i = p.readString(start)
	case s[start] == '(': // an Inner List
		return p.fail(start, "", ErrType)
	default:
		kind, i = p.readBareItem(start)
	}
	if kind == absent {
		return p.fail(start, "", ErrSyntax)
	}
	m.name = p.str
	if !p.readParams(i) {
		return false
	}
	p.i = skip(s, p.i, ows)
	if p.i < len(s) && s[p.i] != ',' {
		return p.fail(p.i, "", ErrSyntax)
	}
	if kind != stringKind {
		return p.fail(start, "", ErrType)
	}
	return p.field.required&^m.seen|m.bad == 0 || p.judge()
}

// judge finds the first fault in the line among the defined parameters of a
// member, of which one is missing or breaks its definition. It is called after
// the last parameter, because a later duplicate replaces an earlier one (RFC 9651
// Section 4.2.3.2).
func (p *parser) judge() bool {
	m := &p.member
	p.off = len(p.s)
	for i := range p.field.params {
		d := &p.field.params[i]
		bit := uint8(1) << d.param
		off, err := m.offs[d.param], ErrRange
		switch {
		case p.field.required&^m.seen&bit != 0:
			off, err = m.off, ErrMissing
		case m.bad&bit == 0:
			continue
		case m.kinds[d.param] != d.kind:
			err = ErrType
		}
		if off < p.off || p.err == nil {
			p.fail(off, d.key, err)
		}
	}
	return false
}

// readParams is RFC 9651 Section 4.2.3.2.
func (p *parser) readParams(i int) bool {
	m, s := &p.member, p.s
	for n := 0; i < len(s) && s[i] == ';'; n++ {
		off := skip(s, i+1, sp)
		i = skipKey(s, off)
		if i == off {
			return p.fail(off, "", ErrSyntax)
		}
		key := s[off:i]
		def, at := p.field.find(key), -1
		if def == nil && m.params != nil {
			at = p.indexParam(key)
		}
		if n >= maxParams && p.full(def, at, n) {
			return p.fail(off, "", ErrTooMany)
		}
		kind := otherKind
		if i < len(s) && s[i] == '=' {
			off = i + 1
			end, n := off, int64(0)
			for ; end < len(s) && is(s[end], digit); end++ {
				n = n*10 + int64(s[end]-'0')
			}
			switch {
			case off < end && end <= off+maxDigits && (end == len(s) || s[end] != '.'): // as most are
				kind, i, p.num = integerKind, end, n
			default:
				if kind, i = p.readBareItem(off); kind == absent {
					return p.fail(off, key, ErrSyntax)
				}
			}
		} else {
			p.num, p.other = 0, true
		}
		if def != nil {
			m.set(def, kind, off, &p.scanner)
		} else {
			p.setParam(key, at, p.any(kind), i)
		}
	}
	p.i = i
	return true
}

// full reports whether a member has no room for its parameter n: for a new key,
// or for any.
func (p *parser) full(def *paramDef, at, n int) bool {
	m := &p.member
	isNew := at < 0
	if def != nil {
		isNew = m.seen&(1<<def.param) == 0
	}
	return n == maxWritten || isNew && bits.OnesCount8(m.seen)+len(m.params) >= maxParams
}

// set takes the bare item read last as a defined parameter.
func (m *member) set(d *paramDef, kind kind, off int, s *scanner) {
	place := d.param % definedParams
	bit := uint8(1) << place
	m.seen |= bit
	m.bad &^= bit
	m.kinds[place], m.offs[place] = kind, off
	switch {
	case kind != d.kind || s.num < d.least:
		m.bad |= bit
	case place == unitParam:
		m.unit = s.str
	case place == keyParam:
		m.key = s.bytes
	default:
		m.num[place%integerParams] = s.num
	}
}

// setParam adds an extension parameter, which ends at i, or replaces the one of
// that index, where it is (RFC 9651 Section 4.2.3.2).
func (p *parser) setParam(key string, at int, value any, i int) {
	ps := p.member.params
	switch {
	case ps == nil: // often it stays the only one
		p.member.params = Params{{key, value}}
		return
	case at >= 0:
		ps[at].Value = value
		return
	case len(ps) == manyParams:
		p.makeRoom(i)
		ps = p.member.params
	}
	if len(ps) >= manyParams {
		p.index[key] = len(ps)
	}
	p.member.params = append(ps, Param{key, value})
}

// makeRoom makes room for all parameters of the member at once, as far as the
// semicolons before the next comma tell, and indexes those that it has.
func (p *parser) makeRoom(i int) {
	rest := p.s[i:]
	if end := strings.IndexByte(rest, ','); end >= 0 {
		rest = rest[:end]
	}
	ps := p.member.params
	p.member.params = slices.Grow(ps, min(1+strings.Count(rest, ";"), maxParams-len(ps)))
	if p.index == nil {
		p.index = make(map[string]int, maxParams)
	}
	clear(p.index)
	for i := range ps {
		p.index[ps[i].Key] = i
	}
}

// indexParam returns the index of an extension parameter, -1 if it is new. A
// search through many would make the time of a member quadratic.
func (p *parser) indexParam(key string) int {
	if len(p.member.params) <= manyParams {
		return p.member.params.index(key)
	}
	if i, ok := p.index[key]; ok {
		return i
	}
	return -1
}

// A scanner reads bare items (RFC 9651 Section 4.2.3.1) out of a line, and holds
// the one that it has read last.
type scanner struct {
	s    string
	last bool // no line comes after s
	cut  bool // a String is open at the end of s, which is not the last line

	num   int64  // of integerKind, else 0
	str   string // of stringKind
	bytes []byte // of bytesKind
	other any    // of otherKind
}

// scanBareItem reads a text that is one bare item. The kind is absent if it is
// not.
func scanBareItem(text string) (scanner, kind) {
	s := scanner{s: text, last: true}
	kind, end := s.readBareItem(0)
	if end < len(text) {
		kind = absent
	}
	return s, kind
}

// any boxes the value of the bare item.
func (p *scanner) any(kind kind) any {
	switch kind {
	case integerKind:
		return p.num
	case stringKind:
		return p.str
	case bytesKind:
		return p.bytes
	default:
		return p.other
	}
}

// readBareItem is RFC 9651 Section 4.2.3.1. The kind is absent if the bare item
// is not well-formed.
func (p *scanner) readBareItem(i int) (kind, int) {
	if i == len(p.s) {
		return absent, i
	}
	p.num = 0
	switch p.s[i] {
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return p.readNumber(i)
	case '"':
		return p.readString(i)
	case ':':
		return p.readBytes(i)
	default:
		return p.readOther(i)
	}
}

// open is for a bare item that is open at the end of the line.
func (p *scanner) open() (kind, int) {
	p.cut = !p.last
	return absent, len(p.s)
}

// readString is RFC 9651 Section 4.2.5.
func (p *scanner) readString(start int) (kind, int) {
	i := skip(p.s, start+1, plain)
	if i < len(p.s) && p.s[i] == '"' {
		p.str = p.s[start+1 : i]
		return stringKind, i + 1
	}
	return p.readEscaped(start)
}

// readEscaped is readString for a String with escapes, or none at all.
func (p *scanner) readEscaped(start int) (kind, int) {
	s := p.s
	var b []byte
	for i := start + 1; ; i++ {
		from := i
		i = skip(s, i, plain)
		if i == len(s) {
			return p.open()
		}
		b = append(b, s[from:i]...)
		if s[i] == '"' {
			p.str = string(b)
			return stringKind, i + 1
		}
		i++
		if s[i-1] != '\\' || i == len(s) || s[i] != '"' && s[i] != '\\' {
			return absent, i
		}
		b = append(b, s[i])
	}
}

// readNumber is RFC 9651 Section 4.2.4; it leaves Decimals to httpsfv.
func (p *scanner) readNumber(start int) (kind, int) {
	s, i := p.s, start
	if s[i] == '-' {
		i++
	}
	first := i
	var n int64 // worth something if there are not too many digits
	for ; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			break
		}
		n = n*10 + int64(d)
	}
	if i < len(s) && s[i] == '.' {
		return p.delegate(start, skip(s, i+1, digit))
	}
	if i == first || i-first > maxDigits {
		return absent, i
	}
	if first > start {
		n = -n
	}
	p.num = n
	return integerKind, i
}

// readBytes is RFC 9651 Section 4.2.7, which asks parsers not to fail where
// padding is absent or pad bits are not zero.
func (p *scanner) readBytes(start int) (kind, int) {
	text := p.s[start+1:]
	n := strings.IndexByte(text, ':')
	if n < 0 {
		return absent, start
	}
	text = text[:n]
	enc, pad := base64.RawStdEncoding, 0
	for pad < n && text[n-1-pad] == '=' {
		enc = base64.StdEncoding
		pad++
	}
	b, err := enc.DecodeString(text)
	if err != nil || len(b) != (n-pad)*6/8 { // base64 skips newlines
		return absent, start
	}
	p.bytes = b
	return bytesKind, start + 1 + n + 1
}

// readOther cuts a Token, Boolean, Date or Display String out of the line.
func (p *scanner) readOther(start int) (kind, int) {
	s := p.s
	i := start + 1
	switch c := s[start]; {
	case is(c, alpha) || c == '*':
		i = skip(s, i, tokenByte)
		p.other = httpsfv.Token(s[start:i]) // nothing is left to check
		return otherKind, i
	case c == '?':
		i = min(i+1, len(s))
	case c == '@':
		if i < len(s) && s[i] == '-' {
			i++
		}
		i = skip(s, i, digit)
	case c == '%' && i < len(s) && s[i] == '"':
		n := strings.IndexByte(s[i+1:], '"')
		if n < 0 {
			return p.open()
		}
		i += 1 + n + 1
	}
	return p.delegate(start, i)
}

// delegate has httpsfv read the bare item from start to end.
func (p *scanner) delegate(start, end int) (kind, int) {
	item, err := httpsfv.UnmarshalItem([]string{p.s[start:end]})
	if err != nil {
		return absent, end
	}
	p.other = item.Value
	return otherKind, end
}
