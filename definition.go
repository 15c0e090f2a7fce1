package ratelimit

import "github.com/httpfields/ratelimit/internal/sf"

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
