package ratelimit

import (
	"github.com/httpfields/ratelimit/internal/sf"
)

// This file is the draft on one page: draft-ietf-httpapi-ratelimit-headers-11, and what the
// next draft changes. All names and bounds of the draft are constants of this file.

// The keys of the two fields in http.Header.
const (
	policyKey = "Ratelimit-Policy"
	limitKey  = "Ratelimit"
)

// The keys of the defined parameters.
const (
	quotaKey     = "q"
	unitKey      = "qu"
	windowKey    = "w"
	remainingKey = "r"
	resetKey     = "t"
	partitionKey = "pk"
)

// The keys of RateLimit in the next, unpublished draft, which ParseAny reads too. When this
// package moves to that draft, they change places with the keys above.
const (
	nextRemainingKey = "a"
	nextResetKey     = "w" // in RateLimit-Policy, w is the window
)

const minWindow = 1 // draft-11 Section 3.1.3

// The forms of values, for error messages.
const (
	nameForm   = "a String of printable ASCII"
	countForm  = "an Integer from 0"
	windowForm = "an Integer from 1"
	bytesForm  = "a Byte Sequence, base64 between colons"
)

// The two fields and their parameters.
var (
	policyField = &fieldDef{
		name: "RateLimit-Policy", key: policyKey,
		params: []paramDef{
			{key: quotaKey, param: amountParam, kind: sf.Integer, form: countForm},                   // draft-11 Section 3.1.1
			{key: unitKey, param: unitParam, kind: sf.String, form: nameForm},                        // draft-11 Section 3.1.2
			{key: windowKey, param: timeParam, kind: sf.Integer, least: minWindow, form: windowForm}, // draft-11 Section 3.1.3
			{key: partitionKey, param: keyParam, kind: sf.Bytes, form: bytesForm},                    // draft-11 Section 3.1.4
		},
	}
	limitField = &fieldDef{
		name: "RateLimit", key: limitKey,
		params: []paramDef{
			{key: remainingKey, param: amountParam, kind: sf.Integer, form: countForm}, // draft-11 Section 4.1.1
			{key: resetKey, param: timeParam, kind: sf.Integer, form: countForm},       // draft-11 Section 4.1.2
			{key: partitionKey, param: keyParam, kind: sf.Bytes, form: bytesForm},      // draft-11 Section 4.1.3
		},
	}
	// RateLimit in the next draft.
	nextLimitField = &fieldDef{
		name: "RateLimit", key: limitKey,
		params: []paramDef{
			{key: nextRemainingKey, param: amountParam, kind: sf.Integer, form: countForm},
			{key: nextResetKey, param: timeParam, kind: sf.Integer, form: countForm},
			{key: partitionKey, param: keyParam, kind: sf.Bytes, form: bytesForm},
		},
	}
)

// fieldOf returns the definition of the field with a name, or nil for an older field.
func fieldOf(name string) *fieldDef {
	switch name {
	case policyField.name:
		return policyField
	case limitField.name:
		return limitField
	}
	return nil
}

// The values of Fields.Dialect for the two fields.
const (
	currentDialect = "ratelimit"         // the form of the draft
	lenientDialect = "ratelimit-lenient" // malformed, and read leniently
	nextDialect    = "ratelimit-next"    // the form of the next draft
)

// A slot is the place in a member for a defined parameter. q and r share one.
type slot uint8

const (
	amountParam   slot = iota // a number of quota units: q, r
	timeParam                 // a number of seconds: w, t
	keyParam                  // the partition key: pk
	unitParam                 // the quota unit: qu
	definedParams             // the number of slots

	integerParams = keyParam // the number of slots for Integers, which come first

	required = 1 << amountParam // the slots of the required parameters q and r, as bits
)

// A paramDef is the definition of a parameter in one field.
type paramDef struct {
	key   string
	param slot // the slot for its value
	kind  sf.Kind
	least int64  // the least value of an Integer
	form  string // how the value is written, for error messages
}

// A fieldDef is the definition of a field. A key can have another meaning in another field.
type fieldDef struct {
	name   string
	key    string // in http.Header
	params []paramDef
}

// find returns the definition of the parameter with a key, or nil if there is none. A nil f defines
// none.
func (f *fieldDef) find(key string) *paramDef {
	if f == nil {
		return nil
	}
	for i := range f.params {
		if f.params[i].key == key {
			return &f.params[i]
		}
	}
	return nil
}
