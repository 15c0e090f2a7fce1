package older

import (
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
)

// Most keys are refused by their first four bytes and their last five: a key that is new
// costs 30 ns, and not the 2 µs of one whose words are read.

const filterBits = 12

// A filter is a set of hashes of four bytes, and of five.
type filter [1 << filterBits / 64]uint64

func (f *filter) set(sum uint32) { f[sum/64] |= 1 << (sum % 64) }

// has reports whether a hash is in the set.
func (f *filter) has(sum uint32) bool { return f[sum/64%uint32(len(f))]>>(sum%64)&1 != 0 }

// mix returns the hash of four bytes, without case.
func mix(n uint32) uint32 {
	return (n | 0x20202020) * 0x9e3779b1 >> (32 - filterBits) // Fibonacci hashing
}

// load returns the first four bytes of a text.
func load(s string) uint32 {
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

// headOf returns the hash of the first bytes of a key behind X-; of a short one that of
// all its bytes.
func headOf(key string) (sum uint32) {
	if len(key) > 2 && key[1] == '-' {
		key = key[2:]
	}
	if len(key) >= 4 {
		return mix(load(key))
	}
	for i := range len(key) {
		sum |= uint32(key[i]) << (8 * i)
	}
	return mix(sum)
}

// tailOf returns the hash of the last five bytes of a key.
func tailOf(key string) uint32 {
	key = key[len(key)-5:]
	return mix(load(key[1:])) ^ mix(uint32(key[0]))
}

// setHead adds the head of a key. Of a prefix that is too short for a head it adds all
// heads, because any key may begin with it.
func (f *filter) setHead(key string, prefix bool) {
	if _, behind, _ := strings.Cut(key, "-"); prefix && len(behind) < 4 {
		for i := range f {
			f[i] = 1<<64 - 1
		}
	}
	f.set(headOf(key))
}

// A knowledge refuses keys that cannot be that of a field for limits, or for a wait.
type knowledge struct {
	heads, tails filter
	seed         maphash.Seed
}

// may reports whether a key may be known. One with an anchor always may.
func (k *knowledge) may(key string) bool {
	return k.heads.has(headOf(key)) || len(key) >= 5 && k.tails.has(tailOf(key)) || HasAnchor(key)
}

var known struct {
	once sync.Once
	knowledge
}

// filters returns the filters, which are made of the words and the vendors' rows at first
// use. Without an anchor, a key is known by a role in its first or last word, or by a
// counted last word.
func filters() *knowledge {
	known.once.Do(func() {
		known.seed = maphash.MakeSeed()
		tokenOf("") // makes the dictionary
		setTail := func(before, spelling string) {
			for _, dash := range [...]string{"-", "_"} {
				tail := before + dash + spelling
				if len(tail) >= 5 {
					known.tails.set(tailOf(tail))
					continue
				}
				for c := byte('0'); c <= 'z'; c++ { // the byte before a short word
					known.tails.set(tailOf(string(c) + tail))
				}
			}
		}
		for spelling, w := range dictionary.words {
			switch {
			case w.kind == retryWord:
				known.heads.setHead(spelling, false)
				setTail("", spelling)
			case w.kind == unitWord:
				for before, w := range dictionary.words {
					if w.kind == retryWord || w.role.time() || w.format == Seconds {
						setTail(before, spelling)
					}
				}
			case w.role == Remaining || w.role == Used:
				known.heads.setHead("X-"+spelling+"-", false)
				fallthrough
			case w.role.number(), w.role == Window, w.shows == counted, w.shows == isRequests, w.shows == timed:
				setTail("", spelling)
			}
		}
		t := vendorTable()
		for key := range t.exact {
			if len(key) < 5 {
				known.heads.setHead(key, false)
			} else if !HasAnchor(key) {
				known.tails.set(tailOf(key))
			}
		}
		for i := range t.stars {
			known.heads.setHead(t.stars[i].prefix, true)
		}
	})
	return &known.knowledge
}

// anchorShift is how far HasAnchor moves on, less than nine, by the last byte that it
// looks at: how close that byte can be to the end of "ratelimit" or "rate-limit".
var anchorShift = [256]uint8{
	'i': 8, 'I': 8, 'm': 7, 'M': 7, 'l': 5, 'L': 5, 'e': 4, 'E': 4, '-': 4, '_': 4, 't': 3, 'T': 3, 'a': 2, 'A': 2, 'r': 1, 'R': 1,
}

// HasAnchor reports whether a key holds the words rate and limit, one behind the
// other. Every response has some twenty keys without, so it is made for speed: it
// looks at every ninth byte at best (the algorithm of Boyer, Moore and Horspool).
func HasAnchor(key string) bool {
	const limit, rate = "limit", "rate"
	for i := len(rate+limit) - 1; i < len(key); i += len(rate+limit) - int(anchorShift[key[i]]) {
		if key[i]|0x20 != 't' || !strings.EqualFold(key[i-4:i+1], limit) {
			continue
		}
		end := i - 4
		dashed := key[end-1] == '-' || key[end-1] == '_'
		if dashed {
			end--
		}
		if start := end - len(rate); start >= 0 && strings.EqualFold(key[start:end], rate) &&
			(!dashed || start == 0 || key[start-1] == '-' || key[start-1] == '_') {
			return true
		}
	}
	return false
}

// hasRetry reports whether a key holds the word retry, as HasAnchor does for its words.
func hasRetry(key string) bool {
	const retry = "retry"
	for i := len(retry) - 1; i < len(key); {
		switch key[i] | 0x20 {
		case 'y':
			if strings.EqualFold(key[i-4:i+1], retry) {
				return true
			}
			i += 5
		case 'r':
			i++
		case 't':
			i += 2
		case 'e':
			i += 3
		default:
			i += 5
		}
	}
	return false
}

// What was found out about names is remembered: a client gets the same ones in response
// after response. A key has two places; where both are taken it has the second: no server
// can make the memory grow, nor know which keys share a place.
var names [512]atomic.Pointer[name]

// longestKept is the length of a key that is remembered.
const longestKept = 64

// nameOf returns what a key says.
func nameOf(key string) *name {
	sum := maphash.String(filters().seed, key)
	first, second := &names[sum%uint64(len(names))], &names[sum>>32%uint64(len(names))]
	if n := first.Load(); n != nil && n.key == key {
		return n
	}
	if n := second.Load(); n != nil && n.key == key {
		return n
	}
	if len(key) > longestKept {
		return newName(key)
	}
	n := newName(strings.Clone(key))
	if first.CompareAndSwap(nil, n) {
		return n
	}
	if rand.Uint32()%2 == 0 {
		first, second = second, first
	}
	second.Store(n)
	return n
}

// newName finds out what a key says.
func newName(key string) *name {
	if n := vendorTable().find(key); n != nil {
		kept := *n
		kept.key = key
		if n.words != nil {
			words := parse(key)
			kept.words = words.knowing()
		}
		return kept.knowing()
	}
	n := parse(key)
	return n.knowing()
}

// knowing adds what the name of the policy tells, and the place of the field.
func (n *name) knowing() *name {
	n.hint = hintOf(n.policy, n.digits)
	n.place = int(n.order)<<8 | int(n.role)<<1
	if n.weak {
		n.place++
	}
	return n
}
