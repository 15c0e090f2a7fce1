package ratelimit

import (
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// response checks the fields against the rest of the response.
func (c *checker) response() {
	trailers := map[string]bool{}
	for key := range c.resp.Trailer {
		trailers[http.CanonicalHeaderKey(key)] = true
	}
	redirection := c.resp.StatusCode/100 == 3 && c.resp.StatusCode != http.StatusNotModified
	storable := c.storable()
	for _, field := range [...]*fieldDef{policyField, limitField} {
		if trailers[field.key] {
			r := rules[ruleTrailer]
			r.id = field.trailerRule
			c.add(r, field.name, -1)
		}
		if len(c.h[field.key]) == 0 {
			continue
		}
		if redirection {
			c.add(rules[ruleRedirection], field.name, -1)
		}
		switch {
		case c.clock.Stored:
			c.add(rules[ruleCached], field.name, -1)
		case storable:
			c.add(rules[ruleStorable], field.name, -1)
		}
	}
}

// storable reports whether the response says that a cache may use it again. If
// the response says nothing about that, a cache may still do so, but that is not
// a fault of the server.
func (c *checker) storable() bool {
	if r := c.resp.Request; r != nil && r.Method != "" && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	explicit, fresh := false, false // a lifetime is given, and is not over
	for _, line := range c.h["Cache-Control"] {
		for directive := range strings.SplitSeq(strings.ToLower(line), ",") {
			name, value, _ := strings.Cut(text.Trim(directive), "=")
			switch name {
			case "no-store", "no-cache":
				return false
			case "public":
				fresh = true
			case "max-age", "s-maxage":
				age, ok := text.ParseNumber(text.Unquote(value))
				explicit = true
				fresh = fresh || ok && age.Floor() > 0
			}
		}
	}
	if explicit || fresh {
		return fresh
	}
	for _, line := range c.h["Expires"] {
		if t, ok := text.ParseDate(text.Trim(line)); ok && !c.clock.Made().IsZero() && t.After(c.clock.Made()) {
			return true
		}
	}
	return false
}

// retryAfter checks that Retry-After has the form that RFC 9110 gives it, and
// that it is no earlier than the end of the wait of a limit with nothing
// remaining. A limit with something remaining may have a later reset, as in the
// example of draft-11 Appendix B.3.
func (c *checker) retryAfter() {
	lines := c.h[retryAfterKey]
	standard, found := len(lines) == 1, false
	var asked retryAfter
	for _, line := range lines {
		r, ok := parseRetryAfter(line)
		standard = standard && r.standard
		if ok && !found {
			asked, found = r, true
		}
	}
	if len(lines) > 0 && !standard {
		c.add(rules[ruleRetryForm], retryAfterKey, -1)
	}
	least, ok := c.fields.RetryAfter().Duration()
	if ok && found && asked.wait(c.clock.Made()) < least { // a date without Date is as far away as can be
		c.add(rules[ruleRetryEarly], retryAfterKey, -1)
	}
}

// older checks that older fields do not contradict the current ones: that they
// report one of the current limits (draft-06 Section 3.1 asks for the one that is
// closest to exhaustion), and quotas of current policies alone.
func (c *checker) older() {
	if len(c.fields.Limits) == 0 && len(c.fields.Policies) == 0 {
		return
	}
	h := maps.Clone(c.h)
	delete(h, policyKey)
	delete(h, limitKey)
	old := c.readOlder(h)
	fields, _ := older.Find(nil, h, nil)
	for i := range old.Limits {
		l := &old.Limits[i]
		remaining, reset := c.agrees(l)
		switch {
		case !remaining:
			c.add(rules[ruleOlder], olderKey(fields, &old, l.Name, older.Remaining), -1)
		case !reset && l.Remaining != Unknown: // else the current fields have no member for it
			c.add(rules[ruleOlder], olderKey(fields, &old, l.Name, older.Reset), -1)
		}
	}
	blamed := map[string]bool{} // one field may hold many quotas
	for i := range old.Policies {
		p := &old.Policies[i]
		if p.Quota == Unknown || c.allots(p.Quota) {
			continue
		}
		if key := olderKey(fields, &old, p.Name, older.Quota); !blamed[key] {
			blamed[key] = true
			c.add(rules[ruleOlder], key, -1)
		}
	}
}

// readOlder reads the older fields in h. Their absolute times are measured from
// when the response was made, as the seconds of the current fields are, even if it
// comes from a cache. Without Date that is not known, and an absolute reset
// cannot be compared with seconds, so it is absent in the result. The fields are read
// twice, with two arrival times: a reset that changes is absolute.
func (c *checker) readOlder(h http.Header) Fields {
	read := func(arrived time.Time) Fields {
		old, _, _ := parseLegacy(h, &LegacyOptions{}, func() text.Clock { return readClock(h, arrived) })
		return old
	}
	if !c.clock.Made().IsZero() {
		return read(c.clock.Made())
	}
	epoch := time.Unix(0, 0) // before all points in time that servers write
	if now := time.Now(); now.Unix() < text.LeastUnix {
		epoch = now.Add(-text.Month / 2) // a bubble of testing/synctest, where they are near the clock
	}
	old, later := read(epoch), read(epoch.Add(time.Hour))
	for i := range old.Limits {
		if i >= len(later.Limits) || old.Limits[i].Reset != later.Limits[i].Reset {
			old.Limits[i].Reset = Seconds{}
		}
	}
	return old
}

// olderKey returns the key of the older field out of which a policy's number of that role was
// read. The first of these counts, and of several the first in alphabetical order:
//
//   - a field of that role that belongs to that policy, or to none that was read: the word
//     Requests names no policy where nothing else is counted;
//   - another field of that policy, or of none that was read;
//   - a field of that role;
//   - any field.
func olderKey(fields []older.Field, read *Fields, policy string, role older.Role) (best string) {
	named := map[string]bool{}
	for i := range read.Limits {
		named[read.Limits[i].Name] = true
	}
	for i := range read.Policies {
		named[read.Policies[i].Name] = true
	}
	highest := -1
	for i := range fields {
		f, rank := &fields[i], 0
		if of := f.Policy(); of == policy || !named[of] {
			rank += 2
		}
		if f.Role() == role {
			rank++
		}
		if rank > highest || rank == highest && f.Key < best {
			best, highest = f.Key, rank
		}
	}
	return best
}

// agrees reports whether a current limit has the Remaining of an older one, and whether
// one of those also has its Reset; both are true if there is no current limit. Resets
// may differ by a second, because of rounding. A Reset that agrees with another limit,
// and is later than that of the limit with the Remaining, counts as well: it says less
// than either, as [RestrictHeader] writes it.
func (c *checker) agrees(old *Limit) (remaining, reset bool) {
	if len(c.fields.Limits) == 0 {
		return true, true
	}
	later, another := false, false
	for i := range c.fields.Limits {
		l := &c.fields.Limits[i]
		d, known := old.Reset.n-l.Reset.n, old.Reset.ok && l.Reset.ok
		before, behind := known && d < -1, known && d > 1
		switch same := !before && !behind; {
		case old.Remaining != Unknown && old.Remaining != l.Remaining:
			another = another || same && l.Reset.ok
		case same:
			return true, true
		default:
			remaining, later = true, later || behind
		}
	}
	return remaining, later && another
}

// allots reports whether a current policy has that quota. It is true if there is
// no current policy.
func (c *checker) allots(quota int64) bool {
	for i := range c.fields.Policies {
		if c.fields.Policies[i].Quota == quota {
			return true
		}
	}
	return len(c.fields.Policies) == 0
}
