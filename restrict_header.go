package ratelimit

import (
	"net/http"
	"slices"
	"time"

	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// RestrictHeader joins own limits with those in the header of a response, in any form, as
// [Restrict] does. It is for gateways without net/http; others put a [Middleware] in front of a
// reverse proxy. If the status is a refusal, a reset alone is a wait. o is as for [ParseAny].
//
//   - RateLimit-Policy and RateLimit get the members of both, in any spelling of the keys. If
//     policies of one name mean different things (ErrConflict), both stay. A malformed field is
//     replaced, or stays if there is nothing to write.
//   - Each older form is lowered alone, because a client may know no other. A limit of own lowers
//     the older limit of its name. The tightest other limit of own replaces the tightest older
//     limit, if it is tighter, at no faster pace than upstream's. Numbers keep their format. Lines
//     with several numbers, and JSON, stay.
//   - Retry-After, if it is there, is raised to the longest wait of own. A 0 in a refusal stays,
//     because it overrules no wait: see [Advisor.Advise].
//
// RestrictHeader writes what it can, even if it returns an error. The error is that of [ParseAny],
// [Restrict] or [Fields.Validate], or ErrRange for an older field that cannot hold its number.
func RestrictHeader(h http.Header, status int, own Fields, o LegacyOptions) error {
	if h == nil {
		return errNilHeader
	}
	return (&joining{h: h, status: status, own: own, options: o}).join()
}

// A joining joins own limits with those in the header of a response.
type joining struct {
	h       http.Header
	status  int // of the response
	own     Fields
	joined  Fields     // what both announce
	silent  bool       // upstream refused, and announces resets, but not what remains
	refuses bool       // own refuses, so that Retry-After is added
	forms   []*Dialect // older forms to write as well
	options LegacyOptions
	errs    []error
}

// join returns an error for each thing that cannot be announced.
func (j *joining) join() error {
	for _, d := range j.forms {
		if d.custom { // its names may be read in no other way
			j.options.Dialects = append(j.options.Dialects, d)
		}
	}
	wait := j.own.RetryAfter() // holds even if own cannot be announced
	found, ok := j.find()
	switch {
	case !ok:
		j.note(refuse("", ErrTooMany))
		j.joinFound(nil)
	case len(found) == 0:
		j.joined = j.own
		err := j.own.unique()
		if err == nil {
			err = j.own.Set(j.h)
		}
		j.note(err)
		j.writeForms()
	default:
		j.joinFound(found)
	}
	delays := slices.ContainsFunc(j.h[retryAfterKey], func(line string) bool { // fewer clients read X-Retry-After
		_, ok := parseRetryAfter(line)
		return ok
	})
	if a := j.joined.asked(0); !j.refuses && j.asksForZero() && a.refused(j.status) {
		wait = Seconds{} // a Retry-After of 0 overrules no wait, but a longer one would
	}
	if j.refuses || wait.ok && !delays { // clients obey a new field before all limits
		wait = longer(wait, j.joined.RetryAfter())
	}
	raiseRetryAfter(j.h, wait, j.options.Now, j.refuses)
	exposeAbroad(j.h, j.options.tables(nil))
	return joinErrors(j.errs...)
}

// find returns the fields of limits. It moves the lines of a current field from other spellings of
// its name, such as RateLimit, to its key. Otherwise they would stay next to the joined lines.
func (j *joining) find() (found []older.Field, ok bool) {
	found, ok = older.Find(nil, j.h, j.options.tables(nil))
	moved := false
	for _, f := range found {
		if key := http.CanonicalHeaderKey(f.Key); key != f.Key && (key == policyKey || key == limitKey) {
			j.h[key], moved = slices.Concat(j.h[key], f.Lines), true
			delete(j.h, f.Key)
		}
	}
	if moved {
		return j.find()
	}
	return found, ok
}

func (j *joining) note(err error) {
	if err != nil {
		j.errs = append(j.errs, err)
	}
}

// joinFound joins own with the fields that are found in the header.
func (j *joining) joinFound(found []older.Field) {
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
		upstream, _, faults = readFound(found, o.older(text.Clock{Header: j.h, Arrived: o.Now}))
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
	if j.writeForms(); len(j.forms) > 0 {
		found, _ = j.find()
	}
	j.note(lowerOlder(j.h, found, &j.own, &j.options, j.status))
}

// isSilent reports whether upstream refused, and announces resets, but not what remains.
func (j *joining) isSilent(upstream Fields) bool {
	if a := upstream.asked(0); j.refuses || a.Source != SourceNone || !a.refused(j.status) {
		return false
	}
	_, asked := ParseRetryAfter(j.h, j.options.Now)
	return !asked || j.asksForZero()
}

// asksForZero reports whether Retry-After asks for a wait of 0.
func (j *joining) asksForZero() bool {
	wait, asked := ParseRetryAfter(j.h, j.options.Now)
	return asked && wait == 0
}

// writeForms writes each of the older forms once, without the resets if it cannot hold them. A form
// of upstream is lowered in place. Of two forms with the same fields the first counts.
func (j *joining) writeForms() {
	for i, d := range j.forms {
		if slices.Contains(j.forms[:i], d) || j.speaks(d) {
			continue
		}
		if err := d.Set(j.h, j.joined, j.options.Now); err != nil {
			j.note(err)
			_ = d.Set(j.h, j.joined.withoutResets(), j.options.Now)
		}
	}
}

// speaks reports whether upstream has fields of a dialect that can be lowered: with what
// remains, or, in a refusal, with a reset.
func (j *joining) speaks(d *Dialect) bool {
	for key, lines := range j.h {
		role, ok := d.table().Role(key)
		reset := role == older.Reset && j.status >= http.StatusBadRequest && !j.silent
		if ok && len(lines) > 0 && (role == older.Remaining || role == older.Used || reset) {
			return true
		}
	}
	return false
}
