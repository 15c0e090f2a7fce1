package ratelimit

import (
	"net/http"
	"strings"

	"github.com/httpfields/ratelimit/internal/sf"
)

// This file is the draft on one page: draft-ietf-httpapi-ratelimit-headers-11, and what the
// next draft changes. All names and bounds of the draft are constants of this file.

// The names of the two fields.
const (
	PolicyField = "RateLimit-Policy" // draft-11 Section 3
	LimitField  = "RateLimit"        // draft-11 Section 4
)

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

// tokenNames reports whether names may be Tokens, as in the next draft.
const tokenNames = false

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
		name: PolicyField, key: policyKey,
		params: []paramDef{
			{key: quotaKey, param: amountParam, kind: sf.Integer, form: countForm, formRule: "P13"},                   // draft-11 Section 3.1.1
			{key: unitKey, param: unitParam, kind: sf.String, form: nameForm, formRule: "P14"},                        // draft-11 Section 3.1.2
			{key: windowKey, param: timeParam, kind: sf.Integer, least: minWindow, form: windowForm, formRule: "P16"}, // draft-11 Section 3.1.3
			{key: partitionKey, param: keyParam, kind: sf.Bytes, form: bytesForm, formRule: "P17"},                    // draft-11 Section 3.1.4
		},
	}
	limitField = &fieldDef{
		name: LimitField, key: limitKey,
		params: []paramDef{
			{key: remainingKey, param: amountParam, kind: sf.Integer, form: countForm, formRule: "L5"}, // draft-11 Section 4.1.1
			{key: resetKey, param: timeParam, kind: sf.Integer, form: countForm, formRule: "L7"},       // draft-11 Section 4.1.2
			{key: partitionKey, param: keyParam, kind: sf.Bytes, form: bytesForm, formRule: "L10"},     // draft-11 Section 4.1.3
		},
	}
	// RateLimit in the next draft.
	nextLimitField = &fieldDef{
		name: LimitField, key: limitKey,
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
	case PolicyField:
		return policyField
	case LimitField:
		return limitField
	}
	return nil
}

// nameID returns the same text for two names if and only if they name the same policy. draft-11
// does not define how names are compared. Except for Equal, all comparisons of names use nameID.
func nameID(name string) string { return name }

// nextNameID is nameID for the next draft, which compares names without case.
func nextNameID(name string) string { return strings.ToLower(name) }

// The values of Fields.Dialect for the two fields.
const (
	currentDialect = "ratelimit"         // the form of the draft
	lenientDialect = "ratelimit-lenient" // malformed, and read leniently
	nextDialect    = "ratelimit-next"    // the form of the next draft
)

// The problem types that draft-11 Section 5 defines. The member violated-policies of such a
// problem names the exceeded policies.
const (
	// The requests exceed one or more policies: 429.
	QuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	// The server has less capacity than usual, and may have lowered its policies: 503.
	TemporaryReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	// The pattern of the requests looks unintended or malicious: 429.
	AbnormalUsageDetected = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
)

// registrations has the title and the status of each type (draft-11 Section 10.2).
var registrations = [...]struct {
	uri, title string
	status     int
}{
	{QuotaExceeded, "Quota Exceeded", http.StatusTooManyRequests},
	{TemporaryReducedCapacity, "Temporary Reduced Capacity", http.StatusServiceUnavailable},
	{AbnormalUsageDetected, "Abnormal Usage Detected", http.StatusTooManyRequests},
}

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
	key      string
	param    slot // the slot for its value
	kind     sf.Kind
	least    int64  // the least value of an Integer
	form     string // how the value is written, for error messages
	formRule string // the id in CONFORMANCE.md of the rule about the form
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
