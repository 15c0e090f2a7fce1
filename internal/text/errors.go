package text

import (
	"strconv"
	"strings"
)

// A Several joins errors like [errors.Join], but its text is one line, for logs.
type Several []error

// JoinErrors joins the errors that are not nil. It returns nil if all are nil.
func JoinErrors(errs ...error) error {
	var all Several
	for _, err := range errs {
		if more, ok := err.(Several); ok {
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

// Error returns the texts, with semicolons between them.
func (s Several) Error() string {
	text := s[0].Error()
	for _, err := range s[1:] {
		text += "; " + strings.TrimPrefix(err.Error(), "ratelimit: ")
	}
	return text
}

// Unwrap returns the errors, for [errors.Is].
func (s Several) Unwrap() []error { return s }

// Place returns the member, the field, the line and the byte of a fault, as far as they are known.
// An item or an offset below 0 is unknown. The numbers in the text count from 1.
func Place(field string, line, offset, item int) string {
	s := field
	switch {
	case field == "":
		s = "fields of limits"
	case item >= 0:
		s = "member " + strconv.Itoa(item+1) + " of " + field
	}
	if offset >= 0 {
		s += ", line " + strconv.Itoa(line+1) + ", byte " + strconv.Itoa(offset+1)
	}
	return s
}
