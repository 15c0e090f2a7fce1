package ratelimit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/laws"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// readOlder returns the advice of the older fields of h alone, without Retry-After.
func readOlder(h http.Header, o *ratelimit.LegacyOptions) ratelimit.Advice {
	f, _ := ratelimit.ParseAny(laws.WithoutCurrent(h), *o)
	return laws.Asked(f)
}

// lawRestrictHeader is law 7 for RestrictHeader. It also checks that nothing else changes,
// and that a second call changes nothing.
func lawRestrictHeader(t testing.TB, h http.Header, own ratelimit.Fields, o ratelimit.LegacyOptions) (http.Header, error) {
	t.Helper()
	return lawRestrictStatus(t, http.StatusOK, h, own, o)
}

func lawRestrictStatus(t testing.TB, status int, h http.Header, own ratelimit.Fields, o ratelimit.LegacyOptions) (http.Header, error) {
	t.Helper()
	before, got := h.Clone(), h.Clone()
	ownBefore := cloneOf(own)
	err := ratelimit.RestrictHeader(got, status, own, ratelimit.RestrictOptions{Legacy: o})
	require.Equal(t, ownBefore, own, "the arguments stay as they are")
	parties := []ratelimit.Fields{own}
	if own.Validate() != nil {
		parties = nil
	}
	laws.Between(t, laws.Passage{Status: status, Final: status, Before: before, After: got, Options: o, Parties: parties, Reported: err != nil})
	for _, key := range []string{draft.PolicyKey, draft.LimitKey} {
		if _, err := ratelimit.Parse(http.Header{key: got[key]}); err != nil {
			require.Equal(t, before[key], got[key], "nothing takes the place of an older form")
		}
	}
	found, _ := older.Find(nil, before, nil)
	custom := map[string]bool{} // the keys of dialects that only the caller knows
	for _, d := range o.Dialects {
		for _, f := range d.Fields() {
			custom[http.CanonicalHeaderKey(f.Name)] = true
		}
	}
	for key := range got {
		if key != draft.PolicyKey && key != draft.LimitKey && key != text.RetryAfterKey && key != "Access-Control-Expose-Headers" && !custom[key] &&
			!slices.ContainsFunc(found, func(f older.Field) bool { return f.Key == key }) {
			require.Equal(t, before[key], got[key], key)
		}
	}
	for key := range before {
		require.True(t, got[key] != nil || key == draft.PolicyKey || key == draft.LimitKey, "%s is gone", key)
	}
	if (err == nil || errors.Is(err, ratelimit.ErrConflict)) && before["Date"] != nil && !text.Stored(h) && got[draft.LimitKey] != nil {
		again := got.Clone()
		o.Now = o.Now.Add(10 * time.Second)
		twice := ratelimit.RestrictHeader(again, status, own, ratelimit.RestrictOptions{Legacy: o})
		require.True(t, twice == nil || err != nil, "%v: %v", twice, got)
		require.Equal(t, got, again, "twice is as once: %v with %v", before, own)
	}
	return got, err
}

// A restrictHeaderCase is a response, the fields of the intermediary, and the fields that
// differ in the result.
type restrictHeaderCase struct {
	name, header, own, want string
	reports                 string // the field that the error names, or ""
}

func restrictHeaderCases() (cases []restrictHeaderCase) {
	for _, b := range trial.BlocksOf("testdata/older/restrict.txt") {
		header, rest := b.Cut(b.Text, "= own\n")
		own, want := b.Cut(rest, "= want\n")
		want, reports, _ := strings.Cut(want, "= reports\n")
		cases = append(cases, restrictHeaderCase{b.Name, header, own, want, strings.TrimSpace(reports)})
	}
	return cases
}

var absent ratelimit.Seconds

// cloneOf returns a copy of f with its own members.
func cloneOf(f ratelimit.Fields) ratelimit.Fields {
	f.Policies, f.Limits = slices.Clone(f.Policies), slices.Clone(f.Limits)
	return f
}

const passing = "Date: Sat, 21 Nov 2026 03:23:50 GMT\nServer: example\n" // 1795231430 in Unix seconds

func TestRestrictHeader(t *testing.T) {
	for _, tc := range restrictHeaderCases() {
		t.Run(tc.name, func(t *testing.T) {
			h := trial.Wire(passing + tc.header)
			want := h.Clone()
			delete(want, draft.PolicyKey)
			delete(want, draft.LimitKey)
			for key, lines := range trial.Wire(tc.want) {
				want[key] = lines
			}
			own, err := ratelimit.Parse(trial.Wire(tc.own))
			require.NoError(t, err)
			got, err := lawRestrictHeader(t, h, own, ratelimit.LegacyOptions{Now: laws.Passed})
			require.Equal(t, tc.reports, ratelimit.FaultsOf(t, err))
			require.Equal(t, want, got)
			for _, finding := range ratelimittest.Check(&http.Response{StatusCode: 200, Header: got}) {
				upstreams := finding.Rule == "P15" || slices.Equal(h[draft.LimitKey], got[draft.LimitKey]) || slices.Equal(h[finding.Field], got[finding.Field])
				require.True(t, finding.Level == ratelimittest.LevelNote || upstreams || tc.reports != "" || text.Stored(got), "%v", finding)
			}
		})
	}
	h := trial.Wire("X-RateLimit-Remaining: 40\nX-RateLimit-Limit: 100")
	require.NoError(t, ratelimit.RestrictHeader(h, 200, ratelimit.Fields{}, ratelimit.RestrictOptions{Legacy: ratelimit.LegacyOptions{Name: "origin"}}))
	require.Equal(t, `"origin";r=40`, h.Get("RateLimit"))

	h = trial.Wire("X-RateLimit-Remaining: 40\nX-RateLimit-Limit: 100")
	got, err := lawRestrictHeader(t, h, laws.FieldsOf(`"";q=5`, `"";r=4`), ratelimit.LegacyOptions{Now: laws.Passed})
	require.NoError(t, err)
	require.Equal(t, []string{"4", "5"}, []string{got.Get("X-RateLimit-Remaining"), got.Get("X-RateLimit-Limit")}, "the tightest limit")
	require.Equal(t, `"default";r=40, "";r=4`, got.Get("RateLimit"), "no name is the name of nothing")
}

func TestRestrictHeaderErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		header string
		own    ratelimit.Fields
		want   error
	}{
		{"a malformed field", `RateLimit: "a";r=ten`, laws.FieldsOf(``, `"g";r=1`), ratelimit.ErrType},
		{"the next draft, with a bad policy", "RateLimit-Policy: d;q=1, e;q=x\nRateLimit: d;a=1", laws.FieldsOf(``, `"g";r=1`), ratelimit.ErrType},
		{"a malformed older field", "X-RateLimit-Limit: many\nX-RateLimit-Remaining: 1", laws.FieldsOf(``, `"g";r=1`), ratelimit.ErrSyntax},
		{"a name that no field can contain", "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 8\nX-RateLimit-Resource: é", laws.FieldsOf(``, `"g";r=1`), ratelimit.ErrSyntax},
		{"two meanings of a name", `RateLimit-Policy: "a";q=9;w=1`, laws.FieldsOf(`"a";q=5;w=10`, ``), ratelimit.ErrConflict},
		{"own cannot be written", ``, ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "é"}}}, ratelimit.ErrSyntax},
		{"own has no remaining", ``, laws.FieldsOf(``, `"g";r=unknown`), ratelimit.ErrRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := lawRestrictHeader(t, trial.Wire(passing+tc.header), tc.own, ratelimit.LegacyOptions{Now: laws.Passed})
			require.ErrorIs(t, err, tc.want)
			require.NotContains(t, err.Error(), "\n")
			for _, l := range tc.own.Limits {
				if l.Validate() == nil {
					require.Contains(t, got.Get("RateLimit"), l.String(), "own is announced all the same")
				}
			}
		})
	}
	require.Error(t, ratelimit.RestrictHeader(nil, 0, ratelimit.Fields{}, ratelimit.RestrictOptions{}))

	// A malformed field stays if there is nothing to write: removing it would be more permissive (draft-11 Section 7.2).
	got, err := lawRestrictHeader(t, trial.Wire(`RateLimit: "a";r=ten`), laws.FieldsOf(`"g";q=5;w=60`, ``), ratelimit.LegacyOptions{Now: laws.Passed})
	require.EqualError(t, err, "ratelimit: member 1 of RateLimit, line 1, byte 7: parameter r: wrong type, it must be an Integer from 0 to 999999999999999")
	require.Equal(t, trial.Wire("RateLimit-Policy: \"g\";q=5;w=60\nRateLimit: \"a\";r=ten"), got)

	h := trial.Wire(`RateLimit: "a";r=1`)
	for i := range older.MaxFields - 1 {
		h.Set(fmt.Sprintf("X-RateLimit-Remaining-%d", i), "1")
	}
	_, err = lawRestrictHeader(t, h, ratelimit.Fields{}, ratelimit.LegacyOptions{Now: laws.Passed})
	require.NoError(t, err)
	h.Set("X-RateLimit-Remaining", "1")
	_, err = lawRestrictHeader(t, h, ratelimit.Fields{}, ratelimit.LegacyOptions{Now: laws.Passed})
	require.ErrorIs(t, err, ratelimit.ErrTooMany)

	// In a conflict own is announced next to as many members of upstream as a field can have.
	h = trial.Wire(`RateLimit-Policy: "a";q=9;w=60` + strings.Repeat(`, "b";q=9`, 1024-1) + "\nRateLimit: " +
		strings.Repeat(`"b";r=9, `, 1024-1) + `"a";r=9;t=9`)
	own := laws.FieldsOf(`"a";q=5;w=1`, `"a";r=1;t=1`)
	require.ErrorIs(t, ratelimit.RestrictHeader(h, 200, own, ratelimit.RestrictOptions{Legacy: ratelimit.LegacyOptions{Now: laws.Passed}}), ratelimit.ErrConflict)
	joined, err := ratelimit.Parse(h)
	require.NoError(t, err)
	require.Len(t, joined.Policies, 1024)
	require.Len(t, joined.Limits, 1024)
	require.Equal(t, own.Policies[0], joined.Policies[1024-1])
	require.Equal(t, own.Limits[0], joined.Limits[1024-1])
}

// If the caller knows that a reset is in milliseconds, a reset that has laws.Passed is raised in
// milliseconds. A second intermediary leaves it unchanged.
func TestRestrictHeaderMillis(t *testing.T) {
	own := laws.FieldsOf(``, `"g";r=0;t=86400`)
	for _, over := range []string{"0", "1"} {
		h := trial.Wire(passing + "X-RateLimit-Remaining: 5\nX-RateLimit-Reset: " + over)
		o := ratelimit.LegacyOptions{Reset: ratelimit.TimeMilli, Now: laws.Passed}
		got, err := lawRestrictHeader(t, h, own, o)
		require.NoError(t, err)
		require.Equal(t, "86400000", got.Get("X-RateLimit-Reset"))
		require.Equal(t, `"default";r=5;t=`+over+`, "g";r=0;t=86400`, got.Get("RateLimit"))
	}
}

// If a draft-07 field has no remaining, its RateLimit stays next to a current policy. Clients
// that know the dialect read both.
func TestRestrictHeaderDraft07(t *testing.T) {
	o := ratelimit.LegacyOptions{Dialects: []*ratelimit.Dialect{ratelimit.Draft07}, Now: laws.Passed}
	got, err := lawRestrictHeader(t, trial.Wire(passing+"RateLimit: limit=5, reset=60"), laws.FieldsOf(`"g";q=9;w=60`, ``), o)
	require.NoError(t, err)
	require.Equal(t, []string{"limit=5, reset=60", `"default";q=5, "g";q=9;w=60`}, []string{got.Get("RateLimit"), got.Get("RateLimit-Policy")})
	f, err := ratelimit.ParseAny(got, o)
	require.NoError(t, err)
	require.Equal(t, `policies "default";q=5, "g";q=9;w=60; limits "default";t=60; dialect draft-07`, f.String())
}

// If no older field has a number, none is read again.
func TestRestrictHeaderAllocs(t *testing.T) {
	own := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "own", Remaining: 1, Reset: ratelimit.SecondsOf(5)}}}
	var h http.Header
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		h = http.Header{draft.LimitKey: {`"a";r=5;t=3`}}
		_ = ratelimit.RestrictHeader(h, 0, own, ratelimit.RestrictOptions{Legacy: ratelimit.LegacyOptions{Now: ratelimit.Late}})
	}), 19.0)
	require.Equal(t, []string{`"a";r=5;t=3, "own";r=1;t=5`}, h[draft.LimitKey])
}

// Ten gateways, a second apart, do not move a point in time, or change the fields of the
// first.
func TestRestrictHeaderHops(t *testing.T) {
	for _, reset := range []string{"1795231440", "1795231440000", "2026-11-21T03:24:00Z", "Sat, 21 Nov 2026 03:24:00 GMT"} {
		for _, own := range []string{`"g";r=5;t=2`, `"g";r=5;t=60`} {
			h := trial.Wire(passing + "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 8\nX-RateLimit-Reset: " + reset)
			var first http.Header
			for hop := range 10 {
				require.NoError(t, ratelimit.RestrictHeader(h, 200, laws.FieldsOf(``, own), ratelimit.RestrictOptions{Legacy: ratelimit.LegacyOptions{Now: laws.Passed.Add(time.Duration(hop) * 1100 * time.Millisecond)}}))
				if hop == 0 {
					first = h.Clone()
					require.Equal(t, "5", first.Get("X-RateLimit-Remaining"), "the first hop lowers it")
				}
				require.Equal(t, first, h, "%s, hop %d", reset, hop)
			}
		}
	}
}

// lawRestrictDialect is law 7 for the fields of a dialect. Its readers may do no more than
// the dialect allowed before, and no more than own allows in requests.
func lawRestrictDialect(t testing.TB, d *ratelimit.Dialect, f, own ratelimit.Fields) (restricted bool) {
	t.Helper()
	h := trial.Wire(passing)
	made := time.Date(2026, time.November, 21, 3, 23, 50, 0, time.UTC)
	if d.Set(h, f, made) != nil {
		return false
	}
	o := ratelimit.LegacyOptions{Dialects: []*ratelimit.Dialect{d}, Now: laws.Passed}
	old := readOlder(h, &o)
	complete := slices.ContainsFunc(old.Fields.Limits, func(l ratelimit.Limit) bool {
		p, _ := old.Fields.PolicyOf(l)
		return l.Remaining != ratelimit.Unknown && l.Reset != absent && !strings.Contains(l.Name, "tokens") && p.Unit.Canonical() == ratelimit.Requests
	}) && !slices.ContainsFunc(old.Fields.Limits, func(l ratelimit.Limit) bool { return l.Reset == absent })
	got, err := lawRestrictHeader(t, h, own, o)
	if err != nil {
		return false
	}
	if complete && d != ratelimit.Draft07 && says(d, old.Fields, own) {
		mine, after := laws.Asked(own), readOlder(got, &o)
		require.True(t, after.Wait >= mine.Wait && laws.LeastOf(after.Fields) <= laws.LeastOf(own), "law 7, for readers of %s: %v\nbefore %v\nafter  %v", d.Name(), own, h, got)
	}
	return true
}

// says reports whether a dialect can express each wait of own, alone and next to its other
// fields: 7300 next to a window of 60 would be milliseconds.
func says(d *ratelimit.Dialect, f, own ratelimit.Fields) bool {
	for l, p := range own.Pairs() {
		reset := l.Reset
		if l.Reset == absent && (l.Remaining == 0 || p.Quota == 0) {
			reset = p.Window
		}
		both := cloneOf(f)
		for i := range both.Limits {
			both.Limits[i].Reset = reset
		}
		for _, said := range []ratelimit.Fields{{Limits: []ratelimit.Limit{{Name: "minute", Reset: reset}}}, both} {
			h := trial.Wire(passing)
			if d.Set(h, said, laws.Passed) != nil {
				return false
			}
			a := readOlder(h, &ratelimit.LegacyOptions{Now: laws.Passed})
			if slices.ContainsFunc(a.Fields.Limits, func(l ratelimit.Limit) bool { return l.Reset != absent && l.Reset != reset }) {
				return false
			}
		}
	}
	return true
}

// TestRestrictHeaderRandom is law 7 for all written dialects.
func TestRestrictHeaderRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(11, 11))
	for _, d := range laws.Dialects {
		t.Run(d.Name(), func(t *testing.T) {
			restricted := 0
			for range 400 {
				if lawRestrictDialect(t, d, laws.RandomFields(rnd), laws.OwnFields(rnd)) {
					restricted++
				}
			}
			require.Greater(t, restricted, 40)
		})
	}
}

// mixedForms returns the header of several unrelated limiters.
func mixedForms(rnd *rand.Rand) http.Header {
	pick := func(words string) string {
		w := strings.Split(words, " ")
		return w[rnd.IntN(len(w))]
	}
	h := trial.Wire(passing)
	for range 2 + rnd.IntN(8) {
		key := pick("X-RateLimit- RateLimit- X-Rate-Limit- Acme-RateLimit- -RateLimit") +
			pick("Limit Remaining Remaining Used Window Reset Reset") + pick(" -Out -Day -Minute")
		h.Add(key, pick("0 1 2 3 3 4 9 10 60 30s 1000 1795231460"))
	}
	return h
}

// TestRestrictHeaderMixed is law 7 for mixtures of older forms.
func TestRestrictHeaderMixed(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 7))
	restricted := 0
	for range 3000 {
		if _, err := lawRestrictHeader(t, mixedForms(rnd), laws.OwnFields(rnd), ratelimit.LegacyOptions{Now: laws.Passed}); err == nil {
			restricted++
		}
	}
	require.Greater(t, restricted, 1500)
}

// Law 10: the spelling of the names makes no difference, as a header of net/http may have any key.
func TestRestrictHeaderSpellings(t *testing.T) {
	rnd, o := rand.New(rand.NewPCG(5, 23)), ratelimit.LegacyOptions{Now: time.Unix(1.8e9, 0)}
	for range 2000 {
		usual, own, other := laws.UpstreamHeader(rnd, o.Now), laws.RandomFields(rnd), http.Header{}
		for key, lines := range usual {
			if key != "Date" && key != "Age" && !strings.HasPrefix(key, text.RetryAfterKey) {
				key = trial.PickOf(rnd, key, strings.ToLower(key), strings.ReplaceAll(key, "Ratelimit", "RateLimit"))
			}
			other[key] = slices.Clone(lines)
		}
		was := other.Clone()
		want, got := ratelimit.RestrictHeader(usual, 200, own, ratelimit.RestrictOptions{Legacy: o}), ratelimit.RestrictHeader(other, 200, own, ratelimit.RestrictOptions{Legacy: o})
		require.Equal(t, want == nil, got == nil, "%v: %v, %v", was, want, got)
		require.Equal(t, usual, ratelimit.HeaderOf(other), "%v with %v", was, own)
	}
}

// lawRestrictUpstream is law 7 for a server with any forms, status and clock.
func lawRestrictUpstream(t testing.TB, rnd *rand.Rand) error {
	status := trial.PickOf(rnd, 200, 200, 304, 403, 429, 503)
	_, err := lawRestrictStatus(t, status, laws.UpstreamHeader(rnd, laws.Passed), laws.GatewayFields(rnd), ratelimit.LegacyOptions{Now: laws.Passed})
	return err
}

// TestRestrictHeaderUpstreams is law 7 for random servers.
func TestRestrictHeaderUpstreams(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 10))
	restricted := 0
	for range 5000 {
		if lawRestrictUpstream(t, rnd) == nil {
			restricted++
		}
	}
	require.Greater(t, restricted, 3500)
}

// Vendors' fields are lowered too, except for lists and JSON, and for a reset that would become
// longer than its window, because it would be read as the reset of another policy.
func TestRestrictHeaderVendors(t *testing.T) {
	t.Parallel()
	for own, percent := range map[string]int{`"gateway";r=1;t=3`: 7, `"gateway";r=0;t=60`: 11, `"gateway";r=0;t=100000`: 20} {
		cases, refused := ratelimit.ReadCases(t), 0
		for _, tt := range cases {
			_, err := lawRestrictHeader(t, trial.Wire(strings.Join(tt.Headers, "\n")), laws.FieldsOf(``, own), tt.Options())
			if err != nil {
				require.ErrorIs(t, err, ratelimit.ErrRange, "%s/%s", tt.Vendor, tt.Case)
				t.Logf("%s: %s/%s", own, tt.Vendor, tt.Case)
				refused++
			}
		}
		require.LessOrEqual(t, refused, len(cases)*percent/100, own)
	}
}

// FuzzRestrictHeader is law 7 for RestrictHeader, for all written dialects and for any
// header.
func FuzzRestrictHeader(f *testing.F) {
	for i, tc := range restrictHeaderCases() {
		own := trial.Wire(tc.own)
		f.Add(uint64(i), tc.header, own.Get("RateLimit-Policy"), own.Get("RateLimit"))
	}
	f.Fuzz(func(t *testing.T, seed uint64, header, ownPolicies, ownLimits string) {
		own, _ := ratelimit.Parse(http.Header{draft.PolicyKey: {ownPolicies}, draft.LimitKey: {ownLimits}})
		o := ratelimit.LegacyOptions{Now: laws.Passed}
		for _, text := range []string{passing + header, header} {
			h, _ := trial.ReadLines(text)
			_, _ = lawRestrictHeader(t, h, own, o)
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		d := laws.Dialects[rnd.IntN(len(laws.Dialects))]
		lawRestrictDialect(t, d, laws.RandomFields(rnd), laws.OwnFields(rnd))
		lawRestrictDialect(t, d, laws.RandomFields(rnd), own)
		_, _ = lawRestrictHeader(t, mixedForms(rnd), own, o)
		_, _ = lawRestrictHeader(t, mixedForms(rnd), laws.OwnFields(rnd), o)
		_ = lawRestrictUpstream(t, rnd)
	})
}

// Upstream's Retry-After is raised to the waits of own, but not to the waits of upstream's limits.
func TestRestrictHeaderRetryAfter(t *testing.T) {
	for own, want := range map[string]string{`"g";r=4;t=20`: "5", `"g";r=0;t=8`: "8", `"g";r=0;t=3`: "5", `"g";r=0`: "5"} {
		h := trial.Wire("Retry-After: 5\nRateLimit: \"a\";r=0;t=10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60")
		got, err := lawRestrictHeader(t, h, laws.FieldsOf(``, own), ratelimit.LegacyOptions{Now: laws.Passed})
		require.NoError(t, err)
		require.Equal(t, []string{want}, got[text.RetryAfterKey], own)
		require.Equal(t, []string{"60"}, got["X-Ratelimit-Reset"], own)
	}
}

// The options of a gateway without net/http: an own refusal adds Retry-After, and older forms are
// written, or lowered if they are there.
func TestRestrictOptions(t *testing.T) {
	custom := laws.MustDialect("acme", ratelimit.DialectField{Name: "Acme-Left", Role: ratelimit.RoleRemaining})
	const policies, limits = `"g";q=9;w=60`, `"g";r=0;t=20`
	for _, tc := range []struct {
		name, header string
		options      ratelimit.RestrictOptions
		want         string // in addition to the current fields
	}{
		{"nothing more", ``, ratelimit.RestrictOptions{}, ``},
		{"an own refusal", ``, ratelimit.RestrictOptions{Refused: true}, `Retry-After: 20`},
		{"an own refusal of less than upstream asks", `Retry-After: 50`, ratelimit.RestrictOptions{Refused: true}, `Retry-After: 50`},
		{"a form", ``, ratelimit.RestrictOptions{Dialects: []*ratelimit.Dialect{ratelimit.XRateLimit}}, "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 20"},
		{"two forms", ``, ratelimit.RestrictOptions{Dialects: []*ratelimit.Dialect{ratelimit.Draft06, ratelimit.XRateLimit}}, "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 20\n" +
			"RateLimit-Limit: 9\nRateLimit-Remaining: 0\nRateLimit-Reset: 20"},
		{"a form of one's own, which is there", `Acme-Left: 5`, ratelimit.RestrictOptions{Dialects: []*ratelimit.Dialect{custom}}, `Acme-Left: 0`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, want := trial.Wire(tc.header), trial.Wire(tc.want)
			tc.options.Legacy.Now = laws.Passed
			require.NoError(t, ratelimit.RestrictHeader(h, 200, laws.FieldsOf(policies, limits), tc.options))
			require.NotEmpty(t, h[draft.PolicyKey])
			require.Contains(t, h.Get(ratelimit.LimitField), limits)
			delete(h, draft.PolicyKey)
			delete(h, draft.LimitKey)
			require.Equal(t, want, h)
		})
	}
}

// A dialect that cannot be written next to the current fields is left out. Everything else is written.
func TestRestrictOptionsErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		dialects []*ratelimit.Dialect
		want     string
	}{
		"nil":              {[]*ratelimit.Dialect{ratelimit.XRateLimit, nil}, "ratelimit: RestrictOptions.Dialects[1]: it is nil"},
		"writes RateLimit": {[]*ratelimit.Dialect{ratelimit.Draft07, ratelimit.XRateLimit}, "ratelimit: RestrictOptions.Dialects[0]: ratelimit: RateLimit: duplicate"},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			given := slices.Clone(tc.dialects)
			require.EqualError(t, ratelimit.RestrictHeader(h, 200, laws.FieldsOf(``, `"g";r=5;t=20`), ratelimit.RestrictOptions{Dialects: tc.dialects}), tc.want)
			require.Equal(t, `"g";r=5;t=20`, h.Get(ratelimit.LimitField))
			require.Equal(t, "5", h.Get("X-RateLimit-Remaining"))
			require.Equal(t, given, tc.dialects, "the arguments stay as they are")
		})
	}
}

// Own limits that were read from older fields are written as far as the current fields can
// express them.
func TestRestrictHeaderOlderOwn(t *testing.T) {
	own, err := ratelimit.ParseAny(trial.Wire("X-RateLimit-Limit-Minute: 9\nX-RateLimit-Remaining-Minute: 4\nX-RateLimit-Reset-Day: 70"), ratelimit.LegacyOptions{})
	require.NoError(t, err)
	h := http.Header{}
	require.NoError(t, ratelimit.RestrictHeader(h, 200, own, ratelimit.RestrictOptions{}))
	require.Equal(t, trial.Wire("RateLimit-Policy: \"minute\";q=9;w=60\nRateLimit: \"minute\";r=4"), h)
	own.Dialect = ""
	require.ErrorIs(t, ratelimit.RestrictHeader(http.Header{}, 200, own, ratelimit.RestrictOptions{}), ratelimit.ErrRange, "limits of one's own have all numbers")
}
