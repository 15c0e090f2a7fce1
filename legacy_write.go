package ratelimit

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SetLegacy writes f to h as the dialect spells it: the tightest limit and its
// policy where the dialect has one set of names, every limit where its names
// carry a *. A number that f does not have, an Unknown remaining among them, is
// left out, and so is what the dialect has no field for. It replaces the
// dialect's fields in h, and deletes those that it has no number for.
//
// Resets are written in the dialect's Format, absolute ones from now, rounded
// up; the zero time is time.Now(). All policies with a window go to a field of
// Integer policies, if the dialect has one, but not to a RateLimit-Policy that
// holds the current form, which stays as it is. What is written, [ParseLegacy]
// reads back with the same dialect, a policy without a name in the fields by
// LegacyOptions.Name.
//
// SetLegacy refuses what it cannot represent: a number below 0 or above
// MaxInteger (ErrRange), a policy's name that is no lower-case token in the
// place of a *, or not printable ASCII (ErrSyntax), two limits of one name, two Integer policies of one
// quota (draft-06 Section 3.3), a draft-07 field RateLimit beside the current
// one (ErrDuplicate), draft-07 without a quota or a reset (ErrMissing), and a
// dialect with a syntax of its own (ErrType). On error, a [*FieldError] with
// the name of the field or that h is nil, h is as it was.
func SetLegacy(h http.Header, d Dialect, f Fields, now time.Time) error {
	if h == nil {
		return errNilHeader
	}
	if now.IsZero() {
		now = time.Now()
	}
	w := writing{d: &d, row: compileRow(&d), h: h, now: now, lines: map[string]string{}}
	if err := w.write(&f); err != nil {
		return err
	}
	if err := w.verify(); err != nil {
		return err
	}
	for key := range h {
		if w.replaces(key) {
			delete(h, key)
		}
	}
	for key, line := range w.lines {
		h[key] = []string{line}
	}
	return nil
}

// A writing is a set of fields that is being written.
type writing struct {
	d       *Dialect
	row     row
	h       http.Header
	now     time.Time
	lines   map[string]string // by canonical key
	limits  []Limit           // that have been written,
	quotas  []int64           // and their quotas, or Unknown
	current bool              // the field of policies holds the current form
}

// refuse is the error about a field.
func refuse(name string, cause error) error {
	return &FieldError{Field: name, Offset: -1, Item: -1, Err: cause}
}

func (w *writing) write(f *Fields) error {
	d := w.d
	if d.syntax != limitRole && d.syntax != dictionaryRole {
		return refuse(d.Limit, ErrType)
	}
	for _, line := range w.h[http.CanonicalHeaderKey(d.Policy)] {
		w.current = w.current || strings.HasPrefix(trim(line), `"`)
	}
	if !slices.ContainsFunc(w.row.cells, func(c field) bool { return c.star && c.role <= policyRole && w.column(c.name) }) {
		return w.writeOne(f)
	}
	for _, l := range f.Limits {
		p, ok := f.PolicyOf(l)
		if err := w.writeLimit(l, &p, ok); err != nil {
			return err
		}
	}
	return nil
}

// column reports whether a name is that of a column, and not one of more.
func (w *writing) column(name string) bool {
	columns := w.d.columns()
	return slices.Contains(columns[:], name)
}

// writeOne writes the tightest limit, or the first policy if there are no
// limits.
func (w *writing) writeOne(f *Fields) error {
	var p Policy
	l, ok := f.Tightest()
	switch {
	case ok:
		p, ok = f.PolicyOf(l)
	case len(f.Policies) > 0:
		p, ok = f.Policies[0], true
		l = Limit{Name: p.Name, Remaining: Unknown}
	default:
		return nil
	}
	if err := w.writeLimit(l, &p, ok); err != nil {
		return err
	}
	return w.writePolicies(f, &p)
}

// writeLimit writes a limit and its policy, if it has one; else the quota is made
// Unknown.
func (w *writing) writeLimit(l Limit, p *Policy, has bool) error {
	d := w.d
	if has && !isInteger(p.Quota, 0) {
		return refuse(w.anyColumn(), ErrRange)
	}
	if !has {
		p.Quota = Unknown
	}
	if !isName(l.Name) {
		return refuse(w.anyColumn(), ErrSyntax)
	}
	if l.Remaining != Unknown && !isInteger(l.Remaining, 0) {
		return refuse(d.Remaining, ErrRange)
	}
	if l.Reset.ok && !isInteger(l.Reset.n, 0) {
		return refuse(d.Reset, ErrRange)
	}
	if d.Window != "" && p.Quota != Unknown && p.Window.ok && !isInteger(p.Window.n, minWindow) {
		return refuse(d.Window, ErrRange)
	}
	w.limits, w.quotas = append(w.limits, l), append(w.quotas, p.Quota)
	if d.syntax == dictionaryRole {
		return w.writeDictionary(&l, p)
	}
	var reset string
	if l.Reset.ok && d.Reset != "" {
		var ok bool
		if reset, ok = formatReset(l.Reset.n, d.Format, w.now); !ok {
			return refuse(d.Reset, ErrRange)
		}
	}
	used := ""
	if p.Quota != Unknown && l.Remaining != Unknown && l.Remaining <= p.Quota {
		used = formatCount(p.Quota - l.Remaining)
	}
	title := l.Name
	if title == defaultName || unquote(trim(title)) != title {
		title = ""
	}
	for _, c := range []struct{ column, value string }{
		{d.Limit, formatCount(p.Quota)},
		{d.Remaining, formatCount(l.Remaining)},
		{d.Reset, reset},
		{d.Used, used},
		{d.Window, formatWindow(d.Window, p)},
		{d.Bucket, title},
	} {
		if err := w.put(c.column, l.Name, c.value); err != nil {
			return err
		}
	}
	return nil
}

// put writes a field, if the dialect has it and there is a value.
func (w *writing) put(column, name, value string) error {
	if column == "" || value == "" {
		return nil
	}
	if strings.Contains(column, "*") {
		if !isLowerToken(name) {
			return refuse(column, ErrSyntax)
		}
		column = strings.Replace(column, "*", name, 1)
	}
	if !isToken(column) || !isName(value) {
		return refuse(column, ErrSyntax)
	}
	key := http.CanonicalHeaderKey(column)
	if _, ok := w.lines[key]; ok {
		return refuse(column, ErrDuplicate)
	}
	w.lines[key] = value
	return nil
}

// isLowerToken reports whether a name survives in the name of a field, which
// does not keep capitals.
func isLowerToken(name string) bool {
	return isToken(name) && strings.ToLower(name) == name && !strings.Contains(name, "*")
}

func formatCount(n int64) string {
	if n == Unknown {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// formatWindow writes the window of a policy in the unit that the name of the
// field tells.
func formatWindow(column string, p *Policy) string {
	if p.Quota == Unknown || !p.Window.ok {
		return ""
	}
	key := http.CanonicalHeaderKey(column)
	switch {
	case strings.HasSuffix(key, "-Ms") || strings.HasSuffix(key, "-Milliseconds"):
		return strconv.FormatInt(p.Window.n*1000, 10)
	case strings.HasSuffix(key, "-Interval"):
		return p.Window.String()
	}
	return strconv.FormatInt(p.Window.n, 10)
}

// formatReset writes a reset, if the format can express it.
func formatReset(n int64, format ResetFormat, now time.Time) (s string, ok bool) {
	unix, nsec := now.Unix(), int64(now.Nanosecond())
	if nsec > 0 {
		unix++
	}
	switch format {
	case ResetGuess:
		return strconv.FormatInt(n, 10), n < leastUnix
	case ResetDelta:
		return strconv.FormatInt(n, 10), true
	case ResetDeltaMillis:
		return strconv.FormatInt(n*1000, 10), true
	case ResetUnix:
		return strconv.FormatInt(unix+n, 10), unix >= 0 && unix < farthest/2
	case ResetUnixMillis:
		millis := now.Unix()*1000 + (nsec+999_999)/1_000_000
		return strconv.FormatInt(millis+n*1000, 10), unix >= 0 && unix < MaxInteger/100
	case ResetDate:
		const lastYear = 253402300799 // 9999-12-31T23:59:59Z
		t := time.Unix(min(unix+n, lastYear), 0).UTC()
		return t.Format(http.TimeFormat), unix >= 0 && unix+n <= lastYear
	case ResetDuration:
		if d, _ := SecondsOf(n).Duration(); d < math.MaxInt64 {
			return d.String(), true
		}
		return SecondsOf(n).String(), true
	}
	return "", false
}

// writeDictionary writes the field RateLimit of draft-07 Section 3, in which
// remaining is optional.
func (w *writing) writeDictionary(l *Limit, p *Policy) error {
	name := w.d.Limit
	for _, line := range w.h[http.CanonicalHeaderKey(name)] {
		if strings.HasPrefix(trim(line), `"`) {
			return refuse(name, ErrDuplicate)
		}
	}
	if p.Quota == Unknown || !l.Reset.ok {
		return refuse(name, ErrMissing)
	}
	values := [...]int64{limitRole: p.Quota, remainingRole: l.Remaining, resetRole: l.Reset.n}
	var b []byte
	for i, key := range dictionaryKeys {
		if values[i] == Unknown {
			continue
		}
		if b != nil {
			b = append(b, separator...)
		}
		b = append(append(b, key...), '=')
		b = strconv.AppendInt(b, values[i], 10)
	}
	return w.put(name, "", string(b))
}

// writePolicies writes the Integer policies: behind the quota in drafts 00 to
// 03 (the policy of the limit first, so that it is found again), into a field
// of their own from draft-04 on.
func (w *writing) writePolicies(f *Fields, own *Policy) error {
	d := w.d
	switch {
	case d.window != "" && own.Quota != Unknown:
		list := append([]Policy{*own}, f.Policies...)
		b := []byte(w.lines[http.CanonicalHeaderKey(d.Limit)])
		for i := range list {
			if i > 0 && list[i].Equal(*own) {
				continue
			}
			var err error
			if b, err = w.appendPolicy(b, d.Limit, d.window, &list[i]); err != nil {
				return err
			}
		}
		w.lines[http.CanonicalHeaderKey(d.Limit)] = string(b)
		return nil
	case d.window != "" || d.Policy == "" || w.current:
		return nil
	}
	var b []byte
	seen := map[int64]bool{}
	for i := range f.Policies {
		p := &f.Policies[i]
		if seen[p.Quota] {
			return refuse(d.Policy, ErrDuplicate)
		}
		seen[p.Quota] = true
		var err error
		if b, err = w.appendPolicy(b, d.Policy, windowKey, p); err != nil {
			return err
		}
	}
	return w.put(d.Policy, "", string(b))
}

// appendPolicy appends an Integer policy, if it has the window that it needs.
func (w *writing) appendPolicy(b []byte, field, window string, p *Policy) ([]byte, error) {
	if !p.Window.ok {
		return b, nil
	}
	if !isInteger(p.Quota, 0) || !isInteger(p.Window.n, minWindow) {
		return nil, refuse(field, ErrRange)
	}
	if len(b) > 0 {
		b = append(b, separator...)
	}
	b = appendInteger(b, uint64(p.Quota))
	b = append(append(append(b, ';'), window...), '=')
	b = appendInteger(b, uint64(p.Window.n))
	b, _, err := p.Params.append(b, policyField, 2) // the quota and the window
	if err != nil {
		return nil, refuse(field, err)
	}
	return b, nil
}

// verify reads back what is to be written. A dialect can be made up in which two
// fields, or a field and a name of a policy, get in each other's way.
func (w *writing) verify() error {
	if len(w.lines) == 0 {
		return w.nothing()
	}
	h := make(http.Header, len(w.lines))
	for key, line := range w.lines {
		h[key] = []string{line}
	}
	o := LegacyOptions{Name: w.limits[0].Name, Now: w.now}
	f, _, faults := parseRows(h, &o, []row{w.row})
	for _, e := range faults {
		return refuse(e.Field, e.Err)
	}
	for i := range w.limits {
		if !w.holds(&f, &w.limits[i], w.quotas[i]) {
			return refuse(w.anyColumn(), ErrSyntax)
		}
	}
	return nil
}

// nothing is for Fields that no field of the dialect can hold.
func (w *writing) nothing() error {
	if len(w.limits) == 0 {
		return nil
	}
	return refuse(w.anyColumn(), ErrMissing)
}

func (w *writing) anyColumn() string {
	for _, name := range w.d.columns() {
		if name != "" {
			return name
		}
	}
	return w.d.Name
}

// holds reports whether f says of a limit what the dialect has fields for.
func (w *writing) holds(f *Fields, l *Limit, quota int64) bool {
	d := w.d
	i := slices.IndexFunc(f.Limits, func(m Limit) bool { return m.Name == l.Name })
	var got Limit
	if i >= 0 {
		got = f.Limits[i]
	} else {
		got.Remaining = Unknown
	}
	p, ok := f.PolicyOf(Limit{Name: l.Name})
	if !ok {
		p.Quota = Unknown
	}
	dictionary := d.syntax == dictionaryRole
	switch {
	case (d.Remaining != "" || dictionary) && got.Remaining != l.Remaining:
		return false
	case d.Limit != "" && p.Quota != quota:
		return false
	}
	// A point in time may be rounded up twice.
	late := got.Reset.n - l.Reset.n
	return d.Reset == "" || got.Reset.ok == l.Reset.ok && 0 <= late && late <= 1
}

// replaces reports whether a field of the header is one of the dialect's
// columns, which have been written anew.
func (w *writing) replaces(key string) bool {
	for i := range w.row.cells {
		c := &w.row.cells[i]
		if _, ok := c.match(key); !ok || !w.column(c.name) {
			continue
		}
		if c.role == policyRole && w.current {
			continue
		}
		return true
	}
	return false
}
