package ratelimit

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dunglas/httpsfv"

	"github.com/httpfields/ratelimit/internal/text"
)

// Bare items (RFC 9651 Section 3.3), read and written. This file knows nothing of rate
// limits.

// MaxInteger is the largest Integer of a structured field (RFC 9651 Section 3.3.1), and
// so the largest number of quota units or seconds.
const MaxInteger = 999_999_999_999_999

const maxDigits = 15 // of an Integer, RFC 9651 Section 4.2.4

// isInteger reports whether n is from least to MaxInteger.
func isInteger(n, least int64) bool { return least <= n && n <= MaxInteger }

// A scanner reads bare items out of a line (RFC 9651 Section 4.2.3.1). It holds
// the value of the one that it has read last.
type scanner struct {
	s    string
	last bool // s is the last line of the field
	cut  bool // s ends inside a String or a Display String, and is not the last line

	num   int64  // the value of an integerKind, else 0
	str   string // the value of a stringKind
	bytes []byte // the value of a bytesKind
	other any    // the value of an otherKind
}

// scanBareItem reads a text that is one bare item and nothing else. The kind is
// absent if it is not.
func scanBareItem(item string) (scanner, itemKind) {
	s := scanner{s: item, last: true}
	kind, end := s.readBareItem(0)
	if end < len(item) {
		kind = absent
	}
	return s, kind
}

// any returns the value of the bare item read last, which is of that kind.
func (p *scanner) any(kind itemKind) any {
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

// readBareItem reads the bare item at i (RFC 9651 Section 4.2.3.1). The kind is
// absent if it is not well-formed.
func (p *scanner) readBareItem(i int) (itemKind, int) {
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

// open is the result for a bare item that has no end in this line. If another
// line follows, it may have its end there.
func (p *scanner) open() (itemKind, int) {
	p.cut = !p.last
	return absent, len(p.s)
}

// readString reads the String at start (RFC 9651 Section 4.2.5). One without escapes is
// a part of the line, and costs no allocation.
//
//	sf-string = DQUOTE *( unescaped / "\" DQUOTE / "\\" ) DQUOTE
//	unescaped = %x20-21 / %x23-5B / %x5D-7E
func (p *scanner) readString(start int) (itemKind, int) {
	i := text.Skip(p.s, start+1, text.Plain)
	if i < len(p.s) && p.s[i] == '"' {
		p.str = p.s[start+1 : i]
		return stringKind, i + 1
	}
	return p.readEscaped(start)
}

// readEscaped reads the String at start that has escapes, or is not well-formed
// (RFC 9651 Section 4.2.5).
func (p *scanner) readEscaped(start int) (itemKind, int) {
	s := p.s
	var b []byte
	for i := start + 1; ; i++ {
		from := i
		i = text.Skip(s, i, text.Plain)
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

// readNumber reads the Integer or Decimal at start (RFC 9651 Section 4.2.4). It leaves
// Decimals to httpsfv.
//
//	sf-integer = [ "-" ] 1*15DIGIT
//	sf-decimal = [ "-" ] 1*12DIGIT "." 1*3DIGIT
func (p *scanner) readNumber(start int) (itemKind, int) {
	s, i := p.s, start
	if s[i] == '-' {
		i++
	}
	first := i
	var n int64 // overflows if there are too many digits, which is found out below
	for ; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			break
		}
		n = n*10 + int64(d)
	}
	if i < len(s) && s[i] == '.' {
		return p.delegate(start, text.Skip(s, i+1, text.Digit))
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

// readBytes reads the Byte Sequence at start (RFC 9651 Section 4.2.7). As that section
// asks, it does not fail if padding is absent or pad bits are not zero.
//
//	sf-binary = ":" *( ALPHA / DIGIT / "+" / "/" / "=" ) ":"
func (p *scanner) readBytes(start int) (itemKind, int) {
	encoded := p.s[start+1:]
	n := strings.IndexByte(encoded, ':')
	if n < 0 {
		return absent, start
	}
	encoded = encoded[:n]
	enc := base64.RawStdEncoding
	if strings.HasSuffix(encoded, "=") {
		enc = base64.StdEncoding
	}
	b, err := enc.DecodeString(encoded)
	if err != nil || strings.IndexByte(encoded, '\n') >= 0 || strings.IndexByte(encoded, '\r') >= 0 { // package base64 skips line breaks
		return absent, start
	}
	p.bytes = b
	return bytesKind, start + 1 + n + 1
}

// readOther reads the Token, Boolean, Date or Display String at start (RFC 9651 Sections
// 4.2.6, 4.2.8, 4.2.9 and 4.2.10). It finds the end, and leaves all but Tokens to
// httpsfv.
//
//	sf-token         = ( ALPHA / "*" ) *( tchar / ":" / "/" )
//	sf-boolean       = "?" ( "0" / "1" )
//	sf-date          = "@" sf-integer
//	sf-displaystring = "%" DQUOTE *( unescaped / "\" / pct-encoded ) DQUOTE
func (p *scanner) readOther(start int) (itemKind, int) {
	s := p.s
	i := start + 1
	switch c := s[start]; {
	case text.Is(c, text.Alpha) || c == '*':
		i = text.Skip(s, i, text.TokenByte)
		p.other = httpsfv.Token(s[start:i]) // well-formed: every byte has been checked
		return otherKind, i
	case c == '?':
		i = min(i+1, len(s))
	case c == '@':
		if i < len(s) && s[i] == '-' {
			i++
		}
		i = text.Skip(s, i, text.Digit)
	case strings.HasPrefix(s[start:], `%"`):
		n := strings.IndexByte(s[i+1:], '"')
		if n < 0 {
			return p.open()
		}
		i += 1 + n + 1
	}
	return p.delegate(start, i)
}

// delegate lets httpsfv read the bare item between two offsets.
func (p *scanner) delegate(start, end int) (itemKind, int) {
	item, err := httpsfv.UnmarshalItem([]string{p.s[start:end]})
	if err != nil {
		return absent, end
	}
	p.other = item.Value
	return otherKind, end
}

// appendValue appends the value of an extension parameter as a bare item
// (RFC 9651 Section 4.1.3.1).
func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case int64:
		if !isInteger(v, -MaxInteger) {
			return nil, ErrRange
		}
		return strconv.AppendInt(b, v, 10), nil
	case string:
		b, ok := appendString(b, v)
		if !ok {
			return nil, ErrSyntax
		}
		return b, nil
	case []byte:
		return appendBytes(b, v), nil
	default:
		s, err := formatOther(v)
		return append(b, s...), err
	}
}

// appendString appends s as a String (RFC 9651 Section 4.1.6), and reports
// whether it can be one.
func appendString(b []byte, s string) ([]byte, bool) {
	b = append(b, '"')
	for {
		i := text.Skip(s, 0, text.Plain)
		b = append(b, s[:i]...)
		switch {
		case i == len(s):
			return append(b, '"'), true
		case s[i] != '"' && s[i] != '\\':
			return nil, false
		}
		b = append(b, '\\', s[i])
		s = s[i+1:]
	}
}

// appendInteger appends n as an Integer (RFC 9651 Section 4.1.4). Most of the
// values that are written are small Integers, and this takes half the time of
// package strconv.
func appendInteger(b []byte, n uint64) []byte {
	if n < 10 {
		return append(b, '0'+byte(n))
	}
	if n >= 100 {
		b = appendInteger(b, n/100)
		n %= 100
	}
	return append(b, '0'+byte(n/10), '0'+byte(n%10))
}

// appendBytes appends v as a Byte Sequence (RFC 9651 Section 4.1.8).
func appendBytes(b, v []byte) []byte {
	b = append(b, ':')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, ':')
}

// formatOther lets httpsfv write a bare item. It refuses the values that
// httpsfv would write wrongly, or on which it would panic.
func formatOther(v any) (string, error) {
	switch v := v.(type) {
	case bool, httpsfv.Token:
	case float64:
		if math.IsNaN(v) {
			return "", ErrRange
		}
		return formatDecimal(v)
	case time.Time:
		if !isInteger(v.Unix(), -MaxInteger) {
			return "", ErrRange
		}
	case httpsfv.DisplayString:
		if !utf8.ValidString(string(v)) {
			return "", ErrSyntax
		}
	default:
		return "", ErrType
	}
	s, err := httpsfv.Marshal(httpsfv.NewItem(v))
	if err != nil {
		return "", ErrSyntax
	}
	return s, nil
}

// formatDecimal writes v as a Decimal, rounded to thousandths, half to even
// (RFC 9651 Section 4.1.5). It rounds v itself: httpsfv multiplies by a
// thousand before it rounds, which is not exact, and writes a negative number
// that rounds to 0 as -0.0.
func formatDecimal(v float64) (string, error) {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'f', 3, 64), 64)
	if v == 0 {
		v = 0 // in place of -0, which is equal to it
	}
	s, err := httpsfv.Marshal(httpsfv.NewItem(v))
	if err != nil {
		return "", ErrRange
	}
	return s, nil
}
