package ratelimit

import (
	"bytes"
	"cmp"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/older"
	"github.com/httpfields/ratelimit/internal/text"
)

// DefaultMaxWait is the longest wait that an [Advisor] obeys if its MaxWait is 0 (draft-11 Section
// 8.5.1). A Gate of package obey has the same default.
const DefaultMaxWait = 10 * time.Minute

// longestWait returns d, or DefaultMaxWait if d is 0 or less.
func longestWait(d time.Duration) time.Duration {
	if d <= 0 {
		return DefaultMaxWait
	}
	return d
}

// An Advisor decides how long a client should wait after a response. Its zero value is ready to
// use.
type Advisor struct {
	// MaxWait is the longest wait that is obeyed. After it, one request shows whether the limit is
	// still exhausted. 0, or less, is DefaultMaxWait.
	MaxWait time.Duration
	Legacy  LegacyOptions // how [ParseAny] reads older forms; its Now is ignored
	// Refused reports whether a response is a refusal that only its body shows, and how long to
	// wait. An example is GitHub's secondary limit: a 403 while something remains. A wait of 0 or
	// less is unknown, except for [Final]. Refused is called for every response, and must leave the
	// body to be read again. If Refused is nil or returns false, only the status and the fields
	// decide.
	Refused func(*http.Response) (wait time.Duration, refused bool)
}

// Final is what Refused of an [Advisor] returns if no wait helps, as with an exhausted budget.
const Final time.Duration = math.MinInt64

// A Source is the reason for the wait of an [Advice].
type Source int

const (
	SourceNone       Source = iota // the response asks for no wait
	SourceRetryAfter               // the field Retry-After, which takes precedence (draft-11 Section 7)
	SourceLimit                    // the Reset of a limit with nothing remaining, or of a limit that may have refused the request
	SourceWindow                   // the Window of the policy, if such a limit has no Reset
	SourceRefused                  // Advisor.Refused; only Retry-After takes precedence over it
)

var sourceNames = map[Source]string{
	SourceRetryAfter: "retry-after", SourceLimit: "limit", SourceWindow: "window", SourceRefused: "refused",
}

// String returns "none", "retry-after", "limit", "window" or "refused".
func (s Source) String() string { return cmp.Or(sourceNames[s], "none") }

// An Advice is what a client should do after a response. The zero Advice means to go on. A server
// may refuse a request although something remains (draft-11 Section 4.1.1). After a wait the quota
// may not be back (Section 8.4).
type Advice struct {
	// Wait is how long to wait before the next request, from the arrival of the response: 0 to
	// MaxWait. 0 means to go on. After a refusal, 0 means to back off: see Delay.
	Wait  time.Duration
	Asked time.Duration // the wait that the server asks for, which may be longer than MaxWait
	// Pace is the time between requests that spreads the remaining requests evenly until the reset:
	// 500 ms for r=60;t=30. It is rounded up, and MaxWait does not cut it. 0 is unknown.
	Pace   time.Duration
	Source Source // what decided Wait; it may be set although Wait is 0, as for t=0
	// Limit is the limit that decided the wait. If Retry-After or Advisor.Refused decided it, Limit
	// is the tightest limit ([Fields.Tightest]). It is zero if something remains of the tightest
	// limit.
	Limit  Limit
	Capped bool // Wait is shorter than Asked: the next request is a probe
	// Refused is true if a limit refused the request. A 429 and a 503 are refusals. A 403 is a
	// refusal if nothing remains, or if it has a Retry-After. Advisor.Refused can report other
	// refusals. A 503 without a wait may be an outage. It counts as a refusal, because nginx
	// refuses with such a 503 by default.
	Refused bool
	// Final is true if Advisor.Refused returned [Final]: do not send the request again. Refused is
	// then true, and Wait and Asked are 0.
	Final  bool
	Fields Fields // all policies and limits; empty for a response from a cache
	// Malformed is the error of [ParseAny]. It joins a [*FieldError] for each malformed field, and
	// is nil if no field is malformed. The Advice ignores malformed fields.
	Malformed error
}

// The bounds of [Advice.Delay] after a refusal that names no time.
const (
	firstDelay = time.Second
	mostDelay  = 32 * time.Second
)

// Delay returns how long to wait before the request is sent again. attempt is the number of earlier
// retries; a negative number counts as 0. If the response asked for a wait, Delay returns Wait.
// Otherwise, after a refusal that is not Final, it returns a random time: between half and all of 1
// s × 2^attempt, at most 32 s. Clients that were refused together then come back at different
// times. In all other cases Delay returns 0.
func (a Advice) Delay(attempt int) time.Duration {
	switch {
	case a.Wait > 0:
		return a.Wait
	case !a.Refused || a.Final:
		return 0
	}
	whole := firstDelay
	for ; attempt > 0 && whole < mostDelay; attempt-- {
		whole *= 2
	}
	return whole/2 + rand.N(whole/2+1)
}

// String returns what to do and why, for people, such as
//
//	go on, pace 500ms
//	wait 30s (limit "burst";r=0;t=30)
//	wait 10m0s of 34m0s (Retry-After, limit "daily";r=0;t=2040)
//	refused for good (Advisor.Refused)
//	refused, back off
//	nothing remains, and no reset is known
//
// If MaxWait cut the wait, the second duration is Asked. Durations from a minute on are rounded to
// seconds, and from a second on to milliseconds. Names are cut to 128 bytes.
func (a Advice) String() string {
	var says string
	switch {
	case a.Final:
		says = "refused for good"
	case a.Refused && a.Wait == 0:
		says = "refused, back off"
	case a.Refused:
		says = "refused, wait " + readable(a.Wait)
	case a.Wait > 0:
		says = "wait " + readable(a.Wait)
	case a.Source == SourceNone && a.Fields.exhausted():
		says = "nothing remains, and no reset is known"
	default:
		says = "go on"
	}
	if a.Capped {
		says += " of " + readable(a.Asked)
	}
	if why := a.why(); why != "" {
		says += " (" + why + ")"
	}
	if a.Pace > 0 {
		says += ", pace " + readable(a.Pace)
	}
	return says
}

// readable formats a duration as [Advice.String] does.
func readable(d time.Duration) string {
	switch {
	case d > 100*365*24*time.Hour: // it may be the longest Duration in place of a longer one
		return "more than a century"
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	}
	return d.String()
}

// why returns the reason for a wait, without data that may identify the client.
func (a *Advice) why() string {
	var parts []string
	switch a.Source {
	case SourceRetryAfter:
		parts = append(parts, text.RetryAfterKey)
	case SourceRefused:
		parts = append(parts, "Advisor.Refused")
	}
	if a.hasLimit() {
		parts = append(parts, "limit "+Limit{Name: cutName(a.Limit.Name), Remaining: a.Limit.Remaining, Reset: a.Limit.Reset}.String())
	}
	if a.Source == SourceWindow {
		parts = append(parts, "its window")
	}
	return strings.Join(parts, ", ")
}

// hasLimit reports whether Limit can be shown. Next to a Retry-After, a limit that has neither a name
// nor a reset cannot be told from no limit.
func (a *Advice) hasLimit() bool {
	return a.Source == SourceLimit || a.Source == SourceWindow || !a.Limit.Equal(Limit{})
}

// maxKeptName is the number of bytes of a limit's name that are printed.
const maxKeptName = 128

func cutName(name string) string { return name[:min(len(name), maxKeptName)] }

// LogValue returns the wait, the pace, the source and the Limit as a group. Parts that are 0 are
// left out.
func (a Advice) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 6)
	add := func(present bool, attr slog.Attr) {
		if present {
			attrs = append(attrs, attr)
		}
	}
	add(a.Refused, slog.Bool("refused", true))
	add(a.Wait > 0, slog.Duration("wait", a.Wait))
	add(a.Capped, slog.Duration("asked", a.Asked))
	add(a.Pace > 0, slog.Duration("pace", a.Pace))
	add(a.Source != SourceNone, slog.String("source", a.Source.String()))
	if a.hasLimit() {
		attrs = append(attrs, slog.String("limit", a.Limit.String()))
	}
	return slog.GroupValue(attrs...)
}

// Advise is [Advisor.Advise] of the zero Advisor.
func Advise(resp *http.Response, received time.Time) Advice {
	return Advisor{}.Advise(resp, received)
}

// Advise returns how long to wait after resp, which arrived at received, and why. It reads neither
// the body nor trailers. A nil resp means to go on.
//
// The first of these that is present decides the wait:
//
//   - Retry-After (draft-11 Section 7), see [ParseRetryAfter]. On a success (2xx) it is obeyed only
//     next to well-formed limits of the current or the next draft, or if nothing remains of a limit. On
//     any other success it is ignored: there it repeats a reset, or suggests when to poll this one
//     resource. In a refusal, a Retry-After of 0 counts only if the response contains no longer wait,
//     because some servers cut off fractions of a second.
//   - The wait that Advisor.Refused returns.
//   - The longest wait of the limits with nothing remaining: the Reset or, if that is
//     absent, the Window of the policy.
//   - In a refusal, the earliest Reset of the limits whose Remaining is [Unknown]. It is unknown
//     which limit refused, so the next request is a probe. A limit without a Window takes
//     precedence: the server itself has chosen its Reset among the resets of the windows.
//
// Apart from these rules, fields have the same meaning with every status (Section 6). A limit of
// requests with something remaining sets the Pace. If several limits do, the slowest pace counts.
//
// A response with a positive Age or with X-From-Cache: 1 comes from a cache. Only its Retry-After
// counts (Section 7.3). A malformed field is ignored (Section 7), unless [ParseAny] can read it.
func (o Advisor) Advise(resp *http.Response, received time.Time) Advice {
	var a Advice
	if resp == nil {
		return a
	}
	unlessAsked := o.judge(&a, resp)
	wait, asked := o.readHeader(&a, resp.Header, received)
	zero := asked && wait == 0 && (a.Refused || a.refused(resp.StatusCode)) // a fraction of a second was cut off (tower-governor, Traefik)
	if zero {
		wait = older.Waits(resp.Header, &text.Clock{Header: resp.Header, Arrived: received})
		asked = wait > 0
	}
	switch {
	case a.Final:
		a.Source = SourceRefused
	case asked && a.obeysRetryAfter(resp.StatusCode):
		a.overrule(wait, SourceRetryAfter)
	case a.Refused && unlessAsked > 0:
		a.overrule(unlessAsked, SourceRefused)
	}
	if a.follow(resp.StatusCode); zero && a.Wait == 0 && !a.Final {
		a.Limit = Limit{}
		a.overrule(0, SourceRetryAfter)
	}
	a.Asked = a.Wait
	if most := longestWait(o.MaxWait); a.Wait > most {
		a.Wait, a.Capped = most, true
	}
	return a
}

// judge calls Advisor.Refused, and returns its wait, which counts if there is no Retry-After.
func (o *Advisor) judge(a *Advice, resp *http.Response) (unlessAsked time.Duration) {
	if o.Refused == nil {
		return 0
	}
	unlessAsked, a.Refused = o.Refused(resp)
	a.Final = a.Refused && unlessAsked == Final
	return unlessAsked
}

// refused reports whether the status shows that a limit refused the request.
func (a *Advice) refused(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case http.StatusForbidden: // GitHub, and servers older than 429
		return a.Source == SourceRetryAfter || a.Fields.exhausted()
	}
	return false
}

// asked returns the Advice for the fields of a response with a status.
func (f Fields) asked(status int) Advice {
	a := Advice{Fields: f}
	a.follow(status)
	return a
}

// follow adds the wait and the pace of the limits of a response with a status.
func (a *Advice) follow(status int) {
	a.Refused = a.Refused || a.refused(status)
	policies := newMatcher(a.Fields.Policies)
	for i := range a.Fields.Limits {
		l := &a.Fields.Limits[i]
		p := policies.policy(l)
		if l.exhausted(p) {
			a.waitFor(i, p.Window)
		} else if l.Remaining > 0 && p.Unit.countsRequests() {
			a.Pace = max(a.Pace, a.Fields.spread(i, lower(l.Remaining, p.Quota)))
		}
	}
	if !a.Refused || a.Source != SourceNone {
		return
	}
	if i := a.Fields.refuser(&policies); i >= 0 {
		a.waitFor(i, Seconds{})
	}
}

// refuser returns the index of the limit that may have refused a request, or -1. Call it if no
// limit with nothing remaining explains the refusal. The limit has a reset, but its Remaining is
// Unknown.
func (f *Fields) refuser(policies *matcher) (at int) {
	at = -1
	chosen := false // the reset at that index belongs to no window
	for i := range f.Limits {
		l := &f.Limits[i]
		if l.Remaining != Unknown { // a limit with an Unknown Remaining has a reset
			continue
		}
		if own := !policies.policy(l).Window.ok; at < 0 || own && !chosen || own == chosen && l.Reset.n < f.Limits[at].Reset.n {
			at, chosen = i, own
		}
	}
	return at
}

// waitFor makes a limit the reason to wait if its reset, or else its window, is longer than the wait
// so far. Retry-After and Advisor.Refused take precedence over all limits.
func (a *Advice) waitFor(i int, window Seconds) {
	wait, known := a.Fields.UntilReset(i)
	source := SourceLimit
	if !known {
		wait, known = window.Duration()
		source = SourceWindow
	}
	if known && !a.overruled() && (a.Source == SourceNone || wait > a.Wait) {
		a.Wait, a.Source, a.Limit = wait, source, a.Fields.Limits[i]
	}
}

// atLeastAsStrict reports whether neither the wait nor the pace of after is shorter than before. If
// nothing remains, the pace does not count.
func atLeastAsStrict(after, before *Advice) bool {
	return after.Wait >= before.Wait && (max(after.Pace, after.Wait) >= before.Pace || after.Fields.exhausted())
}

// exhausted reports whether nothing remains of some limit.
func (f *Fields) exhausted() bool {
	policies := newMatcher(f.Policies)
	return slices.ContainsFunc(f.Limits, func(l Limit) bool { return l.exhausted(policies.policy(&l)) })
}

// isCurrent reports whether f has limits in the current form, or in the form of the next draft.
func (f *Fields) isCurrent() bool {
	return len(f.Limits) > 0 && (f.Dialect == draft.Current || f.Dialect == draft.Next)
}

// readHeader reads the fields of h into a, and returns how long h asks to wait.
func (o *Advisor) readHeader(a *Advice, h http.Header, received time.Time) (wait time.Duration, asked bool) {
	clock := text.Clock{Header: h, Arrived: received}
	stored := text.Stored(h)
	wait, asked = readRetryAfter(&clock)
	var elsewhere time.Duration
	if !stored {
		var faults []*FieldError
		a.Fields, elsewhere, faults = parseAny(h, &o.Legacy, clock)
		a.Malformed = joinFaults(faults) // malformed fields MUST be ignored (draft-11 Section 7)
	}
	if asked {
		return wait, true
	}
	if stored || a.Fields.Dialect == draft.Current || a.Fields.Dialect == draft.Next { // parseAny has read no other fields
		elsewhere = older.Waits(h, &clock)
	}
	return elsewhere, elsewhere > 0
}

// overrule makes Retry-After or Advisor.Refused the reason to wait.
func (a *Advice) overrule(wait time.Duration, source Source) {
	a.Wait, a.Source = wait, source
	policies := matcher{policies: a.Fields.Policies}
	if l, ok := a.Fields.Tightest(); ok && l.exhausted(policies.policy(&l)) {
		a.Limit = l
	}
}

// spread divides the time until the reset of Limits[i] by the remaining requests (draft-11 Section
// 8.5.1). It rounds up: 30 seconds by 60 is 500 ms. The result saturates.
func (f *Fields) spread(i int, remaining int64) time.Duration {
	units, unit := max(f.Limits[i].Reset.n, 0), time.Second // the product may be longer than a Duration
	if precise := f.precise(i); precise > 0 {
		units, unit = int64(precise), 1
	}
	return time.Duration(text.MulDivUp(uint64(units), uint64(unit), uint64(remaining)))
}

// overruled reports whether Retry-After or Advisor.Refused decided the wait.
func (a *Advice) overruled() bool {
	return a.Source == SourceRetryAfter || a.Source == SourceRefused
}

// A RefusedError is returned by [Advisor.CheckResponse] if a limit refused a request. A 503
// without a wait may also be an outage: see [Advice].
type RefusedError struct {
	Status  int       // of the response
	Advice  Advice    // Refused is true
	Problem *Problem  // of the response; nil if none can be read
	Until   time.Time // the arrival of the response plus Advice.Asked; zero if the wait is unknown
}

// Error returns the status and, if they are known, the name of Advice.Limit, the wait, and the text
// of the problem document. The name is quoted, and cut to 128 bytes.
func (e *RefusedError) Error() string {
	says := "ratelimit: refused with status " + strconv.Itoa(e.Status)
	if e.Advice.hasLimit() {
		says += ", limit " + strconv.QuoteToASCII(cutName(e.Advice.Limit.Name))
	}
	if e.Advice.Asked > 0 {
		says += ", wait " + readable(e.Advice.Asked)
	}
	if e.Problem != nil {
		says += ": " + strings.TrimPrefix(e.Problem.Error(), "ratelimit: ")
	}
	return says
}

// Unwrap returns the problem document, or nil.
func (e *RefusedError) Unwrap() error {
	if e.Problem == nil {
		return nil
	}
	return e.Problem
}

// CheckResponse returns a [*RefusedError] if a limit refused the request ([Advice.Refused]), else
// nil. It reads a problem document from the body ([ReadProblem]). The body can then be read again.
func (o Advisor) CheckResponse(resp *http.Response, received time.Time) error {
	if received.IsZero() {
		received = time.Now()
	}
	a := o.Advise(resp, received)
	if !a.Refused {
		return nil
	}
	e := &RefusedError{Status: resp.StatusCode, Advice: a}
	if a.Source != SourceNone && !a.Final {
		e.Until = received.Add(a.Asked)
	}
	if resp.Body == nil {
		return e
	}
	var read bytes.Buffer
	body := resp.Body
	resp.Body = io.NopCloser(io.TeeReader(body, &read))
	e.Problem, _ = ReadProblem(resp) // a body of another kind is no error
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(&read, body), body}
	return e
}
