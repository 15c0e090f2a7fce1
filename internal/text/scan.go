// Package text reads tokens, numbers, times and spans of time from text. It knows no header field.
package text

import "strings"

// A Class is a set of bytes that a grammar names. A union of classes is a class too.
type Class uint16

const (
	Digit     Class = 1 << iota
	Alpha           // letters of either case
	keyStart        // the first byte of a parameter's key, RFC 9651 Section 3.1.2
	keyByte         // the other bytes of a key
	TokenByte       // the bytes of a Token after the first, RFC 9651 Section 3.3.4
	nameByte        // the bytes of a field's name, RFC 9110 Section 5.6.2
	Plain           // the bytes that need no escape in a String, RFC 9651 Section 3.3.3
	printable       // the bytes of a String, including the two that need a backslash
	Space           // the space
	OWS             // the space and the tab, RFC 9110 Section 5.6.3
)

var classes = func() (table [256]Class) {
	for _, set := range [...]struct {
		bytes   string
		classes Class
	}{
		{"0123456789", Digit | keyByte | TokenByte | nameByte},
		{"abcdefghijklmnopqrstuvwxyz", Alpha | keyStart | keyByte | TokenByte | nameByte},
		{"ABCDEFGHIJKLMNOPQRSTUVWXYZ", Alpha | TokenByte | nameByte},
		{"!#$%&'*+-.^_`|~", TokenByte | nameByte},
		{":/", TokenByte},
		{"*", keyStart},
		{"_-.*", keyByte},
		{" ", Space},
		{" \t", OWS},
	} {
		for i := range len(set.bytes) {
			table[set.bytes[i]] |= set.classes
		}
	}
	for b := ' '; b <= '~'; b++ {
		table[b] |= printable
		if b != '"' && b != '\\' {
			table[b] |= Plain
		}
	}
	return table
}()

// Is reports whether b belongs to class c.
func Is(b byte, c Class) bool { return classes[b]&c != 0 }

// Past returns the index of the first byte of s, from i on, that does not belong to class c,
// or len(s).
func Past(s string, i int, c Class) int {
	for i < len(s) && Is(s[i], c) {
		i++
	}
	return i
}

// All reports whether every byte of s belongs to class c. It is true for "".
func All(s string, c Class) bool { return Past(s, 0, c) == len(s) }

// IsKey reports whether s can be the key of a parameter (RFC 9651 Section 3.1.2).
func IsKey(s string) bool { return s != "" && PastKey(s, 0) == len(s) }

// PastKey returns the index after the key at i, or i if there is none (RFC 9651 Section 4.2.3.3).
func PastKey(s string, i int) int {
	if i < len(s) && Is(s[i], keyStart) {
		return Past(s, i, keyByte)
	}
	return i
}

// IsToken reports whether s is a token, such as the name of a field (RFC 9110 Section 5.6.2).
func IsToken(s string) bool { return s != "" && All(s, nameByte) }

// IsName reports whether s can be written as a String (RFC 9651 Section 3.3.3), as names are.
func IsName(s string) bool { return All(s, printable) }

// Trim removes the spaces and tabs at both ends of s (RFC 9110 Section 5.6.3).
func Trim(s string) string { return TrimRight(s[Past(s, 0, OWS):], OWS) }

// TrimRight removes the bytes of class c at the end of s.
func TrimRight(s string, c Class) string {
	for s != "" && Is(s[len(s)-1], c) {
		s = s[:len(s)-1]
	}
	return s
}

// Cut cuts s at the first separator that is not between double quotes. If there is none, head
// is all of s, and ok is false if a quote is never closed. Between quotes a backslash escapes
// the next byte, except in a Display String, which begins with % (RFC 9651 Section 3.3.8).
func Cut(s string, sep byte) (head, tail string, ok bool) {
	quoted, escapes := false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
			escapes = quoted && (i == 0 || s[i-1] != '%')
		case escapes && c == '\\':
			i++
		case !quoted && c == sep:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", !quoted
}

// Unquote returns the content of a quoted string (RFC 9110 Section 5.6.4), or the text between
// single quotes, which has no escapes. It returns any other s unchanged.
func Unquote(s string) string {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '"' && s[0] != '\'' {
		return s
	}
	in := s[1 : len(s)-1]
	if s[0] == '\'' || !strings.Contains(in, `\`) {
		return in
	}
	b := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		if in[i] == '\\' && i+1 < len(in) {
			i++
		}
		b = append(b, in[i])
	}
	return string(b)
}

// FirstLine returns the first line that is not blank, or "".
func FirstLine(lines []string) string {
	for _, line := range lines {
		if line = Trim(line); line != "" {
			return line
		}
	}
	return ""
}
