package ratelimit

import (
	"errors"
	"math/bits"
	"net/http"
	"slices"
)

// Fields is what a response says about rate limits. The zero Fields says
// nothing.
type Fields struct {
	Policies []Policy `json:"policies,omitempty"`
	Limits   []Limit  `json:"limits,omitempty"`
	// Dialect names how the response spelled them: "ratelimit" for the fields
	// RateLimit-Policy and RateLimit, else the name of a [Dialect], "" if
	// nothing was found.
	Dialect string `json:"dialect,omitempty"`
	// Guessed is true where a value of another dialect had to be guessed: the
	// unit of a reset, by the size of its number.
	Guessed bool `json:"guessed,omitempty"`
}

// currentDialect is the Dialect of the current fields.
const currentDialect = "ratelimit"

// Parse reads the fields RateLimit-Policy and RateLimit of h.
//
// The two are judged apart. A malformed one is nil in the result; the error
// joins a [*FieldError] for each. So a client may ignore the error and use the
// Fields: "Malformed RateLimit header fields MUST be ignored" (draft-11 Section
// 7). A field that is absent, or blank, is nil and no error. The trailers of a
// response are not to be read (Sections 3.1 and 4.1).
func Parse(h http.Header) (Fields, error) {
	policyLines, limitLines := h[policyKey], h[limitKey]
	if len(policyLines) == 0 && len(limitLines) == 0 {
		return Fields{}, nil
	}
	var f Fields
	var policyErr, limitErr error
	f.Policies, policyErr = ParsePolicies(policyLines...)
	f.Limits, limitErr = ParseLimits(limitLines...)
	if f.Policies != nil || f.Limits != nil {
		f.Dialect = currentDialect
	}
	return f, errors.Join(policyErr, limitErr)
}

// Set writes f to h as the fields RateLimit-Policy and RateLimit, each in one
// line. It replaces both, and deletes one that has no members. On error, a
// [*FieldError] about the first member that cannot be written, h is as it was;
// [Fields.Writable] leaves out what older responses do not say. Writing to a nil
// h is an error too. The fields are never to be written to trailers (draft-11
// Sections 3.1 and 4.1).
//
// Set writes whatever the status of the response is; on a redirection, fields
// may keep a client from following it (draft-11 Section 6).
func (f Fields) Set(h http.Header) error {
	policies, err := FormatPolicies(f.Policies...)
	if err != nil {
		return err
	}
	limits, err := FormatLimits(f.Limits...)
	if err != nil {
		return err
	}
	if err := setLine(h, policyKey, policies); err != nil {
		return err
	}
	return setLine(h, limitKey, limits)
}

// Writable returns f without what the current fields cannot carry: limits whose
// Remaining, and policies whose Quota, is [Unknown]. An older response may have
// such members.
func (f Fields) Writable() Fields {
	unknownQuota := func(p Policy) bool { return p.Quota == Unknown }
	if slices.ContainsFunc(f.Policies, unknownQuota) {
		f.Policies = slices.DeleteFunc(slices.Clone(f.Policies), unknownQuota)
	}
	unknownRemaining := func(l Limit) bool { return l.Remaining == Unknown }
	if slices.ContainsFunc(f.Limits, unknownRemaining) {
		f.Limits = slices.DeleteFunc(slices.Clone(f.Limits), unknownRemaining)
	}
	return f
}

// PolicyOf returns the policy that l reports on: the first with its name and
// partition key; else, as servers put the key on one of the two fields alone, the
// policy with its name, if one of the two has no key and there is exactly one
// such policy.
func (f Fields) PolicyOf(l Limit) (Policy, bool) {
	m := matcher{policies: f.Policies}
	i := m.find(&l)
	if i < 0 {
		return Policy{}, false
	}
	return f.Policies[i], true
}

// nameID returns what two names have in common if they are the name of one
// policy: names are compared byte by byte. No other place compares them.
func nameID(name string) string { return name }

// An identity tells the members of a field apart.
type identity struct {
	name, key string
	keyed     bool
}

func identify(name string, key []byte) identity {
	return identity{nameID(name), string(key), key != nil}
}

func (p *Policy) identity() identity { return identify(p.Name, p.PartitionKey) }
func (l *Limit) identity() identity  { return identify(l.Name, l.PartitionKey) }

// A matcher finds the policies of limits, in linear time if there are many of
// both.
type matcher struct {
	policies []Policy
	// Indices of policies, if there are many: of the first with an identity,
	// of the only one with a name, and of the only one with a name and no key;
	// -1 if there are several.
	exact          map[identity]int
	named, keyless map[string]int
}

const manyPolicies = 16 // from here on, maps find them

func newMatcher(policies []Policy) matcher {
	m := matcher{policies: policies}
	if len(policies) < manyPolicies {
		return m
	}
	m.exact = make(map[identity]int, len(policies))
	m.named = make(map[string]int, len(policies))
	m.keyless = make(map[string]int)
	for i := range policies {
		p := &policies[i]
		if _, again := m.exact[p.identity()]; !again {
			m.exact[p.identity()] = i
		}
		only(m.named, nameID(p.Name), i)
		if p.PartitionKey == nil {
			only(m.keyless, nameID(p.Name), i)
		}
	}
	return m
}

// only notes the index of a name, or that it is not the only one.
func only(indices map[string]int, name string, i int) {
	if _, again := indices[name]; again {
		i = -1
	}
	indices[name] = i
}

// find returns the index of the policy that l reports on, or -1: the definition
// of [Fields.PolicyOf].
func (m *matcher) find(l *Limit) int {
	if m.exact != nil {
		return m.look(l)
	}
	found, several := -1, false
	for i := range m.policies {
		p := &m.policies[i]
		switch {
		case nameID(p.Name) != nameID(l.Name):
		case equalKey(p.PartitionKey, l.PartitionKey):
			return i
		case p.PartitionKey == nil || l.PartitionKey == nil:
			found, several = i, found >= 0
		}
	}
	if several {
		return -1
	}
	return found
}

// look is find in the maps.
func (m *matcher) look(l *Limit) int {
	i, ok := m.exact[l.identity()]
	if !ok && l.PartitionKey == nil {
		i, ok = m.named[nameID(l.Name)]
	} else if !ok {
		i, ok = m.keyless[nameID(l.Name)]
	}
	if !ok {
		return -1
	}
	return i
}

// policy returns the policy that l reports on, or one that says nothing.
func (m *matcher) policy(l *Limit) *Policy {
	if i := m.find(l); i >= 0 {
		return &m.policies[i]
	}
	return &noPolicy
}

var noPolicy = Policy{Quota: Unknown} // never written to

// exhausted reports whether nothing remains of l, of which p is the policy. A
// quota of 0 permits nothing, whatever the limit says.
func (l *Limit) exhausted(p *Policy) bool { return l.Remaining == 0 || p.Quota == 0 }

// Tightest returns the limit that a client is likely to run into first. Among
// limits of one unit that is the one with the lowest Remaining. Across units,
// whose numbers cannot be compared, it is the one with the lowest part of its
// quota remaining. Among equals it is the one with the longest Reset (an absent
// one is the shortest), among these the first. A limit of which that part is not
// known comes after those of which it is, and a Remaining that is [Unknown] last.
func (f Fields) Tightest() (Limit, bool) {
	policies := newMatcher(f.Policies)
	best := make(map[Unit]left, 2)
	for i := range f.Limits {
		l := leftOf(&f.Limits[i], policies.policy(&f.Limits[i]), i)
		if of, ok := best[l.unit]; !ok || l.less(of) {
			best[l.unit] = l
		}
	}
	if len(best) == 0 {
		return Limit{}, false
	}
	tightest := left{index: -1}
	for _, l := range best {
		if tightest.index < 0 || l.lessPart(tightest) {
			tightest = l
		}
	}
	return f.Limits[tightest.index], true
}

// A left is what remains of a limit, and of which quota.
type left struct {
	unit      Unit
	remaining int64 // or Unknown
	quota     int64 // at least 1, or Unknown
	reset     Seconds
	index     int
}

func leftOf(l *Limit, p *Policy, i int) left {
	of := left{unit: p.Unit.canonical(), remaining: max(l.Remaining, Unknown), quota: max(p.Quota, Unknown), reset: l.Reset, index: i}
	if l.exhausted(p) { // which is the same part of every quota
		of.remaining, of.quota = 0, 1
	}
	return of
}

// less reports whether l is tighter than m, a limit of the same unit.
func (l left) less(m left) bool {
	if l.remaining != m.remaining {
		return uint64(l.remaining) < uint64(m.remaining) // Unknown, below 0, is the largest
	}
	return l.longer(m)
}

// lessPart reports whether l is tighter than m, a limit of another unit.
func (l left) lessPart(m left) bool {
	switch {
	case l.rank() != m.rank():
		return l.rank() < m.rank()
	case l.rank() == 0:
		hi1, lo1 := bits.Mul64(uint64(l.remaining), uint64(m.quota))
		hi2, lo2 := bits.Mul64(uint64(m.remaining), uint64(l.quota))
		if hi1 != hi2 || lo1 != lo2 {
			return hi1 < hi2 || hi1 == hi2 && lo1 < lo2
		}
	}
	return l.longer(m)
}

// rank is 0 if the remaining part is known, 1 if only its numerator is.
func (l left) rank() int {
	switch {
	case l.remaining == Unknown:
		return 2
	case l.quota == Unknown:
		return 1
	}
	return 0
}

// longer decides between limits of which as much remains.
func (l left) longer(m left) bool {
	switch {
	case l.reset.ok != m.reset.ok:
		return l.reset.ok
	case l.reset != m.reset:
		return l.reset.n > m.reset.n
	}
	return l.index < m.index
}

// Validate returns the first rule that f breaks, as a [*FieldError]: those of
// [Policy.Validate] and [Limit.Validate], at most 1024 members in a field, and
// no name and partition key twice in one field (ErrDuplicate). The last is a rule
// for servers alone: [Parse] accepts such fields, and [Fields.Set] writes them.
func (f Fields) Validate() error {
	if _, err := FormatPolicies(f.Policies...); err != nil {
		return err
	}
	if _, err := FormatLimits(f.Limits...); err != nil {
		return err
	}
	if i := repeated(f.Policies); i >= 0 {
		return &FieldError{Field: PolicyField, Offset: -1, Item: i, Err: ErrDuplicate}
	}
	if i := repeated(f.Limits); i >= 0 {
		return &FieldError{Field: LimitField, Offset: -1, Item: i, Err: ErrDuplicate}
	}
	return nil
}

// repeated returns the index of the first member whose identity has come before,
// or -1.
func repeated[T any, M interface {
	*T
	identity() identity
}](list []T) int {
	seen := make(map[identity]bool, len(list))
	for i := range list {
		id := M(&list[i]).identity()
		if seen[id] {
			return i
		}
		seen[id] = true
	}
	return -1
}
