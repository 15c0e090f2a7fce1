package ratelimit

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// RestrictOptions are the options of [RestrictHeader]. The zero value is ready to use.
type RestrictOptions struct {
	Legacy LegacyOptions // how older fields are read: see [ParseAny]
	// Refused is true if the gateway's own limiter has refused the request. RestrictHeader then
	// adds a Retry-After with the longest wait of the limits, if there is one.
	Refused bool
	// Dialects are older forms that are written next to the current fields. If the response already
	// has fields of a dialect, these are lowered instead. If two dialects have a field in common,
	// the first counts. A nil dialect is an error, and so is one that writes RateLimit, such as
	// [Draft07]. Such a dialect is not written.
	Dialects []*Dialect
}

// RestrictHeader joins a gateway's own limits with the limits in the header of a response, in any
// form, as [Restrict] does. With net/http, put a Middleware of package announce in front of a
// reverse proxy instead: it calls RestrictHeader. If the status is a refusal, a limit that has only
// a reset asks for a wait.
//
//   - RateLimit-Policy and RateLimit, in any spelling of the keys, get the members of both sides. If
//     two policies with one name differ (ErrConflict), both stay. A malformed field is replaced. It
//     stays if there is nothing to write.
//   - Each older form is lowered alone, because a client may know no other form. A limit of own
//     lowers the older limit of the same name. The tightest of the other own limits lowers the
//     form's tightest limit of requests. The pace never rises. Numbers keep their format. Lines
//     with several numbers, and JSON, stay as they are.
//   - A Retry-After is raised to the longest wait of own. In a refusal a 0 stays, because it
//     overrules no wait: see [Advisor.Advise].
//
// If own was read from older fields, it is converted to what the current fields can express.
//
// RestrictHeader writes what it can, even if it returns an error. The error joins the errors of
// [ParseAny], [Restrict] and [Fields.Validate], ErrRange for each older field that cannot express
// its number, and errors about the Dialects.
func RestrictHeader(h http.Header, status int, own Fields, o RestrictOptions) error {
	if h == nil {
		return errNilHeader
	}
	if own.Dialect != "" && own.Dialect != draft.Current {
		own = own.asCurrent(false)
	}
	j := joining{status: status, refused: o.Refused, options: o.Legacy}
	j.choose(o.Dialects)
	joined := j.join(h, own)
	j.delay(h, own, joined)
	exposeAbroad(h, j.options.tables(nil))
	return text.JoinErrors(j.errs...)
}

// A joining joins own limits with the limits in the header of a response.
type joining struct {
	status  int // of the response
	refused bool
	silent  bool       // upstream refused, and announces resets, but not what remains
	forms   []*Dialect // older forms to write as well
	options LegacyOptions
	errs    []error
}

// note keeps an error, unless it is nil.
func (j *joining) note(err error) {
	if err != nil {
		j.errs = append(j.errs, err)
	}
}

// choose keeps the dialects that can be written next to the current fields.
func (j *joining) choose(dialects []*Dialect) {
	j.forms = dialects
	for i, d := range dialects {
		err := d.conflict()
		switch {
		case err != nil:
			j.forms = slices.DeleteFunc(slices.Clone(dialects), func(d *Dialect) bool { return d.conflict() != nil })
			j.note(fmt.Errorf("ratelimit: RestrictOptions.Dialects[%d]: %w", i, err))
		case d.custom: // ParseAny may not know its names otherwise
			j.options.Dialects = append(slices.Clip(j.options.Dialects), d)
		}
	}
}

// join writes what own and the header announce together, and returns it.
func (j *joining) join(h http.Header, own Fields) Fields {
	found, ok := j.find(h)
	switch {
	case !ok:
		j.note(refuse("", ErrTooMany))
		return j.joinFound(h, own, nil)
	case len(found) > 0:
		return j.joinFound(h, own, found)
	}
	err := own.unique()
	if err == nil {
		err = own.Set(h)
	}
	j.note(err)
	j.writeForms(h, own)
	return own
}

// find returns the fields of limits. If a current field is under another spelling of its key, such
// as RateLimit, find moves the lines to the key. Otherwise they would stay next to the joined
// lines.
func (j *joining) find(h http.Header) (found []older.Field, ok bool) {
	found, ok = older.Find(nil, h, j.options.tables(nil))
	moved := false
	for _, f := range found {
		if key := http.CanonicalHeaderKey(f.Key); key != f.Key && (key == draft.PolicyKey || key == draft.LimitKey) {
			h[key], moved = slices.Concat(h[key], f.Lines), true
			delete(h, f.Key)
		}
	}
	if moved {
		return j.find(h)
	}
	return found, ok
}

// joinFound is join for a header in which fields of limits were found.
func (j *joining) joinFound(h http.Header, own Fields, found []older.Field) Fields {
	if j.options.Now.IsZero() {
		j.options.Now = time.Now()
	}
	if err := own.Validate(); err != nil {
		j.note(err)
		own = Fields{}
	}
	upstream := j.upstream(h, found)
	f, err := restrict(upstream, own)
	j.note(err)
	conflict := err != nil || shareNames(upstream.Policies) || shareNames(upstream.Limits) // at this gateway, or at another one
	switch {
	case conflict && upstream.has(own):
		f = upstream
	case err != nil:
		f = sideBySide(upstream, own)
	}
	j.note(f.write(h, replaceLine))
	if j.writeForms(h, f); len(j.forms) > 0 {
		found, _ = j.find(h)
	}
	j.note(lowerOlder(h, found, &own, &j.options, j.status))
	return f
}

// upstream returns what the current fields can express of the limits in the header.
func (j *joining) upstream(h http.Header, found []older.Field) Fields {
	f, faults, ok := parseCurrent(h)
	if !ok {
		f, _, faults = readFound(found, j.options.older(text.Clock{Header: h, Arrived: j.options.Now}))
	}
	j.note(joinFaults(faults))
	j.silent = j.isSilent(h, f)
	return f.asCurrent(j.silent)
}

// delay raises Retry-After to the waits of own, even if own cannot be announced. Clients obey a
// Retry-After in place of limits, so a new one ends no earlier than the waits of upstream's limits.
func (j *joining) delay(h http.Header, own, joined Fields) {
	wait := own.RetryAfter()
	delays := slices.ContainsFunc(h[text.RetryAfterKey], func(line string) bool { // X-Retry-After does not count: fewer clients read it
		_, ok := text.ParseRetryAfter(line)
		return ok
	})
	if a := (Advice{Fields: joined}); !j.refused && a.refused(j.status) && j.asksForZero(h) {
		wait = Seconds{} // a 0 overrules no wait, but a longer Retry-After would
	}
	if j.refused || wait.ok && !delays {
		wait = longer(wait, joined.RetryAfter())
	}
	raiseRetryAfter(h, wait, j.options.Now, j.refused)
}

// isSilent reports whether upstream refused, and announces resets, but not what remains.
func (j *joining) isSilent(h http.Header, upstream Fields) bool {
	if a := upstream.asked(0); j.refused || a.Source != SourceNone || !a.refused(j.status) {
		return false
	}
	_, asked := ParseRetryAfter(h, j.options.Now)
	return !asked || j.asksForZero(h)
}

// asksForZero reports whether Retry-After asks for a wait of 0.
func (j *joining) asksForZero(h http.Header) bool {
	wait, asked := ParseRetryAfter(h, j.options.Now)
	return asked && wait == 0
}

// writeForms writes each of the older forms once. If a form cannot express the resets, they are
// left out. A form that upstream sends is lowered instead. If two forms have the same fields, the
// first counts.
func (j *joining) writeForms(h http.Header, joined Fields) {
	for i, d := range j.forms {
		if slices.Contains(j.forms[:i], d) || j.speaks(h, d) {
			continue
		}
		if err := d.Set(h, joined, j.options.Now); err != nil {
			j.note(err)
			_ = d.Set(h, joined.withoutResets(), j.options.Now)
		}
	}
}

// speaks reports whether upstream has a field of d that can be lowered: a remaining, used units or,
// in a refusal, a reset.
func (j *joining) speaks(h http.Header, d *Dialect) bool {
	for key, lines := range h {
		role, ok := d.table().Role(key)
		reset := role == older.Reset && j.status >= http.StatusBadRequest && !j.silent
		if ok && len(lines) > 0 && (role == older.Remaining || role == older.Used || reset) {
			return true
		}
	}
	return false
}
