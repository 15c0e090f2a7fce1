// Package draft is draft-ietf-httpapi-ratelimit-headers-11 on one page: the names, the keys, the
// forms and the bounds of the two fields. It also has what the next draft changes.
package draft

import "github.com/httpfields/ratelimit/internal/sf"

// The keys of the two fields in http.Header.
const (
	PolicyKey = "Ratelimit-Policy"
	LimitKey  = "Ratelimit"
)

// The keys of the defined parameters.
const (
	Quota        = "q"
	Unit         = "qu"
	Window       = "w"
	Remaining    = "r"
	Reset        = "t"
	PartitionKey = "pk"
)

// The keys of RateLimit in the next, unpublished draft, which ParseAny reads too.
const (
	NextRemaining = "a"
	NextReset     = "w" // in RateLimit-Policy, w is the window
)

// MinWindow is the shortest window, in seconds.
const MinWindow = 1 // draft-11 Section 3.1.3

// The forms of values, for error messages.
const (
	NameForm   = "a String of printable ASCII"
	countForm  = "an Integer from 0 to 999999999999999"
	windowForm = "an Integer from 1 to 999999999999999"
	bytesForm  = "a Byte Sequence, base64 between colons"
)

// The two fields and their parameters.
var (
	Policies = &Field{
		Name: "RateLimit-Policy", Key: PolicyKey,
		Params: []Param{
			{Key: Quota, Slot: AmountSlot, Kind: sf.Integer, Form: countForm},                   // draft-11 Section 3.1.1
			{Key: Unit, Slot: UnitSlot, Kind: sf.String, Form: NameForm},                        // draft-11 Section 3.1.2
			{Key: Window, Slot: TimeSlot, Kind: sf.Integer, Least: MinWindow, Form: windowForm}, // draft-11 Section 3.1.3
			{Key: PartitionKey, Slot: KeySlot, Kind: sf.Bytes, Form: bytesForm},                 // draft-11 Section 3.1.4
		},
	}
	Limits = &Field{
		Name: "RateLimit", Key: LimitKey,
		Params: []Param{
			{Key: Remaining, Slot: AmountSlot, Kind: sf.Integer, Form: countForm}, // draft-11 Section 4.1.1
			{Key: Reset, Slot: TimeSlot, Kind: sf.Integer, Form: countForm},       // draft-11 Section 4.1.2
			{Key: PartitionKey, Slot: KeySlot, Kind: sf.Bytes, Form: bytesForm},   // draft-11 Section 4.1.3
		},
	}
	// RateLimit in the next draft.
	NextLimits = &Field{
		Name: "RateLimit", Key: LimitKey,
		Params: []Param{
			{Key: NextRemaining, Slot: AmountSlot, Kind: sf.Integer, Form: countForm},
			{Key: NextReset, Slot: TimeSlot, Kind: sf.Integer, Form: countForm},
			{Key: PartitionKey, Slot: KeySlot, Kind: sf.Bytes, Form: bytesForm},
		},
	}
)

// FieldOf returns the definition of the field with a name. It returns nil for an older field.
func FieldOf(name string) *Field {
	switch name {
	case Policies.Name:
		return Policies
	case Limits.Name:
		return Limits
	}
	return nil
}

// The values of Fields.Dialect for the two fields.
const (
	Current = "ratelimit"         // the form of the draft
	Lenient = "ratelimit-lenient" // malformed, and read leniently
	Next    = "ratelimit-next"    // the form of the next draft
)

// A Slot is the place in a member for a defined parameter. q and r share a slot, and so do w and t.
type Slot uint8

const (
	AmountSlot Slot = iota // a number of quota units: q, r
	TimeSlot               // a number of seconds: w, t
	KeySlot                // the partition key: pk
	UnitSlot               // the quota unit: qu
	Slots                  // the number of slots

	IntegerSlots = KeySlot // the number of slots for Integers, which come first

	Required = 1 << AmountSlot // the slots of the required parameters q and r, as bits
)

// A Param is the definition of a parameter in one field.
type Param struct {
	Key   string
	Slot  Slot // the slot for its value
	Kind  sf.Kind
	Least int64  // the least value of an Integer
	Form  string // how the value is written, for error messages
}

// A Field is the definition of a field. A key can have another meaning in another field.
type Field struct {
	Name   string
	Key    string // in http.Header
	Params []Param
}

// Find returns the definition of the parameter with a key, or nil if there is none. A nil f defines
// none.
func (f *Field) Find(key string) *Param {
	if f == nil {
		return nil
	}
	for i := range f.Params {
		if p := &f.Params[i]; len(p.Key) == len(key) && p.Key[0] == key[0] && p.Key == key { // most keys differ at once
			return p
		}
	}
	return nil
}
