package ratelimit

// A Limit is a member of the field RateLimit, such as "burst";r=37;t=12 (draft-11
// Section 4.1): what is left of the quota of a policy. It may change with every
// response, and is no promise that requests will be served (draft-11 Section 4.1.1).
//
// The zero Limit is valid: its name is empty, and nothing remains of it.
type Limit struct {
	// Name is the name of the [Policy] that the limit reports on, see [Fields.PolicyOf].
	// It is printable ASCII, and may be empty.
	Name string
	// Remaining is the parameter r, such as 37 quota units, from 0 to MaxInteger
	// (draft-11 Section 4.1.1). See [Unknown].
	Remaining int64
	// Reset is the parameter t, such as SecondsOf(12), from 0 to MaxInteger, or absent
	// (draft-11 Section 4.1.2). It counts from the response, and until then the client
	// may use no more than Remaining. It does not say that the whole quota is back
	// afterwards (draft-11 Section 8.4).
	Reset Seconds
	// PartitionKey is the parameter pk (draft-11 Section 4.1.3), as in [Policy].
	PartitionKey []byte
	// Params are the parameters that the specification does not define, in the order of
	// the field.
	Params Params
}

// Unknown is the Remaining of a [Limit] or the Quota of a [Policy] that an older
// response leaves out. The current fields require both numbers, so a member without one
// cannot be written; see [Fields.Writable].
const Unknown = -1

// Equal reports whether l and m are the same on the wire, the order of Params included.
// An absent Reset is not equal to one of 0, nor an absent PartitionKey to an empty one.
func (l Limit) Equal(m Limit) bool {
	return l.Name == m.Name && l.Remaining == m.Remaining && l.Reset == m.Reset &&
		equalKey(l.PartitionKey, m.PartitionKey) && l.Params.equal(m.Params)
}

// lower returns the lower of two numbers, of which Unknown is the highest.
func lower(a, b int64) int64 {
	if uint64(a) < uint64(b) {
		return a
	}
	return b
}
