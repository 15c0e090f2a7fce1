package ratelimit

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

// maxFields bounds the fields of a response that say something about limits.
const maxFields = 1024

// A foundField is a field for limits that was found in a header.
type foundField struct {
	key     string
	lines   []string
	meaning *meaning
	columns int // it is one of several parallel lists with so many members, 0 if it is not
}

// findFields appends the fields of h for limits, until they are too many. A field whose
// words have to be read counts as well if they say nothing: to read them costs a hundred
// times as much as to see that another name is none of a limit.
func findFields(found []foundField, h http.Header, o *LegacyOptions) []foundField {
	var few [4]*lexicon
	known, own := builtin(), o.lexicons(few[:0])
	var loose *looseFields // made for the first, as most responses have none
	other := 0             // fields whose words have been read, and that are not found, or not yet
	for key, lines := range h {
		head, tail := hashes(key)
		if len(lines) == 0 || !known.mayKnow(head, tail) && !hasAnchor(key) && !own.mayKnow(head) {
			continue // as nearly all keys
		}
		m := own.find(key, head)
		if m == nil {
			m = known.findHashed(key, head)
		}
		if m == nil {
			m = learned(key)
		}
		if m != nil {
			found = append(found, foundField{key: key, lines: lines, meaning: m})
		} else {
			other++
			if !hasAnchor(key) {
				loose = loose.begin(key, lines)
			}
		}
		if len(found)+other > maxFields {
			return tooMany()
		}
	}
	if loose == nil {
		return found
	}
	for key, lines := range h {
		head, tail := hashes(key)
		if len(lines) == 0 || known.mayKnow(head, tail) || hasAnchor(key) || own.mayKnow(head) || !loose.mayHave(key) {
			continue
		}
		if other++; len(found)+other > maxFields {
			return tooMany()
		}
		loose.join(key, lines)
	}
	return loose.limits(found)
}

// tooMany returns more fields than are read, in place of those that there are.
func tooMany() []foundField {
	list := make([]foundField, maxFields+1)
	for i := range list {
		list[i].meaning = &meaning{}
	}
	return list
}

// learned returns the meaning of a key by its words, or nil.
func learned(key string) *meaning {
	m, ok := parseKey(key)
	if !ok {
		return nil
	}
	kept := m // only what is kept costs an allocation
	return &kept
}

// lexicons are those of the caller's dialects.
type lexicons []*lexicon

// lexicons appends the lexicons of the caller's dialects.
func (o *LegacyOptions) lexicons(list lexicons) lexicons {
	for _, d := range o.Dialects {
		if d != nil {
			list = append(list, d.lexicon())
		}
	}
	return list
}

// mayKnow reports whether one of the dialects may know a key with that hash.
func (own lexicons) mayKnow(head uint32) bool {
	for _, x := range own {
		if x.heads.has(head) {
			return true
		}
	}
	return false
}

// find returns the meaning of a key in the dialects, or nil. head is the key's hash.
func (own lexicons) find(key string, head uint32) *meaning {
	for _, x := range own {
		if m := x.findHashed(key, head); m != nil {
			return m
		}
	}
	return nil
}

// askedElsewhere returns the longest wait that h asks for in fields other than
// Retry-After, 0 if there is none, or if too many may be one.
func askedElsewhere(h http.Header, received time.Time) (longest time.Duration) {
	looked := 0
	for key, lines := range h {
		head, tail := hashes(key)
		if !builtin().mayKnow(head, tail) && !hasAnchor(key) || key == limitKey || key == policyKey {
			continue
		}
		if looked++; looked > maxFields {
			return 0
		}
		if m, ok := parseKey(key); ok && m.kind == waitName && m.policy == "" {
			c := readClock(h, received)
			longest = max(longest, m.wait(lines, &c))
		}
	}
	return longest
}

// wait returns how long the lines of a field ask to wait. A wait of 0 asks for
// nothing: some servers send it with every response.
func (m *meaning) wait(lines []string, c *clock) time.Duration {
	line, _ := firstLine(lines)
	t, _ := parseMoment(line, m.format, m.per)
	t.settle(c)
	return t.duration(c)
}

// looseFields are the fields without an anchor, by the policy that they are about. A
// family begins with a field that the filters let through, such as X-Acme-Remaining;
// others join it.
type looseFields struct {
	families map[string]*looseFamily
	needles  filter // of three bytes that are in each key of a family
	any      bool   // a family has no such bytes: any key may be of it
}

// A looseFamily is the fields without an anchor that are about one policy.
type looseFamily struct {
	fields []foundField
	other  bool // a field with an anchor says more: X-Rate-Limit-Hourly beside X-Hourly-Requests-Left
}

// begin adds a field that the filters let through, if it may be of a family, to l, which
// is nil before the first.
func (l *looseFields) begin(key string, lines []string) *looseFields {
	m, ok := parseLoose(key)
	if !ok {
		return l
	}
	if l == nil {
		l = &looseFields{families: map[string]*looseFamily{}}
	}
	name := m.looseName()
	if l.families[name] == nil {
		l.families[name] = &looseFamily{}
		l.need(m.policy)
	}
	l.add(name, &m, key, lines)
	return l
}

// looseName returns the name of the family of a field.
func (m *meaning) looseName() string { return cmp.Or(m.policy, m.family) }

func (l *looseFields) add(name string, m *meaning, key string, lines []string) {
	of := l.families[name]
	of.fields = append(of.fields, foundField{key: key, lines: lines, meaning: m})
}

// needle is how many bytes of the name of a family have to be in each of its keys.
const needle = 3

// need notes some bytes of the longest word of a policy. They are in each key that has
// the word.
func (l *looseFields) need(policy string) {
	longest := ""
	for word := range strings.SplitSeq(policy, "-") {
		if len(word) > len(longest) {
			longest = word
		}
	}
	if len(longest) < needle {
		l.any = true
		return
	}
	l.needles.set(hash(longest[0], longest[1], longest[2], 0))
}

// mayHave reports whether a key may be of a family that has begun.
func (l *looseFields) mayHave(key string) bool {
	for i := range len(key) - needle + 1 {
		if l.needles.has(hash(key[i], key[i+1], key[i+2], 0)) {
			return true
		}
	}
	return l.any
}

// join adds a field to its family, if that has begun.
func (l *looseFields) join(key string, lines []string) {
	m, ok := parseLoose(key)
	if name := m.looseName(); ok && l.families[name] != nil {
		l.add(name, &m, key, lines)
	}
}

// limits appends the fields of the families that tell a limit.
func (l *looseFields) limits(found []foundField) []foundField {
	for _, f := range found {
		if of := l.families[f.meaning.policy]; of != nil && f.meaning.kind == plainName {
			of.other = true
		}
	}
	for _, of := range l.families {
		if of.isLimit() {
			found = append(found, of.fields...)
		}
	}
	return found
}

// isLimit reports whether one of the fields says what remains and another something
// else. Where the names leave no doubt that requests are limited, quota and used
// are enough. Fields with values that do not fit are dropped.
func (of *looseFamily) isLimit() bool {
	least := int64(Unknown) // of what remains, as a header has no order
	for _, f := range of.fields {
		if n, ok := f.units(); ok && f.meaning.role == RoleRemaining {
			least = lower(least, n)
		}
	}
	of.fields = slices.DeleteFunc(of.fields, func(f foundField) bool { return !f.plausible(least) })
	said, enough := map[Role]bool{}, false
	for _, f := range of.fields {
		said[f.meaning.role] = true
		enough = enough || f.meaning.enough
	}
	if said[RoleRemaining] {
		return of.other || len(said) > 1
	}
	return enough && said[RoleQuota] && said[RoleUsed]
}

// units returns the number of units that a field says, unless it is negative.
func (f *foundField) units() (n int64, ok bool) {
	line, _ := firstLine(f.lines)
	v, ok := parseCount(line)
	return v.n, ok && !v.neg
}

// plausible reports whether the value of a field without an anchor can be that of
// a limit: a number that is not negative, a quota that is not lower than what
// remains, or a time.
func (f *foundField) plausible(remaining int64) bool {
	n, isCount := f.units()
	switch f.meaning.role {
	case RoleRemaining, RoleUsed:
		return isCount
	case RoleQuota:
		return isCount && n >= max(remaining, 1)
	}
	line, _ := firstLine(f.lines)
	_, ok := parseMoment(line, f.meaning.format, f.meaning.per)
	return ok
}

// meaning returns the meaning of a field of a dialect.
func (f *DialectField) meaning(family string, o order) meaning {
	m := meaning{
		role: f.Role, format: f.Format, policy: f.Policy, window: f.Window, unit: f.Unit, read: f.Read, family: family, order: o,
	}
	switch f.write {
	case tailSyntax:
		m.kind = tailName
	case dictionarySyntax:
		m.kind = anchorName
	}
	return m
}

// A lexicon finds the meaning of fields by their keys.
type lexicon struct {
	exact map[string]*meaning // by canonical key
	stars []starField
	keys  []string // the canonical names of the fields
	// Most keys are refused by filters: of the bytes behind X-, and of the last
	// bytes.
	heads, tails filter
}

// A starField is a field with a * in its name.
type starField struct {
	prefix, suffix string
	meaning        meaning
}

const (
	filterBits = 12
	shortest   = 6 // of which a filter has bytes
)

// A filter is a set of hashes.
type filter [1 << filterBits / 64]uint64

func (f *filter) set(hash uint32) { f[hash/64] |= 1 << (hash % 64) }

// has reports whether a hash is in the set.
func (f *filter) has(hash uint32) bool { return f[hash/64]>>(hash%64)&1 != 0 }

// hash returns the hash of four bytes, without case.
func hash(a, b, c, d byte) uint32 {
	n := (uint32(a) | uint32(b)<<8 | uint32(c)<<16 | uint32(d)<<24) | 0x20202020
	return n * 0x9e3779b1 >> (32 - filterBits) // Fibonacci hashing
}

// hashes returns the hash of the bytes of a key behind X-, and that of its last
// bytes. For a short key both are one hash of some of its bytes.
func hashes(key string) (head, tail uint32) {
	n := len(key)
	if n < shortest {
		if n > 0 {
			head = hash(key[0], key[n/2], key[n-1], byte(n))
		}
		return head, head
	}
	return hash(key[2], key[3], key[4], key[5]), hash(key[n-4], key[n-3], key[n-2], key[n-1])
}

// mayKnow reports whether a key with these hashes may be that of a field for limits,
// or for a wait. One with an anchor always may.
func (x *lexicon) mayKnow(head, tail uint32) bool { return x.heads.has(head) || x.tails.has(tail) }

// setHead and setTail add the bytes of a key to a filter.
func (x *lexicon) setHead(key string) {
	head, _ := hashes(key)
	x.heads.set(head)
}

func (x *lexicon) setTail(key string) {
	_, tail := hashes(key)
	x.tails.set(tail)
}

// add adds the valid fields of a dialect.
func (x *lexicon) add(d *Dialect, o order) {
	if x.exact == nil {
		x.exact = make(map[string]*meaning, len(d.Fields))
	}
	for i := range d.Fields {
		f := &d.Fields[i]
		key := http.CanonicalHeaderKey(f.Name)
		x.keys = append(x.keys, key)
		prefix, suffix, star := strings.Cut(key, "*")
		if f.fault() != nil || x.exact[key] != nil {
			continue
		}
		m := f.meaning(d.Name, o)
		if star {
			x.stars = append(x.stars, starField{prefix, suffix, m})
		} else {
			x.exact[key] = &m
		}
		if star && len(prefix) < shortest { // any key may begin so
			for i := range x.heads {
				x.heads[i] = math.MaxUint64
			}
		}
		x.setHead(prefix)
	}
}

// findHashed returns the meaning of a key with that hash, or nil. The field with
// that very name goes before one with a *; of these the one with most letters
// around the * counts.
func (x *lexicon) findHashed(key string, head uint32) *meaning {
	if !x.heads.has(head) {
		return nil
	}
	if m := x.exact[key]; m != nil {
		return m
	}
	canonical := http.CanonicalHeaderKey(key)
	if m := x.exact[canonical]; m != nil {
		return m
	}
	var found *starField
	best, star := -1, ""
	for i := range x.stars {
		s := &x.stars[i]
		n := len(s.prefix) + len(s.suffix)
		if n > best && len(canonical) > n && strings.HasPrefix(canonical, s.prefix) && strings.HasSuffix(canonical, s.suffix) {
			if inner := canonical[len(s.prefix) : len(canonical)-len(s.suffix)]; isToken(inner) {
				found, best, star = s, n, inner
			}
		}
	}
	if found == nil {
		return nil
	}
	m := found.meaning
	m.policy = below(m.policy, lowerCase(star))
	return &m
}

// find returns the meaning of a key, or nil.
func (x *lexicon) find(key string) *meaning {
	head, _ := hashes(key)
	return x.findHashed(key, head)
}

// isLegacyField reports whether a key is that of a field for limits.
func isLegacyField(key string) bool { return hasAnchor(key) || builtin().find(key) != nil }
