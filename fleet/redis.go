package fleet

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// README.md describes the records in Redis, and the rules that the scripts keep.
var (
	//go:embed record.lua
	recordLua string
	//go:embed enter.lua
	enterLua string
	//go:embed learn.lua
	learnLua string

	enterScript  = redis.NewScript(recordLua + enterLua)
	learnScript  = redis.NewScript(recordLua + learnLua)
	removeScript = redis.NewScript("redis.call('DEL', unpack(KEYS))")
)

const (
	leaseTime  = 10 * time.Second
	renewAfter = leaseTime / 3
	recordTime = time.Hour   // at least
	retryAfter = time.Second // of a Redis that has not answered
	countAfter = time.Second
	claimTime  = 2 * time.Second // until a claim ends that is not renewed
	claimAfter = claimTime / 4   // it is renewed
	maxLines   = 1024

	requests = "requests" // a unit: each request takes one
	// Bounds of what an answer can write into a record.
	maxLimits = 16
	maxName   = 128     // bytes
	most      = 1 << 50 // units; the numbers of the scripts are exact up to 2^53
)

// version is that of what the scripts write, so that they never read what others have written.
const version = "2:"

// keysOf returns the keys of the record, of the leases and of the processes. A cluster hashes
// what is in braces, so that they are in one slot.
func (t *Turns) keysOf(name string) []string {
	prefix := t.Prefix
	if prefix == "" {
		prefix = "ratelimit:"
	}
	sum := sha256.Sum256([]byte(name))
	tag := prefix + version + "{" + hex.EncodeToString(sum[:]) + "}"
	return []string{tag, tag + ":leases", tag + ":processes"}
}

// A turn is the permission to send one request. On a nil turn its methods do nothing.
type turn struct {
	turns  *Turns
	line   *line
	keys   []string
	began  time.Time // when it became the first of its line
	prices []obey.Cost
	costs  string     // prices as the scripts read them
	lease  string     // "" if there is none
	pass   *obey.Pass // of the gate of the line; nil if there is none

	mu    sync.Mutex
	ended bool
	timer *time.Timer // renews the lease
}

// enter asks for a turn. Without a lease it returns how long to wait before asking again, 0 if
// Redis does not answer. If certain, no answer to another request can shorten the wait.
func (n *turn) enter(ctx context.Context) (wait time.Duration, certain bool, err error) {
	if ctx.Err() != nil {
		return 0, false, ended(ctx)
	}
	l, count := n.line, 0
	if l.gate != nil && !n.report() {
		return 0, false, nil
	}
	if now := time.Now(); now.Sub(l.counted) >= countAfter {
		count = 1
	}
	waited := time.Since(n.began).Milliseconds()
	arguments := n.arguments(n.costs, "", n.turns.process, count, waited, claimTime.Milliseconds())
	got, ok := n.ask(enterScript, arguments, n.giveBack)
	if !ok || len(got) != 4 {
		return 0, false, nil
	}
	if count, _ := got[3].(int64); count > 0 {
		l.counted = time.Now()
		l.processes = max(int(count), l.processes-1) // a Redis that has lost its data counts few at first
	}
	n.lease, _ = got[0].(string)
	millis, _ := got[1].(int64)
	if ctx.Err() != nil && n.lease != "" {
		n.fail()
		return 0, false, ended(ctx)
	}
	return time.Duration(max(millis, 1)) * time.Millisecond, got[2] == int64(1), nil
}

// giveBack ends a lease that Redis granted too late. It asks at once, although Redis did not
// answer in time before: otherwise the lease would count as under way until it expires.
func (n *turn) giveBack(got []any) {
	if lease, _ := got[0].(string); lease != "" {
		ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
		defer cancel()
		_ = learnScript.Run(ctx, n.turns.client, n.keys, n.arguments(lease, "failed", 0, "")...).Err() // else it expires
	}
}

// arguments returns the arguments of a script. All scripts begin with the same two times.
func (n *turn) arguments(rest ...any) []any {
	keep := max(recordTime, 2*n.turns.maxWait())
	return append([]any{leaseTime.Milliseconds(), keep.Milliseconds()}, rest...)
}

// renew renews the lease until the turn ends.
func (n *turn) renew() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.timer = time.AfterFunc(renewAfter, func() {
		n.mu.Lock()
		over := n.ended
		n.mu.Unlock()
		if over {
			return
		}
		n.ask(enterScript, n.arguments("", n.lease), nil) // does nothing if the lease is over by then
		n.mu.Lock()
		defer n.mu.Unlock()
		if !n.ended {
			n.timer.Reset(renewAfter)
		}
	})
}

// end reports whether the turn ends now.
func (n *turn) end() bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return false
	}
	n.ended = true
	if n.timer != nil {
		n.timer.Stop()
	}
	return true
}

// fail ends a turn without an answer.
func (n *turn) fail() {
	switch {
	case !n.end():
	case n.lease == "":
		n.pass.Failed()
	default:
		n.ask(learnScript, n.arguments(n.lease, "failed", 0, ""), nil)
	}
}

// answered ends a turn, and lets all processes learn from the answer.
func (n *turn) answered(a ratelimit.Advice, received time.Time) {
	if !n.end() {
		return
	}
	n.line.learn(n.turns, &a)
	if n.lease == "" {
		n.pass.Answered(a, received)
		return
	}
	ended := "served"
	if a.Refused {
		ended = "refused"
	}
	n.ask(learnScript, n.arguments(n.lease, ended, waitOf(&a).Milliseconds(), textOf(limitsOf(&a, n.turns.maxWait()))), nil)
}

// textOf returns limits as the scripts read them, "" if there are none.
func textOf(limits []limit) string {
	if len(limits) == 0 {
		return ""
	}
	text, _ := json.Marshal(limits) // of strings and numbers: it does not fail
	return string(text)
}

// maxWait returns the longest wait that is obeyed.
func (t *Turns) maxWait() time.Duration {
	if t.Advisor.MaxWait <= 0 {
		return ratelimit.DefaultMaxWait
	}
	return min(t.Advisor.MaxWait, 30*24*time.Hour)
}

// waitOf returns how long all requests wait after an answer, or -1 ms if it refuses without a
// time. A limit whose remaining units are known does not count: only the requests that take of
// it wait.
func waitOf(a *ratelimit.Advice) time.Duration {
	switch {
	case a.Refused && a.Wait < time.Millisecond:
		return -time.Millisecond
	case a.Source != ratelimit.SourceRetryAfter && a.Limit.Remaining >= 0:
		return 0
	}
	return a.Wait
}

// A limit is a [ratelimit.Limit] as the scripts read it.
type limit struct {
	Key   string  `json:"key"`  // of the record; two units may have one name
	Name  string  `json:"name"` // of the policy
	Unit  string  `json:"unit"`
	Left  int64   `json:"left"`
	Quota int64   `json:"quota"` // 0 if it is not known
	Rate  float64 `json:"rate"`  // units that come back each millisecond; 0 if all come back at the reset
	Reset int64   `json:"reset"` // in milliseconds, -1 if it is not known
}

// limitsOf returns the limits whose remaining units are known, the tightest of each name.
func limitsOf(a *ratelimit.Advice, maxWait time.Duration) (list []limit) {
	i := -1
	for l, p := range a.Fields.Pairs() {
		i++
		if l.Remaining < 0 || p.Unit == ratelimit.ConcurrentRequests { // these do not come back with time
			continue
		}
		next := limitOf(a, i, p, maxWait)
		same := slices.IndexFunc(list, func(other limit) bool { return other.Key == next.Key })
		switch {
		case same < 0 && len(list) < maxLimits:
			list = append(list, next)
		case same >= 0 && next.Left < list[same].Left:
			list[same] = next
		}
	}
	return list
}

// limitOf converts Limits[i] of an advice, whose policy is p.
func limitOf(a *ratelimit.Advice, i int, p *ratelimit.Policy, maxWait time.Duration) limit {
	l := &a.Fields.Limits[i]
	to := limit{Name: nameOf(l.Name), Unit: string(p.Unit.Canonical()), Left: min(l.Remaining, most), Quota: min(max(p.Quota, 0), most), Reset: -1}
	to.Key = to.Unit[:min(len(to.Unit), maxName)] + " " + to.Name
	window, windowed := p.Window.Duration()
	reset, known := a.Fields.UntilReset(i)
	if !known {
		reset, known = window, windowed
	}
	if !a.Refused { // else less came back than was thought
		to.Rate = rateOf(&to, window, reset)
	}
	switch {
	case a.Source == ratelimit.SourceRetryAfter && to.Left == 0:
		reset, known = a.Wait, true // it takes precedence (draft-11 Section 7)
	case known && reset == 0 && to.Left > 0:
		reset = time.Second // rounded down, or by a slow clock
	}
	if known {
		to.Reset = min(reset, maxWait).Milliseconds()
	}
	return to
}

// rateOf returns how many units come back each millisecond. Requests come back at the reset.
// Other units, such as tokens of language models, flow back: their quota in each window. Without
// a window, the used units flow back until the reset.
func rateOf(l *limit, window, reset time.Duration) float64 {
	switch {
	case l.Unit == requests || l.Quota == 0:
		return 0
	case window > 0:
		return float64(l.Quota) / float64(max(window.Milliseconds(), 1))
	case reset > 0 && l.Left < l.Quota:
		return float64(l.Quota-l.Left) / math.Ceil(float64(reset)/float64(time.Millisecond))
	}
	return 0
}

// nameOf returns the part of a policy's name that is kept.
func nameOf(name string) string { return name[:min(len(name), maxName)] }

// errSilent is for OnError.
var errSilent = errors.New("ratelimit: Redis does not answer in time: each process goes on alone for a second")

// ask runs a script, and reports whether Redis has answered in time. If the answer comes later,
// late is called with it.
func (n *turn) ask(script *redis.Script, arguments []any, late func([]any)) (got []any, ok bool) {
	t := n.turns
	if !n.answers() {
		return nil, false
	}
	t.once.Do(t.prepare)
	timeout := t.timeout()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	run := func() ([]any, error) {
		value, err := script.Run(ctx, t.client, n.keys, arguments...).Result()
		if errors.Is(err, redis.Nil) { // the script returns nothing
			err = nil
		}
		list, _ := value.([]any)
		return list, err
	}
	var err error
	if t.obeys {
		got, err = run()
	} else {
		got, err = inTime(ctx, run, late)
	}
	n.note(err)
	return got, err == nil
}

func (t *Turns) timeout() time.Duration {
	if t.Timeout <= 0 {
		return 250 * time.Millisecond
	}
	return t.Timeout
}

// prepare finds out whether the client obeys the deadlines of contexts. A Client does not by
// default: prepare makes a copy that does, with the same connections.
func (t *Turns) prepare() {
	t.client = t.Redis
	switch c := t.Redis.(type) {
	case *redis.Client:
		if !c.Options().ContextTimeoutEnabled {
			c = c.WithTimeout(t.timeout())
			c.Options().ContextTimeoutEnabled = true // of the copy
			t.client = c
		}
		t.obeys = true
	case *redis.ClusterClient:
		t.obeys = c.Options().ContextTimeoutEnabled
	}
}

// inTime runs a question in a goroutine, which may outlast ctx: the timeouts of the client may
// be longer.
func inTime(ctx context.Context, run func() ([]any, error), late func([]any)) ([]any, error) {
	type answer struct {
		got []any
		err error
	}
	answers := make(chan answer) // without a buffer, so that a late answer is not lost
	go func() {
		got, err := run()
		select {
		case answers <- answer{got, err}:
		case <-ctx.Done():
			if err == nil && late != nil && len(got) > 0 {
				late(got)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.got, a.err
	case <-ctx.Done():
		return nil, errSilent
	}
}

// answers reports whether to ask Redis. While Redis does not answer, one request asks each second.
// So does one request of a key whose record cannot be read.
func (n *turn) answers() bool {
	t, now := n.turns, time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.retry) || now.Before(n.line.retry) {
		return false
	}
	for _, retry := range []*time.Time{&t.retry, &n.line.retry} {
		if !retry.IsZero() {
			*retry = now.Add(retryAfter)
		}
	}
	return true
}

// note notes whether Redis has answered. If it cannot read the record of the key, it removes the
// record.
func (n *turn) note(err error) {
	t, all, own := n.turns, time.Time{}, time.Time{}
	switch {
	case err == nil:
	case isUnreadable(err):
		own = time.Now().Add(retryAfter)
		ctx, cancel := context.WithTimeout(context.Background(), t.timeout())
		defer cancel()
		_ = removeScript.Run(ctx, t.client, n.keys).Err() // else it fails again in a second
		const text = "ratelimit: the record %s cannot be read: it is removed, and its requests go on alone for a second: %w"
		err = fmt.Errorf(text, n.keys[0], err)
	default:
		all = time.Now().Add(retryAfter)
	}
	t.mu.Lock()
	t.retry, n.line.retry = all, own
	t.mu.Unlock()
	if err != nil && t.OnError != nil {
		t.OnError(err)
	}
}

// isUnreadable reports whether a script failed because of what its keys contain. Lua reports the
// line of the script. Redis 6 writes a text of its own in front. Any other error is one of Redis.
func isUnreadable(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	return strings.HasPrefix(text, "ERR user_script:") || strings.Contains(text, ": user_script:") || strings.Contains(text, "WRONGTYPE ")
}
