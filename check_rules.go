package ratelimit

import (
	"fmt"
	"strings"

	"github.com/httpfields/ratelimit/internal/limiters"
)

// A Level is the weight of a [Finding]. A higher level matters more.
type Level int

const (
	LevelNote   Level = iota // allowed, but likely a mistake, or of no use to clients
	LevelShould              // a rule that the specification states with SHOULD, or recommends
	LevelMust                // a rule with MUST or REQUIRED, or that is part of a definition
)

// String returns "note", "should" or "must".
func (l Level) String() string {
	switch l {
	case LevelMust:
		return "must"
	case LevelShould:
		return "should"
	}
	return "note"
}

// A Finding is a rule that one response breaks, or several responses together.
type Finding struct {
	Rule    string // the id of the rule in CONFORMANCE.md, such as "P16"
	Level   Level  // how much it matters
	Field   string // the field at fault, such as "RateLimit"; the key in http.Header if it is an older field
	Line    int    // the index of the field line at fault, from 0; -1 if there is none
	Offset  int    // the byte of the line where the fault is, from 0; -1 if there is none
	Item    int    // the index of the member at fault over all lines, from 0; -1 if there is none
	Message string // what to do, in one sentence, without the content of a field
}

// String returns the finding in one line, as in
//
//	P16 (must) member 1 of RateLimit-Policy, line 1, byte 14: write the parameter w as …
//
// It counts from 1.
func (f Finding) String() string {
	at := FieldError{Field: f.Field, Line: f.Line, Offset: f.Offset, Item: f.Item}
	return f.Rule + " (" + f.Level.String() + ") " + at.place() + ": " + f.Message
}

// A rule is a rule that Check or a Sequence checks. CONFORMANCE.md has a row for each.
type rule struct {
	id      string // "" if it depends on the field: see checkRule.id
	level   Level
	message string // with %s for the parameter
}

// A checkRule is the index of a rule in checkRules.
type checkRule int

// The rules in the order in which Check checks them.
const (
	ruleNext checkRule = iota
	ruleMissing
	ruleParam
	ruleToken
	ruleDraft06
	ruleDraft07
	ruleMany
	ruleMalformed
	ruleEmpty
	ruleParamTwice
	ruleTwice
	ruleNameless
	rulePrefix
	ruleOfPolicy
	ruleOfLimit
	ruleAlias
	ruleUsedUnit
	ruleUnit
	ruleEmptyUnit
	rulePersonal
	ruleSecret
	ruleOrphan
	ruleQuota
	ruleReset
	ruleMoment
	ruleRatio
	ruleTrailer
	ruleRedirection
	ruleCached
	ruleStorable
	ruleStored
	ruleRefused
	ruleRetryForm
	ruleRetryEarly
	ruleRetryLate
	ruleRetryMilli
	ruleRetryIgnored
	ruleOlder
)

// checkRules are the rules that Check checks.
var checkRules = [...]rule{
	ruleNext: {"D8", LevelNote, "write what remains as " + remainingKey + " and the reset as " + resetKey +
		", because this is the form of a draft that is not published, which few clients read, and by whose rules nothing is checked"},
	ruleMissing:    {"", LevelMust, "add the parameter %s, without which strict clients ignore the whole field"},
	ruleParam:      {"", LevelMust, "write the parameter %s, or strict clients ignore the whole field"},
	ruleToken:      {"", LevelMust, "write the name in double quotes, or strict clients ignore the whole field"},
	ruleDraft06:    {"", LevelMust, "this is the form of drafts 04 to 07: write a name in double quotes, and the quota as " + quotaKey},
	ruleDraft07:    {"", LevelMust, "this is the form of draft-07: write an item for each policy, its name in double quotes, and what remains as " + remainingKey},
	ruleMany:       {"", LevelMust, "write no more than clients have to read, 1024 members with 256 parameters each"},
	ruleMalformed:  {"", LevelMust, "write what RFC 9651 allows here, or strict clients ignore the whole field"},
	ruleEmpty:      {"", LevelMust, "leave the field out when there is nothing to say"},
	ruleParamTwice: {"", LevelNote, "write each parameter of a member once, because only the last value counts"},
	ruleTwice:      {"P18", LevelShould, "give each member of the field its own name and partition key"},
	ruleNameless:   {"", LevelShould, "give the policy a name, by which clients and problem documents can refer to it"},
	rulePrefix:     {"P11", LevelShould, "prefix the extension parameter with a vendor's identifier, as in acme-burst"},
	ruleOfPolicy:   {"P11", LevelNote, "%s belongs to RateLimit-Policy, and clients ignore it here"},
	ruleOfLimit:    {"P11", LevelNote, "%s belongs to RateLimit, and clients ignore it here"},
	ruleAlias:      {"P15", LevelShould, `write the unit as "requests", or leave it out`},
	ruleUsedUnit:   {"P15", LevelNote, "say in your documentation how to count this quota unit, which is in use, but not registered"},
	ruleUnit:       {"P15", LevelShould, "use a registered quota unit, which clients know how to count"},
	ruleEmptyUnit:  {"P7", LevelShould, "leave " + unitKey + " out, because an empty unit is not a registered one"},
	rulePersonal:   {"S9", LevelShould, "hash the partition key, because it looks like an address of the client"},
	ruleSecret:     {"S9", LevelShould, "hash the partition key, because it is a part of the credentials of the request"},
	ruleOrphan:     {"L1", LevelNote, "announce the policy of this limit in RateLimit-Policy, which gives it a unit, a quota and a window"},
	ruleQuota:      {"L5", LevelNote, "let " + remainingKey + " be at most the " + quotaKey + " of the policy, because clients may take no more"},
	ruleReset:      {"L7", LevelNote, "let " + resetKey + " be about the " + windowKey + " of the policy at most, because no window lasts that much longer"},
	ruleMoment:     {"L7", LevelNote, "write " + resetKey + " as seconds from now, because this looks like a point in time, and would be decades"},
	ruleRatio: {"S5", LevelNote, "lower " + remainingKey + " or raise " + resetKey + ", so that a client which uses up " + remainingKey + " within " + resetKey +
		" stays near " + quotaKey + " in " + windowKey + " seconds, or add a policy with a short window"},
	ruleTrailer:      {"", LevelMust, "send the field in the header section, never in the trailer section"},
	ruleRedirection:  {"S2", LevelShould, "leave the field out of redirections, because it may keep clients from following them"},
	ruleCached:       {"K1", LevelNote, "leave the field out of responses from a cache, where clients ignore it"},
	ruleStorable:     {"K1", LevelNote, "send Cache-Control: no-store, or leave the field out, because clients ignore it on a response from a cache"},
	ruleStored:       {"6585-4", LevelMust, "send Cache-Control: no-store, because a cache must not store a response with status 429"},
	ruleRefused:      {"L5", LevelNote, "let " + remainingKey + " be 0 in a refusal, or send Retry-After, because clients may send the next request at once"},
	ruleRetryForm:    {"9110-10.2.3", LevelMust, "write one Retry-After, as whole seconds or as an HTTP-date in GMT, because many clients read nothing else"},
	ruleRetryEarly:   {"S3", LevelShould, "let Retry-After be no earlier than the end of the wait of each limit with nothing remaining"},
	ruleRetryLate:    {"6-8", LevelNote, "let Retry-After be about the reset, because clients obey the later one, and it is more than ten times as long (is it in milliseconds?)"},
	ruleRetryMilli:   {"6-8", LevelShould, "write Retry-After in seconds, because it is a thousand times a reset or a window and seems to be in milliseconds"},
	ruleRetryIgnored: {"9110-10.2.3", LevelNote, "leave Retry-After out of a success while something remains, because clients that obeyed it would stop in vain"},
	ruleOlder:        {"6-5", LevelShould, "say the same as in RateLimit and RateLimit-Policy, because clients read the one or the other"},
}

// id returns the id of a rule about a field and one of its parameters. field may be nil if
// the rule does not depend on it.
func (r checkRule) id(field *fieldDef, param string) string {
	switch r {
	case ruleMissing:
		return field.missingRule
	case ruleParam:
		return field.find(param).formRule
	case ruleToken, ruleDraft06, ruleNameless:
		return field.nameRule
	case ruleParamTwice, ruleDraft07, ruleMany, ruleMalformed, ruleEmpty:
		return field.listRule
	case ruleTrailer:
		return field.trailerRule
	}
	return checkRules[r].id
}

// at returns the finding that the rule is broken at a place. about replaces the %s of the
// message.
func (r checkRule) at(e FieldError, about string) Finding {
	return Finding{
		Rule: r.id(fieldOf(e.Field), e.Param), Level: checkRules[r].level,
		Field: e.Field, Line: e.Line, Offset: e.Offset, Item: e.Item,
		Message: strings.Replace(checkRules[r].message, "%s", about, 1),
	}
}

// sequenceRules are the rules that a Sequence checks. Package limiters gives the arguments of
// the messages. CONFORMANCE.md has a row for each rule.
var sequenceRules = [...]rule{
	ruleSpent:    {"L5", LevelShould, "let " + remainingKey + " fall by what each request costs: %s (or is this URL free, or cached?)"},
	ruleUneven:   {"L5", LevelNote, "let " + remainingKey + " fall by the same for each request, because clients cannot tell what a request costs"},
	ruleDouble:   {"L5", LevelShould, "let " + remainingKey + " fall by 1 per request, or give the policy another unit: it fell by %.0f for each (is it counted twice?)"},
	ruleClock:    {"L7", LevelShould, "let " + resetKey + " go down with the clock: %s"},
	ruleSeconds:  {"L7", LevelShould, "write " + resetKey + " in seconds: it seems to be in %s"},
	ruleServed:   {"L5", LevelShould, "refuse requests when " + remainingKey + " is 0, or announce what remains, because more were served than can have come back"},
	ruleApplied:  {"P6", LevelShould, "let " + quotaKey + " be the quota that is applied: it is %.0f, but " + remainingKey + " is never more than %.0f"},
	ruleWindow:   {"P6", LevelShould, "let " + windowKey + " be the window that is applied: it seems to be %g s, not %g s"},
	ruleBack:     {"P6", LevelShould, "let " + quotaKey + " and " + windowKey + " be those that are applied: " + remainingKey + " is %.0f where at least %.0f must have come back"},
	ruleUnixTime: {"L7", LevelShould, "write " + resetKey + " as seconds from now, because this is the present time since 1970"},
	ruleNoMore:   {"L7", LevelShould, "let something come back at the end of " + resetKey + ", because requests after it are refused again and again"},
	ruleTooSoon:  {"S3", LevelShould, "let Retry-After be no earlier than when a request is served, because requests after it are refused again and again"},
	ruleBefore:   {"6-8", LevelNote, "let Retry-After be no earlier than the reset, because they should be the same point in time"},
	ruleEarly:    {"L5", LevelShould, "let " + remainingKey + " be 0 before a request is refused, because something remained"},
	ruleChanged:  {"P3", LevelShould, "let a policy stay the same over a sequence of responses, or give the other one another name"},
	ruleNewKeys:  {"P18", LevelShould, "let the partition key stay the same for one client, because a new one each time names no limit"},
	ruleBare:     {"6585-4", LevelShould, "tell a refused client when to come back, by Retry-After or by the fields"},
	ruleNegative: {"6-9", LevelShould, "write a number that is 0 or more, because clients may ignore the field or take it for a large one"},
	ruleFraction: {"6-9", LevelShould, "write a whole number, because many clients read nothing else"},
}

// A sequenceRule is the index of a rule in sequenceRules. The rules of package limiters come
// first.
type sequenceRule int

const (
	ruleSpent   = sequenceRule(limiters.Spent)
	ruleUneven  = sequenceRule(limiters.Uneven)
	ruleDouble  = sequenceRule(limiters.Double)
	ruleClock   = sequenceRule(limiters.Clock)
	ruleSeconds = sequenceRule(limiters.Unit)
	ruleServed  = sequenceRule(limiters.Overdrawn)
	ruleApplied = sequenceRule(limiters.Applied)
	ruleWindow  = sequenceRule(limiters.Window)
	ruleBack    = sequenceRule(limiters.Back)
)

const (
	ruleUnixTime = sequenceRule(limiters.Rules) + iota
	ruleNoMore
	ruleTooSoon
	ruleBefore
	ruleEarly
	ruleChanged
	ruleNewKeys
	ruleBare
	ruleNegative
	ruleFraction
)

// in returns the finding that the rule is broken by a member of a field, or by the field if
// item is -1.
func (r sequenceRule) in(field string, item int, args ...any) Finding {
	of := &sequenceRules[r]
	message := of.message
	if len(args) > 0 {
		message = fmt.Sprintf(message, args...)
	}
	return Finding{Rule: of.id, Level: of.level, Field: field, Line: -1, Offset: -1, Item: item, Message: message}
}
