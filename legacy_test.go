package ratelimit

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// The responses of the tables arrive at two moments, half a second after a full minute: in
// 1994, when Unix seconds had one digit less, and in 2026.
var (
	then = time.Date(1994, 11, 15, 8, 12, 0, 5e8, time.UTC)
	late = time.Date(2026, 11, 21, 3, 0, 0, 5e8, time.UTC)
)

// eachClock runs a test with both clocks.
func eachClock(t *testing.T, name, text string, test func(t *testing.T, text string, now time.Time)) {
	t.Helper()
	for _, now := range []time.Time{then, late} {
		t.Run(name+"/"+strconv.Itoa(now.Year()), func(t *testing.T) { test(t, trial.Spell(text, now), now) })
	}
}

// lawFields checks that the result is valid, except for numbers that an older response leaves
// out.
func lawFields(t testing.TB, f Fields) {
	t.Helper()
	require.LessOrEqual(t, len(f.Policies), maxMembers)
	require.LessOrEqual(t, len(f.Limits), maxMembers)
	for _, p := range f.Policies {
		if p.Quota == Unknown {
			p.Quota = 0
		}
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

// lawSpelling is law 10: the order of the keys and the space around values do not matter, and
// reading changes nothing.
func lawSpelling(t testing.TB, h http.Header, o LegacyOptions, want Fields) {
	t.Helper()
	spaced := make(http.Header, len(h))
	for key, lines := range h {
		for _, line := range lines {
			spaced[key] = append(spaced[key], "  "+line+" ")
		}
	}
	for range 3 { // the order of a map changes
		got, _ := ParseAny(spaced, o)
		require.Equal(t, want, got)
	}
	got, _ := ParseAny(h, o)
	require.Equal(t, want, got)
}

// A legacyCase is a response, its limits in the form of vendorLimit, and the names of the
// malformed fields. A question mark after the dialect marks a guess.
type legacyCase struct {
	name    string
	wire    string
	dialect string
	want    string
	wantErr string
}

func readBlocks(table string) []trial.Block {
	return trial.BlocksOf("testdata/older/" + table + ".txt")
}

// readTable reads cases: the fields, the dialect after an equals sign, the limits, and the
// malformed fields after an exclamation mark.
func readTable(table string) (cases []legacyCase) {
	for _, b := range readBlocks(table) {
		wire, said := b.Cut(b.Text, "\n=")
		dialect, rest := b.Cut(said, "\n")
		rest, faults, _ := strings.Cut("\n"+rest, "\n! ")
		limits := strings.ReplaceAll(strings.TrimSpace(rest), "\n", " | ")
		cases = append(cases, legacyCase{b.Name, wire, strings.TrimSpace(dialect), limits, strings.TrimSpace(faults)})
	}
	return cases
}

// olderTables are the tables of testdata/older with cases of this form.
var olderTables = []string{
	"generations", // the syntax of the drafts of the specification
	"edges",       // syntax that only the grammar of drafts 00 and 01 allows, or no grammar
	"families",    // servers' variants of the drafts
	"units",       // what decides the unit of a time, and when it is a guess
	"policies",    // which policy a fact belongs to
	"clocks",      // a Retry-After never decides the unit of a reset, because two such numbers agree by chance
	"lines",       // if a field has several numbers, because a proxy adds its own, the strictest counts
	"apart",       // two unrelated families are two limits, and never complete each other
	"spellings",   // general forms that no case of testdata/vendors has
	"generality",  // spellings of no known vendor, which only the grammar can read
	"counts",      // numbers of units
	"shapes",      // values with more than one number
	"shares",      // parts of a quota, and words for a status
	"names",       // names and values that earlier versions misread
	"mistakes",    // readings that adapters easily get wrong
	"malformed",   // nearly well-formed values, one for each condition of the parser; the well-formed parts are kept
}

func TestOlder(t *testing.T) {
	files, err := filepath.Glob("testdata/older/*.txt")
	require.NoError(t, err)
	for i, file := range files {
		files[i] = strings.TrimSuffix(filepath.Base(file), ".txt")
	}
	others := []string{"dialect", "fields", "formats", "resets", "restrict", "set"}
	require.ElementsMatch(t, append(others, olderTables...), files, "all tables are named")
	for _, table := range olderTables {
		lawTable(t, table)
	}
}

// lawTable checks that the cases of a table are read as expected, with a caller's dialects.
func lawTable(t *testing.T, table string, dialects ...*Dialect) {
	t.Helper()
	cases := readTable(table)
	require.NotEmpty(t, cases, table)
	for _, tt := range cases {
		eachClock(t, table+"/"+tt.name, tt.wire, func(t *testing.T, text string, now time.Time) {
			o := LegacyOptions{Now: now, Dialects: dialects}
			got, err := ParseAny(trial.Wire(text), o)
			lawFields(t, got)
			lawSpelling(t, trial.Wire(text), o, got)
			require.Equal(t, tt.want, strings.Join(vendorLimits(got), " | "))
			require.Equal(t, tt.wantErr, faultsOf(t, err))
			dialect := got.Dialect
			if got.Guessed {
				dialect += "?"
			}
			require.Equal(t, tt.dialect, dialect)
		})
	}
}

// TestRead checks the effects of options, and results that the tables of TestOlder do not
// show, in the form of Fields.String. A name for the response is the name of the policy
// without a name. Parse refuses fields that are read leniently.
func TestRead(t *testing.T) {
	options := map[string]LegacyOptions{
		"": {}, "milliseconds": {Reset: TimeMilli}, "seconds": {Reset: TimeSeconds}, "dialect github": {Dialects: []*Dialect{GitHub}},
		"name mine": {Name: "mine"}, "name caf\u00e9": {Name: "caf\u00e9"},
	}
	for _, b := range readBlocks("fields") {
		told, rest := b.Told()
		o, ok := options[told]
		require.True(t, ok, told)
		lines, want := b.Cut(rest, "= ")
		eachClock(t, b.Name, lines, func(t *testing.T, text string, now time.Time) {
			o.Now = now
			got, err := ParseAny(trial.Wire(text), o)
			require.NoError(t, err)
			require.Equal(t, strings.TrimSpace(want), got.String())
			lawFields(t, got)
			lawSpelling(t, trial.Wire(text), o, got)
			if got.Dialect == draft.Lenient {
				strict, err := Parse(trial.Wire(text))
				require.Error(t, err)
				require.Empty(t, strict)
			}
		})
	}
	own := fieldsOf(t, `"own";q=5;w=60`, `"own";r=4;t=1`)
	own.Dialect = ""
	require.Equal(t, `policies "own";q=5;w=60; limits "own";r=4;t=1`, own.String(), "without a dialect")
}

func TestErrorSaysNoContent(t *testing.T) {
	_, err := ParseAny(trial.Wire("X-RateLimit-Limit: secret\nX-RateLimit-Remaining: 1, \"secret\nX-RateLimit-Remaining: secret\nRateLimit-Policy: \"secret\nX-RateLimit-Reset:  secret"), LegacyOptions{})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
	var e *FieldError
	require.ErrorAs(t, err, &e)
	_, err = ParseAny(http.Header{"x-RateLimit-overLimit-Remaining": {"x"}, "x-RateLimit-Remaining": {"x"}}, LegacyOptions{})
	require.Equal(t, "x-RateLimit-Remaining", faultsOf(t, err), "the sent spelling")
}

// A member may have the allowed number of parameters, and no more.
func TestManyParameters(t *testing.T) {
	older := func(n int) http.Header {
		return http.Header{"Ratelimit-Policy": {"5" + strings.Repeat(";x", n-1) + ";w=60"}}
	}
	got, err := ParseAny(older(maxParams), LegacyOptions{})
	require.NoError(t, err)
	require.Equal(t, SecondsOf(60), got.Policies[0].Window)
	got, err = ParseAny(older(maxParams+1), LegacyOptions{})
	require.NoError(t, err)
	require.False(t, got.Policies[0].Window.ok, "it is not read")

	lenient := func(n int) http.Header { return http.Header{draft.LimitKey: {"a;r=1" + extensionText(n-1)}} }
	got, err = ParseAny(lenient(maxParams), LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Limits[0].Params, maxParams-1)
	_, err = ParseAny(lenient(maxParams+1), LegacyOptions{})
	require.Error(t, err)
}

// Names with a word for limits count as limits, even if reading them shows none. At most
// MaxFields are read (law 12).
func TestManyNames(t *testing.T) {
	t.Parallel()
	const two, both = "RateLimit-Remaining: 5\nX-RateLimit-Limit: 9", "default : 5/9 w=- t=-"
	for _, tt := range []struct {
		name, format string
		with         string // a header with two fields that count toward the bound
		want         string // the result for these fields; "" if all fields are limits
	}{
		{"limits", "X-RateLimit-Remaining-N%d", two, ""},
		{"an anchor, and a stop word", "X-RateLimit-N%d-Url", two, both},
		{"an anchor with a glued word", "X-RateLimitx%d", two, both},
		{"a remaining, and no other role with that name", "X-P%d-Remaining", two, both},
		{"words glued to each other", "Limits#Bucketkeyin%d-Limitused", two, both},
		{"waits", "X-N%d-Retry-After", two, both},
		{"roles that may join a family", "X-Acme-N%d-Limit", "X-Acme-Remaining: 5\nX-Acme-Limit: 9", "acme : 5/9 w=- t=-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n, ok := range map[int]bool{older.MaxFields - 2: true, older.MaxFields - 1: false, 4 * older.MaxFields: false} {
				h := manyKeys(n, tt.format, "1")
				maps.Copy(h, trial.Wire(tt.with))
				got, err := ParseAny(h, LegacyOptions{})
				require.Equal(t, ok, err == nil, n)
				lawFaults(t, h, err)
				if !ok {
					require.Equal(t, text.Several{&FieldError{Offset: -1, Item: -1, Err: ErrTooMany}}, err, "the header as a whole")
					require.EqualError(t, err, "ratelimit: fields of limits: too many")
					require.Empty(t, got)
					before := h.Clone()
					require.ErrorIs(t, RestrictHeader(h, 200, Fields{}, RestrictOptions{}), ErrTooMany)
					require.Equal(t, before, h)
				} else if lawFields(t, got); tt.want != "" {
					require.Equal(t, []string{tt.want}, vendorLimits(got))
				} else {
					require.Len(t, got.Limits, n+1)
				}
			}
		})
	}
}

// manyKeys returns a header of numbered keys.
func manyKeys(n int, format, value string) http.Header {
	h := make(http.Header, n)
	for i := range n {
		h[http.CanonicalHeaderKey(fmt.Sprintf(format, i))] = []string{value}
	}
	return h
}

// Any number of names without a word for limits may be present, also next to a family without
// an anchor.
func TestManyOthers(t *testing.T) {
	h := manyKeys(16*older.MaxFields, "X-N%d-Nonce", "1")
	maps.Copy(h, trial.Wire("X-Ratelimit-Remaining: 5\nX-Acme-Remaining: 7\nX-Acme-Limit: 10"))
	got, err := ParseAny(h, LegacyOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"acme : 7/10 w=- t=-", "default : 5/- w=- t=-"}, vendorLimits(got))
}

// A bounded number of substitutes for Retry-After is read.
func TestManyWaits(t *testing.T) {
	for n, want := range map[int]time.Duration{older.MaxFields: 5 * time.Second, older.MaxFields + 1: 0} {
		got, ok := ParseRetryAfter(manyKeys(n, "X-N%d-Retry-After", "5"), late)
		require.Equal(t, want, got)
		require.Equal(t, want > 0, ok)
	}
}

// Advise and ParseRetryAfter read the same keys: field names of at most 256 bytes.
func TestWaitsOfOddKeys(t *testing.T) {
	for key, want := range map[string]time.Duration{
		"@-Retryafter": 0,
		"X-" + strings.Repeat("A", 243) + "-Retryafter": time.Second,
		"X-" + strings.Repeat("A", 244) + "-Retryafter": 0,
	} {
		h := http.Header{key: {"1"}}
		got, ok := ParseRetryAfter(h, late)
		require.Equal(t, want, got, key)
		require.Equal(t, want > 0, ok, key)
		require.Equal(t, want, Advise(&http.Response{StatusCode: 429, Header: h}, late).Asked, key)
	}
}

// A group's name, which many policies' names repeat, is cut.
func TestLongGroups(t *testing.T) {
	const size = 60_000
	long, each := strings.Repeat("x", size/2), size/2/len(`,"k0000":1`)
	var members strings.Builder
	for i := range each {
		fmt.Fprintf(&members, `,"k%04d":1`, i)
	}
	for name, h := range map[string]http.Header{
		"a record":           {"X-Ratelimit-Limit": {"name=" + long + strings.Repeat(";k=1", 2*each)}},
		"a record of states": {"X-Ratelimit": {"name=" + long + strings.Repeat(";k=a", 2*each)}},
		"an object":          {"X-Ratelimit-Limit": {`{"name":"` + long + `"` + members.String() + "}"}},
		"objects":            {"X-Ratelimit-Limit": {`{"` + long + `":{"k":1` + members.String() + "}}"}},
		"a key":              {"X-Ratelimit-Limit-" + long: {strings.Repeat("k=1;", 2*each)}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Less(t, trial.Allocated(func() { _, _ = ParseAny(h, LegacyOptions{}) }), uint64(128*size))
		})
	}
}

// Each syntax for lists accepts the allowed number of members, and no more.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	lines := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i+1, i+1)
		}
		return strings.Trim(b.String(), ",; ")
	}
	for _, tt := range []struct {
		name, key, format string
		most              int // how many policies and limits are read
		fault             bool
	}{
		{"Integer policies", "Ratelimit-Policy", "%d;w=%d,", maxMembers, true},
		{"policies behind the quota", "Ratelimit-Limit", "%d;w=%d,", maxMembers, true},
		{"heads", "X-Ms-Ratelimit-Remaining-Resource", "n%d;%d,", maxMembers, true},
		{"pairs", "X-App-Rate-Limit", "%d:%d,", maxMembers, true},
		{"bans", "X-Sentry-Rate-Limits", "%d:c%d:,", maxMembers, true},
		{"a record", "X-Ratelimit-Remaining", "n%d=%d;", maxMembers, true},
		{"the current form with names that are Tokens", "Ratelimit", "n%d;r=%d,", maxMembers, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseAny(http.Header{tt.key: {lines(tt.format, tt.most)}}, LegacyOptions{})
			require.NoError(t, err)
			require.Equal(t, tt.most, max(len(got.Policies), len(got.Limits)))
			lawFields(t, got)
			got, err = ParseAny(http.Header{tt.key: {lines(tt.format, tt.most+1)}}, LegacyOptions{})
			require.Equal(t, tt.fault, errors.Is(err, ErrTooMany))
			require.True(t, tt.fault || len(got.Limits) == 0, "a field that the strict parser refuses is read completely or not at all")
			got, _ = ParseAny(http.Header{tt.key: {lines(tt.format, 3*tt.most)}}, LegacyOptions{})
			lawFields(t, got)
		})
	}
	for _, h := range []http.Header{
		{"X-Edge-Ratelimit": {strings.TrimSuffix(lines(`"n%d";r=%d,`, maxMembers), ",")}, "X-Ratelimit-Remaining": {"5"}},
		{"Ratelimit-Policy": {lines("%d;w=%d,", maxMembers)}, "X-Ratelimit-Policy": {lines("%d;w=9%d,", maxMembers)}},
		{"Ratelimit-Policy": {lines("%d;w=%d,", maxMembers)}, "X-Ratelimit-Limit": {"5000"}},
		{"X-Ratelimit-Remaining": {lines("n%d=%d;", maxMembers)}, "X-Ratelimit-Used": {"1, 2"}, "X-Ratelimit-Reset": {"1, 2"}},
		{"X-Ratelimit-Remaining": {lines("n%d=%d;", maxMembers)}, "Retry-After-Long": {"1"}},
	} {
		got, _ := ParseAny(h, LegacyOptions{})
		lawFields(t, got)
		require.Equal(t, maxMembers, max(len(got.Limits), len(got.Policies)), "two fields together")
	}
	got, err := ParseAny(http.Header{"Ratelimit-Policy": {`"a";q=1;w=1`}, "X-Ratelimit-Policy": {lines("%d;w=%d,", maxMembers)}}, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Policies, maxMembers, "the current one and all others but one")
	for _, tt := range []struct {
		key, part string
		most      int
	}{
		{"X-Sentry-Rate-Limits", "1:c", 4 * maxMembers},
		{"X-Ms-Ratelimit-Remaining-Resource", "a;1", 2 * maxMembers},
		{"X-App-Rate-Limit", "5:1", 2*maxMembers + 1},
	} {
		for n, ok := range map[int]bool{tt.most: true, tt.most + 1: false} {
			_, err := ParseAny(http.Header{tt.key: {tt.part + strings.Repeat(","+tt.part, n-1)}}, LegacyOptions{})
			require.Equal(t, ok, err == nil, "%s: %d parts of one policy", tt.key, n)
		}
	}
	for n, want := range map[int]int{maxMembers: maxMembers, maxMembers + 1: 1} {
		list := lines("%[1]d, ", n)
		got, _ := ParseAny(http.Header{"X-Ratelimit-Limit": {list}, "X-Ratelimit-Remaining": {list}}, LegacyOptions{})
		require.Len(t, got.Limits, want, "parallel lists")
	}
	json := `{` + strings.TrimSuffix(lines(`"n%d-remaining":%d,`, maxMembers), ",") + `}`
	got, err = ParseAny(http.Header{"X-Ratelimit": {json}}, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Limits, maxMembers)
	for n, ok := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		app := fmt.Sprintf("%-*s}", n-1, `{"call_count":1`)
		_, err := ParseAny(http.Header{"X-App-Usage": {app}}, LegacyOptions{})
		require.Equal(t, ok, err == nil)
	}
}

// A fault names its field, its place and its cause.
func TestFaultPlaces(t *testing.T) {
	for _, tt := range []struct{ name, wire, want string }{
		{"a number that is missing in the Dictionary", "RateLimit: limit=10, reset=",
			"ratelimit: RateLimit, line 1, byte 1: missing"},
		{"a vendor's JSON, cut off", `X-App-Usage: {"call_count":`, "ratelimit: X-App-Usage, line 1, byte 1: not well-formed"},
		{"a Dictionary without a reset", "RateLimit: limit=10", "ratelimit: RateLimit, line 1, byte 1: missing"},
		{"a Dictionary without a limit (draft-07 Section 3)", "RateLimit: remaining=5, reset=1", "ratelimit: RateLimit, line 1, byte 1: missing"},
		{"a malformed policy", "RateLimit-Policy: 5x", "ratelimit: RateLimit-Policy, line 1, byte 1: not well-formed"},
		{"a malformed policy after a well-formed one", "RateLimit-Policy: 100;w=60, 5x", "ratelimit: RateLimit-Policy, line 1, byte 10: not well-formed"},
		{"a name in the second line", "X-RateLimit-Name: \nX-RateLimit-Name: caf\u00e9", "ratelimit: X-Ratelimit-Name, line 2, byte 1: not well-formed"},
		{"a current field that the lenient parser refuses too, with the strict parser's error, and an older field",
			"RateLimit: \"a\";r=1, \"b\";r=\nX-RateLimit-Limit: x",
			"ratelimit: member 2 of RateLimit, line 1, byte 16: parameter r: not well-formed, it must be an Integer from 0 to 999999999999999; " +
				"X-Ratelimit-Limit, line 1, byte 1: not well-formed"},
		{"a word behind a tab, below a blank line", "X-RateLimit-Reset:\nX-RateLimit-Reset: \tx", "ratelimit: X-Ratelimit-Reset, line 2, byte 2: not well-formed"},
		{"a policy too many", "X-RateLimit-Remaining: " + membersOf(16<<10, "n%d=1;"), "ratelimit: X-Ratelimit-Remaining, line 1, byte 1: too many"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseAny(trial.Wire(tt.wire), LegacyOptions{})
			require.EqualError(t, err, tt.want)
		})
	}
}

// Many listed policies count once each, and the policy of the limit is one of them.
func TestManyPoliciesTwice(t *testing.T) {
	var list []string
	for i := range 3 * manyPolicies {
		list = append(list, fmt.Sprintf("%d;w=60", 100+i))
	}
	all := strings.Join(list, ", ") + ", 110;w=3600, 111;w=60;name=other"
	h := http.Header{"Ratelimit-Policy": {all, all}, "Ratelimit-Limit": {"110"}, "Ratelimit-Remaining": {"9"}}
	got, err := ParseAny(h, LegacyOptions{})
	require.NoError(t, err)
	require.Len(t, got.Policies, len(list)+2, "one of another window, and one of another name")
	p, ok := got.PolicyOf(got.Limits[0])
	require.True(t, ok)
	require.Equal(t, Policy{Name: "default", Quota: 110, Window: SecondsOf(60)}, p)
}

// Deep objects, long keys and truncated texts in JSON cost little, and are not limits.
func TestHostileJSON(t *testing.T) {
	deep := func(n int, end string) string { return strings.Repeat(`{"a":`, n) + end + strings.Repeat("}", n) }
	for _, h := range []http.Header{
		{"X-App-Usage": {deep(8, `{"call_count":1}`)}},
		{"X-Ratelimit": {deep(100, `{"remaining":1}`)}},
		{"X-Ratelimit": {`{"` + strings.Repeat("limit", text.MaxTime) + `":{}}`}},
		{"X-Ratelimit": {`{"limit":`}},
	} {
		got, _ := ParseAny(h, LegacyOptions{})
		require.Empty(t, got)
	}
	got, _ := ParseAny(http.Header{"X-App-Usage": {deep(7, `{"call_count":1}`)}}, LegacyOptions{})
	require.NotEmpty(t, got, "not as deep")
}
