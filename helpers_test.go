package ratelimit

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/stretchr/testify/require"
)

// The tables of these tests use the notation of package trial, and this one:
//
//   - A pair of fields is the values of RateLimit-Policy and RateLimit; r=unknown and q=unknown are
//     numbers that only an older response leaves out. See fieldsOf.
//   - A malformed field has a caret before the byte at fault. The fault is `member 2, r: type`.
//     See fieldCase and readFault.
//   - Policies and limits in one line have a bar between them. See pairOf.
//   - A request that passes Middlewares is a scene. See readScene.
//   - A finding is `rule level field item`. See Finding.summary.
//   - A limit of an older response is `name unit: remaining/quota w=window t=reset`, with a dash
//     for an absent number. See vendorLimit.
//   - A question mark after a dialect means that a unit was guessed. See legacyCase.
//   - Faults of a response are the names of the fields, joined by a comma. See faultsOf.

// fieldsOf makes fields from the values of two fields.
func fieldsOf(t testing.TB, policies, limits string) Fields {
	t.Helper()
	const unknown int64 = 123456789012345
	mark := strconv.FormatInt(unknown, 10)
	f, err := Parse(http.Header{
		draft.PolicyKey: {strings.ReplaceAll(policies, "q=unknown", "q="+mark)},
		draft.LimitKey:  {strings.ReplaceAll(limits, "r=unknown", "r="+mark)},
	})
	require.NoError(t, err)
	for i := range f.Policies {
		if f.Policies[i].Quota == unknown {
			f.Policies[i].Quota = Unknown
		}
	}
	for i := range f.Limits {
		if f.Limits[i].Remaining == unknown {
			f.Limits[i].Remaining = Unknown
		}
	}
	return f
}

// faultsOf returns the names of the fields in an error.
func faultsOf(t testing.TB, err error) string {
	t.Helper()
	var names []string
	for _, e := range requireFieldErrors(t, err) {
		names = append(names, e.Field)
	}
	return strings.Join(names, ", ")
}

// requireFieldErrors returns the errors that an error joins, or nil.
func requireFieldErrors(t testing.TB, err error) (list []*FieldError) {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "%T", err)
	for _, err := range joined.Unwrap() {
		list = append(list, requireFieldError(t, err))
	}
	return list
}

func requireFieldError(t testing.TB, err error) *FieldError {
	t.Helper()
	var e *FieldError
	require.True(t, errors.As(err, &e), "%T", err)
	return e
}

// mustDialect returns a dialect with valid fields.
func mustDialect(name string, fields ...DialectField) *Dialect {
	d, err := NewDialect(name, fields...)
	if err != nil {
		panic(err)
	}
	return d
}

// membersOf returns a list of a given length. Each member has its own number.
func membersOf(size int, format string) string {
	b := make([]byte, 0, size+len(format))
	for i := 1; len(b) < size; i++ {
		b = fmt.Appendf(b, format, i)
	}
	return string(b)
}
