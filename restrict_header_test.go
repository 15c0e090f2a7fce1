package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/older"
)

// adviceOf returns what a header asks of a client, however long it may be.
func adviceOf(h http.Header, o LegacyOptions) Advice {
	var a Advice
	(&Advisor{Legacy: o}).adviseHeader(&a, h, o.Now)
	return a
}

// withoutCurrent returns a header as those read it who know no current fields.
func withoutCurrent(h http.Header) http.Header {
	older := h.Clone()
	delete(older, policyKey)
	delete(older, limitKey)
	return older
}

// readOlder returns what the older fields of h ask for by themselves, whatever
// Retry-After says.
func readOlder(h http.Header, o *LegacyOptions) Advice {
	var a Advice
	a.Fields, _ = ParseAny(withoutCurrent(h), *o)
	a.follow()
	return a
}

// lawRestrictHeader is law 7 for RestrictHeader: no reader of either form is told
// more than upstream or own say, nothing else changes, a second time changes
// nothing, and nothing is written next to an error.
func lawRestrictHeader(t testing.TB, h http.Header, own Fields, o LegacyOptions) (http.Header, error) {
	t.Helper()
	before, got := h.Clone(), h.Clone()
	ownBefore := cloneFields(own)
	err := RestrictHeader(got, own, o)
	require.Equal(t, ownBefore, own, "the arguments stay as they are")
	if err != nil {
		require.Equal(t, before, got, "nothing is written next to an error")
		return got, err
	}
	a, b := adviceOf(before, o), adviceOf(got, o)
	require.True(t, noMoreThan(&a, &b), "law 7: %v\nbefore %v\nafter  %v", own, before, got)
	a, b = readOlder(before, &o), readOlder(got, &o)
	require.True(t, noMoreThan(&a, &b), "law 7, for readers of older forms: %v\nbefore %v\nafter  %v", own, before, got)
	a, b = adviceOf(withoutCurrent(before), o), adviceOf(withoutCurrent(got), o)
	require.True(t, noMoreThan(&a, &b), "law 7, for readers of older forms and of Retry-After: %v\nbefore %v\nafter  %v", own, before, got)
	if !isStored(h) {
		mine := Advice{Fields: own}
		mine.follow()
		b = adviceOf(got, o)
		require.True(t, noMoreThan(&mine, &b), "law 7: %v\nbefore %v\nafter  %v", own, before, got)
	}
	for _, key := range []string{policyKey, limitKey} {
		if _, err := Parse(http.Header{key: got[key]}); err != nil {
			require.Equal(t, before[key], got[key], "nothing takes the place of an older form")
		}
	}
	found, _ := older.Find(nil, before, o.tables(nil))
	for key := range got {
		if key != policyKey && key != limitKey && key != retryAfterKey && key != exposeField &&
			!slices.ContainsFunc(found, func(f older.Field) bool { return f.Key == key }) {
			require.Equal(t, before[key], got[key], key)
		}
	}
	for key := range before {
		require.True(t, got[key] != nil || key == policyKey || key == limitKey, "%s is gone", key)
	}
	if before[dateKey] != nil && !isStored(h) && got[limitKey] != nil {
		again := got.Clone()
		o.Now = o.Now.Add(10 * time.Second)
		require.NoError(t, RestrictHeader(again, own, o), "%v", got)
		require.Equal(t, got, again, "twice is as once")
	}
	return got, nil
}

// A restrictHeaderCase is a response, what the intermediary adds, and the fields in which the
// result differs.
type restrictHeaderCase struct {
	name, header, own, want string
}

func restrictHeaderCases() (cases []restrictHeaderCase) {
	for _, b := range readBlocks("restrict") {
		header, rest := b.cut(b.text, "= own\n")
		own, want := b.cut(rest, "= want\n")
		cases = append(cases, restrictHeaderCase{b.name, header, own, want})
	}
	return cases
}

const passing = "Date: Sat, 21 Nov 2026 03:23:50 GMT\nServer: example\n" // which is 1795231430

var passed = time.Date(2026, time.November, 21, 3, 23, 56, 0, time.UTC) // when the response arrives

func TestRestrictHeader(t *testing.T) {
	for _, tc := range restrictHeaderCases() {
		t.Run(tc.name, func(t *testing.T) {
			h := wire(passing + tc.header)
			want := h.Clone()
			delete(want, policyKey)
			delete(want, limitKey)
			for key, lines := range wire(tc.want) {
				want[key] = lines
			}
			own, err := Parse(wire(tc.own))
			require.NoError(t, err)
			got, err := lawRestrictHeader(t, h, own, LegacyOptions{Now: passed})
			require.NoError(t, err)
			require.Equal(t, want, got)
			for _, finding := range Check(&http.Response{StatusCode: 200, Header: got}) {
				upstreams := finding.Rule == "P15" || slices.Equal(h[limitKey], got[limitKey]) // its unit, or its form
				early := finding.Rule == "6-5" && strings.HasPrefix(tc.name, "a reset that cannot be said")
				require.True(t, finding.Level == LevelNote || upstreams || early || isStored(got), "%v", finding)
			}
		})
	}
	h := wire("X-RateLimit-Remaining: 40\nX-RateLimit-Limit: 100")
	require.NoError(t, RestrictHeader(h, Fields{}, LegacyOptions{Name: "origin"}))
	require.Equal(t, `"origin";r=40`, h.Get("RateLimit"))

	h = wire("X-RateLimit-Remaining: 40\nX-RateLimit-Limit: 100")
	got, err := lawRestrictHeader(t, h, fieldsOf(t, `"";q=5`, `"";r=4`), LegacyOptions{Now: passed})
	require.NoError(t, err)
	require.Equal(t, []string{"4", "100"}, []string{got.Get("X-RateLimit-Remaining"), got.Get("X-RateLimit-Limit")}, "no name is the name of nothing")
}

func TestRestrictHeaderErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		header string
		own    Fields
		want   error
	}{
		{"a malformed field", `RateLimit: "a";r=ten`, fieldsOf(t, ``, `"g";r=1`), ErrType},
		{"the next draft, with a bad policy", "RateLimit-Policy: d;q=1, e;q=x\nRateLimit: d;a=1", fieldsOf(t, ``, `"g";r=1`), ErrType},
		{"a malformed older field", "X-RateLimit-Limit: many\nX-RateLimit-Remaining: 1", fieldsOf(t, ``, `"g";r=1`), ErrSyntax},
		{"a name that no field can hold", "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 8\nX-RateLimit-Resource: é", fieldsOf(t, ``, `"g";r=1`), ErrSyntax},
		{"two meanings of a name", `RateLimit-Policy: "a";q=9;w=1`, fieldsOf(t, `"a";q=5;w=10`, ``), ErrConflict},
		{"a number that cannot be lowered beside a reset that may be milliseconds", "X-RateLimit-Limit: 100\nX-RateLimit-Window: 90s\nX-RateLimit-Remaining: 40\nX-RateLimit-Remaining: 4\nX-RateLimit-Reset: 60060", fieldsOf(t, ``, `"g";r=0;t=30`), ErrRange},
		{"forms that say more together than each by itself", "RateLimit-Remaining: 2\nX-Rate-Limit-Remaining-Day: 0\nX-Rate-Limit-Reset: 2", fieldsOf(t, ``, `"a";r=0;t=60`), ErrRange},
		{"policies that are read as one after each round", "X-RateLimit-Reset-Day: 1000\nX-RateLimit-Window: 1000\nX-Rate-Limit-Reset: 0\nX-RateLimit-Remaining: 10\nX-Rate-Limit-Remaining-Day: 4\nX-Rate-Limit-Window-Day: 9", fieldsOf(t, ``, `"day";r=0;t=60`), ErrRange},
		{"a reset that counts milliseconds once two forms agree", "RateLimit-Remaining: 9\nX-Rate-Limit-Remaining-Out: 2\nX-Rate-Limit-Reset: 4\nX-Rate-Limit-Reset-Minute: 1000", fieldsOf(t, ``, `"b";r=1`), ErrRange},
		{"own cannot be written", ``, Fields{Limits: []Limit{{Name: "é"}}}, ErrSyntax},
		{"own does not say what remains", ``, fieldsOf(t, ``, `"g";r=unknown`), ErrRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := lawRestrictHeader(t, wire(passing+tc.header), tc.own, LegacyOptions{Now: passed})
			require.ErrorIs(t, err, tc.want)
		})
	}
	require.Error(t, RestrictHeader(nil, Fields{}, LegacyOptions{}))

	h := wire(`RateLimit: "a";r=1`)
	for i := range older.MaxFields - 1 {
		h.Set(fmt.Sprintf("X-RateLimit-Remaining-%d", i), "1")
	}
	_, err := lawRestrictHeader(t, h, Fields{}, LegacyOptions{Now: passed})
	require.NoError(t, err)
	h.Set("X-RateLimit-Remaining", "1")
	_, err = lawRestrictHeader(t, h, Fields{}, LegacyOptions{Now: passed})
	require.ErrorIs(t, err, ErrTooMany)
}

// TestRestrictHeaderMillis: where the caller knows that a reset counts milliseconds,
// one that is over is raised to milliseconds, and a second intermediary leaves it.
func TestRestrictHeaderMillis(t *testing.T) {
	own := fieldsOf(t, ``, `"g";r=0;t=86400`)
	for _, over := range []string{"0", "1"} {
		h := wire(passing + "X-RateLimit-Remaining: 5\nX-RateLimit-Reset: " + over)
		o := LegacyOptions{Reset: TimeMilli, Now: passed}
		got, err := lawRestrictHeader(t, h, own, o)
		require.NoError(t, err)
		require.Equal(t, "86400000", got.Get("X-RateLimit-Reset"))
		require.Equal(t, `"default";r=5;t=`+over+`, "g";r=0;t=86400`, got.Get("RateLimit"))
	}
}

// TestRestrictHeaderDraft07: where a draft-07 does not say what remains, its RateLimit stays
// next to a current policy, and those who know the dialect read both again.
func TestRestrictHeaderDraft07(t *testing.T) {
	o := LegacyOptions{Dialects: []*Dialect{Draft07}, Now: passed}
	got, err := lawRestrictHeader(t, wire(passing+"RateLimit: limit=5, reset=60"), fieldsOf(t, `"g";q=9;w=60`, ``), o)
	require.NoError(t, err)
	require.Equal(t, []string{"limit=5, reset=60", `"default";q=5, "g";q=9;w=60`}, []string{got.Get("RateLimit"), got.Get("RateLimit-Policy")})
	f, err := ParseAny(got, o)
	require.NoError(t, err)
	require.Equal(t, `policies "default";q=5, "g";q=9;w=60; limits "default";t=60; dialect draft-07`, f.String())
}

// TestRestrictHeaderAllocs: where no older field says a number, none is read again.
func TestRestrictHeaderAllocs(t *testing.T) {
	own := Fields{Limits: []Limit{{Name: "own", Remaining: 1, Reset: SecondsOf(5)}}}
	var h http.Header
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		h = http.Header{limitKey: {`"a";r=5;t=3`}}
		_ = RestrictHeader(h, own, LegacyOptions{Now: late})
	}), 19.0)
	require.Equal(t, []string{`"a";r=5;t=3, "own";r=1;t=5`}, h[limitKey])
}

// Ten gateways, a second apart, do not move a point in time, nor change what the
// first has said.
func TestRestrictHeaderHops(t *testing.T) {
	for _, reset := range []string{"1795231440", "1795231440000", "2026-11-21T03:24:00Z", "Sat, 21 Nov 2026 03:24:00 GMT"} {
		for _, own := range []string{`"g";r=5;t=2`, `"g";r=5;t=60`} {
			h := wire(passing + "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 8\nX-RateLimit-Reset: " + reset)
			var first http.Header
			for hop := range 10 {
				require.NoError(t, RestrictHeader(h, fieldsOf(t, ``, own), LegacyOptions{Now: passed.Add(time.Duration(hop) * 1100 * time.Millisecond)}))
				if hop == 0 {
					first = h.Clone()
					require.Equal(t, "5", first.Get("X-RateLimit-Remaining"), "the first hop lowers it")
				}
				require.Equal(t, first, h, "%s, hop %d", reset, hop)
			}
		}
	}
}

// lawRestrictDialect is law 7 for what a dialect writes: its readers are told no
// more than the dialect said, and no more than own says of requests.
func lawRestrictDialect(t testing.TB, d *Dialect, f, own Fields) (restricted bool) {
	t.Helper()
	h := wire(passing)
	made := time.Date(2026, time.November, 21, 3, 23, 50, 0, time.UTC)
	if d.Set(h, f, made) != nil {
		return false
	}
	o := LegacyOptions{Dialects: []*Dialect{d}, Now: passed}
	old := readOlder(h, &o)
	complete := slices.ContainsFunc(old.Fields.Limits, func(l Limit) bool {
		p, _ := old.Fields.PolicyOf(l)
		return l.Remaining != Unknown && l.Reset.ok && !strings.Contains(l.Name, "tokens") && p.Unit.countsRequests()
	}) && !slices.ContainsFunc(old.Fields.Limits, func(l Limit) bool { return !l.Reset.ok })
	got, err := lawRestrictHeader(t, h, own, o)
	if err != nil {
		return false
	}
	if complete && d != Draft07 && says(d, old.Fields, own) {
		mine, after := Advice{Fields: own}, readOlder(got, &o)
		mine.follow()
		require.True(t, noMoreThan(&mine, &after), "law 7, for readers of %s: %v\nbefore %v\nafter  %v", d.Name, own, h, got)
	}
	return true
}

// says reports whether a dialect can say each wait that own asks for, alone and next to
// what it says otherwise: 7300 next to a window of 60 would be milliseconds.
func says(d *Dialect, f, own Fields) bool {
	policies := newMatcher(own.Policies)
	for _, l := range own.Limits {
		reset := longer(l.wait(policies.policy(&l)), l.Reset)
		beside := cloneFields(f)
		for i := range beside.Limits {
			beside.Limits[i].Reset = reset
		}
		for _, said := range []Fields{{Limits: []Limit{{Name: "minute", Reset: reset}}}, beside} {
			h := wire(passing)
			if d.Set(h, said, passed) != nil {
				return false
			}
			a := readOlder(h, &LegacyOptions{Now: passed})
			if slices.ContainsFunc(a.Fields.Limits, func(l Limit) bool { return l.Reset.ok && l.Reset != reset }) {
				return false
			}
		}
	}
	return true
}

// TestRestrictHeaderRandom is law 7 for all dialects that are written.
func TestRestrictHeaderRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(11, 11))
	for _, d := range writtenDialects {
		t.Run(d.Name(), func(t *testing.T) {
			restricted := 0
			for range 400 {
				if lawRestrictDialect(t, d, fuzzFields(rnd), ownFields(rnd)) {
					restricted++
				}
			}
			require.Greater(t, restricted, 40)
		})
	}
}

// mixedForms returns what several limiters say that know nothing of each other.
func mixedForms(rnd *rand.Rand) http.Header {
	pick := func(words string) string {
		w := strings.Split(words, " ")
		return w[rnd.IntN(len(w))]
	}
	h := wire(passing)
	for range 2 + rnd.IntN(8) {
		key := pick("X-RateLimit- RateLimit- X-Rate-Limit- Acme-RateLimit- -RateLimit") +
			pick("Limit Remaining Remaining Used Window Reset Reset") + pick(" -Out -Day -Minute")
		h.Add(key, pick("0 1 2 3 3 4 9 10 60 30s 1000 1795231460"))
	}
	return h
}

// TestRestrictHeaderMixed is law 7 where older forms are mixed.
func TestRestrictHeaderMixed(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 7))
	restricted := 0
	for range 3000 {
		if _, err := lawRestrictHeader(t, mixedForms(rnd), ownFields(rnd), LegacyOptions{Now: passed}); err == nil {
			restricted++
		}
	}
	require.Greater(t, restricted, 1500)
}

// What vendors send is lowered likewise, but where a reset would be longer than its
// window: then it would be read as that of another policy.
func TestRestrictHeaderVendors(t *testing.T) {
	t.Parallel()
	for own, percent := range map[string]int{`"gateway";r=1;t=3`: 2, `"gateway";r=0;t=60`: 2, `"gateway";r=0;t=100000`: 5} {
		cases, refused := readCases(t), 0
		for _, tt := range cases {
			_, err := lawRestrictHeader(t, wire(strings.Join(tt.Headers, "\n")), fieldsOf(t, ``, own), tt.options())
			if err != nil {
				require.ErrorIs(t, err, ErrRange, "%s/%s", tt.Vendor, tt.Case)
				t.Logf("%s: %s/%s", own, tt.Vendor, tt.Case)
				refused++
			}
		}
		require.LessOrEqual(t, refused, len(cases)*percent/100, own)
	}
}

// FuzzRestrictHeader is law 7 for RestrictHeader, for all dialects that are written
// and for any header.
func FuzzRestrictHeader(f *testing.F) {
	for i, tc := range restrictHeaderCases() {
		own := wire(tc.own)
		f.Add(uint64(i), tc.header, own.Get("RateLimit-Policy"), own.Get("RateLimit"))
	}
	f.Fuzz(func(t *testing.T, seed uint64, header, ownPolicies, ownLimits string) {
		own, _ := Parse(http.Header{policyKey: {ownPolicies}, limitKey: {ownLimits}})
		o := LegacyOptions{Now: passed}
		for _, text := range []string{passing + header, header} {
			h, _ := readLines(text)
			_, _ = lawRestrictHeader(t, h, own, o)
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		d := writtenDialects[rnd.IntN(len(writtenDialects))]
		lawRestrictDialect(t, d, fuzzFields(rnd), ownFields(rnd))
		lawRestrictDialect(t, d, fuzzFields(rnd), own)
		_, _ = lawRestrictHeader(t, mixedForms(rnd), own, o)
		_, _ = lawRestrictHeader(t, mixedForms(rnd), ownFields(rnd), o)
	})
}

// TestRestrictHeaderLeaves: older fields that stay as they are do not raise Retry-After,
// which is about the current ones.
func TestRestrictHeaderLeaves(t *testing.T) {
	h := wire("Retry-After: 5\nRateLimit: \"a\";r=0;t=10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60")
	require.NoError(t, RestrictHeader(h, fieldsOf(t, ``, `"g";r=4;t=10`), LegacyOptions{Now: passed}))
	require.Equal(t, []string{"10"}, h[retryAfterKey])
	require.Equal(t, []string{"60"}, h["X-Ratelimit-Reset"])
}
