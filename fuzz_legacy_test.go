package ratelimit

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// legacyNames matches the names of all fields that the table has, slowly and
// obviously.
var legacyNames = func() *regexp.Regexp {
	var list []string
	for _, d := range table {
		columns := d.columns()
		names := append(columns[:], d.marks...)
		for _, c := range d.more {
			names = append(names, c.name)
		}
		for _, name := range names {
			if name != "" {
				list = append(list, strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, `.+`))
			}
		}
	}
	return regexp.MustCompile(`(?is)^(?:` + strings.Join(list, "|") + `)$`)
}()

// explicitTable is the table as a user would pass it, which the index does not
// serve.
var (
	explicitTable = Dialects()
	explicitRows  = compile(explicitTable)
)

// lawLegacy holds ParseLegacy against the laws: what is read is valid, an error
// is about a field that is there, the index finds what a linear search finds,
// and nothing is made of nothing.
func lawLegacy(t testing.TB, h http.Header) {
	t.Helper()
	o := LegacyOptions{Now: legacyNow}
	got, err := ParseLegacy(h, o)
	lawFields(t, got)
	lawFaults(t, h, err)
	linear, _, faults := parseRows(h, &o, explicitRows)
	require.Equal(t, linear, got)
	require.Equal(t, joinFaults(faults), err)

	rest := h.Clone()
	for key := range h {
		if legacyNames.MatchString(key) {
			delete(rest, key)
		}
	}
	got, err = ParseLegacy(rest, LegacyOptions{})
	require.NoError(t, err)
	require.Empty(t, got)
}

func lawFaults(t testing.TB, h http.Header, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
		e := requireFieldError(t, err)
		lines := h[http.CanonicalHeaderKey(e.Field)]
		require.True(t, 0 <= e.Line && e.Line < len(lines), "%s, line %d", e.Field, e.Line)
		require.True(t, 0 <= e.Offset && e.Offset <= len(lines[e.Line]), "%s, offset %d", e.Field, e.Offset)
	}
}

// lawAny holds ParseAny against Parse and ParseLegacy.
func lawAny(t testing.TB, h http.Header) {
	t.Helper()
	o := LegacyOptions{Now: legacyNow}
	got, err := ParseAny(h, o)
	lawFields(t, got)
	lawFaults(t, h, err)

	current, _ := Parse(h)
	if current.Limits != nil {
		requireEqual(t, current.Limits, got.Limits)
		require.Equal(t, currentDialect, got.Dialect)
		if current.Policies != nil {
			requireEqual(t, current.Policies, got.Policies)
		}
		return
	}
	legacy, _ := ParseLegacy(h, o)
	requireEqual(t, legacy.Limits, got.Limits)
	if current.Policies == nil {
		requireEqual(t, legacy.Policies, got.Policies)
		require.Equal(t, legacy.Dialect, got.Dialect)
		return
	}
	requireEqual(t, current.Policies, got.Policies[:len(current.Policies)])
}

// addLegacySeeds adds the tables, the cases and the captures.
func addLegacySeeds(f *testing.F) {
	f.Helper()
	for _, tt := range readCases(f) {
		f.Add(strings.Join(tt.Headers, "\n"))
	}
	files, err := filepath.Glob("testdata/wire/*.http")
	require.NoError(f, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(string(b))
	}
	for _, seed := range []string{
		"X-RateLimit-Limit: 10, 10;w=1;name=\"per-ip\", 1000;w=3600\nX-RateLimit-Reset: 1994-11-15 09:13:00.5 +0100 CET m=+0.1",
		"X-App-Rate-Limit: 100:1,1000:10\nX-App-Rate-Limit-Count: 1:1,1:10",
		"RateLimit: a;r=1;pk=\"k\"\nRateLimit-Policy: \"x\";\"a\";q=1;w=0",
		"X-RateLimit-Limit-Minute: 5\nX-RateLimit-Remaining-Minute: 4\nRateLimit-Reset: 12.5",
		"X-App-Usage: {\"x\":[{\"type\":\"t\",\"call_count\":99.5,\"estimated_time_to_regain_access\":1e300}]}",
		"Date: Tue, 15 Nov 1994 08:12:31 GMT\nAge: 1\nX-RateLimit-Reset: 9999999999999999999.9999999999",
		"X-Rate-Limit-A-Max: 1\nX-Rate-Limit-A-Interval-Ms: 1500\nX-Quota-Reset: -1",
		"Zendesk-RateLimit-A: total=100; remaining=99; resets=1d2:3:4",
	} {
		f.Add(seed)
	}
}

func FuzzParseLegacy(f *testing.F) {
	addLegacySeeds(f)
	f.Fuzz(func(t *testing.T, text string) { lawLegacy(t, wire(text)) })
}

func FuzzParseAny(f *testing.F) {
	addLegacySeeds(f)
	f.Fuzz(func(t *testing.T, text string) { lawAny(t, wire(text)) })
}

func FuzzSetLegacy(f *testing.F) {
	for i := range table {
		f.Add(i, "default", "minute", int64(100), int64(37), int64(30), int64(60), int64(784887120), uint8(0))
		f.Add(i, "a b", "requests", int64(MaxInteger), int64(0), int64(MaxInteger), int64(0), int64(1), uint8(1))
		f.Add(i, "", "input-tokens", int64(0), int64(-1), int64(-1), int64(1), int64(-1), uint8(2))
		f.Add(i, "x-left", "\u00e9", int64(-1), int64(MaxInteger+1), int64(1e9), int64(86400), int64(1e15), uint8(7))
	}
	f.Fuzz(func(t *testing.T, dialect int, name, other string, quota, remaining, reset, window, now int64, shape uint8) {
		d := explicitTable[uint(dialect)%uint(len(explicitTable))]
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
			own.Window, fields.Limits[0].Reset = Seconds{}, Seconds{}
		}
		lawSet(t, d, fields, time.Unix(now, now%1e9))
	})
}

// TestLegacyLaws runs the laws upon headers that tables do not have.
func TestLegacyLaws(t *testing.T) {
	for _, text := range []string{
		"", "Retry-After: 5", "X-RateLimit-NearLimit: true", "X-RateLimit-Limit-Minute: x\nX-RateLimit-Limit: y",
		"RateLimit-ResourceRemaining: 5", "X-RateLimit-Used: 5", "X-RateLimit-Reset-After: 5", "X-RateLimit-Remaining-Quota: 5",
	} {
		lawLegacy(t, wire(text))
		lawAny(t, wire(text))
	}
}
