package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lawSet is law 9: the dialect reads back every number that Set writes, and on error Set
// writes nothing.
func lawSet(t testing.TB, d *Dialect, f Fields, now time.Time) {
	t.Helper()
	old := http.Header{"Other": {"stays"}}
	h := old.Clone()
	if err := d.Set(h, f, now); err != nil {
		requireFieldError(t, err)
		require.Equal(t, old, h, "nothing is written next to an error")
		return
	}
	require.Equal(t, []string{"stays"}, h["Other"])
	for key, lines := range h {
		require.Equal(t, http.CanonicalHeaderKey(key), key)
		require.Len(t, lines, 1)
		require.True(t, text.IsName(lines[0]))
	}
	limits, name := f.Limits, ""
	if !d.starred() {
		tightest, ok := toldOf(f)
		if !ok {
			return
		}
		limits, name = []Limit{tightest}, tightest.Name
	}
	got, err := ParseAny(h, LegacyOptions{Dialects: []*Dialect{d}, Name: name, Now: now})
	require.NoError(t, err)
	lawFields(t, got)
	for _, l := range limits {
		lawSetLimit(t, d, f, got, l)
	}
	for _, field := range d.Fields() {
		if used := h.Get(field.Name); field.Role == RoleUsed && used != "" {
			p, ok := f.PolicyOf(limits[0])
			require.True(t, ok && len(limits) == 1)
			require.Equal(t, strconv.FormatInt(p.Quota-limits[0].Remaining, 10), used, "remaining goes before it where both are read")
		}
	}
}

func (d *Dialect) starred() bool {
	return slices.ContainsFunc(d.Fields(), func(f DialectField) bool { return strings.Contains(f.Name, "*") && f.Role != RoleNone })
}

// toldOf returns the limit that a form for one limit announces. It is the tightest of the
// limits in requests and the limits with nothing remaining. If there are none, it is the
// tightest limit.
func toldOf(f Fields) (Limit, bool) {
	few := Fields{Policies: f.Policies}
	for _, l := range f.Limits {
		p, ok := f.PolicyOf(l)
		if !ok {
			p.Quota = Unknown
		}
		if p.Unit.countsRequests() || l.exhausted(&p) || len(f.Limits) == 1 {
			l.Reset = impliedReset(l, &p)
			few.Limits = append(few.Limits, l)
		}
	}
	if l, ok := few.Tightest(); ok {
		return l, true
	}
	return f.Tightest()
}

// impliedReset returns the reset of a limit, or a short window in its place if nothing remains.
func impliedReset(l Limit, p *Policy) Seconds {
	if window, _ := p.Window.Value(); l.exhausted(p) && l.Reset == (Seconds{}) && window < 1e8 {
		return p.Window
	}
	return l.Reset
}

// lawSetLimit checks that a written limit and its policy are read back.
func lawSetLimit(t testing.TB, d *Dialect, f, got Fields, l Limit) {
	t.Helper()
	p, ok := f.PolicyOf(l)
	l.Reset = impliedReset(l, &p)
	if l.Name == "" {
		l.Name = defaultName
	}
	same := func(m Limit) bool { return m.Name == l.Name }
	m := Limit{Remaining: Unknown}
	if i := slices.IndexFunc(got.Limits, same); i >= 0 {
		m = got.Limits[i]
	}
	if parts := has(d, RoleUsedFraction, RoleUsedPercent) && !has(d, RoleQuota, RoleRemaining); parts && ok && 0 <= l.Remaining && l.Remaining <= p.Quota {
		q, _ := got.PolicyOf(m)
		require.EqualValues(t, []int64{100, l.Remaining * 100 / max(p.Quota, 1)}, []int64{q.Quota, m.Remaining}, "%v of %v", l, got)
		return
	}
	dictionary := has(d, RoleQuota) && d.fields[0].Name == LimitField
	if has(d, RoleRemaining) || dictionary {
		require.Equal(t, l.Remaining, m.Remaining, "%v of %v", l, got)
	}
	if has(d, RoleReset) || dictionary {
		require.Equal(t, l.Reset, m.Reset, "%v of %v", l, got)
	}
	if !ok {
		return
	}
	q, found := got.PolicyOf(Limit{Name: l.Name})
	if has(d, RoleQuota) && p.Quota != Unknown {
		require.True(t, found, "%v of %v", l, got)
		require.Equal(t, p.Quota, q.Quota)
	}
	if found && q.Window.ok && p.Window.ok {
		require.Equal(t, p.Window, q.Window)
	}
	if has(d, RoleWindow, RolePolicies) && p.Window.ok && p.Quota != Unknown {
		require.Equal(t, p.Window, q.Window, "%v of %v", p, got)
	}
}

// writtenDialects are all dialects that LookupDialect knows.
var writtenDialects = []*Dialect{
	&draft00, &draft03, Draft06, Draft07, XRateLimit, XRateLimitUnix, &xRateLimitDate, &xRateLimitByName, &twitter, GitHub, &gitLab, OpenAI, Anthropic,
}

// setDialects also have dialects with parts of a quota.
var setDialects = append(slices.Clone(writtenDialects),
	dialectOf("Acme-Used fraction, Acme-Reset reset"), dialectOf("Acme-*-Used percent"), dialectOf("Acme-Limit quota, Acme-Used percent"))

func TestLookupDialect(t *testing.T) {
	for _, d := range writtenDialects {
		got, ok := LookupDialect(d.Name())
		require.True(t, ok)
		require.Same(t, d, got)
		_, err := NewDialect(d.Name(), d.Fields()...)
		require.NoError(t, err)
	}
	_, ok := LookupDialect("GitHub")
	require.False(t, ok, "names are compared byte by byte")
	_, ok = LookupDialect("no such dialect")
	require.False(t, ok)
}

// dialectOf returns the dialect with a name, or a dialect with the given fields. Each field
// has a role and a format: "Acme-Left remaining, Acme-Reset reset unix".
func dialectOf(said string) *Dialect {
	if d, ok := LookupDialect(said); ok {
		return d
	}
	roles := []string{"none", "quota", "remaining", "used", "reset", "window", "name", "policies", "fraction", "percent"}
	var fields []DialectField
	for field := range strings.SplitSeq(said, ", ") {
		name, role, _ := strings.Cut(field, " ")
		role, format, _ := strings.Cut(role, " ")
		f := DialectField{Name: name, Role: Role(slices.Index(roles, role)), Format: formatOf(format)}
		if f.Role < 0 {
			panic("no role: " + field)
		}
		fields = append(fields, f)
	}
	return mustDialect("own", fields...)
}

// A case of TestSet has policies and limits in the current form. The dialect is after an
// equals sign, and the written lines follow. An error is after an exclamation mark.
func TestSet(t *testing.T) {
	for _, b := range readBlocks("set") {
		given, rest := b.Cut("\n"+b.Text, "\n= ")
		dialect, written := b.Cut(rest, "\n")
		d, h := dialectOf(dialect), trial.Wire(given)
		f := fieldsOf(t, h.Get(PolicyField), h.Get(LimitField))
		eachClock(t, b.Name, written, func(t *testing.T, want string, now time.Time) {
			h := http.Header{}
			lawSet(t, d, f, now)
			if err := d.Set(h, f, now); err != nil {
				require.Equal(t, strings.TrimSpace(want), "! "+strings.TrimPrefix(err.Error(), "ratelimit: "))
				return
			}
			require.Equal(t, trial.Wire(want), h)
		})
	}
}

// Set replaces the fields of the dialect, and no other fields.
func TestSetReplaces(t *testing.T) {
	f := Fields{Policies: []Policy{{Name: "minute", Quota: 5, Window: SecondsOf(60)}}, Limits: []Limit{{Name: "minute", Remaining: 4}}}
	h := trial.Wire("X-RateLimit-Limit-Hour: \"9\"\nX-RateLimit-Remaining-Minute: 9\nX-RateLimit-Limit: 9\nRateLimit-Limit: 9")
	require.NoError(t, xRateLimitByName.Set(h, f, late))
	require.Equal(t, trial.Wire("X-RateLimit-Limit-Minute: 5\nX-RateLimit-Remaining-Minute: 4\nX-RateLimit-Limit: 9\nRateLimit-Limit: 9"), h)

	h = trial.Wire("RateLimit-Reset: 9\nRateLimit-Policy: 9;w=9\nRateLimit-Policy: 8;w=8")
	require.NoError(t, Draft06.Set(h, f, late))
	require.Equal(t, trial.Wire("RateLimit-Limit: 5\nRateLimit-Remaining: 4\nRateLimit-Policy: 5;w=60"), h)
	require.NoError(t, Draft06.Set(h, Fields{}, late))
	require.Empty(t, h)

	h = trial.Wire("RateLimit-Policy: \"minute\";q=5;w=60\nRateLimit-Limit: 9")
	require.NoError(t, Draft06.Set(h, f, late))
	require.Equal(t, trial.Wire("RateLimit-Limit: 5\nRateLimit-Remaining: 4\nRateLimit-Policy: \"minute\";q=5;w=60"), h, "the current form stays")

	h = http.Header{"ratelimit-policy": {`"minute";q=5;w=60`}, "Ratelimit-Policy": {"9;w=9"}}
	require.NoError(t, Draft06.Set(h, f, late))
	h.Del("RateLimit-Policy")
	require.Equal(t, http.Header{"ratelimit-policy": {`"minute";q=5;w=60`}, "Ratelimit-Limit": {"5"}, "Ratelimit-Remaining": {"4"}}, h, "in another case")

	h = http.Header{"Ratelimit-Policy": {`"minute";q=5;w=60`}, "ratelimit-policy": {"9;w=9"}}
	require.NoError(t, Draft06.Set(h, f, late))
	require.NotContains(t, h, "ratelimit-policy", "an older form in another case goes")

	soon := http.Header{}
	f.Limits[0].Reset = SecondsOf(10)
	require.NoError(t, XRateLimitUnix.Set(soon, f, time.Time{}))
	got, err := ParseAny(soon, LegacyOptions{})
	require.NoError(t, err)
	require.InDelta(t, 10, got.Limits[0].Reset.n, 1)
}

func TestSetRefuses(t *testing.T) {
	policy := func(q, w int64) Policy { return Policy{Name: "a", Quota: q, Window: SecondsOf(w)} }
	limit := func(name string, r, s int64) []Limit { return []Limit{{Name: name, Remaining: r, Reset: SecondsOf(s)}} }
	quota, minute := DialectField{Name: "Acme-Max", Role: RoleQuota}, DialectField{Name: "Acme-Left", Role: RoleRemaining, Window: SecondsOf(60)}
	one, alone := Fields{Policies: []Policy{policy(1, 1)}, Limits: limit("a", 1, 1)}, Fields{Limits: limit("a", 1, 1)}
	for _, tt := range []struct {
		why   string
		d     *Dialect
		f     Fields
		field string
		err   error
	}{
		{"remaining below 0", XRateLimit, Fields{Limits: limit("a", -2, 1)}, "X-RateLimit-Remaining", ErrRange},
		{"remaining above the largest", XRateLimit, Fields{Limits: limit("a", MaxInteger+1, 1)}, "X-RateLimit-Remaining", ErrRange},
		{"a reset below 0", XRateLimit, Fields{Limits: limit("a", 1, -1)}, "X-RateLimit-Reset", ErrRange},
		{"a quota below 0", XRateLimit, Fields{Policies: []Policy{policy(-2, 1)}, Limits: limit("a", 1, 1)}, "X-RateLimit-Limit", ErrRange},
		{"a window below 1 in a list", Draft06, Fields{Policies: []Policy{policy(1, 0)}, Limits: limit("a", 1, 1)}, "RateLimit-Policy", ErrRange},
		{"a window below 1 behind the quota", &draft03, Fields{Policies: []Policy{policy(1, 0)}, Limits: limit("a", 1, 1)}, "RateLimit-Limit", ErrRange},
		{"a window below 1 behind the quota, before a good one", &draft03, Fields{Policies: []Policy{policy(1, 0), {Name: "b", Quota: 5, Window: SecondsOf(60)}}, Limits: limit("a", 1, 1)}, "RateLimit-Limit", ErrRange},
		{"a window below 1 in a field", dialectOf("Acme-Max quota, Acme-Window window"), Fields{Policies: []Policy{policy(1, 0)}, Limits: limit("a", 1, 1)}, "Acme-Window", ErrRange},
		{"a window that differs from the field's usual one", mustDialect("x", quota, minute), Fields{Policies: []Policy{policy(1, 5)}, Limits: limit("a", 1, 1)}, "Acme-Max", ErrRange},
		{"a name that no field value can contain", GitHub, Fields{Limits: limit("a\nb", 1, 1)}, "X-RateLimit-Limit", ErrSyntax},
		{"a negative quota of another policy", Draft06, Fields{Policies: []Policy{policy(1, 1), {Name: "b", Quota: -5, Window: SecondsOf(1)}}, Limits: limit("a", 1, 1)}, "RateLimit-Policy", ErrRange},
		{"a comment of a wrong type", Draft06, Fields{Policies: []Policy{{Name: "a", Window: SecondsOf(1), Params: Params{{"a", 1}}}}, Limits: limit("a", 1, 1)}, "RateLimit-Policy", ErrType},
		{"draft-07 with a remaining below 0", Draft07, Fields{Policies: []Policy{policy(1, 1)}, Limits: limit("a", -2, 1)}, "RateLimit", ErrRange},
		{"draft-07 with a quota below 0", Draft07, Fields{Policies: []Policy{policy(-2, 1)}, Limits: limit("a", 1, 1)}, "RateLimit", ErrRange},
		{"draft-07 with a reset below 0", Draft07, Fields{Policies: []Policy{policy(1, 1)}, Limits: limit("a", 1, -1)}, "RateLimit", ErrRange},
		{"no field for the number", mustDialect("none"), alone, "none", ErrMissing},
	} {
		t.Run(tt.why, func(t *testing.T) {
			h := http.Header{"Other": {"stays"}}
			err := tt.d.Set(h, tt.f, late)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, &FieldError{Field: tt.field, Offset: -1, Item: -1, Err: tt.err}, err)
			require.Equal(t, http.Header{"Other": {"stays"}}, h)
		})
	}
	many := make([]Limit, maxMembers+1)
	for i := range many {
		many[i] = Limit{Name: fmt.Sprint("n", i), Remaining: 1}
	}
	require.NoError(t, xRateLimitByName.Set(http.Header{}, Fields{Limits: many[:maxMembers]}, late))
	require.ErrorIs(t, xRateLimitByName.Set(http.Header{}, Fields{Limits: many}, late), ErrTooMany)
	for i := range many {
		many[i].Reset = SecondsOf(5)
	}
	require.ErrorIs(t, xRateLimitByName.Set(http.Header{}, Fields{Limits: many[:older.MaxFields/2+1]}, late), ErrTooMany, "more fields than are read")
	f := one
	for i := range 254 {
		f.Policies[0].Params = append(f.Policies[0].Params, Param{fmt.Sprint("k", i), int64(1)})
	}
	require.NoError(t, Draft06.Set(http.Header{}, f, late))
	f.Policies[0].Params = append(f.Policies[0].Params, Param{"k", int64(1)})
	require.ErrorIs(t, Draft06.Set(http.Header{}, f, late), ErrTooMany)
	f.Policies[0].Params = nil
	h := trial.Wire("RateLimit: \"a\";r=1")
	require.ErrorIs(t, Draft07.Set(h, f, late), ErrDuplicate, "next to the current form")
	require.Equal(t, trial.Wire("RateLimit: \"a\";r=1"), h)
	require.Equal(t, errNilHeader, Draft07.Set(nil, f, late))
	for _, format := range []TimeFormat{TimeUnix, TimeUnixMilli, TimeHTTPDate, TimeRFC3339} {
		for _, now := range []time.Time{time.Unix(-5, 0), time.Unix(1<<60, 0)} {
			d := mustDialect("x", DialectField{Name: "X-R", Role: RoleReset, Format: format})
			require.ErrorIs(t, d.Set(http.Header{}, Fields{Limits: limit("a", 1, 1)}, now), ErrRange)
			require.ErrorIs(t, d.Set(http.Header{}, Fields{Limits: limit("a", 1, 0)}, now), ErrRange)
		}
	}
}

// Points in time are written between an earliest and a latest moment, and not a second before
// or after.
func TestSetClocks(t *testing.T) {
	first, last := time.Unix(older.LeastNear, 0), time.Unix(253402300798, 0) // a second before the year 10000
	f := Fields{Limits: []Limit{{Name: "a", Remaining: 1, Reset: SecondsOf(1)}}}
	for format := range TimeDuration + 1 {
		d := mustDialect("x", DialectField{Name: "X-R", Role: RoleReset, Format: format})
		point := format >= TimeUnix && format <= TimeRFC3339
		for now, ok := range map[time.Time]bool{first: true, first.Add(-time.Second): !point, last.Add(time.Second): !point} {
			require.Equal(t, ok, d.Set(http.Header{}, f, now) == nil, "%v at %v", format, now)
		}
		if format != TimeUnix && format != TimeUnixMilli { // a larger number of seconds is read as a point in time
			require.NoError(t, d.Set(http.Header{}, f, last))
		}
	}
}

// A dialect refuses no random fields if it has a field for each of their numbers.
func TestSetRandom(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	windows := []int64{1, 10, 60, 300, 3600, 86400, 7 * 86400}
	for _, d := range setDialects {
		for range 300 {
			quota := rnd.Int64N(100000)
			window := windows[rnd.IntN(len(windows))]
			f := Fields{
				Policies: []Policy{{Name: "default", Quota: quota, Window: SecondsOf(window)}},
				Limits:   []Limit{{Name: "default", Remaining: rnd.Int64N(quota + 1), Reset: SecondsOf(rnd.Int64N(window + 1))}},
			}
			err := d.Set(http.Header{}, f, late)
			require.True(t, err == nil || d == &gitLab, "%s: %v of %v", d.Name(), err, f) // GitLab's windows must be a minute
			lawSet(t, d, f, late)
		}
	}
}

func TestNewDialect(t *testing.T) {
	for _, tt := range []struct {
		name  string
		field DialectField
		want  error
	}{
		{"a field", DialectField{Name: "Acme-Left", Role: RoleRemaining}, nil},
		{"one star", DialectField{Name: "Acme-*-Left", Role: RoleRemaining}, nil},
		{"a star alone", DialectField{Name: "*", Role: RoleRemaining}, nil},
		{"two stars", DialectField{Name: "Acme-*-*", Role: RoleRemaining}, ErrSyntax},
		{"a space", DialectField{Name: "Acme Left", Role: RoleRemaining}, ErrSyntax},
		{"a colon", DialectField{Name: "Acme:", Role: RoleRemaining}, ErrSyntax},
		{"a policy that is not printable", DialectField{Name: "Acme", Policy: "caf\u00e9"}, ErrSyntax},
		{"a unit that is not printable", DialectField{Name: "Acme", Unit: "caf\u00e9"}, ErrSyntax},
		{"a role below the first", DialectField{Name: "Acme", Role: -1}, ErrRange},
		{"a role behind the last", DialectField{Name: "Acme", Role: RoleUsedPercent + 1}, ErrRange},
		{"a format below the first", DialectField{Name: "Acme", Format: -1}, ErrRange},
		{"a format behind the last", DialectField{Name: "Acme", Format: TimeDuration + 1}, ErrRange},
		{"a window of 0", DialectField{Name: "Acme", Window: SecondsOf(0)}, ErrRange},
		{"the name of the first field, in another case", DialectField{Name: "first", Role: RoleRemaining}, ErrDuplicate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fields := []DialectField{{Name: "First", Role: RoleQuota}, tt.field}
			d, err := NewDialect("acme", fields...)
			if tt.want != nil {
				require.Nil(t, d)
				require.Equal(t, &FieldError{Field: tt.field.Name, Offset: -1, Item: -1, Err: tt.want}, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "acme", d.Name())
			fields[0].Name = "Changed"
			got := d.Fields()
			require.Equal(t, []DialectField{{Name: "First", Role: RoleQuota}, tt.field}, got)
			got[0].Name = "Changed"
			require.Equal(t, "First", d.Fields()[0].Name, "a caller changes a copy")
		})
	}
	_, err := NewDialect("acme", DialectField{Name: "Acme-*-*", Role: RoleRemaining})
	require.EqualError(t, err, "ratelimit: Acme-*-*: not well-formed, it must be the name of a field, with at most one *")
	_, err = NewDialect("acme", DialectField{Name: "Acme-*", Unit: "caf\u00e9"})
	require.EqualError(t, err, "ratelimit: Acme-*: not well-formed")
	derived := mustDialect("mine", append(Draft07.Fields(), DialectField{Name: "Acme-Left", Role: RoleRemaining})...)
	require.NoError(t, derived.Set(http.Header{}, Fields{Policies: []Policy{{Quota: 5}}, Limits: []Limit{{Remaining: 1, Reset: SecondsOf(1)}}}, late))
	for _, name := range []string{"draft-00", "draft-03", "draft-07"} { // a field of a draft gets another role
		d, _ := LookupDialect(name)
		for role := range RoleUsedPercent + 1 {
			fields := d.Fields()
			fields[0].Role = role
			_ = mustDialect("mine", fields...).Set(http.Header{}, Fields{ // any result is allowed, but no panic
				Policies: []Policy{{Name: "a", Quota: 5, Window: SecondsOf(60)}}, Limits: []Limit{{Name: "a", Remaining: 1, Reset: SecondsOf(1)}},
			}, late)
		}
	}
	var none Dialect
	require.NoError(t, none.Set(http.Header{}, Fields{}, late))
	require.Empty(t, none.Fields())
}

// A caller's own dialect can use every role and format.
func TestCallersDialect(t *testing.T) {
	acme := mustDialect("acme", []DialectField{
		{Name: "Acme-Calls-*", Role: RoleQuota, Policy: "api", Unit: "points", Window: SecondsOf(5)},
		{Name: "Acme-Calls-Sum-*", Role: RoleUsed, Policy: "api"},
		{Name: "Acme-Left-Total-*", Role: RoleUsed, Policy: "api"},
		{Name: "acme-left-*", Role: RoleRemaining, Policy: "api"},
		{Name: "Acme-Pair", Role: RoleRemaining, Policy: "pair"},
		{Name: "Acme-Per", Role: RoleQuota, Policy: "per"},
		{Name: "Acme-Burst", Role: RoleQuota, Policy: "burst"},
		{Name: "Acme-Left", Role: RoleRemaining, Unit: "points", Window: SecondsOf(5)},
		{Name: "Acme-Rules", Role: RolePolicies},
		{Name: "Acme-*-Part", Role: RoleUsedFraction},
		{Name: "Acme-*-Pct", Role: RoleUsedPercent},
		{Name: "Acme-Title", Role: RoleName},
		{Name: "Acme-Until", Role: RoleReset, Format: TimeRFC3339, Policy: "pair"},
		{Name: "Acme-Long", Role: RoleWindow, Format: TimeMilli, Policy: "pair"},
		{Name: "RateLimit", Role: RoleQuota, Format: TimeSeconds},
		{Name: "X-RateLimit-Limit", Role: RoleNone},
		{Name: "Retry-After-Acme", Role: RoleNone},
		{Name: "X-Rl", Role: RoleNone},
		{Name: "X-Other-Limit", Role: RoleNone},
	}...)
	lawTable(t, "dialect", nil, acme)
}

// TestDialectConcurrently uses one dialect for the first time from many goroutines.
func TestDialectConcurrently(t *testing.T) {
	d := mustDialect("acme", DialectField{Name: "Acme-Left", Role: RoleRemaining})
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			got, err := ParseAny(http.Header{"Acme-Left": {"5"}}, LegacyOptions{Dialects: []*Dialect{d}})
			assert.NoError(t, err)
			assert.Len(t, got.Limits, 1)
			h := http.Header{}
			assert.NoError(t, d.Set(h, got, late))
			assert.Equal(t, http.Header{"Acme-Left": {"5"}}, h)
		})
	}
	group.Wait()
}

// has reports whether a dialect has a field of one of the roles.
func has(d *Dialect, wanted ...Role) bool {
	return slices.ContainsFunc(d.fields, func(f DialectField) bool { return slices.Contains(wanted, f.Role) })
}

// An empty RateLimit-Policy is not read, whichever field is first.
func TestEmptyPolicyNextToDraft07(t *testing.T) {
	h := http.Header{draft.PolicyKey: {""}, draft.LimitKey: {"limit=10, remaining=5, reset=5"}}
	got, err := ParseAny(h, LegacyOptions{Dialects: []*Dialect{Draft07}})
	require.NoError(t, err)
	require.Equal(t, []string{"default : 5/10 w=- t=5"}, vendorLimits(got))
}
