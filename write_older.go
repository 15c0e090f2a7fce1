package ratelimit

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/sf"
	"github.com/httpfields/ratelimit/internal/text"
)

// Set writes f to h in the form of the dialect. It replaces the dialect's fields in h. If the name
// of a field contains a *, Set writes every limit. Otherwise it writes the tightest limit and its
// policy. It leaves out absent numbers, and numbers for which the dialect has no field.
//
// Readers assume that the only limit of an older form limits requests. Set therefore prefers limits
// of requests, and limits with nothing remaining. If nothing remains of a limit without a Reset,
// Set writes its Window in place of the Reset, unless the Window is longer than three years.
//
// Points in time count from now, in whole seconds. The zero time means time.Now(). A list of
// policies, as in [Draft06], gets every policy that has a window. A RateLimit-Policy in the current
// form stays as it is. If [LegacyOptions] has the dialect, the same Now and the name of the first
// limit, [ParseAny] reads every number back unchanged.
//
// On error h is unchanged. The error is a [*FieldError] with the name of the field. It wraps
//
//   - ErrRange, if a number is below 0 or above MaxInteger, or would be read as another number,
//     such as a reset of thirty years;
//   - ErrSyntax, if the name of a policy is not printable ASCII, or if it replaces a * and is not a
//     lower-case token;
//   - ErrDuplicate, for two limits with one name, two Integer policies with one quota (draft-06
//     Section 3.2), and a draft-07 field next to the current fields;
//   - ErrMissing, if draft-07 lacks a quota or a reset, or if no field can carry anything of f.
//
// A nil h is an error too.
func (d *Dialect) Set(h http.Header, f Fields, now time.Time) error {
	if h == nil {
		return errNilHeader
	}
	if now.IsZero() {
		now = time.Now()
	}
	w := writing{d: d, rows: d.table(), h: h, clock: text.Clock{Header: h, Arrived: now}, policies: f.Policies}
	w.fields, w.lines = make([]older.Field, 0, len(d.all)), make([]string, 0, len(d.all))
	err := w.choose(&f)
	for i := 0; i < len(w.limits) && err == nil; i++ {
		err = w.write(&w.limits[i])
	}
	if err == nil {
		err = w.verify()
	}
	if err == nil {
		w.replace()
	}
	return err
}

// replace replaces the dialect's fields in the header, except a field of policies in the current
// form.
func (w *writing) replace() {
	for key, lines := range w.h {
		if !w.d.many && w.writes(key) { // a fast path, if a header is used again
			continue
		}
		if role, ok := w.rows.Role(key); ok && !(role == older.Policies && isCurrent(lines)) {
			delete(w.h, key)
		}
	}
	for i := range w.fields {
		w.h[w.fields[i].Key] = w.fields[i].Lines
	}
}

// writes reports whether a field is written.
func (w *writing) writes(key string) bool {
	return slices.ContainsFunc(w.fields, func(f older.Field) bool { return f.Key == key })
}

// conflict returns an error if d cannot be written next to the current fields.
func (d *Dialect) conflict() error {
	if d == nil {
		return errors.New("it is nil")
	}
	for _, key := range [...]string{draft.LimitKey, draft.PolicyKey} {
		role, ok := d.table().Role(key)
		if ok && !(key == draft.PolicyKey && role == older.Policies) { // a list of policies is not written next to the current form
			return refuse(fieldName(key), ErrDuplicate)
		}
	}
	return nil
}

// A writing is a set of fields that is being written.
type writing struct {
	d        *Dialect
	rows     *older.Table // of d
	h        http.Header  // as it was
	clock    text.Clock   // of the response
	policies []Policy     // all
	limits   []writtenLimit
	fields   []older.Field
	lines    []string // of all fields
}

// A writtenLimit is a limit to write, its policy, and the numbers that have been written.
type writtenLimit struct {
	Limit
	policy           *Policy
	quota, remaining int64
	reset            Seconds
}

// implied is three years in seconds. A shorter window can replace a reset, because no form reads it
// as a point in time.
const implied = 1e8

// choose selects the limits to write, and their policies: see Set. Without limits it takes the first
// policy. A limit without a policy gets one with the Quota Unknown. Readers may not see the window of a
// limit, so a limit with nothing remaining gets its wait as a Reset.
func (w *writing) choose(f *Fields) error {
	var room, more [4]Limit
	limits, few := append(room[:0], f.Limits...), Fields{Policies: f.Policies, Limits: more[:0]}
	policies := newMatcher(f.Policies)
	for i := range limits {
		l := &limits[i]
		p := policies.policy(l)
		if l.exhausted(p) && !l.Reset.ok && p.Window.n < implied {
			l.Reset = p.Window
		}
		if p.Unit.countsRequests() || l.exhausted(p) {
			few.Limits = append(few.Limits, *l)
		}
	}
	switch {
	case w.d.many:
	case len(limits) > 0:
		if len(few.Limits) == 0 {
			few.Limits = f.Limits
		}
		tightest, _ := few.Tightest()
		limits = append(limits[:0], tightest)
	case len(f.Policies) > 0:
		p := &f.Policies[0]
		limits = append(limits, Limit{Name: p.Name, PartitionKey: p.PartitionKey, Remaining: Unknown})
	}
	seen := map[string]bool{}
	for _, l := range limits {
		if seen[l.Name] {
			return refuse(w.anyName(), ErrDuplicate)
		}
		seen[l.Name] = true
		w.limits = append(w.limits, writtenLimit{Limit: l, policy: policies.policy(&l), quota: Unknown, remaining: Unknown})
	}
	return nil
}

// write writes the fields of a limit and its policy.
func (w *writing) write(l *writtenLimit) error {
	if !text.IsName(l.Name) {
		return refuse(w.anyName(), ErrSyntax)
	}
	for i := range w.d.all {
		field, key := &w.d.all[i], w.d.keys[i]
		value, err := w.value(field, key, l)
		if err == nil && value != "" {
			err = w.put(key, l.Name, value)
		}
		if err != nil {
			return refuse(field.Name, err)
		}
	}
	return nil
}

// value returns the value of a field for a limit, or "". It stores the numbers that a reader will
// find in the field.
func (w *writing) value(field *DialectField, key string, l *writtenLimit) (string, error) {
	switch role := field.Role; {
	case role == RoleQuota:
		l.quota = l.policy.Quota
		return w.quota(field, key, l)
	case role == RoleRemaining:
		l.remaining = l.Remaining
		return w.count(l.Remaining)
	case role == RoleUsed && w.d.counts && l.share() != Unknown: // the third number follows from the other two
		l.quota, l.remaining = l.policy.Quota, l.Remaining
		return w.count(l.policy.Quota - l.Remaining)
	case role == RoleReset:
		l.reset = l.Reset
		return w.time(l.Reset, field.Format)
	case role == RoleWindow:
		return w.window(l.policy.Window, field.Format)
	case role > RolePolicies:
		return w.part(role, l)
	case role == RoleName && l.Name != defaultName && text.Unquote(text.Trim(l.Name)) == l.Name: // else it is read as another
		return l.Name, nil
	case role == RolePolicies:
		return w.policyList(key)
	}
	return "", nil
}

// part returns the used part of the quota. Without other numbers, a reader takes 100 percent as the
// quota.
func (w *writing) part(role Role, l *writtenLimit) (string, error) {
	share := l.share()
	if share != Unknown && !w.d.counts {
		l.quota, l.remaining = 100, 100-share
	}
	if share == Unknown || role == RoleUsedPercent {
		return w.count(share)
	}
	return strconv.FormatFloat(float64(share)/100, 'f', -1, 64), nil
}

// share returns the used part of the quota, in percent, rounded up, or Unknown.
func (l *writtenLimit) share() int64 {
	switch quota := l.policy.Quota; {
	case l.Remaining < 0 || l.Remaining > quota:
		return Unknown
	case l.Remaining > 0:
		return text.MulDivUp(uint64(quota-l.Remaining), 100, uint64(quota))
	}
	return 100
}

// quota returns the quota of a limit. If the field also lists policies, all policies follow.
func (w *writing) quota(field *DialectField, key string, l *writtenLimit) (string, error) {
	if key == draft.LimitKey {
		return w.dictionary(l)
	}
	p := l.policy
	value, err := w.count(p.Quota)
	if value == "" || field.behind == "" || w.d.many {
		return value, err
	}
	others := slices.DeleteFunc(slices.Clone(w.policies), p.Equal)
	return appendPolicies(value, field.behind, append([]Policy{*p}, others...)) // a reader takes the first policy as the policy of the quota
}

// window formats the window of a policy, in seconds unless the format is another span of time.
func (w *writing) window(s Seconds, format TimeFormat) (string, error) {
	if s.ok && s.n < draft.MinWindow {
		return "", ErrRange
	}
	if format != TimeMilli && format != TimeDuration {
		format = TimeSeconds
	}
	return w.time(s, format)
}

// policyList returns all policies as a list of Integer policies (draft-06 Section 3.2). It returns
// "" if the field cannot have them all, or is in the current form.
func (w *writing) policyList(key string) (string, error) {
	if w.d.many || isCurrent(w.h[key]) {
		return "", nil
	}
	seen := make(map[int64]bool, len(w.policies))
	for i := range w.policies {
		if q := w.policies[i].Quota; seen[q] && q != Unknown {
			return "", ErrDuplicate
		}
		seen[w.policies[i].Quota] = true
	}
	return appendPolicies("", "w", w.policies)
}

// put adds a field. The name of the limit replaces a * in its key.
func (w *writing) put(key, name, value string) error {
	if strings.Contains(key, "*") {
		if !text.IsToken(name) || strings.ToLower(name) != name || strings.Contains(name, "*") { // names of fields lose their capitals
			return ErrSyntax
		}
		key = http.CanonicalHeaderKey(strings.Replace(key, "*", name, 1))
	}
	switch {
	case len(w.fields) == older.MaxFields:
		return ErrTooMany
	case w.writes(key):
		return ErrDuplicate
	}
	n := len(w.lines)
	w.lines = append(w.lines, value)
	w.fields = append(w.fields, w.rows.Field(key, w.lines[n:n+1:n+1]))
	return nil
}

// count formats a number of units. It returns "" if the number is Unknown.
func (w *writing) count(n int64) (string, error) {
	return w.time(Seconds{n: n, ok: n != Unknown}, TimeSeconds)
}

// time formats a number of seconds from now. It returns "" if the number is absent.
func (w *writing) time(s Seconds, format TimeFormat) (value string, err error) {
	if !s.ok {
		return "", nil
	}
	value, ok := older.Format(format).Write(s.n, w.clock.Now())
	if !ok {
		return "", ErrRange
	}
	return value, nil
}

// dictionary returns the field RateLimit of draft-07 Section 3. remaining is optional in it.
func (w *writing) dictionary(l *writtenLimit) (string, error) {
	if isCurrent(w.h[draft.LimitKey]) {
		return "", ErrDuplicate
	}
	l.remaining, l.reset = l.Remaining, l.Reset
	quota, err := w.count(l.policy.Quota)
	remaining, err2 := w.count(l.Remaining)
	reset, err3 := w.time(l.Reset, TimeSeconds)
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

// appendPolicies appends policies with a window as Integer policies. key is the key of the window.
func appendPolicies(list, key string, policies []Policy) (string, error) {
	b := []byte(list)
	for i := range policies {
		p := &policies[i]
		if !p.Window.ok || p.Quota == Unknown {
			continue
		}
		if !sf.IsInteger(p.Quota, 0) || !sf.IsInteger(p.Window.n, draft.MinWindow) {
			return "", ErrRange
		}
		if len(b) > 0 {
			b = append(b, separator...)
		}
		b = append(strconv.AppendInt(b, p.Quota, 10), ";"+key+"="...)
		b = strconv.AppendInt(b, p.Window.n, 10)
		var err error
		if b, _, err = p.Params.append(b, draft.Policies, 2); err != nil { // two: the quota and the window
			return "", err
		}
	}
	return string(b), nil
}

// verify reads back the fields that would be written, and compares the numbers.
func (w *writing) verify() error {
	switch {
	case len(w.limits) == 0:
		return nil
	case len(w.fields) == 0:
		return refuse(w.anyName(), ErrMissing)
	}
	f, _, faults := readFound(w.fields, older.Options{Name: cmp.Or(w.limits[0].Name, defaultName), Clock: w.clock})
	for _, e := range faults {
		return refuse(e.Field, e.Err)
	}
	for i := range w.limits {
		if !w.limits[i].in(&f) {
			return refuse(w.anyName(), ErrRange)
		}
	}
	return nil
}

// in reports whether f contains the written numbers.
func (l *writtenLimit) in(f *Fields) bool {
	got, id := Limit{Remaining: Unknown}, cmp.Or(l.Name, defaultName)
	if i := slices.IndexFunc(f.Limits, func(m Limit) bool { return m.Name == id }); i >= 0 {
		got = f.Limits[i]
	}
	policies := matcher{policies: f.Policies}
	p := policies.policy(&Limit{Name: id})
	return got.Remaining == l.remaining && got.Reset == l.reset && p.Quota == l.quota &&
		(!l.policy.Window.ok || !p.Window.ok || p.Window == l.policy.Window)
}

// anyName returns the name of a field, or of the dialect if it has none.
func (w *writing) anyName() string {
	if len(w.d.all) == 0 {
		return w.d.name
	}
	return w.d.all[0].Name
}
