package ratelimit

import (
	"errors"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit/internal/sf"
)

// The causes of a [FieldError]. Test for them with [errors.Is].
var (
	ErrSyntax   = errors.New("not well-formed") // no structured field (RFC 9651), or a value that cannot be one, such as a String with an accent
	ErrType     = errors.New("wrong type")      // r="5", a Go value that is not listed at [Param], a response that is no problem document
	ErrMissing  = errors.New("missing")         // of a parameter, or the policy that a request exceeds ([Refuse])
	ErrRange    = errors.New("out of range")    // of a number that is not allowed in its place, such as a window of 0
	ErrConflict = errors.New("conflict")        // policies of one name that differ in unit or window ([Restrict])
	// ErrDuplicate: a key of [Params] is there twice, or is that of a struct field; so is a
	// name and partition key in one field ([Fields.Validate]), or a name in a [Dialect] or
	// in a [Problem].
	ErrDuplicate = errors.New("duplicate")
	// ErrTooMany: a field has more than 1024 members, a member more than 256 parameters (or
	// 1024, repeated ones included), or a response more than 1024 older fields.
	ErrTooMany = errors.New("too many")
)

// itemErrors are the causes why a value is not written as a bare item.
var itemErrors = [...]error{sf.Syntax: ErrSyntax, sf.Type: ErrType, sf.Range: ErrRange}

// A FieldError says what is wrong with a field, and where. Its text never repeats the
// content of the field, which may hold a partition key.
type FieldError struct {
	Field  string // PolicyField, LimitField or an older field; "" if it is about all older fields together
	Line   int    // the index of the field line, from 0
	Offset int    // the byte of the line where the offending token starts, from 0; -1 if no text was parsed
	Item   int    // the index of the member over all lines, from 0; -1 if no member is at fault
	Param  string // the key of the parameter, such as "q"; "" if the member itself is at fault
	Err    error  // ErrSyntax, ErrType, ErrMissing, ErrRange, ErrDuplicate, ErrConflict or ErrTooMany
}

// Error names the field, the place, the cause, and the form that a defined parameter has
// to have. It counts from 1, for humans. A parameter that the specification does not
// define is not named, because its key may be secret too.
func (e *FieldError) Error() string {
	b := append([]byte("ratelimit: "), e.place()...)
	part, form := e.part()
	b = append(append(b, part...), ": "...)
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

// place returns the member, the field, the line and the byte, as far as they are known.
func (e *FieldError) place() string {
	s := e.Field
	switch {
	case e.Field == "":
		s = "fields of limits"
	case e.Item >= 0:
		s = "member " + strconv.Itoa(e.Item+1) + " of " + e.Field
	}
	if e.Offset >= 0 {
		s += ", line " + strconv.Itoa(e.Line+1) + ", byte " + strconv.Itoa(e.Offset+1)
	}
	return s
}

// part returns which part of the member is at fault, and the form that this
// part has to have. Both are "" if neither can be told.
func (e *FieldError) part() (part, form string) {
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

// Unwrap returns e.Err, for [errors.Is].
func (e *FieldError) Unwrap() error { return e.Err }

// A several is several errors as one, as by [errors.Join], but in one line, for logs.
type several []error

// joinErrors joins those errors that are not nil; it returns nil if all are.
func joinErrors(errs ...error) error {
	var all several
	for _, err := range errs {
		if more, ok := err.(several); ok {
			all = append(all, more...)
		} else if err != nil {
			all = append(all, err)
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// Error returns the texts of all errors, with semicolons between them.
func (s several) Error() string {
	text := s[0].Error()
	for _, err := range s[1:] {
		text += "; " + strings.TrimPrefix(err.Error(), "ratelimit: ")
	}
	return text
}

// Unwrap returns all errors, for [errors.Is] and [errors.As].
func (s several) Unwrap() []error { return s }

// joinFaults joins errors, one for each line or member of a field.
func joinFaults(faults []*FieldError) error {
	if len(faults) == 0 {
		return nil
	}
	type spot struct {
		field      string
		line, item int
	}
	seen := make(map[spot]bool, len(faults))
	errs := make(several, 0, len(faults))
	for _, e := range faults {
		at := spot{e.Field, e.Line, e.Item}
		if !seen[at] {
			seen[at] = true
			errs = append(errs, e)
		}
	}
	return errs
}
