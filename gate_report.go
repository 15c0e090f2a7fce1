package ratelimit

import (
	"strings"
	"time"
)

// reportOf puts an advice into the words of the machine, for a request with these
// prices. It appends the stocks to a list of the caller's.
func reportOf(a *Advice, prices []price, stocks []stock) report {
	out := report{
		wait: max(a.Wait, a.Asked), pace: a.Pace, refused: a.Refused, waived: a.Source == SourceRetryAfter, stocks: stocks,
	}
	policies := newMatcher(a.Fields.Policies)
	for i := range a.Fields.Policies {
		if p := &a.Fields.Policies[i]; p.Unit == ConcurrentRequests && p.Quota > 0 && (out.atOnce == 0 || p.Quota < out.atOnce) {
			out.atOnce = p.Quota
		}
	}
	priced := false // the wait is that of a limit whose units the request has counted
	var others time.Duration
	for i := range a.Fields.Limits {
		l := &a.Fields.Limits[i]
		p := policies.policy(l)
		if l.Remaining < 0 || p.Unit == ConcurrentRequests { // the number of these does not come back with time
			continue
		}
		s := stockOf(&a.Fields, i, p)
		out.stocks = append(out.stocks, s)
		switch {
		case s.left > 0:
		case s.unit != requestUnit && takes(prices, s.unit, s.policy) > 0:
			priced = true
		default:
			others = max(others, s.reset)
		}
	}
	if priced && (a.Source == SourceLimit || a.Source == SourceWindow) {
		out.wait = others
	}
	return out
}

// stockOf returns what is left of the limit at index i, whose policy is p.
func stockOf(f *Fields, i int, p *Policy) stock {
	l := &f.Limits[i]
	s := stock{unit: string(p.Unit.canonical()), policy: l.Name, left: l.Remaining, quota: max(p.Quota, 0)}
	if l.exhausted(p) {
		s.left = 0
	}
	s.window, _ = p.Window.Duration()
	if s.reset, s.ends = f.reset(i); !s.ends {
		s.reset, s.ends = s.window, p.Window.ok
	}
	return s
}

// kept returns the part of an advice that is remembered, which holds no memory of the
// response. name is a name that is remembered already.
func (a *Advice) kept(name string) Advice {
	k := *a
	k.Fields = Fields{}
	k.Limit.Params, k.Limit.PartitionKey = nil, nil
	k.Limit.Name = keptText(cutName(k.Limit.Name), name)
	return k
}

// keptText returns a text that holds no memory of the response: the remembered one, if
// it is the same, else a copy.
func keptText(text, remembered string) string {
	if text == remembered {
		return remembered
	}
	return strings.Clone(text)
}
