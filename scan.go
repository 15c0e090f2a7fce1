package ratelimit

import "strings"

// A class is a set of bytes that a grammar names.
type class uint16

const (
	digit     class = 1 << iota
	alpha           // letters
	keyStart        // first of a parameter's key, RFC 9651 Section 3.1.2
	keyByte         // others of a key
	tokenByte       // others of a Token, RFC 9651 Section 3.3.4
	nameByte        // of a field's name, RFC 9110 Section 5.6.2
	plain           // of a String, and stands for itself there, RFC 9651 Section 3.3.3
	printable       // of a String, if need be behind a backslash
	sp
	ows // RFC 9110 Section 5.6.3
)

// The punctuation of three classes.
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

func is(b byte, c class) bool { return classes[b]&c != 0 }

// skip moves past the bytes of a class.
func skip(s string, i int, c class) int {
	for i < len(s) && is(s[i], c) {
		i++
	}
	return i
}

// all reports whether s consists of bytes of a class. The empty string does.
func all(s string, c class) bool { return skip(s, 0, c) == len(s) }

// isKey reports whether s can be the key of a parameter (RFC 9651 Section
// 3.1.2).
func isKey(s string) bool { return s != "" && skipKey(s, 0) == len(s) }

// skipKey is RFC 9651 Section 4.2.3.3. It moves nowhere if there is no key.
func skipKey(s string, i int) int {
	if i < len(s) && is(s[i], keyStart) {
		return skip(s, i+1, keyByte)
	}
	return i
}

// isToken reports whether s can be the name of a field (RFC 9110 Section 5.1).
func isToken(s string) bool { return s != "" && all(s, nameByte) }

// isName reports whether s can be a String, and so the name of a policy
// (RFC 9651 Section 3.3.3).
func isName(s string) bool { return all(s, printable) }

// trim takes the spaces and tabs off both ends of s (RFC 9110 Section 5.6.3).
func trim(s string) string {
	i, j := skip(s, 0, ows), len(s)
	for j > i && is(s[j-1], ows) {
		j--
	}
	return s[i:j]
}

// cut cuts s at the first separator outside of double quotes, in which a
// backslash escapes the next byte. ok is false where a quote is never closed;
// then head is all of s.
func cut(s string, sep byte) (head, tail string, ok bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && c == sep:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", !quoted
}

// unquote returns the content of a quoted string (RFC 9110 Section 5.6.4), or s
// if it is none. Single quotes are taken off as well.
func unquote(s string) string {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '"' && s[0] != '\'' {
		return s
	}
	in := s[1 : len(s)-1]
	if s[0] == '\'' || strings.IndexByte(in, '\\') < 0 {
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
