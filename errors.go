package ratelimit

import (
	"errors"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// The causes of a [FieldError]. Test for them with [errors.Is].
var (
	ErrSyntax   = sf.ErrSyntax           // not a structured field (RFC 9651), or a value that cannot be written as one, such as a String with an accent
	ErrType     = sf.ErrType             // r="5", a Go type that is not listed at [Param], a response that is not a problem document
	ErrMissing  = errors.New("missing")  // a required parameter, or the policy that a request exceeds ([Refuse])
	ErrRange    = sf.ErrRange            // a number that is not allowed in its place, such as a window of 0
	ErrConflict = errors.New("conflict") // policies of one name that differ in unit or window ([Restrict])
	// ErrDuplicate: a key of [Params] or a name occurs twice: of a member ([Fields.Validate]),
	// in a [Dialect], or in a [Problem].
	ErrDuplicate = errors.New("duplicate")
	// ErrTooMany: a field has more than 1024 members, a member more than 256 parameters (or
	// 1024 with repeated ones), or a response more than 1024 older fields.
	ErrTooMany = errors.New("too many")
)

// A FieldError is a fault in a field, with its place. Its text never contains field content, which
// may be a partition key.
type FieldError struct {
	Field  string // PolicyField, LimitField or an older field; "" for all older fields together
	Line   int    // the index of the field line, from 0
	Offset int    // the index in the line of the first byte at fault, from 0; -1 if no text was parsed
	Item   int    // the index of the member over all lines, from 0; -1 if the fault is in no member
	Param  string // the key of the parameter, such as "q"; "" if the fault is in no parameter
	Err    error  // ErrSyntax, ErrType, ErrMissing, ErrRange, ErrDuplicate, ErrConflict or ErrTooMany
}

// Error returns the place, counted from 1, the cause, and the required form of a defined parameter.
// It does not name extension parameters, whose keys may be secret.
func (e *FieldError) Error() string {
	part, form := e.part()
	s := "ratelimit: " + text.Place(e.Field, e.Line, e.Offset, e.Item) + part + ": "
	if e.Err != nil {
		s += e.Err.Error()
	}
	if form != "" && (e.Err == ErrSyntax || e.Err == ErrType || e.Err == ErrRange) {
		s += ", it must be " + form
	}
	return s
}

// part returns the part of the member that is at fault, and its required form, "" if unknown.
func (e *FieldError) part() (part, form string) {
	if e.Item < 0 && e.Offset < 0 && e.Err == ErrSyntax && !isDialectName(e.Field) {
		return "", "the name of a field, with at most one *"
	}
	if e.Param == "" {
		if e.Item >= 0 && (e.Err == ErrType || e.Err == ErrSyntax && e.Offset < 0) {
			return ": name", draft.NameForm
		}
		return "", ""
	}
	if def := draft.FieldOf(e.Field).Find(e.Param); def != nil {
		return ": parameter " + def.Key, def.Form
	}
	return ": an extension parameter", ""
}

// Unwrap returns e.Err, for [errors.Is].
func (e *FieldError) Unwrap() error { return e.Err }

// joinFaults joins errors. It keeps the first of successive ones in the same line and member.
func joinFaults(faults []*FieldError) error {
	var errs []error
	for i, e := range faults {
		if i == 0 || e.Field != faults[i-1].Field || e.Line != faults[i-1].Line || e.Item != faults[i-1].Item {
			errs = append(errs, e)
		}
	}
	return text.JoinErrors(errs...)
}
