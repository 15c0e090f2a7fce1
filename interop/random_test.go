package interop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit"
)

// A random makes valid Fields. The same seed makes the same Fields.
type random struct {
	*rand.Rand
	// reset is the highest reset, for forms and readers with a bound.
	reset int64
	// types is the number of types that values of parameters have. See value.
	types int
}

const (
	rfc8941Types = 6 // without Display Strings and Dates, which RFC 9651 added
	withoutDates = 7
	allTypes     = 8
)

func newRandom(reset int64) random {
	return random{rand.New(rand.NewPCG(9651, 9110)), reset, allTypes}
}

// fields returns valid Fields: policies with distinct names, limits for most of them, and
// sometimes a limit without a policy.
func (r random) fields() ratelimit.Fields {
	var f ratelimit.Fields
	for i := range r.IntN(5) {
		p := ratelimit.Policy{
			Name:         fmt.Sprint(r.text(8), i),
			Quota:        r.upTo(ratelimit.MaxInteger),
			Unit:         r.unit(),
			PartitionKey: r.key(),
			Params:       r.params(),
		}
		if r.IntN(3) > 0 {
			p.Window = ratelimit.SecondsOf(max(1, r.upTo(ratelimit.MaxInteger)))
		}
		f.Policies = append(f.Policies, p)
		if r.IntN(4) > 0 {
			f.Limits = append(f.Limits, r.limit(p.Name, p.Quota, p.PartitionKey))
		}
	}
	if r.IntN(4) == 0 {
		f.Limits = append(f.Limits, r.limit(r.text(8), ratelimit.MaxInteger, r.key()))
	}
	r.Shuffle(len(f.Limits), func(i, j int) { f.Limits[i], f.Limits[j] = f.Limits[j], f.Limits[i] })
	return f
}

func (r random) limit(name string, quota int64, key []byte) ratelimit.Limit {
	l := ratelimit.Limit{Name: name, PartitionKey: key, Params: r.params()}
	if r.IntN(3) > 0 {
		l.Remaining = r.upTo(quota)
	}
	if r.IntN(5) > 0 {
		l.Reset = ratelimit.SecondsOf(r.upTo(r.reset))
	}
	return l
}

// upTo returns a number from 0 to most. All numbers of digits are equally likely.
func (r random) upTo(most int64) int64 {
	magnitude := int64(1)
	for range r.IntN(16) {
		magnitude *= 10
	}
	return r.Int64N(min(most, magnitude) + 1)
}

// text returns printable ASCII.
func (r random) text(most int) string {
	b := make([]byte, r.IntN(most+1))
	for i := range b {
		b[i] = byte(' ' + r.IntN('~'-' '+1))
	}
	return string(b)
}

func (r random) unit() ratelimit.Unit {
	units := []ratelimit.Unit{"", "", ratelimit.Requests, ratelimit.ContentBytes, ratelimit.ConcurrentRequests}
	if i := r.IntN(len(units) + 1); i < len(units) {
		return units[i]
	}
	return ratelimit.Unit("u" + r.text(8))
}

func (r random) key() []byte {
	if r.IntN(2) == 0 {
		return nil
	}
	b := make([]byte, r.IntN(16))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (r random) params() ratelimit.Params {
	var params ratelimit.Params
	for i := range max(0, r.IntN(8)-4) {
		params = append(params, ratelimit.Param{Key: fmt.Sprintf("*x_-.%d", i), Value: r.value()})
	}
	return params
}

// value returns a value of one of the types that a parameter may have.
func (r random) value() any {
	sign := 1 - 2*r.Int64N(2)
	switch r.IntN(r.types) {
	case 0:
		return sign * r.upTo(ratelimit.MaxInteger)
	case 1:
		return float64(sign*r.upTo(ratelimit.MaxInteger)) / 1000
	case 2:
		return r.text(12)
	case 3:
		return httpsfv.Token("t:/" + strings.Repeat("*", r.IntN(4)))
	case 4:
		return append([]byte{}, r.key()...)
	case 5:
		return r.IntN(2) == 0
	case 6:
		return httpsfv.DisplayString(strings.Repeat("ä%\"€😀", r.IntN(3)) + r.text(4))
	default:
		return time.Unix(sign*r.upTo(1e12), 0).UTC()
	}
}
