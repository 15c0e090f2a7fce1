// Package sf reads and writes the bare items of structured fields (RFC 9651 Section 3.3).
// It leaves the rare types to httpsfv.
package sf

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dunglas/httpsfv"

	"github.com/httpfields/ratelimit/internal/text"
)

// The reasons why a value cannot be written. Package ratelimit exports them.
var (
	ErrSyntax = errors.New("not well-formed") // not a valid item of its type, such as a String with an accent
	ErrType   = errors.New("wrong type")      // a type that no item has
	ErrRange  = errors.New("out of range")    // a number or a Date that is too large
)

// A Kind is the type of a bare item (RFC 9651 Section 3.3).
type Kind uint8

const (
	None Kind = iota // there is no bare item, or it is not well-formed
	Integer
	String
	Bytes // a Byte Sequence
	Other // a Decimal, Token, Boolean, Date or Display String, which httpsfv reads
)

const maxDigits = 15 // the largest number of digits in an Integer, RFC 9651 Section 4.2.4

// IsInteger reports whether n is from least to the largest Integer.
func IsInteger(n, least int64) bool { return least <= n && n <= text.MaxInteger }

// A Scanner reads bare items in a text (RFC 9651 Section 4.2.3.1). It has the value of the last
// item.
type Scanner struct {
	Text   string
	Int    int64  // the value of an Integer, else 0
	String string // the value of a String
	Bytes  []byte // the value of a Byte Sequence
	Other  any    // any other value
}

// Scan reads a text that is one bare item. The kind is None if it is not.
func Scan(item string) (Scanner, Kind) {
	s := Scanner{Text: item}
	kind, end := s.Read(0)
	if end < len(item) {
		kind = None
	}
	return s, kind
}

// Value returns the value of the last bare item, which is of that kind.
func (s *Scanner) Value(kind Kind) any {
	switch kind {
	case Integer:
		return s.Int
	case String:
		return s.String
	case Bytes:
		return s.Bytes
	}
	return s.Other
}

// Read reads the bare item at i (RFC 9651 Section 4.2.3.1), and returns the offset after it.
// The kind is None if it is not well-formed.
func (s *Scanner) Read(i int) (Kind, int) {
	if i == len(s.Text) {
		return None, i
	}
	s.Int = 0
	switch s.Text[i] {
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.readNumber(i)
	case '"':
		return s.readString(i)
	case ':':
		return s.readBytes(i)
	}
	return s.readOther(i)
}

// readString reads the String at start (RFC 9651 Section 4.2.5). A String without escapes is
// a part of the text, and needs no allocation. httpsfv reads all others.
//
//	sf-string = DQUOTE *( unescaped / "\" DQUOTE / "\\" ) DQUOTE
//	unescaped = %x20-21 / %x23-5B / %x5D-7E
func (s *Scanner) readString(start int) (Kind, int) {
	i := text.Past(s.Text, start+1, text.Plain)
	if i < len(s.Text) && s.Text[i] == '"' {
		s.String = s.Text[start+1 : i]
		return String, i + 1
	}
	for i < len(s.Text) && s.Text[i] == '\\' {
		i = text.Past(s.Text, min(i+2, len(s.Text)), text.Plain)
	}
	kind, end := s.delegate(start, min(i+1, len(s.Text)))
	if kind == Other {
		kind, s.String = String, s.Other.(string)
	}
	return kind, end
}

// readNumber reads the Integer or Decimal at start (RFC 9651 Section 4.2.4). It leaves
// Decimals to httpsfv.
//
//	sf-integer = [ "-" ] 1*15DIGIT
//	sf-decimal = [ "-" ] 1*12DIGIT "." 1*3DIGIT
func (s *Scanner) readNumber(start int) (Kind, int) {
	line, i := s.Text, start
	if line[i] == '-' {
		i++
	}
	first := i
	var n int64 // overflows if there are too many digits, which is checked below
	for ; i < len(line); i++ {
		d := line[i] - '0'
		if d > 9 {
			break
		}
		n = n*10 + int64(d)
	}
	if i < len(line) && line[i] == '.' {
		return s.delegate(start, text.Past(line, i+1, text.Digit))
	}
	if i == first || i-first > maxDigits {
		return None, i
	}
	if first > start {
		n = -n
	}
	s.Int = n
	return Integer, i
}

// readBytes reads the Byte Sequence at start. As RFC 9651 Section 4.2.7 recommends, it
// accepts absent padding and pad bits that are not zero.
//
//	sf-binary = ":" *( ALPHA / DIGIT / "+" / "/" / "=" ) ":"
func (s *Scanner) readBytes(start int) (Kind, int) {
	encoded := s.Text[start+1:]
	n := strings.IndexByte(encoded, ':')
	if n < 0 {
		return None, start
	}
	encoded = encoded[:n]
	enc := base64.RawStdEncoding
	if strings.HasSuffix(encoded, "=") {
		enc = base64.StdEncoding
	}
	b, err := enc.DecodeString(encoded)
	if err != nil || strings.IndexByte(encoded, '\n') >= 0 || strings.IndexByte(encoded, '\r') >= 0 { // package base64 skips line breaks
		return None, start
	}
	s.Bytes = b
	return Bytes, start + 1 + n + 1
}

// readOther reads the Token, Boolean, Date or Display String at start (RFC 9651 Sections
// 4.2.6 and 4.2.8 to 4.2.10). It finds the end, and leaves all but Tokens to httpsfv.
//
//	sf-token         = ( ALPHA / "*" ) *( tchar / ":" / "/" )
//	sf-boolean       = "?" ( "0" / "1" )
//	sf-date          = "@" sf-integer
//	sf-displaystring = "%" DQUOTE *( unescaped / "\" / pct-encoded ) DQUOTE
func (s *Scanner) readOther(start int) (Kind, int) {
	line := s.Text
	i := start + 1
	switch c := line[start]; {
	case text.Is(c, text.Alpha) || c == '*':
		i = text.Past(line, i, text.TokenByte)
		s.Other = httpsfv.Token(line[start:i]) // well-formed: every byte has been checked
		return Other, i
	case c == '?':
		i = min(i+1, len(line))
	case c == '@':
		if i < len(line) && line[i] == '-' {
			i++
		}
		i = text.Past(line, i, text.Digit)
	case strings.HasPrefix(line[start:], `%"`):
		n := strings.IndexByte(line[i+1:], '"')
		if n < 0 {
			return None, i
		}
		i += 1 + n + 1
	}
	return s.delegate(start, i)
}

// delegate lets httpsfv read the bare item between two offsets.
func (s *Scanner) delegate(start, end int) (Kind, int) {
	item, err := httpsfv.UnmarshalItem([]string{s.Text[start:end]})
	if err != nil {
		return None, end
	}
	s.Other = item.Value
	return Other, end
}

// AppendValue appends a value as a bare item (RFC 9651 Section 4.1.3.1). On an error the result is
// nil. httpsfv writes the rare types. Values that it would write wrongly, or panic for, are errors.
func AppendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case int64:
		if !IsInteger(v, -text.MaxInteger) {
			return nil, ErrRange
		}
		return strconv.AppendInt(b, v, 10), nil
	case float64:
		return appendDecimal(b, v)
	case string, []byte, bool, httpsfv.Token:
	case time.Time:
		if !IsInteger(v.Unix(), -text.MaxInteger) {
			return nil, ErrRange
		}
	case httpsfv.DisplayString:
		if !utf8.ValidString(string(v)) {
			return nil, ErrSyntax
		}
	default:
		return nil, ErrType
	}
	s, err := httpsfv.Marshal(httpsfv.NewItem(v))
	if err != nil {
		return nil, ErrSyntax
	}
	return append(b, s...), nil
}

// AppendString appends s as a String (RFC 9651 Section 4.1.6), and reports whether it can be one.
func AppendString(b []byte, s string) ([]byte, bool) {
	b = append(b, '"')
	for {
		i := text.Past(s, 0, text.Plain)
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

// AppendBytes appends v as a Byte Sequence (RFC 9651 Section 4.1.8).
func AppendBytes(b, v []byte) []byte {
	b = append(b, ':')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, ':')
}

// appendDecimal appends v as a Decimal, rounded to thousandths, half to even (RFC 9651 Section
// 4.1.5). Unlike this function, httpsfv rounds inexactly, and writes a negative number that rounds
// to 0 as -0.0.
func appendDecimal(b []byte, v float64) ([]byte, error) {
	s := strconv.FormatFloat(v, 'f', 3, 64)
	whole, thousandths, finite := strings.Cut(s, ".")
	if !finite || len(strings.TrimPrefix(whole, "-")) > 12 {
		return nil, ErrRange
	}
	if s == "-0.000" {
		whole = "0"
	}
	b = append(append(b, whole...), '.', thousandths[0])
	return append(b, strings.TrimRight(thousandths[1:], "0")...), nil
}
