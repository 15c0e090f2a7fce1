package ratelimit

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A reading is what one kind of client reads in a response.
type reading struct {
	client string
	Advice
}

const allFields, withoutRetryAfter, andRetryAfter = "all fields", "all fields but Retry-After", " and Retry-After"

// readings returns what different clients read in a response. One client knows all forms, and
// each other client knows one older form. Each reads the response with and without
// Retry-After.
func readings(status int, h http.Header, o LegacyOptions) (list []reading) {
	c := Advisor{Legacy: o, MaxWait: math.MaxInt64}
	read := func(client string, h http.Header) {
		list = append(list, reading{client, c.Advise(&http.Response{StatusCode: status, Header: h}, o.Now)})
	}
	read(allFields, h)
	alone := h.Clone()
	maps.DeleteFunc(alone, func(key string, _ []string) bool { return strings.Contains(key, text.RetryAfterKey) })
	read(withoutRetryAfter, alone)
	olds := withoutCurrent(alone)
	forms := map[string]http.Header{}
	found, _ := older.Find(nil, olds, o.tables(nil))
	for _, f := range found {
		if forms[f.Form] == nil {
			forms[f.Form] = http.Header{"Date": h["Date"], "Age": h["Age"]}
		}
		forms[f.Form][f.Key] = f.Lines
	}
	for form, fields := range forms {
		read(form, fields)
		if lines := h[text.RetryAfterKey]; lines != nil {
			fields = fields.Clone()
			fields[text.RetryAfterKey] = lines
			read(form+andRetryAfter, fields)
		}
	}
	return list
}

// readOlder returns the advice of the older fields of h alone, without Retry-After.
func readOlder(h http.Header, o *LegacyOptions) Advice {
	f, _ := ParseAny(withoutCurrent(h), *o)
	return f.asked(0)
}

// A passage is a response that passes parties with their own limits.
type passage struct {
	status, final int // of upstream's response, and of the client's response
	before, after http.Header
	options       LegacyOptions
	parties       []Fields
	writes        bool // the parties write older forms
	reported      bool // an error reported that a form cannot express a limit
	endless       bool // a party refuses, and does not announce for how long
}

// lawBetween is law 7 for a passage. No client may do more than upstream allows. If no fault
// was reported, no client may do more than a party allows. No client waits longer than the
// strictest party asks, unless a limit has nothing remaining and no time.
func lawBetween(t testing.TB, p passage) {
	t.Helper()
	was := map[string]Advice{}
	longest, _ := ParseRetryAfter(p.before, p.options.Now) // a success may have a wait that counts only next to other fields
	seconds, _ := ParseRetryAfter(http.Header{"Date": p.before["Date"], "Age": p.before["Age"], text.RetryAfterKey: p.before[text.RetryAfterKey]}, p.options.Now)
	longest = max(longest, seconds) // for clients that do not know Retry-After-Ms
	endless := p.endless
	for _, r := range readings(p.status, p.before, p.options) {
		was[r.client] = r.Advice
		longest, endless = max(longest, r.Asked), endless || r.Fields.endless()
	}
	for _, r := range readings(p.final, p.before, p.options) { // a refusal makes resets count
		longest = max(longest, r.Asked)
	}
	for _, f := range p.parties {
		longest, endless = max(longest, f.asked(0).Wait), endless || f.endless()
	}
	for _, r := range readings(p.final, p.after, p.options) {
		if r.client == withoutRetryAfter { // without Retry-After, a 403 has another meaning
			continue
		}
		form := strings.TrimSuffix(r.client, andRetryAfter)
		if p.writes && r.client != allFields && (p.reported || !slices.Equal(formKeys(p.before, form), formKeys(p.after, form))) {
			continue
		}
		if a, ok := was[r.client]; ok {
			require.True(t, atLeastAsStrict(&r.Advice, &a), "law 7: a reader of %s may do more than upstream allows: %v\nbefore %v\nafter  %v", r.client, p.parties, p.before, p.after)
		}
		if p.reported || text.Stored(p.before) {
			continue
		}
		require.True(t, endless || r.Asked-longest < time.Second || r.Source == SourceWindow, "law 7: a reader of %s waits %v, not %v: %v\nbefore %v\nafter  %v", r.client, r.Asked, longest, p.parties, p.before, p.after)
		for _, own := range p.parties {
			lawAllows(t, r, own, p)
		}
	}
}

// formKeys returns the names of the fields of one older form.
func formKeys(h http.Header, form string) (keys []string) {
	found, _ := older.Find(nil, h, nil)
	for _, f := range found {
		if f.Form == form {
			keys = append(keys, f.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// lawAllows is law 7 for one client and one party.
func lawAllows(t testing.TB, r reading, own Fields, p passage) {
	t.Helper()
	mine, least := own.asked(0), leastOf(&own)
	if mine.Fields.exhausted() {
		least = 0
	}
	told := leastOf(&r.Fields)
	if r.client == allFields {
		require.True(t, atLeastAsStrict(&r.Advice, &mine), "law 7: a reader of %s may do more than own allows: %v\nbefore %v\nafter  %v", r.client, own, p.before, p.after)
	}
	if told == math.MaxUint64 || r.client == allFields { // several forms look like one
		return
	}
	untimed := slices.ContainsFunc(r.Fields.Limits, func(l Limit) bool { return !l.Reset.ok })
	require.LessOrEqual(t, told, least, "law 7: a reader of %s may do more than own allows: %v\nbefore %v\nafter  %v", r.client, own, p.before, p.after)
	require.True(t, untimed || r.Asked >= mine.Wait, "law 7: a reader of %s waits %v: %v\nbefore %v\nafter  %v", r.client, r.Asked, own, p.before, p.after)
}

// lawRestrictHeader is law 7 for RestrictHeader. It also checks that nothing else changes,
// and that a second call changes nothing.
func lawRestrictHeader(t testing.TB, h http.Header, own Fields, o LegacyOptions) (http.Header, error) {
	t.Helper()
	return lawRestrictStatus(t, http.StatusOK, h, own, o)
}

func lawRestrictStatus(t testing.TB, status int, h http.Header, own Fields, o LegacyOptions) (http.Header, error) {
	t.Helper()
	before, got := h.Clone(), h.Clone()
	ownBefore := cloneFields(own)
	err := RestrictHeader(got, status, own, RestrictOptions{Legacy: o})
	require.Equal(t, ownBefore, own, "the arguments stay as they are")
	parties := []Fields{own}
	if own.Validate() != nil {
		parties = nil
	}
	lawBetween(t, passage{status: status, final: status, before: before, after: got, options: o, parties: parties, reported: err != nil})
	for _, key := range []string{draft.PolicyKey, draft.LimitKey} {
		if _, err := Parse(http.Header{key: got[key]}); err != nil {
			require.Equal(t, before[key], got[key], "nothing takes the place of an older form")
		}
	}
	found, _ := older.Find(nil, before, o.tables(nil))
	for key := range got {
		if key != draft.PolicyKey && key != draft.LimitKey && key != text.RetryAfterKey && key != exposeField &&
			!slices.ContainsFunc(found, func(f older.Field) bool { return f.Key == key }) {
			require.Equal(t, before[key], got[key], key)
		}
	}
	for key := range before {
		require.True(t, got[key] != nil || key == draft.PolicyKey || key == draft.LimitKey, "%s is gone", key)
	}
	if err == nil && before["Date"] != nil && !text.Stored(h) && got[draft.LimitKey] != nil {
		again := got.Clone()
		o.Now = o.Now.Add(10 * time.Second)
		require.NoError(t, RestrictHeader(again, status, own, RestrictOptions{Legacy: o}), "%v", got)
		require.Equal(t, got, again, "twice is as once: %v", before)
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
	for _, b := range readBlocks("restrict") {
		header, rest := b.Cut(b.Text, "= own\n")
		own, want := b.Cut(rest, "= want\n")
		want, reports, _ := strings.Cut(want, "= reports\n")
		cases = append(cases, restrictHeaderCase{b.Name, header, own, want, strings.TrimSpace(reports)})
	}
	return cases
}

const passing = "Date: Sat, 21 Nov 2026 03:23:50 GMT\nServer: example\n" // 1795231430 in Unix seconds

var passed = time.Date(2026, time.November, 21, 3, 23, 56, 0, time.UTC) // when the response arrives

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
			own, err := Parse(trial.Wire(tc.own))
			require.NoError(t, err)
			got, err := lawRestrictHeader(t, h, own, LegacyOptions{Now: passed})
			require.Equal(t, tc.reports, faultsOf(t, err))
			require.Equal(t, want, got)
			for _, finding := range Check(&http.Response{StatusCode: 200, Header: got}) {
				upstreams := finding.Rule == "P15" || slices.Equal(h[draft.LimitKey], got[draft.LimitKey]) || slices.Equal(h[finding.Field], got[finding.Field])
				require.True(t, finding.Level == LevelNote || upstreams || tc.reports != "" || text.Stored(got), "%v", finding)
			}
		})
	}
	h := trial.Wire("X-RateLimit-Remaining: 40\nX-RateLimit-Limit: 100")
	require.NoError(t, RestrictHeader(h, 200, Fields{}, RestrictOptions{Legacy: LegacyOptions{Name: "origin"}}))
	require.Equal(t, `"origin";r=40`, h.Get("RateLimit"))

	h = trial.Wire("X-RateLimit-Remaining: 40\nX-RateLimit-Limit: 100")
	got, err := lawRestrictHeader(t, h, fieldsOf(t, `"";q=5`, `"";r=4`), LegacyOptions{Now: passed})
	require.NoError(t, err)
	require.Equal(t, []string{"4", "5"}, []string{got.Get("X-RateLimit-Remaining"), got.Get("X-RateLimit-Limit")}, "the tightest limit")
	require.Equal(t, `"default";r=40, "";r=4`, got.Get("RateLimit"), "no name is the name of nothing")
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
		{"a name that no field can contain", "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 8\nX-RateLimit-Resource: é", fieldsOf(t, ``, `"g";r=1`), ErrSyntax},
		{"two meanings of a name", `RateLimit-Policy: "a";q=9;w=1`, fieldsOf(t, `"a";q=5;w=10`, ``), ErrConflict},
		{"own cannot be written", ``, Fields{Limits: []Limit{{Name: "é"}}}, ErrSyntax},
		{"own has no remaining", ``, fieldsOf(t, ``, `"g";r=unknown`), ErrRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := lawRestrictHeader(t, trial.Wire(passing+tc.header), tc.own, LegacyOptions{Now: passed})
			require.ErrorIs(t, err, tc.want)
			require.NotContains(t, err.Error(), "\n")
			for _, l := range tc.own.Limits {
				if l.Validate() == nil {
					require.Contains(t, got.Get("RateLimit"), l.String(), "own is announced all the same")
				}
			}
		})
	}
	require.Error(t, RestrictHeader(nil, 0, Fields{}, RestrictOptions{}))

	// A malformed field stays if there is nothing to write: removing it would be more permissive (draft-11 Section 7.2).
	got, err := lawRestrictHeader(t, trial.Wire(`RateLimit: "a";r=ten`), fieldsOf(t, `"g";q=5;w=60`, ``), LegacyOptions{Now: passed})
	require.EqualError(t, err, "ratelimit: member 1 of RateLimit, line 1, byte 7: parameter r: wrong type, it must be an Integer from 0")
	require.Equal(t, trial.Wire("RateLimit-Policy: \"g\";q=5;w=60\nRateLimit: \"a\";r=ten"), got)

	h := trial.Wire(`RateLimit: "a";r=1`)
	for i := range older.MaxFields - 1 {
		h.Set(fmt.Sprintf("X-RateLimit-Remaining-%d", i), "1")
	}
	_, err = lawRestrictHeader(t, h, Fields{}, LegacyOptions{Now: passed})
	require.NoError(t, err)
	h.Set("X-RateLimit-Remaining", "1")
	_, err = lawRestrictHeader(t, h, Fields{}, LegacyOptions{Now: passed})
	require.ErrorIs(t, err, ErrTooMany)

	// In a conflict own is announced next to as many members of upstream as a field can have.
	h = trial.Wire(`RateLimit-Policy: "a";q=9;w=60` + strings.Repeat(`, "b";q=9`, maxMembers-1) + "\nRateLimit: " +
		strings.Repeat(`"b";r=9, `, maxMembers-1) + `"a";r=9;t=9`)
	own := fieldsOf(t, `"a";q=5;w=1`, `"a";r=1;t=1`)
	require.ErrorIs(t, RestrictHeader(h, 200, own, RestrictOptions{Legacy: LegacyOptions{Now: passed}}), ErrConflict)
	joined, err := Parse(h)
	require.NoError(t, err)
	require.Len(t, joined.Policies, maxMembers)
	require.Len(t, joined.Limits, maxMembers)
	require.Equal(t, own.Policies[0], joined.Policies[maxMembers-1])
	require.Equal(t, own.Limits[0], joined.Limits[maxMembers-1])
}

// If the caller knows that a reset is in milliseconds, a reset that has passed is raised in
// milliseconds. A second intermediary leaves it unchanged.
func TestRestrictHeaderMillis(t *testing.T) {
	own := fieldsOf(t, ``, `"g";r=0;t=86400`)
	for _, over := range []string{"0", "1"} {
		h := trial.Wire(passing + "X-RateLimit-Remaining: 5\nX-RateLimit-Reset: " + over)
		o := LegacyOptions{Reset: TimeMilli, Now: passed}
		got, err := lawRestrictHeader(t, h, own, o)
		require.NoError(t, err)
		require.Equal(t, "86400000", got.Get("X-RateLimit-Reset"))
		require.Equal(t, `"default";r=5;t=`+over+`, "g";r=0;t=86400`, got.Get("RateLimit"))
	}
}

// If a draft-07 field has no remaining, its RateLimit stays next to a current policy. Clients
// that know the dialect read both.
func TestRestrictHeaderDraft07(t *testing.T) {
	o := LegacyOptions{Dialects: []*Dialect{Draft07}, Now: passed}
	got, err := lawRestrictHeader(t, trial.Wire(passing+"RateLimit: limit=5, reset=60"), fieldsOf(t, `"g";q=9;w=60`, ``), o)
	require.NoError(t, err)
	require.Equal(t, []string{"limit=5, reset=60", `"default";q=5, "g";q=9;w=60`}, []string{got.Get("RateLimit"), got.Get("RateLimit-Policy")})
	f, err := ParseAny(got, o)
	require.NoError(t, err)
	require.Equal(t, `policies "default";q=5, "g";q=9;w=60; limits "default";t=60; dialect draft-07`, f.String())
}

// If no older field has a number, none is read again.
func TestRestrictHeaderAllocs(t *testing.T) {
	own := Fields{Limits: []Limit{{Name: "own", Remaining: 1, Reset: SecondsOf(5)}}}
	var h http.Header
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		h = http.Header{draft.LimitKey: {`"a";r=5;t=3`}}
		_ = RestrictHeader(h, 0, own, RestrictOptions{Legacy: LegacyOptions{Now: late}})
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
				require.NoError(t, RestrictHeader(h, 200, fieldsOf(t, ``, own), RestrictOptions{Legacy: LegacyOptions{Now: passed.Add(time.Duration(hop) * 1100 * time.Millisecond)}}))
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
func lawRestrictDialect(t testing.TB, d *Dialect, f, own Fields) (restricted bool) {
	t.Helper()
	h := trial.Wire(passing)
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
		mine, after := own.asked(0), readOlder(got, &o)
		require.True(t, after.Wait >= mine.Wait && leastOf(&after.Fields) <= leastOf(&own), "law 7, for readers of %s: %v\nbefore %v\nafter  %v", d.Name, own, h, got)
	}
	return true
}

// says reports whether a dialect can express each wait of own, alone and next to its other
// fields: 7300 next to a window of 60 would be milliseconds.
func says(d *Dialect, f, own Fields) bool {
	policies := newMatcher(own.Policies)
	for _, l := range own.Limits {
		reset := longer(l.wait(policies.policy(&l)), l.Reset)
		both := cloneFields(f)
		for i := range both.Limits {
			both.Limits[i].Reset = reset
		}
		for _, said := range []Fields{{Limits: []Limit{{Name: "minute", Reset: reset}}}, both} {
			h := trial.Wire(passing)
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

// TestRestrictHeaderRandom is law 7 for all written dialects.
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
		if _, err := lawRestrictHeader(t, mixedForms(rnd), ownFields(rnd), LegacyOptions{Now: passed}); err == nil {
			restricted++
		}
	}
	require.Greater(t, restricted, 1500)
}

// pickOf returns one of a list.
func pickOf[T any](rnd *rand.Rand, list ...T) T { return list[rnd.IntN(len(list))] }

// Law 10: the spelling of the names makes no difference, as a header of net/http may have any key.
func TestRestrictHeaderSpellings(t *testing.T) {
	rnd, o := rand.New(rand.NewPCG(5, 23)), LegacyOptions{Now: time.Unix(1.8e9, 0)}
	for range 2000 {
		usual, own, other := upstreamHeader(rnd, o.Now), fuzzFields(rnd), http.Header{}
		for key, lines := range usual {
			if key != "Date" && key != "Age" && !strings.HasPrefix(key, text.RetryAfterKey) {
				key = pickOf(rnd, key, strings.ToLower(key), strings.ReplaceAll(key, "Ratelimit", "RateLimit"))
			}
			other[key] = slices.Clone(lines)
		}
		was := other.Clone()
		want, got := RestrictHeader(usual, 200, own, RestrictOptions{Legacy: o}), RestrictHeader(other, 200, own, RestrictOptions{Legacy: o})
		require.Equal(t, want == nil, got == nil, "%v: %v, %v", was, want, got)
		require.Equal(t, usual, HeaderOf(other), "%v with %v", was, own)
	}
}

// upstreamHeader returns the header of a server that announces limits in up to three forms:
// the current fields, older drafts, one family with any format of a reset, the windows of
// Kong, lists, and the units of language models. It has a clock of its own, or none.
func upstreamHeader(rnd *rand.Rand, now time.Time) http.Header {
	h := http.Header{}
	in := func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	// often adds a field, except once in n times.
	often := func(key string, n int, value func() string) {
		if rnd.IntN(n) > 0 {
			h.Add(key, value())
		}
	}
	number := func() string { return pickOf(rnd, "0", "0", "1", "2", "5", "40", "50", "99", "100", "4987", "5000") }
	reset := func() string {
		n := pickOf(rnd, 0, 1, 9, 30, 60, 600, 2040, 80000)
		at := in(n).UTC()
		return pickOf(rnd, fmt.Sprint(n), fmt.Sprint(n), fmt.Sprint(n*1000), fmt.Sprintf("%d.5", n), (time.Duration(n) * time.Second).String(),
			fmt.Sprint(at.Unix()), fmt.Sprint(at.UnixMilli()), at.Format(time.RFC3339), at.Format(http.TimeFormat), "-1")
	}
	limit := func(key string) { // with a star for the role
		often(strings.Replace(key, "*", "Limit", 1), 5, number)
		often(strings.Replace(key, "*", "Remaining", 1), 5, number)
		often(strings.Replace(key, "*", "Reset", 1), 5, reset)
	}
	often("Date", 5, func() string { return in(pickOf(rnd, 0, -6, 60, -60)).UTC().Format(http.TimeFormat) })
	if rnd.IntN(5) == 0 {
		h.Set(pickOf(rnd, text.RetryAfterKey, "Age"), pickOf(rnd, "0", "5", "60"))
	}
	for range 1 + rnd.IntN(3) {
		switch rnd.IntN(7) {
		case 0:
			_ = fuzzFields(rnd).Writable().Set(h)
		case 1:
			_ = writtenDialects[rnd.IntN(len(writtenDialects))].Set(h, fuzzFields(rnd), now)
		case 2: // in other forms, or malformed
			h.Set("RateLimit", pickOf(rnd, `"a";r=x`, "default;r=5;t=3", "a;a=5;w=30", "limit=100, remaining=5, reset=30", "limit=100, reset=30", `"a"`, ""))
			h.Set("RateLimit-Policy", pickOf(rnd, "100;w=60", "100;w=60, 5000;w=3600", `"a";q=5;w=60`, "a;q=5;w=60", "x"))
		case 3:
			prefix := pickOf(rnd, "X-RateLimit-", "RateLimit-", "X-Rate-Limit-", "X-Acme-RateLimit-", "Acme-", "X-Discogs-RateLimit-")
			limit(prefix + "*")
			switch rnd.IntN(6) {
			case 0:
				h.Set(prefix+"Used", number())
			case 1:
				h.Set(prefix+"Resource", pickOf(rnd, "core", "a", "search"))
			case 2:
				h.Set(prefix+"Window", pickOf(rnd, "60", "1m", "3600", "10s"))
			case 3: // a second line
				limit(prefix + "*")
			case 4:
				h.Set(prefix+pickOf(rnd, "Reset-After", "Reset-Ms"), number())
			}
		case 4:
			for range 1 + rnd.IntN(3) {
				limit(pickOf(rnd, "X-RateLimit-*-", "RateLimit-*-") + pickOf(rnd, "Second", "Minute", "Hour", "Day"))
			}
			often("RateLimit-Reset", 2, reset)
		case 5:
			h.Set("X-RateLimit-Limit", pickOf(rnd, "10, 100", "100, 100;w=60", "10, 10;w=1, 1000;w=3600", "60/100"))
			h.Set("X-RateLimit-Remaining", pickOf(rnd, "1, 99", "5", "0", "40/60", "5, 5;w=1"))
			h.Set("X-RateLimit-Reset", pickOf(rnd, "1, 60", "5", reset()))
		case 6:
			for _, unit := range []string{"Requests", "Tokens", "Input-Tokens"} {
				limit(pickOf(rnd, "Anthropic-RateLimit-"+unit+"-*", "X-RateLimit-*-"+unit))
			}
		}
	}
	return h
}

// gatewayFields returns fields of a gateway, with the names that older forms are read as.
func gatewayFields(rnd *rand.Rand) (f Fields) {
	if rnd.IntN(3) == 0 {
		return ownFields(rnd)
	}
	names := []string{"tenant", "burst", "default", "minute", "day", "hour", "requests", "core", "acme", "100/60"}
	for _, i := range rnd.Perm(len(names))[:1+rnd.IntN(2)] {
		quota, window := pickOf[int64](rnd, 3, 10, 100, 1000), pickOf[int64](rnd, 1, 10, 60, 3600, 86400)
		l := Limit{Name: names[i], Remaining: max(rnd.Int64N(quota+4)-3, 0), Reset: SecondsOf(rnd.Int64N(window + 1))}
		if rnd.IntN(6) == 0 {
			l.Reset = Seconds{}
		}
		f.Limits = append(f.Limits, l)
		if rnd.IntN(6) > 0 {
			f.Policies = append(f.Policies, Policy{Name: names[i], Quota: quota, Window: SecondsOf(window), Unit: pickOf[Unit](rnd, "", "", "", ContentBytes, "tokens")})
		}
	}
	return f
}

// lawRestrictUpstream is law 7 for a server with any forms, status and clock.
func lawRestrictUpstream(t testing.TB, rnd *rand.Rand) error {
	status := pickOf(rnd, 200, 200, 304, 403, 429, 503)
	_, err := lawRestrictStatus(t, status, upstreamHeader(rnd, passed), gatewayFields(rnd), LegacyOptions{Now: passed})
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
		cases, refused := readCases(t), 0
		for _, tt := range cases {
			_, err := lawRestrictHeader(t, trial.Wire(strings.Join(tt.Headers, "\n")), fieldsOf(t, ``, own), tt.options())
			if err != nil {
				require.ErrorIs(t, err, ErrRange, "%s/%s", tt.Vendor, tt.Case)
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
		own, _ := Parse(http.Header{draft.PolicyKey: {ownPolicies}, draft.LimitKey: {ownLimits}})
		o := LegacyOptions{Now: passed}
		for _, text := range []string{passing + header, header} {
			h, _ := trial.ReadLines(text)
			_, _ = lawRestrictHeader(t, h, own, o)
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		d := writtenDialects[rnd.IntN(len(writtenDialects))]
		lawRestrictDialect(t, d, fuzzFields(rnd), ownFields(rnd))
		lawRestrictDialect(t, d, fuzzFields(rnd), own)
		_, _ = lawRestrictHeader(t, mixedForms(rnd), own, o)
		_, _ = lawRestrictHeader(t, mixedForms(rnd), ownFields(rnd), o)
		_ = lawRestrictUpstream(t, rnd)
	})
}

// Upstream's Retry-After is not raised to the waits of upstream's limits, but to those of
// own.
func TestRestrictHeaderRetryAfter(t *testing.T) {
	for own, want := range map[string]string{`"g";r=4;t=20`: "5", `"g";r=0;t=8`: "8", `"g";r=0;t=3`: "5", `"g";r=0`: "5"} {
		h := trial.Wire("Retry-After: 5\nRateLimit: \"a\";r=0;t=10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60")
		got, err := lawRestrictHeader(t, h, fieldsOf(t, ``, own), LegacyOptions{Now: passed})
		require.NoError(t, err)
		require.Equal(t, []string{want}, got[text.RetryAfterKey], own)
		require.Equal(t, []string{"60"}, got["X-Ratelimit-Reset"], own)
	}
}

// The options of a gateway without net/http: an own refusal adds Retry-After, and older forms are
// written, or lowered if they are there.
func TestRestrictOptions(t *testing.T) {
	custom := mustDialect("acme", DialectField{Name: "Acme-Left", Role: RoleRemaining})
	const policies, limits = `"g";q=9;w=60`, `"g";r=0;t=20`
	for _, tc := range []struct {
		name, header string
		options      RestrictOptions
		want         string // in addition to the current fields
	}{
		{"nothing more", ``, RestrictOptions{}, ``},
		{"an own refusal", ``, RestrictOptions{Refused: true}, `Retry-After: 20`},
		{"an own refusal of less than upstream asks", `Retry-After: 50`, RestrictOptions{Refused: true}, `Retry-After: 50`},
		{"a form", ``, RestrictOptions{Dialects: []*Dialect{XRateLimit}}, "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 20"},
		{"two forms", ``, RestrictOptions{Dialects: []*Dialect{Draft06, XRateLimit}}, "X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 20\n" +
			"RateLimit-Limit: 9\nRateLimit-Remaining: 0\nRateLimit-Reset: 20"},
		{"a form of one's own, which is there", `Acme-Left: 5`, RestrictOptions{Dialects: []*Dialect{custom}}, `Acme-Left: 0`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, want := trial.Wire(tc.header), trial.Wire(tc.want)
			tc.options.Legacy.Now = passed
			require.NoError(t, RestrictHeader(h, 200, fieldsOf(t, policies, limits), tc.options))
			require.NotEmpty(t, h[draft.PolicyKey])
			require.Contains(t, h.Get(LimitField), limits)
			delete(h, draft.PolicyKey)
			delete(h, draft.LimitKey)
			require.Equal(t, want, h)
		})
	}
}

// A dialect that cannot stand next to the current fields is not written, but all the rest is.
func TestRestrictOptionsErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		dialects []*Dialect
		want     string
	}{
		"nil":              {[]*Dialect{XRateLimit, nil}, "ratelimit: RestrictOptions.Dialects[1]: it is nil"},
		"writes RateLimit": {[]*Dialect{Draft07, XRateLimit}, "ratelimit: RestrictOptions.Dialects[0]: ratelimit: RateLimit: duplicate"},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			given := slices.Clone(tc.dialects)
			require.EqualError(t, RestrictHeader(h, 200, fieldsOf(t, ``, `"g";r=5;t=20`), RestrictOptions{Dialects: tc.dialects}), tc.want)
			require.Equal(t, `"g";r=5;t=20`, h.Get(LimitField))
			require.Equal(t, "5", h.Get("X-RateLimit-Remaining"))
			require.Equal(t, given, tc.dialects, "the arguments stay as they are")
		})
	}
}

// Own limits that were read from older fields are written as far as the current fields can
// express them.
func TestRestrictHeaderOlderOwn(t *testing.T) {
	own, err := ParseAny(trial.Wire("X-RateLimit-Limit-Minute: 9\nX-RateLimit-Remaining-Minute: 4\nX-RateLimit-Reset-Day: 70"), LegacyOptions{})
	require.NoError(t, err)
	h := http.Header{}
	require.NoError(t, RestrictHeader(h, 200, own, RestrictOptions{}))
	require.Equal(t, trial.Wire("RateLimit-Policy: \"minute\";q=9;w=60\nRateLimit: \"minute\";r=4"), h)
	own.Dialect = ""
	require.ErrorIs(t, RestrictHeader(http.Header{}, 200, own, RestrictOptions{}), ErrRange, "limits of one's own have all numbers")
}
