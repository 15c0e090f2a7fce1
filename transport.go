package ratelimit

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of what a Transport remembers.
const (
	// maxOrigins is the number of keys. Beyond, the one is forgotten that says
	// the least about the time to come.
	maxOrigins = 1024
	// maxBudgets is the number of limits of a key that are counted apart.
	maxBudgets = 16
	// idleTime is how long a key with nothing in force is remembered.
	idleTime = 10 * time.Minute
)

// firstWait is how long requests wait for the very first answer to their key,
// about which nothing is known. A server that announces nothing and is slow
// costs no more than this, once.
const firstWait = time.Second

// A Transport is an [http.RoundTripper] that keeps a client within the limits
// that servers announce. The zero Transport is ready to use. It must not be
// copied after the first use, and its fields not be changed. It is for
// concurrent use, if Base, Key and Observe are.
//
// Each request waits until what the responses before it have announced allows
// it, and is then sent once, as it is. A response is returned as it is, whatever
// its status: nothing is sent again. Requests of one key that have to wait go
// in the order in which they came.
//
//   - While a wait is in force ([Advice]), nothing is sent.
//   - What remains of a limit of requests is counted down by each request until
//     newer fields arrive. Requests under way count too. A response to a
//     request that was sent earlier than what is known was learnt can make
//     that stricter, not looser.
//   - After the end of a wait, or of the time for which something was
//     announced, nothing is known (draft-11 Sections 4.1.2 and 8.4): one
//     request goes as a probe, and the others wait for what it learns, or
//     Client.MaxWait. So it is with the first request of a key, but for a
//     second only, and not if that would miss the deadline of a request.
//   - A request that follows a redirection does not wait (Section 6).
//
// The number of keys that are remembered, and the time, are bounded.
type Transport struct {
	// Base sends the requests; nil is http.DefaultTransport.
	Base http.RoundTripper
	// Client reads the responses.
	Client Client
	// Key tells apart what has limits of its own: requests with the same key
	// share them. nil is the origin: scheme, host and port.
	Key func(*http.Request) string
	// Pace says to keep Advice.Pace between requests too, at most
	// Client.MaxWait.
	Pace bool
	// Observe is called, before RoundTrip returns, for every response that
	// said something about limits; nil is not called.
	Observe func(*http.Request, Advice)

	mu      sync.Mutex
	origins map[string]*origin
	swept   time.Time // when idle origins were last forgotten
}

// A WaitError says that a request was not sent because the deadline of its
// context comes before it may be. It matches [context.DeadlineExceeded].
type WaitError struct {
	// Until is when the wait ends.
	Until time.Time
	// Advice is the one in force, of the response that said the most recent.
	Advice Advice
}

// Error says when the wait ends.
func (e *WaitError) Error() string {
	return "ratelimit: not sent: the deadline is before the end of the wait at " + e.Until.UTC().Format(time.RFC3339)
}

// Unwrap returns [context.DeadlineExceeded].
func (e *WaitError) Unwrap() error { return context.DeadlineExceeded }

// Timeout returns true, as that of [net.Error].
func (e *WaitError) Timeout() bool { return true }

var errNoURL = errors.New("ratelimit: request without URL")

// RoundTrip sends req when the limits allow it. It returns a [*WaitError] at
// once if the context's deadline comes before that, the cause of the context if
// it ends meanwhile, and else what Base returns.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req == nil || req.URL == nil {
		closeBody(req)
		return nil, errNoURL
	}
	if req.Context().Err() != nil { // it would be counted without being sent
		closeBody(req)
		return nil, context.Cause(req.Context())
	}
	o, sent, err := t.admit(req, t.key(req))
	if err != nil {
		closeBody(req)
		return nil, err
	}
	answered := false
	defer func() {
		if !answered { // Base failed, or panicked
			t.unanswered(o, sent)
		}
	}()
	resp, err := t.base().RoundTrip(req)
	if err != nil || resp == nil {
		return resp, err
	}
	answered = true
	received := time.Now()
	advice := t.Client.Advise(resp, received)
	t.answered(o, sent, &advice, received)
	if t.Observe != nil && advice.says() {
		t.Observe(req, advice)
	}
	return resp, nil
}

// closeBody does what a RoundTripper has to do with a request that it does not
// send.
func closeBody(req *http.Request) {
	if req != nil && req.Body != nil {
		req.Body.Close()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func (t *Transport) key(req *http.Request) string {
	if t.Key == nil {
		return originOf(req.URL)
	}
	return t.Key(req)
}

// originOf is RFC 6454 Section 4.
func originOf(u *url.URL) string {
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		switch scheme {
		case "http":
			port = "80"
		case "https":
			port = "443"
		}
	}
	return scheme + "://" + host + ":" + port
}

// says reports whether the response said anything about limits.
func (a *Advice) says() bool {
	return a.Source != SourceNone || a.Fields.Limits != nil || a.Fields.Policies != nil
}

// admit returns when req may be sent, and counts it as sent.
func (t *Transport) admit(req *http.Request, key string) (*origin, trip, error) {
	now := time.Now()
	t.mu.Lock()
	o := t.originLocked(key, now)
	g := gate{open: true}
	if req.Response == nil { // else it follows a redirection
		g = t.gate(o, now)
	}
	if g.open && (o.waiting == 0 || req.Response != nil) || o.hurried(req.Context()) {
		sent := o.send(g.probe, t.Client.maxWait(), now)
		t.mu.Unlock()
		return o, sent, nil
	}
	err := o.tooLate(req.Context(), g)
	if err == nil {
		o.waiting++
	}
	t.mu.Unlock()
	if err != nil {
		return nil, trip{}, err
	}
	sent, err := t.queue(req.Context(), o)
	return o, sent, err
}

// hurried reports whether a request would be lost by waiting for the very first
// answer, about which nothing is known.
func (o *origin) hurried(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !o.answers && o.probe != 0 && deadline.Before(o.patience)
}

// queue waits for the turn of a request, and then for the gate.
func (t *Transport) queue(ctx context.Context, o *origin) (trip, error) {
	defer func() {
		t.mu.Lock()
		o.waiting--
		t.mu.Unlock()
	}()
	turn := t.enqueue(o)
	defer t.dequeue(o, turn)
	if err := t.takeTurn(ctx, o, turn); err != nil {
		return trip{}, err
	}
	for {
		now := time.Now()
		t.mu.Lock()
		g := t.gate(o, now)
		if g.open {
			sent := o.send(g.probe, t.Client.maxWait(), now)
			t.mu.Unlock()
			return sent, nil
		}
		err := o.tooLate(ctx, g)
		t.mu.Unlock()
		if err == nil {
			err = o.wait(ctx, g.until.Sub(now))
		}
		if err != nil {
			return trip{}, err
		}
	}
}

// enqueue puts a request at the end of the queue: first come, first served.
func (t *Transport) enqueue(o *origin) (turn chan struct{}) {
	turn = make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	o.queue = append(o.queue, turn)
	if len(o.queue) == 1 {
		close(turn)
	}
	return turn
}

// dequeue takes a request out of the queue, and gives its turn to the next.
func (t *Transport) dequeue(o *origin, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(o.queue, turn)
	o.queue = slices.Delete(o.queue, i, i+1)
	if i == 0 && len(o.queue) > 0 {
		close(o.queue[0])
	}
}

// takeTurn waits for the turn of a request, unless a wait begins that is too
// long for it.
func (t *Transport) takeTurn(ctx context.Context, o *origin, turn chan struct{}) error {
	for {
		t.mu.Lock()
		news := o.news
		err := o.tooLate(ctx, gate{until: o.until, certain: true})
		t.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-turn:
			return nil
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// An origin is what is known of a key, guarded by Transport.mu.
type origin struct {
	queue   []chan struct{} // of requests that wait; that of the first, at the gate, is closed
	changed chan struct{}   // tells that request that there was an answer
	news    chan struct{}   // closed, and replaced, when a wait begins
	waiting int             // requests that wait, for their turn or at the gate

	sent     int64 // requests sent so far
	inFlight int64 // of these, those without an answer
	silent   int64 // of these, those whose answer did not say what remains

	// What was learnt when so many requests had been sent.
	learnt  int64
	advice  Advice
	until   time.Time // end of the wait
	budgets []budget
	pace    time.Duration

	alone    bool      // the next request is a probe
	probe    int64     // number of the probe under way, 0 if there is none
	patience time.Time // until when requests wait for it
	answers  bool      // whether there has been any answer

	last time.Time // when the last request was sent
	used time.Time // when there was the last request or answer
}

// A budget is a limit of requests in force.
type budget struct {
	left int64     // that may still be sent, those under way included
	end  time.Time // of the time for which this was announced; zero if not said
}

func (b budget) outlasts(c budget) bool {
	return !c.end.IsZero() && (b.end.IsZero() || b.end.After(c.end))
}

// covers reports whether b allows nothing that c does not.
func (b budget) covers(c budget) bool { return b.left <= c.left && !c.outlasts(b) }

// A trip is a request that was sent.
type trip struct {
	number int64 // of the request, from 1
	silent int64 // origin.silent at that time
}

// A gate says whether a request may be sent.
type gate struct {
	open  bool
	probe bool      // it is open for a probe
	until time.Time // if not open: when to ask again at the latest
	// certain says that no answer to a request under way can open the gate
	// earlier.
	certain bool
}

// gate says whether a request to o may be sent now.
func (t *Transport) gate(o *origin, now time.Time) gate {
	if now.Before(o.until) {
		return gate{until: o.until, certain: true}
	}
	o.expire(now)
	if !o.alone {
		if g := o.count(now, t.Client.maxWait()); !g.open {
			return g
		}
	}
	if o.alone {
		return o.probing(now)
	}
	if next := o.last.Add(min(o.pace, t.Client.maxWait())); t.Pace && now.Before(next) {
		return gate{until: next, certain: true}
	}
	return gate{open: true}
}

// expire forgets what was announced for a time that has ended. What holds then
// is not known (draft-11 Section 8.4).
func (o *origin) expire(now time.Time) {
	before := len(o.budgets)
	o.budgets = slices.DeleteFunc(o.budgets, func(b budget) bool { return !b.end.IsZero() && !now.Before(b.end) })
	if len(o.budgets) < before {
		o.alone, o.pace = true, 0
	}
}

// count holds the requests that were sent against what remained. Where nothing
// is left, and no answer can change that, it begins a wait.
func (o *origin) count(now time.Time, most time.Duration) gate {
	var end time.Time
	spent := false
	for _, b := range o.budgets {
		if b.left <= o.inFlight {
			spent = true
			if b.end.After(end) {
				end = b.end
			}
		}
	}
	latest := o.last.Add(most)
	switch {
	case !spent:
		return gate{open: true}
	case end.IsZero() && (o.inFlight == 0 || !now.Before(latest)):
		o.alone = true // nothing says when to come back
		return gate{open: true}
	case end.IsZero():
		return gate{until: latest}
	case o.inFlight > 0 && end.Before(latest):
		return gate{until: end}
	case o.inFlight > 0 && now.Before(latest):
		return gate{until: latest}
	case o.inFlight > 0:
		o.alone = true // longer than MaxWait: a probe
		return gate{open: true}
	}
	if latest = now.Add(most); end.After(latest) {
		end = latest
	}
	o.waitUntil(end)
	return gate{until: end, certain: true}
}

// waitUntil begins a wait, after which a probe goes.
func (o *origin) waitUntil(end time.Time) {
	o.until, o.alone = end, true
	close(o.news)
	o.news = make(chan struct{})
}

// probing lets one request through and has the others wait for its answer, for
// some time: then another one goes, or, if there has never been an answer, all
// of them.
func (o *origin) probing(now time.Time) gate {
	switch {
	case o.probe == 0:
		return gate{open: true, probe: true}
	case now.Before(o.patience):
		return gate{until: o.patience}
	case o.answers:
		return gate{open: true, probe: true}
	default:
		o.alone = false
		return gate{open: true}
	}
}

// send counts a request as sent.
func (o *origin) send(probe bool, most time.Duration, now time.Time) trip {
	o.sent++
	o.inFlight++
	o.last, o.used = now, now
	if probe {
		if !o.answers {
			most = min(most, firstWait) // most servers announce nothing
		}
		o.probe, o.patience = o.sent, now.Add(most)
	}
	return trip{o.sent, o.silent}
}

// tooLate returns an error if the deadline of a request comes before the gate
// opens.
func (o *origin) tooLate(ctx context.Context, g gate) error {
	if deadline, ok := ctx.Deadline(); ok && g.certain && deadline.Before(g.until) {
		return &WaitError{Until: g.until, Advice: o.advice}
	}
	return nil
}

// wait waits for a time, or for an answer.
func (o *origin) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// unanswered counts a request that has failed. It may have been served.
func (t *Transport) unanswered(o *origin, sent trip) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o.returned(sent)
	o.spend()
}

// returned counts a request as no longer under way, and says so to the one
// that waits.
func (o *origin) returned(sent trip) {
	o.inFlight--
	if o.probe == sent.number {
		o.probe = 0
	}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// spend counts a request whose answer does not say what remains.
func (o *origin) spend() {
	o.silent++
	for i := range o.budgets {
		o.budgets[i].left--
	}
}

// answered learns from a response.
func (t *Transport) answered(o *origin, sent trip, a *Advice, received time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	probe := o.probe == sent.number
	o.returned(sent)
	o.answers, o.used = true, received
	o.learn(sent, a, received)
	if probe {
		o.alone = received.Before(o.until)
	}
}

// learn takes what a response says. It replaces what is known only if the
// request was sent after that was learnt: else nobody can tell which of the two
// the server said last, and the stricter counts.
func (o *origin) learn(sent trip, a *Advice, received time.Time) {
	budgets, said := budgetsOf(a, o.silent-sent.silent, received)
	if a.Source == SourceNone && len(budgets) == 0 && (!said || sent.number <= o.learnt) {
		o.spend()
		return
	}
	until := received.Add(a.Wait)
	newer := sent.number > o.learnt
	if newer {
		o.until, o.pace, o.budgets = time.Time{}, 0, o.budgets[:0]
		o.alone = false
	}
	stricter := false
	if a.Wait > 0 && until.After(o.until) {
		o.waitUntil(until)
		stricter = true
	}
	o.pace = max(o.pace, a.Pace)
	for _, b := range budgets {
		stricter = o.add(b) || stricter
	}
	if newer || stricter {
		o.learnt, o.advice = o.sent, *a
	}
}

// budgetsOf returns the limits of a that count requests, less those whose
// answers have not said what they took of them, and whether a says what remains
// of any. Retry-After takes the place of limits with nothing remaining (draft-11
// Section 7).
func budgetsOf(a *Advice, silent int64, received time.Time) (list []budget, said bool) {
	policies := newMatcher(a.Fields.Policies)
	for i := range a.Fields.Limits {
		l := &a.Fields.Limits[i]
		policy := policies.policy(l)
		window := l.Reset
		if !window.ok {
			window = policy.Window
		}
		d, known := window.Duration()
		if l.Remaining < 0 || !policy.Unit.countsRequests() {
			continue // no count of requests
		}
		said = true
		if l.Remaining == 0 && a.Source == SourceRetryAfter || l.Remaining > 0 && known && d == 0 {
			continue // no longer in force
		}
		b := budget{left: l.Remaining - silent}
		if known {
			b.end = received.Add(d)
		}
		list = append(list, b)
	}
	return list, said
}

// add adds a budget, and reports whether it allows less than the others.
func (o *origin) add(b budget) bool {
	if slices.ContainsFunc(o.budgets, func(c budget) bool { return c.covers(b) }) {
		return false
	}
	o.budgets = slices.DeleteFunc(o.budgets, b.covers)
	if len(o.budgets) < maxBudgets {
		o.budgets = append(o.budgets, b)
		return true
	}
	last := &o.budgets[maxBudgets-1]
	last.left = min(last.left, b.left)
	if b.outlasts(*last) {
		last.end = b.end
	}
	return true
}

// originLocked returns what is known of a key. t.mu is held.
func (t *Transport) originLocked(key string, now time.Time) *origin {
	o := t.origins[key]
	if o != nil && !o.idle(now) {
		return o
	}
	if t.origins == nil {
		t.origins = make(map[string]*origin)
	}
	if len(t.origins) >= maxOrigins || now.Sub(t.swept) > idleTime {
		t.sweep(now)
	}
	o = &origin{changed: make(chan struct{}, 1), news: make(chan struct{}), alone: true, used: now}
	t.origins[strings.Clone(key)] = o
	return o
}

// sweep forgets the keys that are idle, and one more if there are too many.
func (t *Transport) sweep(now time.Time) {
	t.swept = now
	var first string
	var least time.Time
	for key, o := range t.origins {
		if o.idle(now) {
			delete(t.origins, key)
			continue
		}
		if h := o.horizon(); least.IsZero() || h.Before(least) {
			first, least = key, h
		}
	}
	if len(t.origins) >= maxOrigins {
		delete(t.origins, first)
	}
}

// idle reports whether nothing is lost with o.
func (o *origin) idle(now time.Time) bool {
	return o.inFlight == 0 && o.waiting == 0 && now.Sub(o.horizon()) > idleTime
}

// horizon is the last moment about which o says anything.
func (o *origin) horizon() time.Time {
	last := o.used
	if o.until.After(last) {
		last = o.until
	}
	for _, b := range o.budgets {
		if b.end.After(last) {
			last = b.end
		}
	}
	return last
}
