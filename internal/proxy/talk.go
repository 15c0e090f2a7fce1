package proxy

import (
	"fmt"
	"time"

	"github.com/httpfields/ratelimit"
)

// talkAfter is how long requests of a key wait before a line is printed: short waits are
// not worth one.
const talkAfter = time.Second

// begun prints, if requests of a key still wait after a second, how many. The lock of the
// statistics is held.
func (s *stats) begun(key string, k *keyStats) {
	if s.talk == nil {
		return
	}
	k.waits++
	this := k.waits
	time.AfterFunc(talkAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if k.Waiting == 0 || k.waits != this {
			return
		}
		k.talked = k.waitedFor
		w, _ := s.gate.State(key)
		s.talk.Printf("key %s: %s%s%s", short(k.Key), waiting(k.Waiting), waitText(&w), limitText(k.Limits))
	})
}

// over prints, after such a line, that no request waits any more.
func (s *stats) over(k *keyStats) {
	if s.talk != nil && k.talked > 0 {
		s.talk.Printf("key %s: no request waits any more; %d have waited", short(k.Key), k.waitedFor)
	}
	k.talked, k.waitedFor = 0, 0
}

func short(key string) string { return key[:min(len(key), 9)] }

func waiting(n int) string {
	if n == 1 {
		return "1 request waits"
	}
	return fmt.Sprintf("%d requests wait", n)
}

func waitText(w *ratelimit.Wait) (text string) {
	if w.Until.After(time.Now()) {
		text = " until " + w.Until.Format(time.TimeOnly)
	}
	if w.Reason != "" && w.Reason != "limit" { // the limit follows
		text += " (" + w.Reason + ")"
	}
	return text
}

// limitText names the limit with the least left.
func limitText(limits []limitStats) string {
	if len(limits) == 0 {
		return ""
	}
	least := &limits[0]
	for i := range limits {
		if limits[i].Remaining < least.Remaining {
			least = &limits[i]
		}
	}
	text := fmt.Sprintf(", %q has %d", least.Policy, least.Remaining)
	if least.Quota > 0 {
		text += fmt.Sprintf(" of %d", least.Quota)
	}
	return text + " left"
}

// waiting returns how many requests wait.
func (s *stats) waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		n += k.Waiting
	}
	return n
}
