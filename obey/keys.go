package obey

import (
	"bytes"
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/obey/internal/machine"
)

// Bounds of what a Gate remembers.
const (
	// maxKeys is the default of Gate.MaxKeys. If there are more keys, the Gate looks at some keys that
	// were used longest ago, and forgets the key with the least to lose. It never forgets a key with a
	// wait in force. If all of these keys have a wait, it looks at all keys, but at most once in each
	// sweepTime.
	maxKeys   = 16_384
	looks     = 64
	sweepTime = time.Second
	// maxKey is the length of a key in bytes, and maxOrigin that of the origin in a key of KeyBy. Longer
	// ones are remembered by a hash.
	maxKey    = 256
	maxOrigin = maxKey - len(keyMark) - hashLen

	keyMark = "#" // is between the origin and the hash in a key of KeyBy; no origin contains it
	hashLen = 32  // the length of that hash
)

// hashOf returns 128 bits of the SHA-256 of data, in hexadecimal: the same in every process.
func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:hashLen/2])
}

// short returns a key or an origin, or a hash of it if it is longer than most.
func short[text string | []byte](key text, most int) text {
	if len(key) > most {
		return text(keyMark + hashOf([]byte(key)))
	}
	return key
}

// KeyBy returns a [Transport.Key] for servers that limit each user. Requests to one origin share their
// limits if all of these fields, such as Authorization, are equal. If a request has none of the fields,
// its key is the origin. The key is the same in every process. It contains 128 bits of the SHA-256 of
// the fields. A short or common credential can be guessed from the key, so do not show keys to
// strangers.
func KeyBy(fields ...string) func(*http.Request) string {
	fields = slices.Clone(fields)
	return func(req *http.Request) string {
		origin := string(appendOrigin(nil, req.URL))
		var few [256]byte
		hashed, found := few[:0], false
		for _, field := range fields {
			lines := req.Header.Values(field)
			found = found || len(lines) > 0
			hashed = binary.AppendUvarint(hashed, uint64(len(lines)))
			for _, line := range lines {
				hashed = binary.AppendUvarint(hashed, uint64(len(line))) // so that different lists differ
				hashed = append(hashed, line...)
			}
		}
		if !found {
			return origin
		}
		return short(origin, maxOrigin) + keyMark + hashOf(hashed)
	}
}

// appendOrigin appends the origin of an address to b: its scheme, and its host with the port,
// unless it is the default port (RFC 6454 Section 6.2).
func appendOrigin(b []byte, u *url.URL) []byte {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	b = append(append(b, scheme...), "://"...)
	return append(b, strings.TrimSuffix(host, ":")...)
}

// isKeyBy reports whether a key is the origin, or a key that KeyBy makes of the origin.
func isKeyBy(key, origin []byte) bool {
	if bytes.Equal(key, origin) {
		return true
	}
	rest, ok := bytes.CutPrefix(key, short(origin, maxOrigin))
	return ok && bytes.HasPrefix(rest, []byte(keyMark)) && len(rest) == len(keyMark)+hashLen
}

// A key has what is known of requests that share their limits, and the requests that wait. The lock of
// its Gate guards it. If the Gate forgets a key, requests under way still belong to the forgotten one,
// and their answers change nothing. Later requests get a new key.
type key struct {
	line
	gate  *Gate
	place *list.Element // in Gate.used; nil if the key has been displaced
	sole  *route        // the only route that has been answered; nil before
	scope *scope        // nil while only one route has been answered
}

// lines returns the line of a key and the lines of its parts. The line of a part whose wait holds for
// the whole key has the name of the key.
func (k *key) lines() []*line {
	list := []*line{&k.line}
	for _, x := range k.parts() {
		list = append(list, &x.line)
	}
	return list
}

// key returns what is known of a key. It returns nil if there is no room for the key, and for the key
// "". The caller has locked the Gate.
func (g *Gate) key(name []byte, now time.Time) *key {
	if len(name) == 0 {
		return nil
	}
	name = short(name, maxKey)
	if k := g.keys[string(name)]; k != nil {
		g.used.MoveToBack(k.place)
		if k.machine.Idle(now) && k.lost(now) == machine.NothingLost {
			return g.renew(k)
		}
		return k
	}
	return g.remember(g.newKey(string(name)), now)
}

// newKey returns a new key.
func (g *Gate) newKey(name string) *key {
	k := &key{gate: g}
	k.line = line{of: k, name: name, machine: g.newMachine()}
	return k
}

// remember adds a key. It returns nil if there is no room for it.
func (g *Gate) remember(k *key, now time.Time) *key {
	most := cmp.Or(max(g.MaxKeys, 0), maxKeys)
	if len(g.keys) >= most && !g.displace(now) {
		return nil
	}
	if g.keys == nil {
		g.keys = make(map[string]*key)
	}
	g.keys[k.name], k.place = k, g.used.PushBack(k)
	return k
}

// displace removes a key, and reports whether there is one without a wait in force.
func (g *Gate) displace(now time.Time) bool {
	k := g.leastLost(looks, now)
	if k == nil && now.Sub(g.swept) >= sweepTime {
		g.swept = now
		k = g.leastLost(g.used.Len(), now)
	}
	if k != nil {
		g.used.Remove(k.place)
		delete(g.keys, k.name)
		k.place = nil
	}
	return k != nil
}

// leastLost looks at the keys that were used longest ago, and returns the key with the least to lose.
// It returns nil if all of them have a wait in force. Keys with a wait count as used, so that the next
// call looks at other keys.
func (g *Gate) leastLost(most int, now time.Time) (oldest *key) {
	least, place := machine.WaitLost, g.used.Front()
	for range min(g.used.Len(), most) {
		k := place.Value.(*key)
		place = place.Next()
		switch lost := k.lost(now); {
		case lost < least:
			oldest, least = k, lost
		case lost == machine.WaitLost:
			g.used.MoveToBack(k.place)
		}
	}
	return oldest
}

// lost returns what would be lost if a key and its parts were forgotten.
func (k *key) lost(now time.Time) machine.Loss {
	lost := machine.NothingLost
	for _, x := range k.lines() {
		if x.queue.Len() > 0 {
			return machine.WaitLost
		}
		lost = max(lost, x.machine.Loss(now))
	}
	return lost
}

// renew replaces a key by a new one. All waiters move to its queue.
func (g *Gate) renew(k *key) *key {
	fresh := g.newKey(k.name)
	fresh.place = k.place
	g.keys[k.name], k.place.Value = fresh, fresh
	for _, x := range k.lines() {
		fresh.take(x)
	}
	return fresh
}

// take moves the waiters of a line to the queue of a key.
func (k *key) take(x *line) {
	for x.queue.Len() > 0 {
		w := x.queue.front()
		x.dequeue(w)
		k.enqueue(w)
	}
	x.admit(time.Time{}) // stops the timer
}

// find returns the key or the part of a key that has a name. For a key, x is nil. For an unknown name,
// both are nil. The caller has locked the Gate.
func (g *Gate) find(name string) (k *key, x *part) {
	if k = g.keys[short(name, maxKey)]; k != nil {
		return k, nil
	}
	parent, _, _ := strings.Cut(name, " ")
	if k = g.keys[parent]; k != nil {
		for _, x := range k.parts() {
			if x.id == name {
				return k, x
			}
		}
	}
	return nil, nil
}
