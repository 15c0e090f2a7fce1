package ratelimit

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var formatNames = map[ResetFormat]string{
	ResetGuess:       "by its size",
	ResetDelta:       "seconds",
	ResetDeltaMillis: "milliseconds",
	ResetUnix:        "Unix seconds",
	ResetUnixMillis:  "Unix milliseconds",
	ResetDate:        "date",
	ResetDuration:    "duration",
}

// dialectTable is the README's table of what is read and written.
func dialectTable() string {
	var b strings.Builder
	b.WriteString("| dialect | fields | reset | written |\n|---|---|---|---|\n")
	for _, d := range Dialects() {
		var names []string
		for _, name := range d.columns() {
			if name != "" {
				names = append(names, "`"+name+"`")
			}
		}
		reset, written := "", ""
		if d.Reset != "" {
			reset = formatNames[d.Format]
		}
		if writes(d) {
			written = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, strings.Join(names, " "), reset, written)
	}
	return b.String()
}

// writes reports whether a dialect can be written at all.
func writes(d Dialect) bool {
	f := Fields{
		Policies: []Policy{{Name: "minute", Quota: 10, Window: SecondsOf(60)}},
		Limits:   []Limit{{Name: "minute", Remaining: 5, Reset: SecondsOf(30)}},
	}
	return SetLegacy(http.Header{}, d, f, time.Unix(1700000000, 0)) == nil
}

// checkSection fails when the part of a document between <!-- name --> and
// <!-- /name --> is not what it should be: go test -update writes it anew.
func checkSection(t testing.TB, file, name, want string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, "%s has no %q", file, begin)
	got, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no %q", file, end)
	if *update {
		got = want
		require.NoError(t, os.WriteFile(file, []byte(before+begin+want+end+after), 0o644))
	}
	require.True(t, want == got, "%s: %q is out of date", file, name)
}

// The README's table is that of Dialects.
func TestReadme(t *testing.T) { checkSection(t, "README.md", "dialects", dialectTable()) }
