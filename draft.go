package ratelimit

import (
	"net/http"
	"strings"

	"github.com/httpfields/ratelimit/internal/sf"
)

// The draft on one page: draft-ietf-httpapi-ratelimit-headers-11, and what the next
// one changes. Whatever the draft spells or bounds is spelled and bounded here, and
// nowhere else but in the older forms, which have words of their own.

// The names of the two fields.
const (
	PolicyField = "RateLimit-Policy" // draft-11 Section 3
	LimitField  = "RateLimit"        // draft-11 Section 4
)

// The keys under which http.Header holds the two fields.
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

// The keys of RateLimit in the draft that follows, which is not published. ParseAny
// reads them as well, so that a client does not go blind on the day on which a server
// moves. On the day on which this package moves, they change places with those above.
const (
	nextRemainingKey = "a"
	nextResetKey     = "w" // the window of a policy is w too: a key means what its field says
)

// tokenNames is whether names may be Tokens, too, as they may in the next draft.
const tokenNames = false

const minWindow = 1 // draft-11 Section 3.1.3

// The forms of values, for humans.
const (
	nameForm   = "a String of printable ASCII"
	countForm  = "an Integer from 0"
	windowForm = "an Integer from 1"
	bytesForm  = "a Byte Sequence, base64 between colons"
)

// The two fields, with what each parameter holds.
var (
	policyField = newField(fieldDef{
		name: PolicyField, key: policyKey,
		params: []paramDef{
			{key: quotaKey, param: amountParam, kind: sf.Integer, form: countForm, formRule: "P13"},                   // draft-11 Section 3.1.1
			{key: unitKey, param: unitParam, kind: sf.String, form: nameForm, formRule: "P14"},                        // draft-11 Section 3.1.2
			{key: windowKey, param: timeParam, kind: sf.Integer, least: minWindow, form: windowForm, formRule: "P16"}, // draft-11 Section 3.1.3
			{key: partitionKey, param: keyParam, kind: sf.Bytes, form: bytesForm, formRule: "P17"},                    // draft-11 Section 3.1.4
		},
		required: 1 << amountParam,
		listRule: "P1", nameRule: "P2", missingRule: "P6", trailerRule: "P12",
	})
	limitField = newField(fieldDef{
		name: LimitField, key: limitKey,
		params: []paramDef{
			{key: remainingKey, param: amountParam, kind: sf.Integer, form: countForm, formRule: "L5"}, // draft-11 Section 4.1.1
			{key: resetKey, param: timeParam, kind: sf.Integer, form: countForm, formRule: "L7"},       // draft-11 Section 4.1.2
			{key: partitionKey, param: keyParam, kind: sf.Bytes, form: bytesForm, formRule: "L10"},     // draft-11 Section 4.1.3
		},
		required: 1 << amountParam,
		listRule: "L1", nameRule: "L1", missingRule: "L2", trailerRule: "L4",
	})
	// RateLimit by the next draft.
	nextLimitField = newField(fieldDef{
		name: LimitField, key: limitKey,
		params: []paramDef{
			{key: nextRemainingKey, param: amountParam, kind: sf.Integer, form: countForm},
			{key: nextResetKey, param: timeParam, kind: sf.Integer, form: countForm},
			{key: partitionKey, param: keyParam, kind: sf.Bytes, form: bytesForm},
		},
		required: 1 << amountParam,
	})
)

// fieldOf returns the definition of the field of a name, or nil if the name is
// that of an older field.
func fieldOf(name string) *fieldDef {
	switch name {
	case PolicyField:
		return policyField
	case LimitField:
		return limitField
	}
	return nil
}

// nameID returns the same text for two names exactly if they are the name of
// one policy. draft-11 does not say how names are compared; here it is byte by
// byte. But for Equal, nothing else compares the names of members.
func nameID(name string) string { return name }

// nextNameID is nameID by the next draft: names are compared without case.
func nextNameID(name string) string { return strings.ToLower(name) }

// The values of Fields.Dialect for the two fields.
const (
	currentDialect = "ratelimit"         // as the draft has them
	lenientDialect = "ratelimit-lenient" // read with lenience
	nextDialect    = "ratelimit-next"    // as the next draft has them
)

// The problem types that draft-11 Section 5 defines. The extension member
// violated-policies of each names the policies that were exceeded.
const (
	// Requests exceed one or more policies. Its status is 429.
	QuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	// Requests cannot be satisfied now, within policies that may be lower than usual: 503.
	TemporaryReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	// The requests follow a pattern that looks unintended or malicious: 429.
	AbnormalUsageDetected = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
)

// registrations hold the title and the status of each type (draft-11
// Section 10.2).
var registrations = [...]struct {
	uri, title string
	status     int
}{
	{QuotaExceeded, "Quota Exceeded", http.StatusTooManyRequests},
	{TemporaryReducedCapacity, "Temporary Reduced Capacity", http.StatusServiceUnavailable},
	{AbnormalUsageDetected, "Abnormal Usage Detected", http.StatusTooManyRequests},
}

// A slot is the place in a member that holds a defined parameter. Parameters of
// different fields may share a slot, as q and r do; those of one field do not.
type slot uint8

const (
	amountParam   slot = iota // a number of quota units: q, r
	timeParam                 // a number of seconds: w, t
	keyParam                  // the partition key: pk
	unitParam                 // the quota unit: qu
	definedParams             // the number of slots

	integerParams = keyParam // the number of slots that hold Integers, which come first
)

// A paramDef is the definition of a parameter in one field.
type paramDef struct {
	key      string
	param    slot // the slot for its value
	kind     sf.Kind
	least    int64  // the least value of an Integer
	form     string // how the value is written, for humans
	formRule string // the rule about this form: its id in CONFORMANCE.md
}

// A fieldDef is the definition of a field. A parameter is found by field and
// key: the same key may mean something else in another field.
type fieldDef struct {
	name     string
	key      string // under which http.Header holds it
	params   []paramDef
	required uint8 // the slots of the parameters that have to be there, as bits
	// The rules that the field is a List, that its names are Strings, that its
	// required parameter is there, and that it is never in a trailer: their ids
	// in CONFORMANCE.md.
	listRule, nameRule, missingRule, trailerRule string

	// byLast holds, for each byte, 1 + the index in params of the parameter
	// whose key ends in that byte, or 0. No two keys of a field may end in the
	// same byte.
	byLast [256]uint8
}

// newField returns f with its index byLast.
func newField(f fieldDef) *fieldDef {
	for i := range f.params {
		key := f.params[i].key
		f.byLast[key[len(key)-1]] = uint8(i + 1)
	}
	return &f
}

// find returns the definition of the parameter with a key, or nil if the field
// defines no such parameter. f may be nil, which defines none.
func (f *fieldDef) find(key string) *paramDef {
	if f == nil || key == "" {
		return nil
	}
	i := int(f.byLast[key[len(key)-1]]) - 1
	if i < 0 || f.params[i].key != key {
		return nil
	}
	return &f.params[i]
}
