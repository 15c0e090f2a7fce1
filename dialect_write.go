package ratelimit

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// A syntax is how a field is written whose value is more than one number.
type syntax uint8

const (
	plainSyntax      syntax = iota
	windowSyntax            // policies behind the quota, with window (draft-polli-00)
	quotaSyntax             // the same with w (drafts 01 to 03)
	dictionarySyntax        // limit=100, remaining=50, reset=5 (draft-07)
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
	w := writing{d: d, h: h, now: now, keys: d.keys}
	w.lines, w.values = make([]string, 0, len(d.Fields)), make([]string, 0, len(d.Fields))
	if err := w.write(&f); err != nil {
		return err
	}
	if err := w.verify(); err != nil {
		return err
	}
	d.remove(h, w.current)
	for i := range w.lines {
		h[w.lines[i]] = w.values[i : i+1 : i+1]
	}
	return nil
}

// remove deletes the fields of a dialect, but a field of policies that holds the
// current form, if current says that there is one.
func (d *Dialect) remove(h http.Header, current bool) {
	for key := range h {
		if role, ok := d.table().Role(key); ok && !(role == older.Policies && current) {
			delete(h, key)
		}
	}
}

// A writing is a set of fields that is being written.
type writing struct {
	d       *Dialect
	keys    []string // of its fields
	h       http.Header
	now     time.Time
	lines   []string // keys, each of one line
	values  []string // of these
	written []writtenLimit
	current bool // the field of policies holds the current form
}

// A writtenLimit is what the fields say of a limit; what they do not is Unknown,
// or absent.
type writtenLimit struct {
	name             string
	title            string // the name, if a field of RoleName can say it
	quota, remaining int64
	reset            Seconds
	window           Seconds // that of the policy, written or not
}

// refuse is the error about a field.
func refuse(name string, cause error) error {
	return &FieldError{Field: name, Offset: -1, Item: -1, Err: cause}
}

func (w *writing) write(f *Fields) error {
	starred := false
	for i := range w.d.Fields {
		field := &w.d.Fields[i]
		starred = starred || field.starred() && field.Role != RoleNone
		w.current = w.current || field.Role == RolePolicies && isCurrent(w.h[w.keys[i]])
	}
	policies := newMatcher(f.Policies)
	if starred {
		return w.writeAll(f, &policies)
	}
	return w.writeOne(f, &policies)
}

// unwritable returns the fault of the first field that cannot be written, or nil.
func (d *Dialect) unwritable() error {
	for i := range d.Fields {
		field := &d.Fields[i]
		if err := field.fault(); err != nil {
			return refuse(field.Name, err)
		}
		if field.unwritable() {
			return refuse(field.Name, ErrType)
		}
	}
	return nil
}

// writeAll writes every limit, to fields with its name in them.
func (w *writing) writeAll(f *Fields, policies *matcher) error {
	seen := make(map[string]bool, len(f.Limits))
	for i := range f.Limits {
		l := &f.Limits[i]
		if seen[nameID(l.Name)] {
			return refuse(w.anyName(), ErrDuplicate)
		}
		seen[nameID(l.Name)] = true
		if err := w.writeLimit(l, policies.policy(l)); err != nil {
			return err
		}
	}
	return nil
}

// writeOne writes the tightest limit, or the first policy if there are no
// limits, and then the list of all policies.
func (w *writing) writeOne(f *Fields, policies *matcher) error {
	l, ok := f.Tightest()
	p := policies.policy(&l)
	switch {
	case ok:
	case len(f.Policies) > 0:
		p = &f.Policies[0]
		l = Limit{Name: p.Name, Remaining: Unknown}
	default:
		return nil
	}
	if err := w.writeLimit(&l, p); err != nil {
		return err
	}
	return w.writePolicies(f, p)
}

// writeLimit writes a limit and its policy, whose quota is Unknown if there is
// none.
func (w *writing) writeLimit(l *Limit, p *Policy) error {
	done := writtenLimit{name: cmp.Or(l.Name, defaultName), quota: Unknown, remaining: Unknown, window: p.Window}
	if !text.IsName(l.Name) {
		return refuse(w.anyName(), ErrSyntax)
	}
	if l.Name != defaultName && text.Unquote(text.Trim(l.Name)) == l.Name {
		done.title = l.Name
	}
	for i := range w.d.Fields {
		field := &w.d.Fields[i]
		value, err := w.value(field, l, p, &done)
		if field.write == dictionarySyntax && isCurrent(w.h[w.keys[i]]) {
			err = ErrDuplicate
		}
		if err != nil {
			return refuse(field.Name, err)
		}
		if err := w.put(i, l.Name, value); err != nil {
			return err
		}
	}
	w.written = append(w.written, done)
	return nil
}

// value returns what a field says of a limit, "" if nothing, and notes it.
func (w *writing) value(field *DialectField, l *Limit, p *Policy, done *writtenLimit) (value string, err error) {
	if field.write == dictionarySyntax {
		return dictionary(l, p, done)
	}
	switch field.Role {
	case RoleQuota:
		value, err = formatCount(p.Quota)
		done.quota = p.Quota
	case RoleRemaining:
		value, err = formatCount(l.Remaining)
		done.remaining = l.Remaining
	case RoleUsed:
		if l.Remaining >= 0 && l.Remaining <= p.Quota && w.d.has(RoleQuota, RoleRemaining) {
			value, err = formatCount(p.Quota - l.Remaining)
			done.quota, done.remaining = p.Quota, l.Remaining // the third number follows from two
		}
	case RoleReset:
		if l.Reset.ok {
			var ok bool
			if value, ok = text.Format(field.Format).Write(l.Reset.n, w.now); !ok {
				err = ErrRange
			}
			done.reset = l.Reset
		}
	case RoleWindow:
		if p.Window.ok {
			value, err = formatWindow(p.Window.n, field.Format)
		}
	case RoleName:
		value = done.title
	}
	return value, err
}

// has reports whether d has a field of one of the roles.
func (d *Dialect) has(wanted ...Role) bool {
	return slices.ContainsFunc(d.Fields, func(f DialectField) bool { return slices.Contains(wanted, f.Role) })
}

// unwritable reports whether the field has a syntax of its own, which can only be
// read.
func (f *DialectField) unwritable() bool { return f.Read != nil && f.Role != RoleNone }

// starred reports whether the policy's name is in that of the field.
func (f *DialectField) starred() bool { return strings.IndexByte(f.Name, '*') >= 0 }

// put writes the field at an index, if there is a value.
func (w *writing) put(i int, name, value string) error {
	if value == "" {
		return nil
	}
	field, key := &w.d.Fields[i], w.keys[i]
	if field.starred() {
		if !isLowerToken(name) {
			return refuse(field.Name, ErrSyntax)
		}
		key = http.CanonicalHeaderKey(strings.Replace(key, "*", name, 1))
	}
	if len(w.lines) == older.MaxFields {
		return refuse(field.Name, ErrTooMany)
	}
	if slices.Contains(w.lines, key) {
		return refuse(field.Name, ErrDuplicate)
	}
	w.lines = append(w.lines, key)
	w.values = append(w.values, value)
	return nil
}

// isLowerToken reports whether a name survives in the name of a field, which
// does not keep capitals.
func isLowerToken(name string) bool {
	return text.IsToken(name) && strings.ToLower(name) == name && !strings.Contains(name, "*")
}

func formatCount(n int64) (string, error) {
	switch {
	case n == Unknown:
		return "", nil
	case !isInteger(n, 0):
		return "", ErrRange
	}
	return strconv.FormatInt(n, 10), nil
}

// formatWindow writes the length of a window.
func formatWindow(n int64, format TimeFormat) (string, error) {
	switch {
	case !isInteger(n, minWindow):
		return "", ErrRange
	case format == TimeMilli:
		n *= 1000
	case format == TimeDuration:
		return SecondsOf(n).String(), nil
	}
	return strconv.FormatInt(n, 10), nil
}

// dictionary returns the field RateLimit of draft-07 Section 3, in which remaining
// is optional.
func dictionary(l *Limit, p *Policy, done *writtenLimit) (string, error) {
	if p.Quota == Unknown || !l.Reset.ok {
		return "", ErrMissing
	}
	if !isInteger(p.Quota, 0) || !isInteger(l.Reset.n, 0) || l.Remaining != Unknown && !isInteger(l.Remaining, 0) {
		return "", ErrRange
	}
	done.quota, done.remaining, done.reset = p.Quota, l.Remaining, l.Reset
	remaining := ""
	if l.Remaining != Unknown {
		remaining = ", remaining=" + strconv.FormatInt(l.Remaining, 10)
	}
	return "limit=" + strconv.FormatInt(p.Quota, 10) + remaining + ", reset=" + strconv.FormatInt(l.Reset.n, 10), nil
}

// writePolicies writes the Integer policies: behind the quota in drafts 00 to
// 03 (the policy of the limit first, so that it is found again), into a field
// of their own from draft-04 on.
func (w *writing) writePolicies(f *Fields, own *Policy) error {
	for i := range w.d.Fields {
		field := &w.d.Fields[i]
		switch {
		case (field.write == windowSyntax || field.write == quotaSyntax) && own.Quota != Unknown:
			return w.writeBehind(i, f, own)
		case field.Role == RolePolicies && !w.current:
			return w.writeList(i, f)
		}
	}
	return nil
}

func (w *writing) writeBehind(i int, f *Fields, own *Policy) error {
	field, value := &w.d.Fields[i], &w.values[slices.Index(w.lines, w.keys[i])]
	b, err := field.appendPolicy([]byte(*value), own)
	for j := range f.Policies {
		if p := &f.Policies[j]; err == nil && !p.Equal(*own) {
			b, err = field.appendPolicy(b, p)
		}
	}
	*value = string(b)
	return err
}

func (w *writing) writeList(i int, f *Fields) error {
	field := &w.d.Fields[i]
	var b []byte
	seen := make(map[int64]bool, len(f.Policies))
	for j := range f.Policies {
		p := &f.Policies[j]
		if p.Quota == Unknown {
			continue
		}
		if seen[p.Quota] {
			return refuse(field.Name, ErrDuplicate)
		}
		seen[p.Quota] = true
		var err error
		if b, err = field.appendPolicy(b, p); err != nil {
			return err
		}
	}
	return w.put(i, "", string(b))
}

// appendPolicy appends an Integer policy, if it has the window that it needs.
func (f *DialectField) appendPolicy(b []byte, p *Policy) ([]byte, error) {
	if !p.Window.ok || p.Quota == Unknown {
		return b, nil
	}
	if !isInteger(p.Quota, 0) || !isInteger(p.Window.n, minWindow) {
		return nil, refuse(f.Name, ErrRange)
	}
	if len(b) > 0 {
		b = append(b, separator...)
	}
	window := "w" // draft-06 Section 3.2
	if f.write == windowSyntax {
		window = "window"
	}
	b = appendInteger(b, uint64(p.Quota))
	b = append(append(append(b, ';'), window...), '=')
	b = appendInteger(b, uint64(p.Window.n))
	b, _, err := p.Params.append(b, policyField, 2) // the quota and the window
	if err != nil {
		return nil, refuse(f.Name, err)
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
	f, _, faults := readFound(found, older.Options{Name: w.written[0].name, Clock: text.Clock{Arrived: w.now}})
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
func (w *writtenLimit) in(f *Fields) bool {
	got := Limit{Remaining: Unknown}
	if i := slices.IndexFunc(f.Limits, func(l Limit) bool { return nameID(l.Name) == nameID(w.name) }); i >= 0 {
		got = f.Limits[i]
	}
	policies := matcher{policies: f.Policies}
	p := policies.policy(&Limit{Name: w.name})
	return got.Remaining == w.remaining && got.Reset == w.reset && p.Quota == w.quota &&
		(!w.window.ok || !p.Window.ok || p.Window == w.window)
}

// anyName returns the name of a field, or of the dialect if it has none.
func (w *writing) anyName() string {
	if len(w.d.Fields) == 0 {
		return w.d.Name
	}
	return w.d.Fields[0].Name
}
