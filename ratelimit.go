package ratelimit

import "github.com/httpfields/ratelimit/internal/text"

// A Limit is a member of the field RateLimit, such as "burst";r=37;t=12 (draft-11
// Section 4.1): what is left of the quota of a policy. It may change with every
// response, and is no promise that requests will be served (draft-11 Section 4.1.1). The
// zero Limit is valid: its name is empty, and nothing remains of it.
type Limit struct {
	Name      string // of the [Policy] that the limit reports on, such as "burst"; may be empty
	Remaining int64  // r, such as 37 quota units, 0 to MaxInteger, or [Unknown]
	// Reset is t, such as SecondsOf(12), 0 to MaxInteger, or absent. It counts from the
	// response, and until then the client may use no more than Remaining. It does not say
	// that the whole quota is back afterwards (draft-11 Section 8.4).
	Reset        Seconds
	PartitionKey []byte // pk, as in the Policy
	Params       Params // all other parameters, in the order of the field
}

// Unknown is the Remaining of a [Limit] or the Quota of a [Policy] that an older
// response leaves out. The current fields require both numbers, so a member without one
// cannot be written; see [Fields.Writable].
const Unknown = -1

// MaxInteger is the largest Integer of a structured field, 999,999,999,999,999 (RFC 9651
// Section 3.3.1), and so the largest number of quota units or seconds.
const MaxInteger = text.MaxInteger

// Equal is as [Policy.Equal]; an absent Reset is not equal to one of 0.
func (l Limit) Equal(m Limit) bool {
	return l.Name == m.Name && l.Remaining == m.Remaining && l.Reset == m.Reset &&
		equalKey(l.PartitionKey, m.PartitionKey) && l.Params.equal(m.Params)
}

// lower returns the lower of two numbers. Unknown is higher than all others.
func lower(a, b int64) int64 {
	if uint64(a) < uint64(b) {
		return a
	}
	return b
}
