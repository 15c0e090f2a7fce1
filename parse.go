package ratelimit

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/dunglas/httpsfv"
)

// Bounds of a field, for the parser and the writer alike: the least that
// RFC 9651 Sections 3.1 and 3.1.2 let a parser support. A parameter counts as
// often as it is written.
const (
	maxMembers = 1024
	maxParams  = 256
)

// MaxInteger is the largest Integer of a structured field, fifteen nines
// (RFC 9651 Section 3.3.1). Every count and every number of seconds in a field
// is at most this.
const MaxInteger = 999_999_999_999_999

const manyParams = 16 // beyond, a map finds them

const maxDigits = 15 // RFC 9651 Section 4.2.4

// The causes of a [FieldError]; test for them with [errors.Is].
var (
	// ErrSyntax says that the text is no structured field (RFC 9651), or that
	// a value to be written cannot be one: a character outside the printable
	// ASCII range in a String, an illegal parameter key or Token.
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
	// which has a struct field of its own, that a name and partition key
	// occur twice in one field ([Fields.Validate]), or that two parties use a
	// name for different things ([Restrict]).
	ErrDuplicate = errors.New("duplicate")
	// ErrTooMany says that a field has more than 1024 members, a member more
	// than 256 parameters, or a text which has to hold one member several.
	ErrTooMany = errors.New("too many")
)

// A FieldError says what is wrong with a field, and where. Its text never
// repeats the content of the field, which may hold a partition key.
type FieldError struct {
	Field  string // PolicyField, LimitField or the name of an older field
	Line   int    // index of the field line, from 0
	Offset int    // byte in that line where the offending token starts, the line's length at its end, -1 when not parsing
	Item   int    // index of the member over all lines, from 0; -1 where there is none
	Param  string // key of the parameter, "" if the member itself is at fault
	Err    error  // ErrSyntax, ErrType, ErrMissing, ErrRange, ErrDuplicate or ErrTooMany
}

// Error names the place and the cause. Line, offset and item count from 0, as
// the fields of e do; a parameter is named only if the specification defines
// it.
func (e *FieldError) Error() string {
	b := append([]byte("ratelimit: "), e.Field...)
	if e.Offset >= 0 {
		b = append(b, ", line "...)
		b = strconv.AppendInt(b, int64(e.Line), 10)
		b = append(b, ", offset "...)
		b = strconv.AppendInt(b, int64(e.Offset), 10)
	}
	if e.Item >= 0 {
		b = append(b, ", item "...)
		b = strconv.AppendInt(b, int64(e.Item), 10)
	}
	switch {
	case e.Param == "":
	case paramOf(e.Param) < definedParams:
		b = append(b, ", parameter "...)
		b = append(b, e.Param...)
	default:
		b = append(b, ", an extension parameter"...)
	}
	b = append(b, ": "...)
	if e.Err != nil {
		b = append(b, e.Err.Error()...)
	}
	return string(b)
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

// A param is a defined parameter. Those of RateLimit-Policy come first, those
// of RateLimit last; they share the partition key.
type param int

const (
	quotaParam param = iota
	unitParam
	windowParam
	keyParam
	remainingParam
	resetParam
	definedParams // their number

)

// A paramDef says what the specification says of a parameter.
type paramDef struct {
	key      string
	kind     kind
	min      int64 // least value of an Integer
	required bool
}

const minWindow = 1

var params = [definedParams]paramDef{
	quotaParam:     {key: quotaKey, kind: integerKind, required: true},     // draft-11 Section 3.1.1
	unitParam:      {key: unitKey, kind: stringKind},                       // 3.1.2
	windowParam:    {key: windowKey, kind: integerKind, min: minWindow},    // 3.1.3
	keyParam:       {key: partitionKey, kind: bytesKind},                   // 3.1.4, 4.1.3
	remainingParam: {key: remainingKey, kind: integerKind, required: true}, // 4.1.1
	resetParam:     {key: resetKey, kind: integerKind},                     // 4.1.2
}

// paramOf returns the parameter with a key, definedParams if there is none.
func paramOf(key string) param {
	switch key {
	case quotaKey:
		return quotaParam
	case unitKey:
		return unitParam
	case windowKey:
		return windowParam
	case partitionKey:
		return keyParam
	case remainingKey:
		return remainingParam
	case resetKey:
		return resetParam
	}
	return definedParams
}

// A fieldDef is one of the two fields, with its first and last parameter.
type fieldDef struct {
	name        string
	first, last param
}

var (
	policyField = fieldDef{PolicyField, quotaParam, keyParam}
	limitField  = fieldDef{LimitField, keyParam, resetParam}
)

func (f *fieldDef) defines(p param) bool { return f.first <= p && p <= f.last }

// ParsePolicies reads the field lines of RateLimit-Policy (draft-11 Section 3),
// as found in http.Header under its canonical key, combined as HTTP combines
// them (RFC 9110 Section 5.2). Without a line, or with a single one that is empty
// or all spaces, the result is nil and there is no error.
//
// A field is all or nothing: on error the result is nil and the error is a
// [*FieldError]. Names and Strings may share memory with the lines; partition
// keys do not.
func ParsePolicies(lines ...string) ([]Policy, error) {
	return parsePolicies(maxMembers, lines)
}

// ParseLimits reads the field lines of RateLimit (draft-11 Section 4), in the
// same way as [ParsePolicies].
func ParseLimits(lines ...string) ([]Limit, error) {
	return parseLimits(maxMembers, lines)
}

func parsePolicies(most int, lines []string) ([]Policy, error) {
	var p parser
	p.field, p.most, p.item = &policyField, most, -1
	var list []Policy
	for p.next(lines) {
		if list == nil {
			list = make([]Policy, 0, p.estimate(lines))
		}
		list = append(list, Policy{})
		p.member.policy(&list[p.item])
	}
	switch {
	case p.cut:
		list, err := parsePolicies(most, join(lines))
		return list, unjoin(err, lines)
	case p.err != nil:
		return nil, p.fieldError()
	}
	return list, nil
}

func parseLimits(most int, lines []string) ([]Limit, error) {
	var p parser
	p.field, p.most, p.item = &limitField, most, -1
	var list []Limit
	for p.next(lines) {
		if list == nil {
			list = make([]Limit, 0, p.estimate(lines))
		}
		list = append(list, Limit{})
		p.member.limit(&list[p.item])
	}
	switch {
	case p.cut:
		list, err := parseLimits(most, join(lines))
		return list, unjoin(err, lines)
	case p.err != nil:
		return nil, p.fieldError()
	}
	return list, nil
}

// estimate returns, after the first member, how many there may be, so that one
// allocation holds them. Text that is all commas cannot make it exceed what as
// many bytes of the shortest member, `"";q=1,`, would need.
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
	known  [definedParams]value
	unit   string // if known[unitParam] is a String
	key    []byte // if known[keyParam] is a Byte Sequence
	params Params
}

// A value is a defined parameter.
type value struct {
	kind kind
	off  int   // where the bare item starts, in the current line
	num  int64 // 0 if it is no Integer
}

func (v *value) seconds() Seconds { return Seconds{n: v.num, ok: v.kind == integerKind} }

func (m *member) policy(p *Policy) {
	p.Name = m.name
	p.Quota = m.known[quotaParam].num
	p.Unit = Unit(m.unit)
	p.Window = m.known[windowParam].seconds()
	p.PartitionKey = m.key
	p.Params = m.params
}

func (m *member) limit(l *Limit) {
	l.Name = m.name
	l.Remaining = m.known[remainingParam].num
	l.Reset = m.known[resetParam].seconds()
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
	field  *fieldDef
	most   int    // members
	line   int    // index of the current line
	last   bool   // it is the last one
	cut    bool   // a String is open at its end
	s      string // the current line
	i      int    // where the current member ends
	item   int    // its index, -1 before the first
	member member

	// The bare item read last.
	num   int64  // of integerKind, else 0
	str   string // of stringKind
	bytes []byte // of bytesKind
	other any    // of otherKind

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
// rules of the field upon each member.
func (p *parser) next(lines []string) bool {
	if p.item < 0 {
		if !p.begin(lines) {
			return false
		}
	} else {
		if !p.comma(lines) {
			return false
		}
		p.member = member{}
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
	m := &p.member
	m.off = p.i
	if m.off < len(p.s) && p.s[m.off] == '(' { // an Inner List
		return p.fail(m.off, "", ErrType)
	}
	var kind kind
	var i int
	if m.off < len(p.s) && p.s[m.off] == '"' {
		kind, i = p.readString(m.off)
	} else {
		kind, i = p.readBareItem(m.off)
	}
	if kind == absent {
		return p.fail(m.off, "", ErrSyntax)
	}
	m.name = p.str
	if !p.readParams(i) {
		return false
	}
	p.i = skip(p.s, p.i, ows)
	if p.i < len(p.s) && p.s[p.i] != ',' {
		return p.fail(p.i, "", ErrSyntax)
	}
	if kind != stringKind {
		return p.fail(m.off, "", ErrType)
	}
	return p.judge()
}

// judge holds the defined parameters against their definitions and reports the
// fault that comes first in the line. It is called after the last parameter,
// because a later duplicate replaces an earlier one (RFC 9651 Section 4.2.3.2).
func (p *parser) judge() bool {
	ok := true
	for i := p.field.first; i <= p.field.last; i++ {
		d, v := &params[i], &p.member.known[i]
		if v.kind == d.kind && v.num >= d.min || v.kind == absent && !d.required {
			continue
		}
		off, err := v.off, ErrRange
		switch {
		case v.kind == absent:
			off, err = p.member.off, ErrMissing
		case v.kind != d.kind:
			err = ErrType
		}
		if ok || off < p.off {
			ok = p.fail(off, d.key, err)
		}
	}
	return ok
}

// readParams is RFC 9651 Section 4.2.3.2.
func (p *parser) readParams(i int) bool {
	m, s := &p.member, p.s
	for n := 0; i < len(s) && s[i] == ';'; n++ {
		off := skip(s, i+1, sp)
		i = skipKey(s, off)
		switch {
		case i == off:
			return p.fail(off, "", ErrSyntax)
		case n == maxParams:
			return p.fail(off, "", ErrTooMany)
		}
		key := s[off:i]
		kind := otherKind
		if i < len(s) && s[i] == '=' {
			off = i + 1
			if off < len(s) && is(s[off], digit) {
				kind, i = p.readNumber(off) // as most are
			} else {
				kind, i = p.readBareItem(off)
			}
			if kind == absent {
				return p.fail(off, key, ErrSyntax)
			}
		} else {
			p.num, p.other = 0, true
		}
		if param := paramOf(key); p.field.defines(param) {
			v := &m.known[param]
			v.kind, v.off, v.num = kind, off, p.num
			switch param {
			case unitParam:
				m.unit = p.str
			case keyParam:
				m.key = p.bytes
			}
		} else {
			p.setParam(key, p.any(kind), i)
		}
	}
	p.i = i
	return true
}

// setParam adds an extension parameter, which ends at i, or replaces its value
// where it is (RFC 9651 Section 4.2.3.2).
func (p *parser) setParam(key string, value any, i int) {
	ps := p.member.params
	if ps == nil { // often it stays the only one
		p.member.params = Params{{key, value}}
		return
	}
	if at := p.indexParam(key); at >= 0 {
		ps[at].Value = value
		return
	}
	if len(ps) == manyParams {
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

// any boxes the value of an extension parameter.
func (p *parser) any(kind kind) any {
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

// skipKey is RFC 9651 Section 4.2.3.3. It moves nowhere if there is no key.
func skipKey(s string, i int) int {
	if i < len(s) && is(s[i], keyStart) {
		return skip(s, i+1, keyByte)
	}
	return i
}

func isKey(s string) bool { return s != "" && skipKey(s, 0) == len(s) }

// A class is a set of bytes that the grammar names.
type class uint8

const (
	digit     class = 1 << iota
	keyStart        // first of a key, RFC 9651 Section 3.1.2
	keyByte         // others of a key
	tokenByte       // others of a Token, Section 3.3.4
	plain           // of a String, and stands for itself there, Section 3.3.3
	alpha
	sp
	ows // RFC 9110 Section 5.6.3
)

var classes = func() (table [256]class) {
	add := func(c class, from, to byte) {
		for b := int(from); b <= int(to); b++ {
			table[b] |= c
		}
	}
	add(digit|keyByte|tokenByte, '0', '9')
	add(keyStart|keyByte|alpha|tokenByte, 'a', 'z')
	add(alpha|tokenByte, 'A', 'Z')
	for class, bytes := range map[class]string{
		keyStart:  "*",
		keyByte:   "_-.*",
		tokenByte: "!#$%&'*+-.^_`|~:/",
		sp:        " ",
		ows:       " \t",
	} {
		for i := range len(bytes) {
			add(class, bytes[i], bytes[i])
		}
	}
	add(plain, 0x20, 0x7e)
	table['"'] &^= plain
	table['\\'] &^= plain
	return table
}()

func is(b byte, c class) bool { return classes[b]&c != 0 }

// skip moves past the bytes of a class.
func skip(s string, i int, c class) int {
	for i < len(s) && is(s[i], c) {
		i++
	}
	return i
}

// readBareItem is RFC 9651 Section 4.2.3.1. The kind is absent if the bare item
// is not well-formed.
func (p *parser) readBareItem(i int) (kind, int) {
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
func (p *parser) open() (kind, int) {
	p.cut = !p.last
	return absent, len(p.s)
}

// readString is RFC 9651 Section 4.2.5.
func (p *parser) readString(start int) (kind, int) {
	i := skip(p.s, start+1, plain)
	if i < len(p.s) && p.s[i] == '"' {
		p.str = p.s[start+1 : i]
		return stringKind, i + 1
	}
	return p.readEscaped(start)
}

// readEscaped is readString for a String with escapes, or none at all.
func (p *parser) readEscaped(start int) (kind, int) {
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
func (p *parser) readNumber(start int) (kind, int) {
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
func (p *parser) readBytes(start int) (kind, int) {
	text := p.s[start+1:]
	n := strings.IndexByte(text, ':')
	if n < 0 {
		return absent, start
	}
	text = text[:n]
	enc := base64.RawStdEncoding
	if strings.HasSuffix(text, "=") {
		enc = base64.StdEncoding
	}
	b, err := enc.DecodeString(text)
	if err != nil || strings.IndexByte(text, '\n') >= 0 || strings.IndexByte(text, '\r') >= 0 { // base64 skips these
		return absent, start
	}
	p.bytes = b
	return bytesKind, start + 1 + n + 1
}

// readOther cuts a Token, Boolean, Date or Display String out of the line.
func (p *parser) readOther(start int) (kind, int) {
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
func (p *parser) delegate(start, end int) (kind, int) {
	item, err := httpsfv.UnmarshalItem([]string{p.s[start:end]})
	if err != nil {
		return absent, end
	}
	p.other = item.Value
	return otherKind, end
}
