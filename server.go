package ratelimit

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cap lowers Remaining to at most burst × quota × reset ÷ window, rounded down,
// so that a client which spreads what remains over the time left stays within
// burst times the rate of its policy (draft-11 Sections 6 and 8.5). p is the
// policy that l reports on, see [Fields.PolicyOf]. It never raises.
//
// burst is taken for the decimal that it prints as: 0.1 is a tenth. 0 leaves
// nothing remaining, as do a negative number and NaN; positive infinity caps
// nothing. Without a rate to go by, l stays as it is: if p has no Window or a
// Quota of 0, if Reset is absent, or if Remaining is [Unknown]. At a Reset of 0
// nothing remains.
func (l Limit) Cap(p Policy, burst float64) Limit {
	if p.Quota <= 0 || p.Window.n < minWindow || !l.Reset.ok || l.Reset.n < 0 || l.Remaining < 0 || math.IsInf(burst, 1) {
		return l
	}
	l.Remaining = min(l.Remaining, share(burst, p.Quota, l.Reset.n, p.Window.n))
	return l
}

// share is burst × quota × reset ÷ window, which three integers of fifteen
// digits leave no other type room for.
func share(burst float64, quota, reset, window int64) int64 {
	if !(burst > 0) { // NaN included
		return 0
	}
	x, _ := new(big.Rat).SetString(strconv.FormatFloat(burst, 'g', -1, 64))
	x.Mul(x, big.NewRat(quota, window))
	x.Mul(x, big.NewRat(reset, 1))
	n := new(big.Int).Quo(x.Num(), x.Denom())
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}

// Jitter lets Reset grow by a random number of whole seconds from 0 to most, so
// that throttled clients do not all come back at once (draft-11 Section 8.5). It
// never shrinks, nor passes MaxInteger; an absent one stays absent. Less than a
// second is no jitter, because a fraction of a second cannot be written.
//
// The same state of rnd gives the same result; nil is the source of package
// rand. Jitter limits before [SetRetryAfter], which then agrees with them.
func (l Limit) Jitter(most time.Duration, rnd *rand.Rand) Limit {
	seconds := int64(most / time.Second)
	if seconds < 1 || !l.Reset.ok || !isInteger(l.Reset.n, 0) {
		return l
	}
	int64N := rand.Int64N
	if rnd != nil {
		int64N = rnd.Int64N
	}
	l.Reset = SecondsOf(min(l.Reset.n+int64N(seconds+1), MaxInteger))
	return l
}

// SetRetryAfter sets the field Retry-After of h to the longest Reset of the
// limits with nothing remaining, in seconds, at most MaxInteger: it SHOULD NOT
// be earlier than the end of the effective window (draft-11 Section 6). Where
// there is no such limit, or none with a Reset, h stays as it is.
//
// It never lowers what h says: a Retry-After that is later stays, of several
// lines the latest alone. A date is
// measured from the field Date of h, and stays where there is none, because it
// might be later.
func SetRetryAfter(h http.Header, limits ...Limit) {
	longest := Seconds{}
	for _, l := range limits {
		if l.Remaining == 0 && l.Reset.n >= 0 {
			longest = longer(longest, l.Reset)
		}
	}
	if h == nil || !longest.ok {
		return
	}
	seconds := min(longest.n, MaxInteger)
	value := strconv.FormatInt(seconds, 10)
	if old, line, ok := existingRetryAfter(h); ok && old >= seconds {
		if len(h[retryAfterKey]) == 1 {
			return
		}
		value = line // recipients read the first line, or none of several
	}
	h.Set(retryAfterKey, value)
}

// existingRetryAfter reads the latest Retry-After of h, saturating. A date
// without a Date to measure it from is later than anything.
func existingRetryAfter(h http.Header) (seconds int64, latest string, ok bool) {
	for _, line := range h[retryAfterKey] {
		n := int64(math.MaxInt64)
		s := trim(line)
		if s != "" && skip(s, 0, digit) == len(s) {
			if delay, err := strconv.ParseInt(s, 10, 64); err == nil {
				n = delay
			}
		} else if date, ok := readDate(s); !ok {
			continue
		} else if sent, err := http.ParseTime(h.Get("Date")); err == nil {
			n = max(date.Unix()-sent.Unix(), 0)
		}
		if !ok || n > seconds {
			seconds, latest, ok = n, line, true
		}
	}
	return seconds, latest, ok
}

// Restrict returns what an intermediary may say that enforces limits of its own
// (draft-11 Section 7.2): all that upstream says, never more permissive, and
// what own adds.
//
// Where both have a policy of the same name and partition key, the lower quota
// counts. Where both have such a limit, the lower Remaining and the longer Reset
// count; one that is Unknown or absent yields to one that is not. As clients wait
// for the window of the policy when nothing remains and there is no Reset, that
// window then counts as the Reset. All else stays as upstream has it. Members
// that only one side has are kept, those of upstream first.
//
// A name that both use has to mean the same, or the numbers could not be
// compared. The error is a [*FieldError]: ErrDuplicate where the policies of a
// name differ in unit (Param "qu") or window (Param "w") and Item counts in
// own.Policies; ErrDuplicate with Field LimitField where a limit would no longer
// belong to a policy of the same unit and window as before, or to one of a higher
// quota, see [Fields.PolicyOf] (the unit is [Requests] where there is no policy);
// ErrTooMany where a field would have more than 1024 members. Then the result is
// upstream as it was.
//
// Nothing is to be added to an upstream field that is malformed: it would stay
// malformed. Such a field is best forwarded as it is.
func Restrict(upstream, own Fields) (Fields, error) {
	out := upstream
	if out.Dialect == "" {
		out.Dialect = own.Dialect
	}
	out.Guessed = upstream.Guessed || own.Guessed
	var err error
	if out.Policies, err = restrictPolicies(upstream.Policies, own.Policies); err != nil {
		return upstream, err
	}
	out.Limits = restrictLimits(upstream, own)
	switch {
	case len(out.Policies) > maxMembers:
		return upstream, &FieldError{Field: PolicyField, Offset: -1, Item: maxMembers, Err: ErrTooMany}
	case len(out.Limits) > maxMembers:
		return upstream, &FieldError{Field: LimitField, Offset: -1, Item: maxMembers, Err: ErrTooMany}
	case !keepsMeaning(upstream, own, out) || !keepsMeaning(own, upstream, out):
		return upstream, &FieldError{Field: LimitField, Offset: -1, Item: -1, Err: ErrDuplicate}
	}
	return out, nil
}

func restrictPolicies(upstream, own []Policy) ([]Policy, error) {
	out := slices.Clone(upstream)
	for i, p := range own {
		joins := true
		for j := range upstream {
			q := &out[j]
			if q.Name != p.Name {
				continue
			}
			conflict := ""
			switch {
			case quotaUnit(*q) != quotaUnit(p):
				conflict = unitKey
			case q.Window != p.Window:
				conflict = windowKey
			}
			if conflict != "" {
				return nil, &FieldError{Field: PolicyField, Offset: -1, Item: i, Param: conflict, Err: ErrDuplicate}
			}
			if equalKey(q.PartitionKey, p.PartitionKey) {
				q.Quota = min(q.Quota, p.Quota)
				joins = false
			}
		}
		if joins {
			out = append(out, p)
		}
	}
	return out, nil
}

// quotaUnit returns the unit that p counts in.
func quotaUnit(p Policy) Unit {
	if p.Unit.countsRequests() {
		return Requests
	}
	return p.Unit
}

func restrictLimits(upstream, own Fields) []Limit {
	out := slices.Clone(upstream.Limits)
	for _, l := range own.Limits {
		joins := true
		for j := range upstream.Limits {
			m := &out[j]
			if m.Name != l.Name || !equalKey(m.PartitionKey, l.PartitionKey) {
				continue
			}
			joins = false
			if m.Reset.ok || l.Reset.ok {
				m.Reset = longer(upstream.waitOf(*m), own.waitOf(l))
			}
			if l.Remaining >= 0 && (m.Remaining < 0 || l.Remaining < m.Remaining) {
				m.Remaining = l.Remaining
			}
		}
		if joins {
			out = append(out, l)
		}
	}
	return out
}

// waitOf returns the Reset of a limit, or what stands in for it.
func (f Fields) waitOf(l Limit) Seconds {
	if l.Reset.ok || l.Remaining != 0 {
		return l.Reset
	}
	p, _ := f.PolicyOf(l)
	return p.Window
}

func longer(s, t Seconds) Seconds {
	if !s.ok || t.ok && t.n > s.n {
		return t
	}
	return s
}

// keepsMeaning reports whether every limit of f reports in out on a policy of
// the same unit and window and no higher quota, if f has one for it. Only a
// policy of the other side can change that, with the same name.
func keepsMeaning(f, other, out Fields) bool {
	for _, l := range f.Limits {
		if !slices.ContainsFunc(other.Policies, func(p Policy) bool { return p.Name == l.Name }) {
			continue
		}
		before, had := f.PolicyOf(l)
		after, _ := out.PolicyOf(l)
		if quotaUnit(before) != quotaUnit(after) || had && (before.Window != after.Window || before.Quota < after.Quota) {
			return false
		}
	}
	return true
}

// Refuse answers a request that exceeds a limit: with the fields of f in place
// of those that the header of w holds, with the Retry-After of [SetRetryAfter],
// and with the body and the status of p as [Problem.ServeHTTP] sends them. A
// Problem without Status is sent as 429. A nil p is NewProblem(QuotaExceeded).
// With an Access-Control-Allow-Origin in the header of w, the fields are exposed
// to scripts as by [Expose].
// A date in a Retry-After that is there already counts from now.
//
// An error means that nothing has been written, and the header of w is as it
// was: a violated policy has no member in f (ErrMissing), or f or p cannot be
// written, with the errors of [Fields.Set] and [Problem.MarshalJSON].
func Refuse(w http.ResponseWriter, r *http.Request, f Fields, p *Problem) error {
	if p == nil {
		p = NewProblem(QuotaExceeded)
	}
	for i, name := range p.ViolatedPolicies {
		if !f.names(name) {
			return fmt.Errorf("ratelimit: member of the fields for violated policy %d: %w", i, ErrMissing)
		}
	}
	body, err := p.MarshalJSON()
	if err != nil {
		return err
	}
	h := w.Header()
	if err := f.Set(h); err != nil {
		return err
	}
	// The Date that net/http would add tells what a date in Retry-After means.
	if _, dated := h["Date"]; !dated && h.Get(retryAfterKey) != "" {
		h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	SetRetryAfter(h, f.Limits...)
	if h.Get("Access-Control-Allow-Origin") != "" {
		Expose(h)
	}
	p.send(w, r, body)
	return nil
}

func (f Fields) names(policy string) bool {
	return slices.ContainsFunc(f.Policies, func(p Policy) bool { return p.Name == policy }) ||
		slices.ContainsFunc(f.Limits, func(l Limit) bool { return l.Name == policy })
}

const exposeField = "Access-Control-Expose-Headers" // Fetch Standard, CORS protocol

// Expose adds the fields that h holds to Access-Control-Expose-Headers, so that
// scripts of another origin may read them: RateLimit-Policy, RateLimit,
// Retry-After, the fields of [Dialects], and every other with "ratelimit" or
// "rate-limit" in its name. Each is there once in the end, whatever its case, and what was there
// stays. So does "*", beside which names are still added, because to a request
// with credentials it is a name as any other.
//
// Call it when the fields are written. [Refuse] does where the response allows
// another origin.
func Expose(h http.Header) {
	seen := map[string]bool{}
	lines := h.Values(exposeField)
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			seen[strings.ToLower(strings.TrimSpace(name))] = true
		}
	}
	var names []string
	for _, key := range slices.Sorted(maps.Keys(h)) {
		lower := strings.ToLower(key)
		if len(h[key]) > 0 && !seen[lower] && exposable(lower) {
			seen[lower] = true
			names = append(names, fieldName(key))
		}
	}
	if len(names) == 0 {
		return
	}
	added := strings.Join(names, ", ")
	if n := len(lines); n > 0 && strings.TrimSpace(lines[n-1]) != "" {
		added = lines[n-1] + ", " + added
	}
	h[exposeField] = append(slices.Clone(lines[:max(len(lines)-1, 0)]), added)
}

// exposable takes a field name in lower case. What is no token cannot be sent.
func exposable(name string) bool {
	return (name == "retry-after" || strings.Contains(name, "ratelimit") || strings.Contains(name, "rate-limit") || isDialectField(name)) &&
		skip(name, 0, tokenByte) == len(name) && !strings.ContainsAny(name, ":/")
}

// isDialectField reports whether a built-in dialect has a column of that name.
func isDialectField(name string) bool {
	key := http.CanonicalHeaderKey(name)
	return slices.ContainsFunc(builtin.rows, func(r row) bool { return r.owns(key) })
}

// fieldName returns the usual spelling of a key of http.Header.
func fieldName(key string) string {
	switch key {
	case policyKey:
		return PolicyField
	case limitKey:
		return LimitField
	}
	return key
}
