package ratelimit

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Limit is a member of the field RateLimit, such as "burst";r=37;t=12 (draft-11 Section 4.1):
// what is left of the quota of a policy. A limit does not promise that requests will be served
// (draft-11 Section 4.1.1). In the zero Limit nothing remains.
type Limit struct {
	Name      string // the name of the [Policy], such as "burst"; may be empty
	Remaining int64  // r, such as 37 quota units, 0 to MaxInteger, or [Unknown]
	// Reset is t, such as SecondsOf(12): 0 to MaxInteger, or absent. It counts from the arrival of
	// the response. Before the reset, the client may use no more than Remaining. After the reset,
	// the quota may still be incomplete (draft-11 Section 8.4).
	Reset        Seconds
	PartitionKey []byte // pk, as in the Policy
	Params       Params // all other parameters, in the order of the field
}

// Unknown is a Remaining or a Quota that an older field leaves out. The current fields require both
// numbers, so a member with Unknown cannot be written: see [Fields.Writable].
const Unknown = -1

// MaxInteger is the largest number of quota units or seconds (RFC 9651 Section 3.3.1).
const MaxInteger = 999_999_999_999_999

// Equal reports whether l and m are the same on the wire, as [Policy.Equal] does.
func (l Limit) Equal(m Limit) bool {
	return l.Name == m.Name && l.Remaining == m.Remaining && l.Reset == m.Reset &&
		equalKey(l.PartitionKey, m.PartitionKey) && l.Params.equal(m.Params)
}

// lower returns the lower of two numbers. Unknown is higher than all others.
func lower(a, b int64) int64 { return int64(min(uint64(a), uint64(b))) }

// Seconds is a whole number of seconds, or absent. The zero value is absent, and differs
// from SecondsOf(0). Compare values with ==.
type Seconds struct {
	n  int64 // 0 if not ok
	ok bool  // not absent
}

// SecondsOf returns n seconds. It does not check n: [Policy.Validate] and [Limit.Validate] do.
func SecondsOf(n int64) Seconds { return Seconds{n, true} }

// CeilSeconds returns d rounded up to whole seconds, so that a client never comes back too early.
// A negative d becomes 0.
func CeilSeconds(d time.Duration) Seconds {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return SecondsOf(max(n, 0))
}

// Value returns the number of seconds, and false if s is absent.
func (s Seconds) Value() (n int64, ok bool) { return s.n, s.ok }

// Duration returns s, and false if s is absent. It saturates at some 292 years.
func (s Seconds) Duration() (d time.Duration, ok bool) {
	const most = math.MaxInt64 / int64(time.Second)
	switch {
	case s.n > most:
		return math.MaxInt64, true
	case s.n < -most:
		return math.MinInt64, true
	}
	return time.Duration(s.n) * time.Second, s.ok
}

// After returns the time s after t, and false if s is absent. It rounds up to a whole
// second, so that responses that announce the same end give the same time.
func (s Seconds) After(t time.Time) (time.Time, bool) {
	d, ok := s.Duration()
	if !ok {
		return time.Time{}, false
	}
	return t.Add(d).Add(time.Second - 1).Truncate(time.Second), true
}

// String returns the number with its unit, such as "30s", or "absent".
func (s Seconds) String() string {
	if !s.ok {
		return "absent"
	}
	return strconv.FormatInt(s.n, 10) + "s"
}

// longer returns the longer of two waits. An absent wait is the shortest.
func longer(s, t Seconds) Seconds {
	if !s.ok || t.n > s.n {
		return t
	}
	return s
}

// Fields contains the policies and limits of a response. Its strings may be parts of the header,
// and then keep it in memory: clone names that you keep.
type Fields struct {
	Policies []Policy `json:"policies,omitempty"` // the members of RateLimit-Policy, or what older fields announce; nil is absent
	Limits   []Limit  `json:"limits,omitempty"`   // the members of RateLimit, or what older fields report; nil is absent
	// Dialect is the name of the form that was read. [Fields.Set] does not write it into a
	// header. It is "" if nothing was read, and "ratelimit" for the current fields. It is
	// "ratelimit-lenient" for current fields that [Parse] refuses, and "ratelimit-next" for the
	// form of the next draft. An older form has the name of a draft ("draft-00" to "draft-07"),
	// of a family ("x-ratelimit"), of a vendor, or of one of [LegacyOptions].Dialects.
	Dialect string `json:"dialect,omitempty"`
	// Guessed is true if the unit of a reset or a window in older fields is a guess: see
	// [LegacyOptions.Reset]. [Fields.Set] does not write Guessed into a header.
	Guessed bool `json:"guessed,omitempty"`

	// exact has the resets that are not whole seconds, by index in Limits, and 0 for all other
	// limits. It may be shorter than Limits.
	exact []time.Duration
}

// String returns f as text for people, with the partition keys, such as
//
//	policies "day";q=100;w=86400; limits "day";r=90;t=600; dialect x-ratelimit, guessed
//
// or "no limits".
func (f Fields) String() string {
	var parts []string
	if len(f.Policies) > 0 {
		parts = append(parts, "policies "+memberTexts(f.Policies))
	}
	if len(f.Limits) > 0 {
		parts = append(parts, "limits "+memberTexts(f.Limits))
	}
	if parts == nil {
		return "no limits"
	}
	if f.Dialect != "" {
		parts = append(parts, "dialect "+f.Dialect)
	}
	if f.Guessed {
		parts[len(parts)-1] += ", guessed"
	}
	return strings.Join(parts, "; ")
}

// memberTexts returns the texts of members, joined as in a field.
func memberTexts[T fmt.Stringer](list []T) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].String()
	}
	return strings.Join(texts, separator)
}

// Join returns the policies and limits of f, followed by the policies and limits of g. Dialect and
// Guessed come from f. Join does not compare members with the same name; [Restrict] does.
func (f Fields) Join(g Fields) Fields {
	f.Policies = slices.Concat(f.Policies, g.Policies)
	f.Limits = slices.Concat(f.Limits, g.Limits)
	return f
}

// withRoom returns a copy of a list with room for n more members. slices.Grow may allocate twice.
func withRoom[T any](list []T, n int) []T {
	if len(list)+n == 0 {
		return nil
	}
	return append(make([]T, 0, len(list)+n), list...)
}

// Writable returns f without the members that [Fields.Set] cannot write: limits whose Remaining is
// [Unknown], and policies whose Quota is Unknown.
func (f Fields) Writable() Fields {
	f.Policies = slices.DeleteFunc(slices.Clone(f.Policies), func(p Policy) bool { return p.Quota == Unknown })
	f.Limits = slices.DeleteFunc(slices.Clone(f.Limits), func(l Limit) bool { return l.Remaining == Unknown })
	f.exact = nil // the indices may have changed
	return f
}

// asCurrent converts f to what RateLimit and RateLimit-Policy can express. A client that reads the
// result waits as long as a client that reads f, and goes no faster. If refused is true, Remaining
// becomes 0 in the limit that may have refused.
func (f Fields) asCurrent(refused bool) Fields {
	policies := newMatcher(f.Policies)
	limits, refuser := make([]Limit, 0, len(f.Limits)), -1
	if refused {
		refuser = f.refuser(&policies)
	}
	for i, l := range f.Limits {
		p := policies.policy(&l)
		spent := l.exhausted(p) || i == refuser
		if spent && l.Remaining == Unknown {
			l.Remaining = 0
		}
		if spent && p.Quota == Unknown { // Writable drops the policy, and its window with it
			l.Reset = l.wait(p)
		}
		if spent || p.Quota != Unknown || p.Unit.countsRequests() { // without its policy, a limit loses its unit
			limits = append(limits, l)
		}
	}
	f.Limits = limits
	return f.Writable()
}

// explicit returns f with limits that mean the same without their policies.
func (f Fields) explicit() Fields {
	policies := newMatcher(f.Policies)
	f.Limits = slices.Clone(f.Limits)
	for i := range f.Limits {
		l := &f.Limits[i]
		p := policies.policy(l)
		l.Remaining, l.Reset = lower(l.Remaining, p.Quota), longer(l.Reset, l.wait(p))
	}
	return f
}

// withoutResets returns what Fields.Set can write of f, without windows and resets.
func (f Fields) withoutResets() Fields {
	f = f.Writable() // a copy
	for i := range f.Policies {
		f.Policies[i].Window = Seconds{}
	}
	for i := range f.Limits {
		f.Limits[i].Reset = Seconds{}
	}
	return f
}

// PolicyOf returns the policy of f to which l belongs, and false if there is none. It is the first
// policy with the name and partition key of l. Some servers write the key in only one of the two
// fields. If no policy matches, a limit without a key gets the only policy with its name. A limit
// with a key gets the only policy with its name that has no key. Names are compared byte by byte.
func (f Fields) PolicyOf(l Limit) (Policy, bool) {
	m := matcher{policies: f.Policies}
	p := m.policy(&l)
	if p == &noPolicy {
		return Policy{}, false
	}
	return *p, true
}

// Pairs iterates over Limits in order, each with the policy that [Fields.PolicyOf] returns. It
// takes linear time. A limit without a policy is paired with a Policy that has its name and the
// Quota [Unknown]. The pointers point into f: do not write through them.
func (f Fields) Pairs() iter.Seq2[*Limit, *Policy] {
	return func(yield func(*Limit, *Policy) bool) {
		policies := newMatcher(f.Policies)
		for i := range f.Limits {
			l := &f.Limits[i]
			p := policies.policy(l)
			if p == &noPolicy {
				p = &Policy{Name: l.Name, Quota: Unknown}
			}
			if !yield(l, p) {
				return
			}
		}
	}
}

// An identity distinguishes the members of one field, because quotas are allocated per partition
// key (draft-11 Section 3.1.4).
type identity struct {
	name, key string
	keyed     bool // the key is not absent
}

func identify(name string, key []byte) identity {
	return identity{name, string(key), key != nil}
}

// identified is implemented by *Policy and *Limit.
type identified[T any] interface {
	*T
	nameAndKey() (name string, key []byte)
}

func (p *Policy) nameAndKey() (string, []byte) { return p.Name, p.PartitionKey }
func (l *Limit) nameAndKey() (string, []byte)  { return l.Name, l.PartitionKey }

// A matcher finds the policy of each limit. If there are many policies, it uses maps, so that the
// time for many limits stays linear.
type matcher struct {
	policies []Policy
	first    map[identity]int // the index of the first policy with that identity; nil if there are few
	only     map[identity]int // the index of the only policy with that name and keyed, or -1
}

const manyPolicies = 16 // from this number on, a matcher uses maps

func newMatcher(policies []Policy) matcher {
	m := matcher{policies: policies}
	if len(policies) < manyPolicies {
		return m
	}
	m.first = make(map[identity]int, len(policies))
	m.only = make(map[identity]int, len(policies))
	for i := range policies {
		id := identify(policies[i].nameAndKey())
		if _, again := m.first[id]; !again {
			m.first[id] = i
		}
		id.key = ""
		if _, again := m.only[id]; again {
			i = -1
		}
		m.only[id] = i
	}
	return m
}

// policy returns the policy of l, as [Fields.PolicyOf] defines it, or a pointer to noPolicy.
func (m *matcher) policy(l *Limit) *Policy {
	if m.first == nil {
		return m.search(l)
	}
	i, ok := m.first[identify(l.nameAndKey())]
	if !ok { // either the limit or its policy has a key
		i, ok = m.only[identity{name: l.Name, keyed: l.PartitionKey == nil}]
	}
	if !ok || i < 0 {
		return &noPolicy
	}
	return &m.policies[i]
}

// search is policy without the maps.
func (m *matcher) search(l *Limit) *Policy {
	found, n := &noPolicy, 0
	for i := range m.policies {
		p := &m.policies[i]
		switch {
		case p.Name != l.Name:
		case equalKey(p.PartitionKey, l.PartitionKey):
			return p
		case p.PartitionKey == nil || l.PartitionKey == nil:
			found, n = p, n+1
		}
	}
	if n > 1 {
		return &noPolicy
	}
	return found
}

var noPolicy = Policy{Quota: Unknown} // of a limit that has none; it is never modified

// exhausted reports whether nothing remains of l, whose policy is p. A quota of 0 permits nothing,
// whatever Remaining is.
func (l *Limit) exhausted(p *Policy) bool { return l.Remaining == 0 || p.Quota == 0 }

// wait returns how long nothing remains of l, whose policy is p. It is 9 seconds for "a";r=0;t=9,
// and the window of the policy for "a";r=0. It is absent if something remains, or if there is
// neither a reset nor a window.
func (l *Limit) wait(p *Policy) Seconds {
	switch {
	case !l.exhausted(p):
		return Seconds{}
	case l.Reset.ok:
		return l.Reset
	}
	return p.Window
}

// Tightest returns the limit that a client is likely to reach first, and false if f has none. Among
// limits of one unit, it is the limit with the lowest Remaining. Numbers of different units cannot
// be compared, so between units the smallest fraction of the quota decides. A limit without a known
// quota comes later, unless nothing remains of it. A limit whose Remaining is [Unknown] comes last.
// Between equal limits the longer Reset decides, and then the order in f. An absent Reset is the
// shortest.
func (f Fields) Tightest() (Limit, bool) {
	switch len(f.Limits) {
	case 0:
		return Limit{}, false
	case 1: // most responses
		return f.Limits[0], true
	}
	policies := newMatcher(f.Policies)
	best := make(map[Unit]tightness, 2)
	for i := range f.Limits {
		l := &f.Limits[i]
		p := policies.policy(l)
		of, unit := leftOf(l, p, i), p.Unit.Canonical()
		if other, ok := best[unit]; !ok || of.compare(other) < 0 {
			best[unit] = of
		}
	}
	tightest := slices.MinFunc(slices.Collect(maps.Values(best)), tightness.compareParts)
	return f.Limits[tightest.index], true
}

// leastOf returns the lowest number of remaining requests.
func leastOf(f *Fields) uint64 {
	policies := newMatcher(f.Policies)
	least := int64(Unknown)
	for i := range f.Limits {
		l := &f.Limits[i]
		if p := policies.policy(l); p.Unit.countsRequests() && (l.Remaining != Unknown || p.Quota == 0) {
			least = lower(least, lower(l.Remaining, p.Quota))
		}
	}
	return uint64(least) // Unknown is the largest
}

// A tightness has the numbers of a limit that Tightest compares.
type tightness struct {
	remaining uint64 // Unknown is the largest
	reset     int64  // an absent one is the shortest
	rank      int    // 0 if the remaining fraction of the quota is known, 1 if only the number is, 2 if neither is
	quota     uint64 // 0 if the rank is not 0
	index     int    // of the limit
}

// leftOf returns the numbers of l, whose policy is p and whose index is i.
func leftOf(l *Limit, p *Policy, i int) tightness {
	of := tightness{remaining: uint64(max(l.Remaining, Unknown)), reset: Unknown, index: i}
	if l.Reset.ok {
		of.reset = l.Reset.n
	}
	switch {
	case l.exhausted(p): // the fraction is 0, whatever the quota is
		of.remaining, of.quota = 0, 1
	case l.Remaining < 0:
		of.rank = 2
	case p.Quota < 0:
		of.rank = 1
	default:
		of.quota = uint64(p.Quota)
	}
	return of
}

// compare compares limits of the same unit. It is below 0 if l is tighter, and 0 if only their order
// decides.
func (l tightness) compare(m tightness) int {
	return cmp.Or(cmp.Compare(l.remaining, m.remaining), cmp.Compare(m.reset, l.reset))
}

// compareParts is below 0 if l is tighter than m, a limit of another unit.
func (l tightness) compareParts(m tightness) int {
	hi1, lo1 := bits.Mul64(l.remaining, m.quota)
	hi2, lo2 := bits.Mul64(m.remaining, l.quota)
	return cmp.Or(cmp.Compare(l.rank, m.rank), cmp.Compare(hi1, hi2), cmp.Compare(lo1, lo2),
		cmp.Compare(m.reset, l.reset), cmp.Compare(l.index, m.index))
}

// Validate returns nil if f can be announced. Call it when a program reads its policies from a
// configuration. If f cannot be written, it returns the error of [Fields.Set]. If two members of
// one field have the same name and partition key, it returns a [*FieldError] that wraps
// ErrDuplicate. [Parse] and Set accept such members.
func (f Fields) Validate() error {
	var room [2 * usualLine]byte
	if _, _, err := f.append(room[:0]); err != nil {
		return err
	}
	return f.unique()
}

// unique returns an error if two members of one field have the same identity.
func (f *Fields) unique() error {
	if i := repeated(f.Policies); i > 0 {
		return &FieldError{Field: PolicyField, Offset: -1, Item: i, Err: ErrDuplicate}
	}
	if i := repeated(f.Limits); i > 0 {
		return &FieldError{Field: LimitField, Offset: -1, Item: i, Err: ErrDuplicate}
	}
	return nil
}

// repeated returns the index of the first member of a list that has the identity of an earlier
// member, or 0 if there is none.
func repeated[T any, M identified[T]](list []T) int {
	if len(list) < 2 {
		return 0
	}
	seen := make(map[identity]bool, len(list))
	for i := range list {
		id := identify(M(&list[i]).nameAndKey())
		if seen[id] {
			return i
		}
		seen[id] = true
	}
	return 0
}

// note stores a precise reset, unless it is in whole seconds, or longer than a Duration.
func (f *Fields) note(i int, precise time.Duration) {
	if precise <= 0 || precise == math.MaxInt64 || precise%time.Second == 0 {
		return
	}
	for len(f.exact) <= i {
		f.exact = append(f.exact, 0)
	}
	f.exact[i] = precise
}

// precise returns the precise reset of a limit. It returns 0 if there is none, or if Reset has
// changed since.
func (f *Fields) precise(i int) time.Duration {
	if i < len(f.exact) && CeilSeconds(f.exact[i]) == f.Limits[i].Reset {
		return f.exact[i]
	}
	return 0
}

// UntilReset returns the time from the arrival of the response to the reset of Limits[i]. It keeps
// the fraction of a second that Reset rounds up: for X-RateLimit-Reset: 1.5 it is 1.5 s, and Reset
// is 2. The result ok is false if Limits[i] has no Reset, or if there is no such limit. The time
// saturates at some 292 years.
func (f Fields) UntilReset(i int) (d time.Duration, ok bool) {
	if i < 0 || i >= len(f.Limits) {
		return 0, false
	}
	if precise := f.precise(i); precise > 0 {
		return precise, true
	}
	return f.Limits[i].Reset.Duration()
}
