package machine

import "time"

const (
	// firstRequests is how many requests of a key go before anything is known: a
	// browser opens six connections.
	firstRequests = 10
	// firstWait is how long further requests wait for the first answer. A slow server
	// that announces nothing costs this time, once.
	firstWait = 500 * time.Millisecond
)

// askFirst returns whether a request waits for an answer: the first answer of the key, the first answer
// to a request with prices, or the answer to a probe.
func (m *Machine) askFirst(now, hung time.Time, t *Trip) Verdict {
	answered := m.anyServed || m.refused > 0
	if first := max(1, int(firstRequests*m.Share)); !answered && len(m.underWay) >= first {
		if next := m.underWay[0].At.Add(firstWait); now.Before(next) {
			return Verdict{Until: next, Polite: true, Reason: First}
		}
	}
	if next := m.probed.Add(probeTime); m.probing && !m.probed.Before(m.until) && now.Before(next) {
		return Verdict{Until: next, Reason: Probe}
	}
	if t.Prices != nil && !m.pricedAnswered && m.pricedUnderWay > 0 && now.Before(hung) {
		return Verdict{Until: hung, Depends: true, Reason: First}
	}
	return Verdict{Open: true}
}
