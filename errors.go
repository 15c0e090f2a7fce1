package ratelimit

import (
	"errors"
	"strconv"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// The causes of a [FieldError]. Test for them with [errors.Is].
var (
	ErrSyntax   = sf.ErrSyntax           // not a structured field (RFC 9651), or a value that cannot be written as one, such as a String with an accent
	ErrType     = sf.ErrType             // r="5", a Go type that is not listed at [Param], a response that is not a problem document
	ErrMissing  = errors.New("missing")  // a required parameter, or the policy that a request exceeds (announce.Refuse)
	ErrRange    = sf.ErrRange            // a number that is not allowed in its place, such as a window of 0
	ErrConflict = errors.New("conflict") // policies of one name that differ in unit or window ([Restrict])
	// ErrDuplicate: a key of [Params] occurs twice, or a name does: of members ([Fields.Validate]),
	// of fields in a [Dialect], or of members of a [Problem].
	ErrDuplicate = errors.New("duplicate")
	// ErrTooMany: a field has more than 1024 members, or a member has more than 256 parameters (or
	// 1024 with repeated ones). A response with more than 1024 older fields is one too.
	ErrTooMany = errors.New("too many")
)

// A FieldError is a fault in a field, with its place. Its text never contains field content,
// because that may be a partition key.
type FieldError struct {
	Field  string // PolicyField, LimitField or an older field; "" for all older fields together
	Line   int    // the index of the field line, from 0; if Offset is -1, the index of an extension parameter in Params
	Offset int    // the index in the line where the token at fault begins, from 0; -1 if no text was parsed
	Item   int    // the index of the member over all lines, from 0; -1 if the fault is in no member
	Param  string // the key of the parameter, such as "q"; "" if the fault is in no parameter
	Err    error  // ErrSyntax, ErrType, ErrMissing, ErrRange, ErrDuplicate, ErrConflict or ErrTooMany
}

// Error returns the place (counted from 1), the cause, and the way out if there is one. It does not
// name extension parameters, because their keys may be secret.
func (e *FieldError) Error() string {
	s := "ratelimit: " + text.Place(e.Field, e.Line, e.Offset, e.Item) + e.part() + ": "
	if e.Err != nil {
		s += e.Err.Error()
	}
	if remedy := e.remedy(); remedy != "" {
		s += ", " + remedy
	}
	return s
}

// part returns the part of the member that is at fault, or "".
func (e *FieldError) part() string {
	switch {
	case e.Param == "" && e.isName():
		return ": name"
	case e.Param == "":
		return ""
	case e.defined() != nil:
		return ": parameter " + e.Param
	case e.Offset < 0:
		return ": extension parameter " + strconv.Itoa(e.Line+1)
	}
	return ": an extension parameter"
}

// isName reports whether the name of a member is at fault.
func (e *FieldError) isName() bool {
	return e.Item >= 0 && (e.Err == ErrType || e.Err == ErrSyntax && e.Offset < 0)
}

// defined returns the definition of the parameter that is at fault, or nil.
func (e *FieldError) defined() *draft.Param { return draft.FieldOf(e.Field).Find(e.Param) }

// remedy returns what to write instead, or "" if the cause makes it clear.
func (e *FieldError) remedy() string {
	switch {
	case e.Err == ErrConflict && e.Param != "":
		return "upstream has a policy of this name with another " + e.Param + ": give one of them another name"
	case e.Err == ErrConflict:
		return "a limit would belong to a policy of the other side: give one of them another name"
	case e.Err == ErrSyntax || e.Err == ErrType || e.Err == ErrRange:
		return e.form()
	}
	return ""
}

// form returns what a malformed or invalid part must be, or "" if the cause makes it clear.
func (e *FieldError) form() string {
	invalid := e.Offset < 0 // a value of Go, not a part of a field line
	switch def := e.defined(); {
	case def != nil:
		return "it must be " + def.Form
	case e.Param == "" && e.isName():
		return "it must be " + draft.NameForm
	case e.Param == "" && e.Item < 0 && invalid && e.Err == ErrSyntax && !isDialectName(e.Field):
		return "it must be the name of a field, with at most one *"
	case e.Param != "" && invalid && e.Err == ErrType:
		return "it must be an int64, float64, string, []byte, bool or time.Time, or a Token or DisplayString of httpsfv"
	}
	return ""
}

// Unwrap returns e.Err, for [errors.Is].
func (e *FieldError) Unwrap() error { return e.Err }

// joinFaults joins errors. It keeps only the first of successive faults in the same line and
// member.
func joinFaults(faults []*FieldError) error {
	var errs []error
	for i, e := range faults {
		if i == 0 || e.Field != faults[i-1].Field || e.Line != faults[i-1].Line || e.Item != faults[i-1].Item {
			errs = append(errs, e)
		}
	}
	return text.JoinErrors(errs...)
}
