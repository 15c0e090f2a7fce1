package ratelimit

import (
	"net/http"
	"slices"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
)

// RestrictHeader makes the header of a response that passes an intermediary announce what
// upstream announces, in whatever form, joined with what own adds, as [Restrict] does. It
// is for gateways without net/http: a reverse proxy behind a [Middleware] needs nothing
// else. status is that of the response: a refusal may have a reset alone.
//
//   - RateLimit-Policy and RateLimit get the members of both, without those that lack a
//     number. A malformed field is replaced. If two policies of one name mean different
//     things (ErrConflict), both stand next to each other.
//   - Each older form of h is lowered in place, by itself, since a client may know no
//     other. A limit of own lowers the one of its name. Of all others the tightest takes
//     the place of the tightest older one, if that allows more, and never at a faster pace
//     than upstream's. Only what changes is written, in the format in which it was read. A
//     field with several numbers in a line, such as JSON, stays.
//   - Retry-After, if it is there, is raised to the longest wait of own
//     ([Fields.SetRetryAfter]).
//
// If the response allows another origin, the fields are exposed, as by [Expose]. A policy
// without a name is called o.Name, or "default", as by [ParseAny].
//
// RestrictHeader writes what it can next to an error. The error is one of [ParseAny],
// [Restrict] or [Fields.Validate], or ErrRange for an older field that cannot hold its
// number: a reset of 1614 seconds in X-RateLimit-Reset-Minute would be read as
// milliseconds.
func RestrictHeader(h http.Header, status int, own Fields, o LegacyOptions) error {
	if h == nil {
		return errNilHeader
	}
	j := joining{h: h, status: status, own: own, options: o}
	return j.join()
}

// A joining makes a header announce what it announces already and what own adds.
type joining struct {
	h       http.Header
	status  int // of the response of upstream; 0 is a success
	own     Fields
	joined  Fields     // what both announce
	silent  bool       // upstream refused, and only resets tell until when
	refuses bool       // own refuses the request, so that it adds Retry-After
	forms   []*Dialect // to write as well
	options LegacyOptions
	errs    []error
}

// join returns what could not be announced.
func (j *joining) join() error {
	for _, d := range j.forms {
		if d.custom { // whose fields no word tells
			j.options.Dialects = append(j.options.Dialects, d)
		}
	}
	var few [8]older.Field
	found, ok := older.Find(few[:0], j.h, j.options.tables(nil))
	switch {
	case !ok:
		j.note(refuse("", ErrTooMany))
		j.beside(nil)
	case len(found) == 0:
		j.alone()
	default:
		j.beside(found)
	}
	if _, asked := ParseRetryAfter(j.h, j.options.Now); asked {
		raiseRetryAfter(j.h, j.own.RetryAfter(), j.options.Now)
	} else if j.refuses { // it goes before all limits
		raiseRetryAfter(j.h, j.joined.RetryAfter(), j.options.Now)
	}
	exposeAbroad(j.h)
	return joinErrors(j.errs...)
}

// note remembers an error, if it is one.
func (j *joining) note(err error) {
	if err != nil {
		j.errs = append(j.errs, err)
	}
}

// alone writes what own says into a header that says nothing of limits. What the current
// fields cannot say may fit an older form.
func (j *joining) alone() {
	j.joined = j.own
	err := j.own.unique()
	if err == nil {
		err = j.own.Set(j.h)
	}
	j.note(err)
	for _, d := range j.forms {
		j.note(d.Set(j.h, j.own, j.options.Now))
	}
}

// beside joins own with what is found in the header.
func (j *joining) beside(found []older.Field) {
	o := &j.options
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if err := j.own.Validate(); err != nil {
		j.note(err)
		j.own = Fields{}
	}
	upstream, faults, ok := parseCurrent(j.h)
	if !ok {
		upstream, _, faults = readFound(found, o.older(readClock(j.h, o.Now)))
	}
	j.note(joinFaults(faults))
	j.silent = j.isSilent(upstream)
	upstream = upstream.asCurrent(j.silent)
	f, err := restrict(upstream, j.own)
	if err != nil {
		j.note(err)
		f = sideBySide(upstream, j.own)
	}
	j.joined = f
	j.note(f.write(j.h, replaceLine))
	j.writeForms(&f, found)
}

// isSilent reports whether a limit of upstream refused the request, and nothing tells until
// when but limits that do not say what remains.
func (j *joining) isSilent(upstream Fields) bool {
	a := upstream.asked(0)
	_, asked := ParseRetryAfter(j.h, j.options.Now)
	return !asked && a.Source == SourceNone && a.refused(j.status)
}

// replaceLine sets a field to one line, unless that is empty.
func replaceLine(h http.Header, key, line string) {
	if line != "" {
		setLine(h, key, line)
	}
}

// writeForms writes each of the older forms once, of all that f announces. One that
// upstream has written is lowered in place, as are all others of upstream. A form that
// cannot hold the resets goes without.
func (j *joining) writeForms(f *Fields, found []older.Field) {
	for i, d := range j.forms {
		if slices.Contains(j.forms[:i], d) || j.speaks(d) {
			continue
		}
		if err := d.Set(j.h, *f, j.options.Now); err != nil {
			j.note(err)
			_ = d.Set(j.h, f.withoutResets(), j.options.Now)
		}
	}
	found = slices.DeleteFunc(notCurrent(found), func(f older.Field) bool { // what has been written over
		lines := j.h[f.Key]
		return len(lines) == 0 || &lines[0] != &f.Lines[0]
	})
	j.note(lowerOlder(j.h, found, &j.own, &j.options, j.status))
}

func (f Fields) withoutResets() Fields {
	f.Policies, f.Limits = slices.Clone(f.Policies), slices.Clone(f.Limits)
	for i := range f.Policies {
		f.Policies[i].Window = Seconds{}
	}
	for i := range f.Limits {
		f.Limits[i].Reset = Seconds{}
	}
	return f
}

// notCurrent returns those fields that are not in the current ones, which are written anew.
func notCurrent(found []older.Field) []older.Field {
	return slices.DeleteFunc(found, func(f older.Field) bool { return f.Key == policyKey || f.Key == limitKey })
}

// speaks reports whether upstream says in the fields of a dialect what remains, so that they
// can be lowered in place; or, next to a refusal that nothing else explains, until when.
func (j *joining) speaks(d *Dialect) bool {
	found := d.fieldsIn(j.h)
	if len(found) == 0 {
		return false
	}
	e := newLowering(j.h, &Fields{}, &j.options, j.status)
	form := e.read(found)
	return slices.ContainsFunc(limitsOf(&form), func(l olderLimit) bool {
		return l.left() != Unknown || l.timed && j.status >= http.StatusBadRequest && !j.silent
	})
}
