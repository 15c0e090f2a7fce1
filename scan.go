package ratelimit

import "strings"

// A class is a set of bytes that a grammar names. Classes are bits: a byte may
// belong to several, and a union of classes is a class too.
type class uint16

const (
	digit     class = 1 << iota
	alpha           // letters of either case
	keyStart        // the first byte of a parameter's key, RFC 9651 Section 3.1.2
	keyByte         // the other bytes of a key
	tokenByte       // the bytes of a Token behind the first, RFC 9651 Section 3.3.4
	nameByte        // the bytes of a field's name, RFC 9110 Section 5.6.2
	plain           // the bytes that stand for themselves in a String, RFC 9651 Section 3.3.3
	printable       // the bytes of a String, some of which need a backslash before them
	sp              // the space
	ows             // the space and the tab, RFC 9110 Section 5.6.3
)

// The punctuation in three of the classes.
const (
	keyMarks   = "_-.*"
	nameMarks  = "!#$%&'*+-.^_`|~"
	tokenMarks = nameMarks + ":/"
)

var classes = func() (table [256]class) {
	for i := range table {
		b := byte(i)
		switch {
		case '0' <= b && b <= '9':
			table[i] |= digit | keyByte | tokenByte | nameByte
		case 'a' <= b && b <= 'z':
			table[i] |= alpha | keyStart | keyByte | tokenByte | nameByte
		case 'A' <= b && b <= 'Z':
			table[i] |= alpha | tokenByte | nameByte
		}
		if ' ' <= b && b <= '~' {
			table[i] |= printable
			if b != '"' && b != '\\' {
				table[i] |= plain
			}
		}
	}
	add := func(c class, marks string) {
		for i := range len(marks) {
			table[marks[i]] |= c
		}
	}
	add(keyStart, "*")
	add(keyByte, keyMarks)
	add(tokenByte, tokenMarks)
	add(nameByte, nameMarks)
	add(sp, " ")
	add(ows, " \t")
	return table
}()

// is reports whether b belongs to class c.
func is(b byte, c class) bool { return classes[b]&c != 0 }

// skip returns the index of the first byte of s, from i on, that does not
// belong to class c: len(s) if there is none.
func skip(s string, i int, c class) int {
	for i < len(s) && is(s[i], c) {
		i++
	}
	return i
}

// all reports whether every byte of s belongs to class c. It is true for the
// empty string.
func all(s string, c class) bool { return skip(s, 0, c) == len(s) }

// isKey reports whether s can be the key of a parameter (RFC 9651
// Section 3.1.2).
func isKey(s string) bool { return s != "" && skipKey(s, 0) == len(s) }

// skipKey returns the index behind the key that begins at i, or i if no key
// begins there (RFC 9651 Section 4.2.3.3).
func skipKey(s string, i int) int {
	if i < len(s) && is(s[i], keyStart) {
		return skip(s, i, keyByte)
	}
	return i
}

// isToken reports whether s is a token, as the name of a field has to be
// (RFC 9110 Sections 5.1 and 5.6.2).
func isToken(s string) bool { return s != "" && all(s, nameByte) }

// isName reports whether s can be written as a String, and so be the name of a
// policy (RFC 9651 Section 3.3.3).
func isName(s string) bool { return all(s, printable) }

// trim removes the spaces and tabs at both ends of s (RFC 9110 Section 5.6.3).
func trim(s string) string { return trimRight(s[skip(s, 0, ows):], ows) }

// trimRight removes the bytes of class c at the end of s.
func trimRight(s string, c class) string {
	for s != "" && is(s[len(s)-1], c) {
		s = s[:len(s)-1]
	}
	return s
}

// cut cuts s at the first separator that is not between double quotes. Between
// them, a backslash escapes the next byte, except in a Display String, which begins
// with a percent sign (RFC 9651 Section 3.3.8). Without such a separator, head is
// all of s. ok is false if a quote is never closed.
func cut(s string, sep byte) (head, tail string, ok bool) {
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

// unquote returns the content of a quoted string, with its escapes resolved
// (RFC 9110 Section 5.6.4). It also removes single quotes, between which
// nothing is escaped. Any other s it returns as it is.
func unquote(s string) string {
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
