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

// findFields appends the fields of h for limits, until they are too many.
func findFields(found []foundField, h http.Header, o *LegacyOptions) []foundField {
	var few [4]*lexicon
	known, own, loose := builtin(), o.lexicons(few[:0]), false
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
			if len(found) > maxFields {
				return found
			}
		} else if !loose {
			_, loose = parseLoose(key)
		}
	}
	if loose {
		found = findLoose(found, h, own)
	}
	return found
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
// Retry-After, 0 if there is none.
func askedElsewhere(h http.Header, received time.Time) (longest time.Duration) {
	for key, lines := range h {
		head, tail := hashes(key)
		if !builtin().mayKnow(head, tail) && !hasAnchor(key) || key == limitKey || key == policyKey {
			continue
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

// A looseFamily is the fields without an anchor that are about one policy.
type looseFamily struct {
	fields []foundField
	starts bool // one of its own fields makes findLoose look at it
	other  bool // a field with an anchor says more: X-Rate-Limit-Hourly beside X-Hourly-Requests-Left
}

// findLoose appends the fields of families without an anchor that tell a limit.
func findLoose(found []foundField, h http.Header, own lexicons) []foundField {
	families := map[string]*looseFamily{}
	for key, lines := range h {
		m, ok := parseLoose(key)
		head, tail := hashes(key)
		if !ok || len(lines) == 0 || isLegacyField(key) || own.find(key, head) != nil {
			continue
		}
		if len(families) > maxFields {
			return found
		}
		name := cmp.Or(m.policy, m.family)
		if families[name] == nil {
			families[name] = &looseFamily{}
		}
		of := families[name]
		of.starts = of.starts || builtin().mayKnow(head, tail)
		of.fields = append(of.fields, foundField{key: key, lines: lines, meaning: &m})
	}
	for _, f := range found {
		if of := families[f.meaning.policy]; of != nil && f.meaning.kind == plainName {
			of.other = true
		}
	}
	for _, of := range families {
		if of.starts && of.isLimit() {
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
