package laws

import (
	"maps"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/stretchr/testify/require"
)

// A reading is what one kind of client reads in a response.
type reading struct {
	client string
	ratelimit.Advice
}

// The clients of readings that know all forms, and the end of the name of each client that also knows
// Retry-After.
const allFields, withoutRetryAfter, andRetryAfter = "all fields", "all fields but Retry-After", " and Retry-After"

// readings returns what different clients read in a response. One client knows all forms, and each of
// the others knows one older form. Each client reads the response with and without Retry-After.
func readings(status int, h http.Header, o ratelimit.LegacyOptions) (list []reading) {
	c := ratelimit.Advisor{Legacy: o, MaxWait: math.MaxInt64}
	read := func(client string, h http.Header) {
		list = append(list, reading{client, c.Advise(&http.Response{StatusCode: status, Header: h}, o.Now)})
	}
	read(allFields, h)
	alone := h.Clone()
	maps.DeleteFunc(alone, func(key string, _ []string) bool { return strings.Contains(key, text.RetryAfterKey) })
	read(withoutRetryAfter, alone)
	olds := WithoutCurrent(alone)
	forms := map[string]http.Header{}
	found, _ := older.Find(nil, olds, nil)
	for _, f := range found {
		if forms[f.Form] == nil {
			forms[f.Form] = http.Header{"Date": h["Date"], "Age": h["Age"]}
		}
		forms[f.Form][f.Key] = f.Lines
	}
	for _, d := range o.Dialects {
		forms[d.Name()] = http.Header{"Date": h["Date"], "Age": h["Age"]}
		for _, f := range d.Fields() {
			if key := http.CanonicalHeaderKey(f.Name); olds[key] != nil {
				forms[d.Name()][key] = olds[key]
			}
		}
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

// A Passage is a response on its way through parties that add their own limits.
type Passage struct {
	Status, Final int // of upstream's response, and of the client's response
	Before, After http.Header
	Options       ratelimit.LegacyOptions
	Parties       []ratelimit.Fields
	Writes        bool // the parties write older forms
	Reported      bool // an error has reported that a form cannot express a limit
	Endless       bool // a party refuses, and does not announce for how long
}

// Between fails if a passage breaks law 7: no client may do more than upstream allows and, if no error
// was reported, no more than each party allows. No client waits longer than the strictest party asks,
// unless a limit has nothing remaining and no time.
func Between(t testing.TB, p Passage) {
	t.Helper()
	was := map[string]ratelimit.Advice{}
	longest, _ := ratelimit.ParseRetryAfter(p.Before, p.Options.Now) // a success may have a wait that counts only next to other fields
	seconds, _ := ratelimit.ParseRetryAfter(http.Header{"Date": p.Before["Date"], "Age": p.Before["Age"], text.RetryAfterKey: p.Before[text.RetryAfterKey]}, p.Options.Now)
	longest = max(longest, seconds) // for clients that do not know Retry-After-Ms
	endless := p.Endless
	for _, r := range readings(p.Status, p.Before, p.Options) {
		was[r.client] = r.Advice
		longest, endless = max(longest, r.Asked), endless || Endless(r.Fields)
	}
	for _, r := range readings(p.Final, p.Before, p.Options) { // a refusal makes resets count
		longest = max(longest, r.Asked)
	}
	for _, f := range p.Parties {
		longest, endless = max(longest, Asked(f).Wait), endless || Endless(f)
	}
	if atOnce(was, p.Parties) { // the wait becomes the pace of another party
		for _, a := range was {
			longest = max(longest, a.Pace)
		}
		for _, f := range p.Parties {
			longest = max(longest, Asked(f).Pace)
		}
	}
	for _, r := range readings(p.Final, p.After, p.Options) {
		if r.client == withoutRetryAfter { // without Retry-After, a 403 has another meaning
			continue
		}
		form := strings.TrimSuffix(r.client, andRetryAfter)
		if p.Writes && r.client != allFields && (p.Reported || !slices.Equal(formKeys(p.Before, form), formKeys(p.After, form))) {
			continue
		}
		if a, ok := was[r.client]; ok {
			require.True(t, AtLeastAsStrict(&r.Advice, &a), "law 7: a reader of %s may do more than upstream allows: %v\nbefore %v\nafter  %v", r.client, p.Parties, p.Before, p.After)
		}
		if p.Reported || text.Stored(p.Before) {
			continue
		}
		require.True(t, endless || r.Asked-longest <= time.Second || r.Source == ratelimit.SourceWindow, "law 7: a reader of %s waits %v, not %v: %v\nbefore %v\nafter  %v", r.client, r.Asked, longest, p.Parties, p.Before, p.After)
		for _, own := range p.Parties {
			allows(t, r, own, p)
		}
	}
}

// atOnce reports whether upstream or a party announces that nothing remains, with a reset of 0.
func atOnce(upstream map[string]ratelimit.Advice, parties []ratelimit.Fields) bool {
	for _, a := range upstream {
		parties = append(slices.Clip(parties), a.Fields)
	}
	spent := func(l ratelimit.Limit) bool { return l.Remaining == 0 && l.Reset == ratelimit.SecondsOf(0) }
	return slices.ContainsFunc(parties, func(f ratelimit.Fields) bool { return slices.ContainsFunc(f.Limits, spent) })
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

// allows fails if one client may do more than one party allows (law 7).
func allows(t testing.TB, r reading, own ratelimit.Fields, p Passage) {
	t.Helper()
	mine, least := Asked(own), LeastOf(own)
	if exhausted(own) {
		least = 0
	}
	told := LeastOf(r.Fields)
	if r.client == allFields {
		require.True(t, AtLeastAsStrict(&r.Advice, &mine), "law 7: a reader of %s may do more than own allows: %v\nbefore %v\nafter  %v", r.client, own, p.Before, p.After)
	}
	if told == math.MaxUint64 || r.client == allFields { // several forms look like one
		return
	}
	untimed := slices.ContainsFunc(r.Fields.Limits, func(l ratelimit.Limit) bool { return l.Reset == ratelimit.Seconds{} })
	require.LessOrEqual(t, told, least, "law 7: a reader of %s may do more than own allows: %v\nbefore %v\nafter  %v", r.client, own, p.Before, p.After)
	require.True(t, untimed || r.Asked >= mine.Wait, "law 7: a reader of %s waits %v: %v\nbefore %v\nafter  %v", r.client, r.Asked, own, p.Before, p.After)
}

// WithoutCurrent returns a copy of h without RateLimit-Policy and RateLimit.
func WithoutCurrent(h http.Header) http.Header {
	h = maps.Clone(h)
	delete(h, draft.PolicyKey)
	delete(h, draft.LimitKey)
	return h
}

// Asked returns what fields ask of a client, without Retry-After, whatever the form of the fields.
func Asked(f ratelimit.Fields) ratelimit.Advice {
	a := ratelimit.Advice{Fields: f}
	for i := range f.Limits {
		l := &f.Limits[i]
		p, known := f.PolicyOf(*l)
		switch {
		case l.Remaining == 0 || known && p.Quota == 0:
			wait, ok := f.UntilReset(i)
			if !ok {
				wait, ok = p.Window.Duration()
			}
			if ok {
				a.Wait = max(a.Wait, wait)
			}
		case l.Remaining > 0 && p.Unit.Canonical() == ratelimit.Requests:
			left := l.Remaining
			if known && p.Quota >= 0 {
				left = min(left, p.Quota)
			}
			reset, _ := f.UntilReset(i)
			nanoseconds := big.NewInt(int64(reset))
			if reset == math.MaxInt64 { // it is longer than a Duration
				seconds, _ := l.Reset.Value()
				nanoseconds.Mul(big.NewInt(seconds), big.NewInt(int64(time.Second)))
			}
			a.Pace = max(a.Pace, ceil(new(big.Rat).SetFrac(nanoseconds, big.NewInt(left))))
		}
	}
	a.Asked = a.Wait
	return a
}

// ceil returns x rounded up, or the longest Duration.
func ceil(x *big.Rat) time.Duration {
	n, rest := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(n.Int64())
}

// AtLeastAsStrict reports whether after has no shorter wait than before, and no shorter pace. If
// nothing remains, the pace does not count.
func AtLeastAsStrict(after, before *ratelimit.Advice) bool {
	return after.Wait >= before.Wait && (max(after.Pace, after.Wait) >= before.Pace || exhausted(after.Fields))
}

// exhausted reports whether nothing remains of a limit.
func exhausted(f ratelimit.Fields) bool {
	for l, p := range f.Pairs() {
		if l.Remaining == 0 || p.Quota == 0 {
			return true
		}
	}
	return false
}

// Endless reports whether the wait for an exhausted limit is unknown, because it has no reset, or
// because a limit reports on a quota of 0.
func Endless(f ratelimit.Fields) bool {
	for l, p := range f.Pairs() {
		if (l.Remaining == 0 || p.Quota == 0) && l.Reset == (ratelimit.Seconds{}) && p.Window == (ratelimit.Seconds{}) {
			return true
		}
	}
	return slices.ContainsFunc(f.Policies, func(p ratelimit.Policy) bool { return p.Quota == 0 })
}

// LeastOf returns the lowest number of remaining requests. If no number is known, it returns the
// largest number.
func LeastOf(f ratelimit.Fields) uint64 {
	least := uint64(math.MaxUint64)
	for l, p := range f.Pairs() {
		if p.Unit.Canonical() == ratelimit.Requests && (l.Remaining != ratelimit.Unknown || p.Quota == 0) {
			least = min(least, uint64(l.Remaining), uint64(p.Quota)) // Unknown is the largest
		}
	}
	return least
}
