package ratelimit

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

// lawLegacy checks four facts. The result of ParseAny is valid. An error names a field of the
// header. Order and space do not matter. Fields without limits do not change the result.
func lawLegacy(t testing.TB, h http.Header) {
	t.Helper()
	before := h.Clone()
	for _, o := range []LegacyOptions{{Now: then}, {Now: late, Reset: TimeMilli, Name: "mine"}} {
		got, err := ParseAny(h, o)
		lawFields(t, got)
		require.True(t, got.Policies == nil || len(got.Policies) > 0, "an absent list is nil")
		require.True(t, got.Limits == nil || len(got.Limits) > 0, "an absent list is nil")
		lawFaults(t, h, err)
		again, againErr := ParseAny(h, o)
		require.Equal(t, got, again)
		require.Equal(t, err, againErr)

		rest := http.Header{}
		found, _ := older.Find(nil, h, nil)
		for i := range found {
			rest[found[i].Key] = found[i].Lines
		}
		for _, key := range []string{"Date", "Age"} {
			rest[key] = h[key]
		}
		if found == nil {
			rest = h
		}
		again, againErr = ParseAny(rest, o)
		require.Equal(t, got, again)
		require.Equal(t, err, againErr)
	}
	require.Equal(t, before, h)
	lawPlain(t, h)
}

// lawPlain is a second reader of only the plainest form: a line of digits in each of three
// fields.
func lawPlain(t testing.TB, h http.Header) {
	t.Helper()
	var n [3]int64
	for i, key := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		lines := h[key]
		if len(h) != len(n) || len(lines) != 1 || lines[0] == "" || len(lines[0]) > 9 || !text.All(lines[0], text.Digit) {
			return
		}
		n[i], _ = strconv.ParseInt(lines[0], 10, 64)
	}
	got, err := ParseAny(h, LegacyOptions{Now: late})
	require.NoError(t, err)
	require.Len(t, got.Limits, 1)
	require.Equal(t, n[1], got.Limits[0].Remaining)
	p, ok := got.PolicyOf(got.Limits[0])
	require.True(t, ok)
	require.Equal(t, n[0], p.Quota)
	const day = 24 * 60 * 60 // a longer reset may be in milliseconds
	require.True(t, n[2] > day || got.Limits[0].Reset == SecondsOf(n[2]), "%v of %v", got, h)
}

func lawFaults(t testing.TB, h http.Header, err error) {
	t.Helper()
	for _, e := range requireFieldErrors(t, err) {
		if e.Field == "" {
			require.Greater(t, len(h), older.MaxFields)
			continue
		}
		lines := h[e.Field]
		if e.Field == PolicyField || e.Field == LimitField {
			lines = h[http.CanonicalHeaderKey(e.Field)]
		}
		require.True(t, 0 <= e.Line && e.Line < len(lines), "%s, line %d", e.Field, e.Line)
		require.True(t, 0 <= e.Offset && e.Offset <= len(lines[e.Line]), "%s, offset %d", e.Field, e.Offset)
	}
}

// lawAny checks that ParseAny agrees with Parse, and with the reader of older forms.
func lawAny(t testing.TB, h http.Header) {
	t.Helper()
	o := LegacyOptions{Now: late}
	got, err := ParseAny(h, o)
	lawFields(t, got)
	lawFaults(t, h, err)

	current, _ := Parse(h)
	if current.Limits != nil {
		requireEqual(t, current.Limits, got.Limits)
		require.Equal(t, draft.Current, got.Dialect)
		if current.Policies != nil {
			requireEqual(t, current.Policies, got.Policies)
		}
		return
	}
	if got.Dialect == draft.Next {
		lawNext(t, h)
		return
	}
	legacy, _, _ := parseLegacy(h, &o, text.Clock{Header: h, Arrived: o.Now})
	requireEqual(t, legacy.Limits, got.Limits)
	if current.Policies == nil {
		requireEqual(t, legacy.Policies, got.Policies)
		require.Equal(t, legacy.Dialect, got.Dialect)
		return
	}
	require.GreaterOrEqual(t, len(got.Policies), len(current.Policies))
	requireEqual(t, current.Policies, got.Policies[:len(current.Policies)])
	for _, older := range got.Policies[len(current.Policies):] {
		require.False(t, slices.ContainsFunc(current.Policies, func(p Policy) bool { return p.Name == older.Name }))
	}
}

// addLegacySeeds adds the cases, the captures and the look-alikes.
func addLegacySeeds(f *testing.F) {
	f.Helper()
	for _, tt := range readCases(f) {
		f.Add(strings.Join(tt.Headers, "\n"))
	}
	for _, group := range readLookalikes(f) {
		f.Add(strings.Join(group.sets()[0], "\n"))
	}
	files, err := filepath.Glob("testdata/wire/*.http")
	require.NoError(f, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(b))
	}
	for _, tc := range nextCases {
		f.Add(tc.wire)
	}
	for _, table := range olderTables {
		for _, tt := range readTable(table) {
			f.Add(trial.Spell(tt.wire, late))
		}
	}
	f.Add(`X-App-Usage: {"x":[{"type":"t","call_count":99.5,"estimated_time_to_regain_access":1e300}]}`)
}

func FuzzOlder(f *testing.F) {
	addLegacySeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		h, _ := trial.ReadLines(text)
		lawLegacy(t, h)
	})
}

func FuzzParseAny(f *testing.F) {
	addLegacySeeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		h, _ := trial.ReadLines(text)
		lawAny(t, h.Clone())
		d, ok := ParseRetryAfter(h, late)
		require.True(t, d >= 0 && (ok || d == 0))
	})
}

// The words in the names that FuzzNames builds. Each row has the words for a role.
var (
	prefixWords = []string{"", "X-", "Acme-", "X-Acme-", "X-Acme", "Anthropic-", "HTTP-X-"}
	anchorWords = []string{"RateLimit", "Rate-Limit", "Ratelimit", "RATE-LIMIT"}
	roleWords   = map[Role][]string{
		RoleQuota:     {"Limit", "Max", "Quota", "Total", "Capacity", "Allotted"},
		RoleRemaining: {"Remaining", "Remain", "Left", "Available"},
		RoleUsed:      {"Used", "Usage", "Count", "Current"},
		RoleReset:     {"Reset", "Resets", "Refresh", "Next", "Expiry", "Until"},
	}
	nameWords = []string{"", "Minute", "Search", "Requests-Day", "Tokens", "PerHour", "1m"}
	unitWords = []string{"-Ms", "-In-Ms", "-Milliseconds"}
)

// FuzzNames makes a limit, and names for its fields from these words, in two families and
// orders. Both families are read as the numbers of the limit (law 10).
func FuzzNames(f *testing.F) {
	for i := range uint64(200) {
		f.Add(i*0x9e3779b97f4a7c15, uint16(i*37), uint16(i*11), uint16(i*7))
	}
	f.Fuzz(func(t *testing.T, choice uint64, quota, spent, reset uint16) {
		pick := func(list []string) string {
			i := choice % uint64(len(list))
			choice /= uint64(len(list))
			return list[i]
		}
		limit := max(int64(quota), 1)
		left := limit - int64(spent)%(limit+1)
		name := pick(nameWords)
		first := family{prefix: pick(prefixWords), anchor: pick(anchorWords), behind: pick([]string{"", "y"}) == ""}
		if first.prefix == "X-Acme" {
			first.anchor = "RateLimit" // the first of two words cannot be glued
		}
		second := first
		second.anchor, second.behind = "RateLimit", !first.behind
		words := map[Role]string{}
		for role, list := range roleWords {
			words[role] = pick(list)
		}
		delete(words, []Role{RoleRemaining, RoleUsed}[choice%2]) // one of the two is enough
		var got [2]string
		for i, in := range []family{first, second} {
			h := http.Header{}
			for role, word := range words {
				value := map[Role]int64{RoleQuota: limit, RoleRemaining: left, RoleUsed: limit - left, RoleReset: int64(reset) * 1000}[role]
				unit := ""
				if role == RoleReset {
					unit = unitWords[choice/2%uint64(len(unitWords))]
				}
				h.Set(in.key(name, word, unit), fmt.Sprint(value))
			}
			fields, err := ParseAny(h, LegacyOptions{Now: late})
			require.NoError(t, err, "%v", h)
			require.Len(t, fields.Limits, 1, "%v", h)
			l := fields.Limits[0]
			p, _ := fields.PolicyOf(l)
			require.Equal(t, []int64{limit, left, int64(reset)}, []int64{p.Quota, l.Remaining, l.Reset.n}, "%v", h)
			got[i] = strings.Join(vendorLimits(fields), "|")
		}
		require.Equal(t, got[0], got[1])
	})
}

// A family is a way to join words to names: the policy is after the role, or before it.
type family struct {
	prefix, anchor string
	behind         bool
}

func (f family) key(name, role, unit string) string {
	words := []string{f.prefix + f.anchor, name, role + unit}
	if f.behind {
		words = []string{f.prefix + f.anchor, role + unit, name}
	}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), "-")
}

func FuzzDialectSet(f *testing.F) {
	for i := range setDialects {
		f.Add(i, "default", "minute", int64(100), int64(37), int64(30), int64(60), int64(784887120), uint8(0))
		f.Add(i, "a b", "requests", int64(MaxInteger), int64(0), int64(MaxInteger), int64(0), int64(1), uint8(1))
		f.Add(i, "", "input-tokens", int64(0), int64(-1), int64(-1), int64(1), int64(-1), uint8(2))
		f.Add(i, "x-left", "\u00e9", int64(-1), int64(MaxInteger+1), int64(1e9), int64(86400), int64(1e15), uint8(7))
		f.Add(i, "daily", "1m", int64(5), int64(4), int64(1000), int64(60000), int64(1795230000), uint8(9))
	}
	f.Fuzz(func(t *testing.T, dialect int, name, other string, quota, remaining, reset, window, now int64, shape uint8) {
		d := setDialects[uint(dialect)%uint(len(setDialects))]
		own := Policy{Name: name, Quota: quota, Window: SecondsOf(window)}
		second := Policy{Name: other, Quota: quota / 2, Window: SecondsOf(window / 2), Params: Params{{"burst", remaining}}}
		fields := Fields{
			Policies: []Policy{second, own},
			Limits:   []Limit{{Name: name, Remaining: remaining, Reset: SecondsOf(reset)}, {Name: other, Remaining: remaining / 2}},
		}
		if shape&1 != 0 {
			fields.Policies = fields.Policies[1:]
		}
		if shape&2 != 0 {
			fields.Limits = fields.Limits[:1]
		}
		if shape&4 != 0 {
			fields.Policies[len(fields.Policies)-1].Window, fields.Limits[0].Reset = Seconds{}, Seconds{}
		}
		if shape&8 != 0 {
			fields.Limits[0].Remaining = Unknown
		}
		lawSet(t, d, fields, time.Unix(now, now%1e9))
	})
}
