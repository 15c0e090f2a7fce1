package ratelimit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A vendorCase is a response of testdata/vendors, with its meaning according to its source.
type vendorCase struct {
	Vendor, Case, Source, Confidence string

	Status  int
	Headers []string
	Now     time.Time
	Resets  string // "milliseconds" if only a caller can know this
	Dialect string
	Guessed bool
	Want    []vendorLimit
	Reason  string // why the case cannot be read with its source's meaning
	Missed  string // the part of the case that is not read, although it could be
}

// vendorFiles are the collections of responses. Each has the number of cases that cannot be
// read, and the number of missed cases.
var vendorFiles = []struct {
	name            string
	reasons, missed int
}{{"cases", 3, 0}, {"third", 6, 4}, {"fourth", 2, 13}, {"fifth", 3, 2}}

// options returns the options for the case. If it has no arrival time, it arrives when it was
// made.
func (c *vendorCase) Options() LegacyOptions {
	o := LegacyOptions{Now: c.Now}
	if date := trial.Wire(strings.Join(c.Headers, "\n")).Get("Date"); o.Now.IsZero() && date != "" {
		made, _ := text.ParseDate(date)
		o.Now = made.Time
	}
	if c.Resets == "milliseconds" {
		o.Reset = TimeMilli
	}
	return o
}

// A vendorLimit is a limit and its policy. Absent numbers are nil.
type vendorLimit struct {
	Name      string `json:"name"`
	Unit      Unit   `json:"unit,omitempty"`
	Quota     *int64 `json:"quota,omitempty"`
	Window    *int64 `json:"window,omitempty"`
	Remaining *int64 `json:"remaining,omitempty"`
	Reset     *int64 `json:"reset,omitempty"`
}

func (l vendorLimit) String() string {
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	return fmt.Sprintf("%s %s: %s/%s w=%s t=%s", l.Name, l.Unit, number(l.Remaining), number(l.Quota), number(l.Window), number(l.Reset))
}

// joinedLimits returns the limits of f with their policies, and the policies without a limit,
// sorted by text.
func joinedLimits(f Fields) (list []vendorLimit) {
	joined := map[string]bool{}
	seconds := func(s Seconds) *int64 {
		if !s.ok {
			return nil
		}
		return &s.n
	}
	for _, l := range f.Limits {
		v := vendorLimit{Name: l.Name, Remaining: orNil(l.Remaining), Reset: seconds(l.Reset)}
		if p, ok := f.PolicyOf(l); ok {
			v.Unit, v.Quota, v.Window = p.Unit, orNil(p.Quota), seconds(p.Window)
		}
		joined[l.Name] = true
		list = append(list, v)
	}
	for _, p := range f.Policies {
		if !joined[p.Name] {
			list = append(list, vendorLimit{Name: p.Name, Unit: p.Unit, Quota: orNil(p.Quota), Window: seconds(p.Window)})
		}
	}
	slices.SortFunc(list, func(a, b vendorLimit) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// vendorLimits returns the texts of the limits of f.
func vendorLimits(f Fields) (list []string) {
	for _, l := range joinedLimits(f) {
		list = append(list, l.String())
	}
	return list
}

func readCases(t testing.TB) (all []vendorCase) {
	t.Helper()
	for _, file := range vendorFiles {
		all = append(all, readCasesOf(t, file.name)...)
	}
	return all
}

func readCasesOf(t testing.TB, file string) (cases []vendorCase) {
	t.Helper()
	b, err := os.ReadFile("testdata/vendors/" + file + ".json")
	require.NoError(t, err)
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	require.NoError(t, dec.Decode(&cases))
	return cases
}

// TestVendors reads responses of vendors.
func TestVendors(t *testing.T) {
	seen := map[string]bool{}
	for _, tt := range readCases(t) {
		name := tt.Vendor + "/" + tt.Case
		require.False(t, seen[name], "%s twice", name)
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, tt.Source)
			h := trial.Wire(strings.Join(tt.Headers, "\n"))
			got, err := ParseAny(h, tt.Options())
			require.NoError(t, err)
			lawFields(t, got)
			lawSpelling(t, h, tt.Options(), got)
			require.Equal(t, tt.Dialect, got.Dialect)
			require.Equal(t, tt.Guessed, got.Guessed)
			want := []string{}
			for _, l := range tt.Want {
				want = append(want, l.String())
			}
			slices.Sort(want)
			if tt.Reason != "" || tt.Missed != "" {
				require.NotEqual(t, want, vendorLimits(got), "this case needs no reason")
				return
			}
			require.ElementsMatch(t, want, vendorLimits(got))
		})
	}
}

// anchorName finds names with the anchor, in one word or two.
var anchorName = regexp.MustCompile(`(?i)rate[-_]?limit`)

// limitName finds names without the anchor that may be names of limits.
var limitName = regexp.MustCompile(`(?i)limit|remain|reset|quota|used|usage|left|credit|budget|tokens|calls|throttle|interval|requests`)

// kind returns whether the names of the limits of a case have the anchor RateLimit.
func (c *vendorCase) kind() string {
	anchored, without := false, false
	for _, line := range c.Headers {
		name, _, _ := strings.Cut(line, ":")
		if anchorName.MatchString(name) {
			anchored = true
		} else if limitName.MatchString(name) {
			without = true
		}
	}
	switch {
	case anchored && without:
		return "mixed"
	case without:
		return "without"
	}
	return "anchored"
}

// contradicts reports whether l has a number that is in no limit of the list.
func (l vendorLimit) contradicts(list []vendorLimit) bool {
	may := func(n, m *int64) bool { return n == nil || m != nil && *n == *m }
	return !slices.ContainsFunc(list, func(w vendorLimit) bool {
		return may(l.Quota, w.Quota) && may(l.Window, w.Window) && may(l.Remaining, w.Remaining) && may(l.Reset, w.Reset)
	})
}

// TestVendorScores counts the responses of each collection that are read, among those that
// can be read. A wrong number is a failure, also in a response that is not read completely.
func TestVendorScores(t *testing.T) {
	for _, file := range vendorFiles {
		right, known := map[string]int{}, map[string]int{}
		reasons, missed := 0, 0
		for _, tt := range readCasesOf(t, file.name) {
			if tt.Reason != "" {
				reasons++
				continue
			}
			for _, kind := range []string{"all", tt.kind()} {
				known[kind]++
				if tt.Missed == "" {
					right[kind]++
				}
			}
			if tt.Missed == "" {
				continue
			}
			missed++
			got, err := ParseAny(trial.Wire(strings.Join(tt.Headers, "\n")), tt.Options())
			require.NoError(t, err)
			for _, l := range joinedLimits(got) {
				require.False(t, l.contradicts(tt.Want), "%s/%s: %s", tt.Vendor, tt.Case, l)
			}
		}
		for _, kind := range []string{"anchored", "without", "mixed", "all"} {
			t.Logf("%s.json, %s: %d of %d", file.name, kind, right[kind], known[kind])
		}
		require.LessOrEqual(t, reasons, file.reasons)
		require.LessOrEqual(t, missed, file.missed)
	}
}

// TestVendorsLaws: a response has the same meaning in three variants. It comes from a cache, long
// after it was made, except for points in time. Each line with one number occurs twice, as if
// from two limiters of one kind. A key without lines takes the place of a missing key.
func TestVendorsLaws(t *testing.T) {
	for _, tt := range readCases(t) {
		name, h, o := tt.Vendor+"/"+tt.Case, trial.Wire(strings.Join(tt.Headers, "\n")), tt.Options()
		want, _ := ParseAny(h, o)
		if old := h.Clone(); old.Get("Date") != "" {
			old.Set("Date", "Mon, 01 Jan 2001 00:00:00 GMT")
			old.Set("Age", "5")
			got, err := ParseAny(old, o)
			require.NoError(t, err)
			require.Equal(t, want, got, name)
		}

		twice := h.Clone()
		for key, lines := range h {
			found, _ := older.Find(nil, http.Header{key: {"1"}}, nil)
			if len(found) == 1 && found[0].Role >= older.Quota && found[0].Role <= older.Reset {
				twice[key] = slices.Concat(lines, lines)
			}
			less, none := h.Clone(), h.Clone()
			delete(less, key)
			none[key] = nil
			want, wantErr := ParseAny(less, o)
			got, err := ParseAny(none, o)
			require.Equal(t, want, got, "%s without %s", name, key)
			require.Equal(t, wantErr, err)
		}
		got, err := ParseAny(twice, o)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
}

// TestWire reads captured responses, with the results in testdata/wire/read.txt.
func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.http")
	require.NoError(t, err)
	var read strings.Builder
	for _, file := range files {
		h := trial.ReadCapture(t, file).Header
		made, _ := text.ParseDate(h.Get("Date"))
		got, err := ParseAny(h, LegacyOptions{Now: made.Time})
		lawFields(t, got)
		lawParse(t, h)
		fmt.Fprintf(&read, "%s: %v\n", strings.TrimSuffix(filepath.Base(file), ".http"), got)
		for _, name := range strings.Split(faultsOf(t, err), ", ") {
			if name != "" {
				fmt.Fprintf(&read, "\t%s is malformed\n", name)
			}
		}
	}
	if *trial.Update {
		require.NoError(t, os.WriteFile("testdata/wire/read.txt", []byte(read.String()), 0o644))
	}
	want, err := os.ReadFile("testdata/wire/read.txt")
	require.NoError(t, err)
	trial.RequireText(t, string(want), read.String(), "testdata/wire/read.txt is made by: go test -run TestWire -update .")
}

// A lookalike has fields that are not about limits: each name with each value, or whole sets.
type lookalike struct {
	Why    string
	Source string
	Names  []string
	Values []string
	Sets   [][]string
}

// sets returns the sets of fields.
func (l *lookalike) sets() [][]string {
	sets := slices.Clone(l.Sets)
	for _, name := range l.Names {
		for _, value := range l.Values {
			sets = append(sets, []string{name + ": " + value})
		}
	}
	return sets
}

func readLookalikes(t testing.TB) []lookalike {
	t.Helper()
	b, err := os.ReadFile("testdata/lookalikes.json")
	require.NoError(t, err)
	var list []lookalike
	require.NoError(t, json.Unmarshal(b, &list))
	return list
}

// TestLookalikes: ordinary fields contain no limits and no faults.
func TestLookalikes(t *testing.T) {
	n := 0
	for _, group := range readLookalikes(t) {
		require.NotEmpty(t, group.Source, group.Why)
		t.Run(group.Why, func(t *testing.T) {
			for _, set := range group.sets() {
				n++
				h := trial.Wire(strings.Join(set, "\n"))
				got, err := ParseAny(h, LegacyOptions{Now: late})
				if len(got.Limits)+len(got.Policies) > 0 || err != nil {
					t.Errorf("%q %v %v", set, got, err)
					continue
				}
				d, _ := ParseRetryAfter(h, late)
				require.Zero(t, d, "%q", set)
			}
		})
	}
	require.GreaterOrEqual(t, n, 200)
	t.Logf("%d sets of fields", n)
}
