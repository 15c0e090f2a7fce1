package ratelimit

// A Limit is a member of the field RateLimit (draft-11 Section 4.1): what is
// left of the quota of a policy. It may change with every response. It is not a
// promise that requests will be served (draft-11 Section 4.1.1).
//
// The zero Limit is valid: its name is empty, and nothing remains of it.
type Limit struct {
	// Name is the name of the [Policy] that the limit reports on, see
	// [Fields.PolicyOf]. It is printable ASCII, and may be empty.
	Name string
	// Remaining is the parameter "r", in quota units, from 0 to MaxInteger
	// (draft-11 Section 4.1.1). In a limit of an older response it may also be
	// [Unknown].
	Remaining int64
	// Reset is the parameter "t", from 0 to MaxInteger seconds, or absent
	// (draft-11 Section 4.1.2). It counts from the response, and within it the
	// client may use no more than Remaining. It does not say that the whole
	// quota is back afterwards (draft-11 Section 8.4).
	Reset Seconds
	// PartitionKey is the parameter "pk", which may be any bytes (draft-11
	// Section 4.1.3). nil is absent; an empty slice that is not nil is an empty
	// key.
	PartitionKey []byte
	// Params are the parameters that the specification does not define, in the
	// order of the field.
	Params Params
}

// Unknown stands for the Remaining of a [Limit] or the Quota of a [Policy] that
// an older response does not say. The current fields require both, so they
// cannot carry a member without one; see [Fields.Writable].
const Unknown = -1

// Equal reports whether l and m are the same on the wire. A value that is
// absent in one of them is not equal to any in the other: an absent Reset is
// not equal to one of 0, nor an absent PartitionKey to an empty one. The order
// of Params counts.
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
