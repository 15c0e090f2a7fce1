package proxy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/httpfields/ratelimit/obey"
)

// talkAfter is the shortest wait for which a line is printed.
const talkAfter = time.Second

// If requests of a key still wait after a second, begun prints how many. Call over when no request waits
// any more: it prints a second line if begun has printed one. Hold s.mu when you call begun, and when
// you call over.
func (s *stats) begun(key string, k *keyStats) (over func()) {
	if s.talk == nil {
		return func() {}
	}
	talked, ended := false, false
	timer := time.AfterFunc(talkAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		talked = !ended
		if talked {
			w, _ := s.gate.State(key)
			s.talk.Printf("key %.9s: %s%s%s", k.Key, waiting(int64(k.Waiting)), waitText(&w), limitText(k.Limits))
		}
	})
	return func() {
		timer.Stop()
		ended = true
		if talked {
			s.talk.Printf("key %.9s: no request waits any more; %d waited", k.Key, k.waited)
		}
	}
}

func waiting(n int64) string {
	if n == 1 {
		return "1 request waits"
	}
	return fmt.Sprintf("%d requests wait", n)
}

func waitText(w *obey.Wait) (text string) {
	if w.Until.After(time.Now()) {
		text = " until " + w.Until.Format(time.TimeOnly)
	}
	if string(w.Reason) != "" && w.Reason != "limit" { // the limit follows
		text += " (" + string(w.Reason) + ")"
	}
	return text
}

// limitText names the limit with the least left.
func limitText(limits []limitStats) string {
	if len(limits) == 0 {
		return ""
	}
	least := slices.MinFunc(limits, func(a, b limitStats) int { return cmp.Compare(a.Remaining, b.Remaining) })
	text := fmt.Sprintf(", %q has %d", least.Policy, least.Remaining)
	if least.Quota > 0 {
		text += fmt.Sprintf(" of %d", least.Quota)
	}
	return text + " left"
}
