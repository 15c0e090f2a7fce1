package ratelimit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"net/http"
	"strings"
)

// wire makes a header of lines, as they are on the wire.
func wire(text string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t"), ":"); ok {
			h.Add(name, strings.TrimLeft(value, " "))
		}
	}
	return h
}

// lawFields: what was read is valid but for what a legacy response does not say.
func lawFields(t testing.TB, f Fields) {
	t.Helper()
	require.LessOrEqual(t, len(f.Policies), maxMembers)
	require.LessOrEqual(t, len(f.Limits), maxMembers)
	for _, p := range f.Policies {
		require.NoError(t, p.Validate())
	}
	for _, l := range f.Limits {
		n, ok := l.Reset.Value()
		require.True(t, !ok || n >= 0)
		if l.Remaining == Unknown {
			l.Remaining = 0
		}
		require.NoError(t, l.Validate())
	}
	require.Equal(t, len(f.Policies)+len(f.Limits) == 0, f.Dialect == "")
}
