package ratelimit

import (
	"encoding/base64"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dunglas/httpsfv"
)

// AppendPolicies appends the field value of RateLimit-Policy (draft-11 Section
// 3) to b: the parameters in the order q, qu, w, pk and then as in Params, the
// members joined by ", ". Without policies it appends nothing.
//
// On error, a [*FieldError] about the first policy that [Policy.Validate]
// refuses, it returns b as it was.
func AppendPolicies(b []byte, policies ...Policy) ([]byte, error) {
	return appendList(b, PolicyField, policies)
}

// AppendLimits appends the field value of RateLimit (draft-11 Section 4) to b:
// the parameters in the order r, t, pk and then as in Params. For the rest it
// is as [AppendPolicies].
func AppendLimits(b []byte, limits ...Limit) ([]byte, error) {
	return appendList(b, LimitField, limits)
}

// A writer is a member that can be written.
type writer[T any] interface {
	*T
	// append appends the member, or says which parameter is at fault and why.
	append(b []byte) (out []byte, param string, err error)
}

// appendList is RFC 9651 Section 4.1.1.
func appendList[T any, W writer[T]](b []byte, field string, list []T) ([]byte, error) {
	if len(list) > maxMembers {
		return b, &FieldError{Field: field, Offset: -1, Item: maxMembers, Err: ErrTooMany}
	}
	out := b
	for i := range list {
		if i > 0 {
			out = append(out, ", "...)
		}
		var param string
		var err error
		out, param, err = W(&list[i]).append(out)
		if err != nil {
			return b, &FieldError{Field: field, Offset: -1, Item: i, Param: param, Err: err}
		}
	}
	return out, nil
}

// FormatPolicies returns what [AppendPolicies] appends, "" on error.
func FormatPolicies(policies ...Policy) (string, error) {
	b, err := AppendPolicies(nil, policies...)
	return string(b), err
}

// FormatLimits returns what [AppendLimits] appends, "" on error.
func FormatLimits(limits ...Limit) (string, error) {
	b, err := AppendLimits(nil, limits...)
	return string(b), err
}

// The keys under which http.Header holds the two fields.
const (
	policyKey = "Ratelimit-Policy"
	limitKey  = "Ratelimit"
)

var errNilHeader = errors.New("ratelimit: nil http.Header")

// SetPolicies replaces the field RateLimit-Policy of h by one line, or deletes
// it if there are no policies. On error, that of [AppendPolicies], h is as it
// was. Writing to a nil h is an error too.
func SetPolicies(h http.Header, policies ...Policy) error {
	s, err := FormatPolicies(policies...)
	if err != nil {
		return err
	}
	return setLine(h, policyKey, s)
}

// SetLimits replaces the field RateLimit of h by one line, or deletes it if
// there are no limits. For the rest it is as [SetPolicies].
func SetLimits(h http.Header, limits ...Limit) error {
	s, err := FormatLimits(limits...)
	if err != nil {
		return err
	}
	return setLine(h, limitKey, s)
}

// AddPolicies adds one more line to the field RateLimit-Policy of h, as a
// second middleware does; the lines together are one List (draft-11 Section
// 3). Without policies it adds nothing. What is there already is not looked at:
// a malformed line spoils the new one. On error, that of [AppendPolicies], h is
// as it was. Writing to a nil h is an error too.
func AddPolicies(h http.Header, policies ...Policy) error {
	s, err := FormatPolicies(policies...)
	if err != nil {
		return err
	}
	return addLine(h, policyKey, s)
}

// AddLimits adds one more line to the field RateLimit of h. For the rest it is
// as [AddPolicies].
func AddLimits(h http.Header, limits ...Limit) error {
	s, err := FormatLimits(limits...)
	if err != nil {
		return err
	}
	return addLine(h, limitKey, s)
}

func setLine(h http.Header, key, line string) error {
	switch {
	case line == "":
		delete(h, key)
	case h == nil:
		return errNilHeader
	default:
		h[key] = []string{line}
	}
	return nil
}

func addLine(h http.Header, key, line string) error {
	if line == "" {
		return nil
	}
	old := h[key]
	if len(old) == 0 || len(old) == 1 && strings.Trim(old[0], " ") == "" {
		return setLine(h, key, line) // a blank line before another would spoil the List
	}
	h[key] = append(old, line)
	return nil
}

func (p *Policy) append(b []byte) ([]byte, string, error) {
	b, ok := appendString(b, p.Name)
	if !ok {
		return nil, "", ErrSyntax
	}
	if !isInteger(p.Quota, 0) {
		return nil, quotaKey, ErrRange
	}
	b = append(b, ";"+quotaKey+"="...)
	b = appendInteger(b, uint64(p.Quota))
	written := 1
	if p.Unit != "" {
		b = append(b, ";"+unitKey+"="...)
		if b, ok = appendString(b, string(p.Unit)); !ok {
			return nil, unitKey, ErrSyntax
		}
		written++
	}
	if p.Window.ok {
		if !isInteger(p.Window.n, minWindow) {
			return nil, windowKey, ErrRange
		}
		b = append(b, ";"+windowKey+"="...)
		b = appendInteger(b, uint64(p.Window.n))
		written++
	}
	if p.PartitionKey != nil {
		b = append(b, ";"+partitionKey+"="...)
		b = appendBytes(b, p.PartitionKey)
		written++
	}
	if len(p.Params) == 0 {
		return b, "", nil
	}
	return p.Params.append(b, &policyField, written)
}

func (l *Limit) append(b []byte) ([]byte, string, error) {
	b, ok := appendString(b, l.Name)
	if !ok {
		return nil, "", ErrSyntax
	}
	if !isInteger(l.Remaining, 0) {
		return nil, remainingKey, ErrRange
	}
	b = append(b, ";"+remainingKey+"="...)
	b = appendInteger(b, uint64(l.Remaining))
	written := 1
	if l.Reset.ok {
		if !isInteger(l.Reset.n, 0) {
			return nil, resetKey, ErrRange
		}
		b = append(b, ";"+resetKey+"="...)
		b = appendInteger(b, uint64(l.Reset.n))
		written++
	}
	if l.PartitionKey != nil {
		b = append(b, ";"+partitionKey+"="...)
		b = appendBytes(b, l.PartitionKey)
		written++
	}
	if len(l.Params) == 0 {
		return b, "", nil
	}
	return l.Params.append(b, &limitField, written)
}

// append appends the parameters that the field does not define to a member
// where some have been written: RFC 9651 Section 4.1.1.2.
func (ps Params) append(b []byte, field *fieldDef, written int) ([]byte, string, error) {
	if written+len(ps) > maxParams {
		return nil, "", ErrTooMany
	}
	for i := range ps {
		p := &ps[i]
		switch {
		case !isKey(p.Key):
			return nil, p.Key, ErrSyntax
		case field.defines(paramOf(p.Key)) || ps[:i].index(p.Key) >= 0:
			return nil, p.Key, ErrDuplicate
		}
		b = append(b, ';')
		b = append(b, p.Key...)
		if p.Value == true {
			continue
		}
		var err error
		if b, err = appendValue(append(b, '='), p.Value); err != nil {
			return nil, p.Key, err
		}
	}
	return b, "", nil
}

// appendValue is RFC 9651 Section 4.1.3.1.
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

// appendString is RFC 9651 Section 4.1.6. It reports whether s can be a String.
func appendString(b []byte, s string) ([]byte, bool) {
	b = append(b, '"')
	for {
		i := skip(s, 0, plain)
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

// appendInteger is RFC 9651 Section 4.1.4 without a sign. Integers are most of
// what is written, and this takes half the time of package strconv.
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

// appendBytes is RFC 9651 Section 4.1.8.
func appendBytes(b, v []byte) []byte {
	b = append(b, ':')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, ':')
}

func isInteger(n, least int64) bool { return least <= n && n <= MaxInteger }

// formatOther has httpsfv write a bare item, and refuses what it would write
// wrongly or panic upon.
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

// formatDecimal rounds v itself, half to even (RFC 9651 Section 4.1.5), because
// httpsfv first multiplies by a thousand, which is not exact, and writes what
// rounds to zero from below as -0.0.
func formatDecimal(v float64) (string, error) {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'f', 3, 64), 64)
	if v == 0 {
		v = 0 // not -0
	}
	s, err := httpsfv.Marshal(httpsfv.NewItem(v))
	if err != nil {
		return "", ErrRange
	}
	return s, nil
}
