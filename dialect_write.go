package ratelimit

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// Set writes f to h as the dialect spells it: the tightest limit and its policy or,
// where names carry a *, every limit. It replaces the dialect's fields in h. A number
// that f does not have is left out, and so is what the dialect has no field for.
//
// Resets are written in the formats of the dialect, points in time from the second in
// which now lies; the zero time is time.Now(). All policies with a window go to a field
// of Integer policies, but not to a RateLimit-Policy in the current form, which stays as
// it is. [ParseAny] reads every number back as it was, given the dialect, the same now
// and the name of the first limit.
//
// On error h is as it was. Set refuses, with a [*FieldError] that has the name of the
// field: a number below 0, above MaxInteger, or that would be read as another, such as a
// reset of thirty years (ErrRange); a policy's name that is no lower-case token in the
// place of a *, or not printable ASCII (ErrSyntax); two limits of one name, two Integer
// policies of one quota (draft-06 Section 3.2), a draft-07 field next to the current one
// (ErrDuplicate); draft-07 without quota or reset, and fields that hold nothing of f
// (ErrMissing); a field with a Read function (ErrType). A nil h is an error too.
func (d *Dialect) Set(h http.Header, f Fields, now time.Time) error {
	if h == nil {
		return errNilHeader
	}
	if now.IsZero() {
		now = time.Now()
	}
	if d.table(); d.bad != nil {
		return d.bad
	}
	w := writing{d: d, now: now}
	for i, key := range d.keys {
		current := isCurrent(h[key])
		w.limits = w.limits || current && d.Fields[i].write == dictionarySyntax
		w.policies = w.policies || current && d.Fields[i].Role == RolePolicies
	}
	if err := w.write(&f); err != nil {
		return err
	}
	if err := w.verify(); err != nil {
		return err
	}
	d.remove(h)
	for i := range w.lines {
		h[w.lines[i]] = w.values[i : i+1 : i+1]
	}
	return nil
}

// remove deletes the fields of a dialect, but a field of policies that holds the current
// form.
func (d *Dialect) remove(h http.Header) {
	for key, lines := range h {
		if role, ok := d.table().Role(key); ok && !(role == older.Policies && isCurrent(lines)) {
			delete(h, key)
		}
	}
}

// A writing is a set of fields that is being written.
type writing struct {
	d                *Dialect
	now              time.Time
	limits, policies bool     // a field of the dialect holds them in the current form
	lines            []string // keys, each of one line
	values           []string // of these
	written          []writtenLimit
}

// A writtenLimit is a limit to write with its policy, and what the fields say of them;
// what they do not is Unknown, or absent.
type writtenLimit struct {
	Limit
	policy           *Policy
	quota, remaining int64
	reset            Seconds
}

// write writes every limit where names carry a *, else the tightest, or the first policy
// if there are no limits, and then the list of all policies.
func (w *writing) write(f *Fields) error {
	w.lines, w.values = make([]string, 0, len(w.d.Fields)), make([]string, 0, len(w.d.Fields))
	if err := w.choose(f); err != nil {
		return err
	}
	for i := range w.written {
		if err := w.writeLimit(&w.written[i]); err != nil {
			return err
		}
	}
	if w.d.all || len(w.written) == 0 {
		return nil
	}
	return w.writePolicies(f.Policies, w.written[0].policy)
}

// choose finds the limits to write, and their policies, whose Quota is Unknown if there
// are none.
func (w *writing) choose(f *Fields) error {
	policies := newMatcher(f.Policies)
	add := func(l Limit) {
		w.written = append(w.written, writtenLimit{Limit: l, policy: policies.policy(&l), quota: Unknown, remaining: Unknown})
	}
	if !w.d.all {
		if l, ok := f.Tightest(); ok {
			add(l)
		} else if len(f.Policies) > 0 {
			p := &f.Policies[0]
			add(Limit{Name: p.Name, PartitionKey: p.PartitionKey, Remaining: Unknown})
		}
		return nil
	}
	seen := make(map[string]bool, len(f.Limits))
	for _, l := range f.Limits {
		if seen[nameID(l.Name)] {
			return refuse(w.anyName(), ErrDuplicate)
		}
		seen[nameID(l.Name)] = true
		add(l)
	}
	return nil
}

// writeLimit writes a limit and its policy.
func (w *writing) writeLimit(l *writtenLimit) error {
	if !text.IsName(l.Name) {
		return refuse(w.anyName(), ErrSyntax)
	}
	for i := range w.d.Fields {
		field := &w.d.Fields[i]
		value, err := w.value(field, l)
		if err != nil {
			return refuse(field.Name, err)
		}
		if err := w.put(i, l.Name, value); err != nil {
			return err
		}
	}
	return nil
}

// value returns what a field says of a limit, "" if nothing, and notes it.
func (w *writing) value(field *DialectField, l *writtenLimit) (value string, err error) {
	p := l.policy
	if field.write == dictionarySyntax {
		return w.dictionary(l)
	}
	switch field.Role {
	case RoleQuota:
		l.quota = p.Quota
		return w.count(p.Quota)
	case RoleRemaining:
		l.remaining = l.Remaining
		return w.count(l.Remaining)
	case RoleUsed:
		if l.Remaining >= 0 && l.Remaining <= p.Quota && w.d.has(RoleQuota, RoleRemaining) {
			l.quota, l.remaining = p.Quota, l.Remaining // the third number follows from two
			return w.count(p.Quota - l.Remaining)
		}
	case RoleReset:
		l.reset = l.Reset
		return w.time(l.Reset, field.Format)
	case RoleWindow:
		if p.Window.ok && p.Window.n < minWindow {
			return "", ErrRange
		}
		if field.Format != TimeMilli && field.Format != TimeDuration {
			return w.time(p.Window, TimeSeconds)
		}
		return w.time(p.Window, field.Format)
	case RoleName:
		if l.Name != defaultName && text.Unquote(text.Trim(l.Name)) == l.Name { // else it is read as another
			return l.Name, nil
		}
	}
	return "", nil
}

// has reports whether d has a field of one of the roles.
func (d *Dialect) has(wanted ...Role) bool {
	return slices.ContainsFunc(d.Fields, func(f DialectField) bool { return slices.Contains(wanted, f.Role) })
}

// put writes the field at an index, if there is a value.
func (w *writing) put(i int, name, value string) error {
	if value == "" {
		return nil
	}
	field, key := &w.d.Fields[i], w.d.keys[i]
	switch {
	case !field.starred():
	case !text.IsToken(name), strings.ToLower(name) != name, strings.Contains(name, "*"): // names of fields do not keep capitals
		return refuse(field.Name, ErrSyntax)
	default:
		key = http.CanonicalHeaderKey(strings.Replace(key, "*", name, 1))
	}
	if len(w.lines) == older.MaxFields {
		return refuse(field.Name, ErrTooMany)
	}
	if slices.Contains(w.lines, key) {
		return refuse(field.Name, ErrDuplicate)
	}
	w.lines, w.values = append(w.lines, key), append(w.values, value)
	return nil
}

// count writes a number of units, "" if it is Unknown.
func (w *writing) count(n int64) (string, error) {
	return w.time(Seconds{n: n, ok: n != Unknown}, TimeSeconds)
}

// time writes a number of seconds from now, "" if it is absent.
func (w *writing) time(s Seconds, format TimeFormat) (value string, err error) {
	if !s.ok {
		return "", nil
	}
	value, ok := text.Format(format).Write(s.n, w.now)
	if !ok {
		return "", ErrRange
	}
	return value, nil
}

// dictionary returns the field RateLimit of draft-07 Section 3, in which remaining
// is optional.
func (w *writing) dictionary(l *writtenLimit) (string, error) {
	if w.limits {
		return "", ErrDuplicate
	}
	l.quota, l.remaining, l.reset = l.policy.Quota, l.Remaining, l.Reset
	quota, err := w.count(l.quota)
	remaining, err2 := w.count(l.remaining)
	reset, err3 := w.time(l.reset, TimeSeconds)
	if err := cmp.Or(err, err2, err3); err != nil {
		return "", err
	}
	if quota == "" || reset == "" {
		return "", ErrMissing
	}
	if remaining != "" {
		remaining = ", remaining=" + remaining
	}
	return "limit=" + quota + remaining + ", reset=" + reset, nil
}

// writePolicies writes the Integer policies: behind the quota in drafts 00 to 03 (the
// policy of the limit first, so that it is found again), into a field of their own from
// draft-04 on.
func (w *writing) writePolicies(policies []Policy, own *Policy) error {
	for i := range w.d.Fields {
		field := &w.d.Fields[i]
		switch {
		case (field.write == windowSyntax || field.write == quotaSyntax) && own.Quota != Unknown:
			value := &w.values[slices.Index(w.lines, w.d.keys[i])]
			others := slices.DeleteFunc(slices.Clone(policies), own.Equal)
			b, err := field.appendPolicies([]byte(*value), append([]Policy{*own}, others...))
			*value = string(b)
			return err
		case field.Role == RolePolicies && !w.policies:
			seen := make(map[int64]bool, len(policies))
			for j := range policies {
				if q := policies[j].Quota; seen[q] && q != Unknown {
					return refuse(field.Name, ErrDuplicate)
				}
				seen[policies[j].Quota] = true
			}
			b, err := field.appendPolicies(nil, policies)
			if err != nil {
				return err
			}
			return w.put(i, "", string(b))
		}
	}
	return nil
}

// appendPolicies appends Integer policies, those that have the window that they need.
func (f *DialectField) appendPolicies(b []byte, policies []Policy) ([]byte, error) {
	window := ";w=" // draft-06 Section 3.2
	if f.write == windowSyntax {
		window = ";window="
	}
	for i := range policies {
		p := &policies[i]
		if !p.Window.ok || p.Quota == Unknown {
			continue
		}
		if !sf.IsInteger(p.Quota, 0) || !sf.IsInteger(p.Window.n, minWindow) {
			return nil, refuse(f.Name, ErrRange)
		}
		if len(b) > 0 {
			b = append(b, separator...)
		}
		b = append(strconv.AppendInt(b, p.Quota, 10), window...)
		b = strconv.AppendInt(b, p.Window.n, 10)
		var err error
		if b, _, err = p.Params.append(b, policyField, 2); err != nil { // the quota and the window
			return nil, refuse(f.Name, err)
		}
	}
	return b, nil
}

// verify reads back what is to be written.
func (w *writing) verify() error {
	if len(w.lines) == 0 {
		if len(w.written) == 0 {
			return nil
		}
		return refuse(w.anyName(), ErrMissing)
	}
	var few [8]older.Field
	found := few[:0]
	for i, key := range w.lines {
		found = append(found, w.d.table().Field(key, w.values[i:i+1:i+1]))
	}
	f, _, faults := readFound(found, older.Options{Name: cmp.Or(w.written[0].Name, defaultName), Clock: text.Clock{Arrived: w.now}})
	for _, e := range faults {
		return refuse(e.Field, e.Err)
	}
	for i := range w.written {
		if !w.written[i].in(&f) {
			return refuse(w.anyName(), ErrRange)
		}
	}
	return nil
}

// in reports whether fields say what has been written.
func (l *writtenLimit) in(f *Fields) bool {
	got, id := Limit{Remaining: Unknown}, nameID(cmp.Or(l.Name, defaultName))
	if i := slices.IndexFunc(f.Limits, func(m Limit) bool { return nameID(m.Name) == id }); i >= 0 {
		got = f.Limits[i]
	}
	policies := matcher{policies: f.Policies}
	p := policies.policy(&Limit{Name: id})
	return got.Remaining == l.remaining && got.Reset == l.reset && p.Quota == l.quota &&
		(!l.policy.Window.ok || !p.Window.ok || p.Window == l.policy.Window)
}

// anyName returns the name of a field, or of the dialect if it has none.
func (w *writing) anyName() string {
	if len(w.d.Fields) == 0 {
		return w.d.Name
	}
	return w.d.Fields[0].Name
}
