package ratelimittest

import (
	"cmp"
	"fmt"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/limiters"
	"github.com/httpfields/ratelimit/internal/text"
)

// A Level is the weight of a [Finding]. A higher level matters more.
type Level int

const (
	LevelNote   Level = iota // allowed, but likely a mistake, or of no use to clients
	LevelShould              // a rule that the specification states with SHOULD, or recommends
	LevelMust                // a rule with MUST or REQUIRED, or that is part of a definition
)

var levelNames = map[Level]string{LevelShould: "should", LevelMust: "must"}

// String returns "note", "should" or "must".
func (l Level) String() string { return cmp.Or(levelNames[l], "note") }

// A Finding is a rule that is broken, by one response or by several responses together.
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
// The text counts members, lines and bytes from 1.
func (f Finding) String() string {
	at := text.Place(f.Field, f.Line, f.Offset, f.Item)
	return f.Rule + " (" + f.Level.String() + ") " + at + ": " + f.Message
}

// A rule is a rule that Check or a Sequence checks. CONFORMANCE.md has a row for each.
type rule struct {
	id      string // in CONFORMANCE.md
	ofLimit string // the id of the same rule about RateLimit; "" is id
	level   Level
	message string // a format
}

// The rules of Check, in the order in which it checks them.
var (
	ruleNext = &rule{"D8", "", LevelNote, "write what remains as " + draft.Remaining + " and the reset as " + draft.Reset +
		", because this is the form of the next draft: few clients read it, and nothing else was checked"}
	ruleMissing    = &rule{"P6", "L2", LevelMust, "add the parameter %s, without which strict clients ignore the whole field"}
	ruleToken      = &rule{"P2", "L1", LevelMust, "write the name in double quotes, or strict clients ignore the whole field"}
	ruleDraft06    = &rule{"P2", "", LevelMust, "this is the form of drafts 04 to 07: write a name in double quotes, and the quota as " + draft.Quota}
	ruleDraft07    = &rule{"L1", "", LevelMust, "this is the form of draft-07: write an item for each policy, its name in double quotes, and what remains as " + draft.Remaining}
	ruleMany       = &rule{"P1", "L1", LevelMust, "write at most 1024 members with 256 parameters each, because clients need not read more"}
	ruleMalformed  = &rule{"P1", "L1", LevelMust, "write what RFC 9651 allows here, or strict clients ignore the whole field"}
	ruleEmpty      = &rule{"P1", "L1", LevelMust, "the field is empty: leave it out, or add a member"}
	ruleParamTwice = &rule{"P1", "L1", LevelNote, "write each parameter of a member once, because only the last value counts"}
	ruleTwice      = &rule{"P18", "", LevelShould, "another member has this name and partition key: give each member its own"}
	ruleNameless   = &rule{"P2", "L1", LevelShould, "the name is empty: write one, by which clients and problem documents can refer to the policy"}
	rulePrefix     = &rule{"P11", "", LevelShould, "prefix the extension parameter with a vendor's identifier, as in acme-burst"}
	ruleForeign    = &rule{"P11", "", LevelNote, "%s belongs to %s, and clients ignore it here"}
	ruleAlias      = &rule{"P15", "", LevelShould, `write the unit as "requests", or leave it out`}
	ruleUsedUnit   = &rule{"P15", "", LevelNote, "this quota unit is in use, but not registered: explain in your documentation how to count it"}
	ruleUnit       = &rule{"P15", "", LevelShould, "this quota unit is not registered, so clients cannot count it: use a registered one"}
	ruleEmptyUnit  = &rule{"P7", "", LevelShould, "leave " + draft.Unit + " out, because an empty quota unit is not registered"}
	rulePersonal   = &rule{"S9", "", LevelShould, "hash the partition key, because it looks like an address of the client"}
	ruleSecret     = &rule{"S9", "", LevelShould, "hash the partition key, because it is a part of the credentials of the request"}
	ruleOrphan     = &rule{"L1", "", LevelNote, "no policy in RateLimit-Policy belongs to this limit: add one, so that clients know the quota, unit and window"}
	ruleQuota      = &rule{"L5", "", LevelNote, draft.Remaining + " is more than the " + draft.Quota + " of the policy: correct one of them, because clients use no more than the quota"}
	ruleReset      = &rule{"L7", "", LevelNote, draft.Reset + " is more than ten times the " + draft.Window + " of the policy: write it in seconds, and let it end with the window"}
	ruleMoment     = &rule{"L7", "", LevelNote, draft.Reset + " looks like a point in time, and would be decades: write it as seconds from now"}
	ruleRatio      = &rule{"S5", "", LevelNote, draft.Remaining + " is more than ten times what " + draft.Quota + " and " + draft.Window + " allow within " + draft.Reset +
		": lower " + draft.Remaining + ", raise " + draft.Reset + ", or add a policy with a short window"}
	ruleSlow         = &rule{"L7", "", LevelNote, "a token bucket of this size loses tokens, because clients wait for whole seconds: let it hold at least one token more than comes back in a second"}
	ruleTrailer      = &rule{"P12", "L4", LevelMust, "send the field in the header section, never in the trailer section"}
	ruleRedirection  = &rule{"S2", "", LevelShould, "leave the field out of redirections, because it may keep clients from following them"}
	ruleCached       = &rule{"K1", "", LevelNote, "leave the field out of responses from a cache, because clients ignore it there"}
	ruleStorable     = &rule{"K1", "", LevelNote, "a cache may store this response, and clients ignore the field on stored responses: send Cache-Control: no-store, or leave the field out"}
	ruleStored       = &rule{"6585-4", "", LevelMust, "a cache may store this response, which is forbidden for status 429: send Cache-Control: no-store"}
	ruleRefused      = &rule{"L5", "", LevelNote, "the request was refused although " + draft.Remaining + " is not 0, so clients may send the next one at once: write " + draft.Remaining + " as 0, or send Retry-After"}
	ruleRetryForm    = &rule{"9110-10.2.3", "", LevelMust, "write one Retry-After, as whole seconds or as an HTTP-date in GMT, because many clients read nothing else"}
	ruleRetryEarly   = &rule{"S3", "", LevelShould, "let Retry-After be no earlier than the reset of each limit with nothing remaining"}
	ruleRetryZero    = &rule{"6-8", "", LevelNote, "let Retry-After be the reset, because nothing remains before it: clients that obey this 0 are refused again at once"}
	ruleRetryLate    = &rule{"6-8", "", LevelNote, "let Retry-After be about the reset: clients obey the later one, and this one is more than ten times each reset and window (is it in milliseconds?)"}
	ruleRetryMilli   = &rule{"6-8", "", LevelShould, "write Retry-After in seconds: it seems to be in milliseconds, because it is a thousand times a reset or a window"}
	ruleRetryIgnored = &rule{"9110-10.2.3", "", LevelNote, "leave Retry-After out of a successful response while something remains, because clients that obey it wait in vain"}
	ruleOlder        = &rule{"6-5", "", LevelShould, "this field contradicts RateLimit or RateLimit-Policy: write the same numbers in both, because a client reads only one of them"}
)

// paramRules are the rules about the form of each parameter, by key.
var paramRules = map[string]*rule{
	draft.Quota:        {"P13", "", LevelMust, paramMessage},
	draft.Unit:         {"P14", "", LevelMust, paramMessage},
	draft.Window:       {"P16", "", LevelMust, paramMessage},
	draft.Remaining:    {"L5", "", LevelMust, paramMessage},
	draft.Reset:        {"L7", "", LevelMust, paramMessage},
	draft.PartitionKey: {"P17", "L10", LevelMust, paramMessage},
}

const paramMessage = "write the parameter %s as %s, or strict clients ignore the whole field"

// The rules of a Sequence that package limiters checks.
var modelRules = [limiters.Rules]*rule{
	limiters.Spent:     {"L5", "", LevelShould, "let " + draft.Remaining + " fall by what each request costs: %s (or is this URL free, or cached?)"},
	limiters.Uneven:    {"L5", "", LevelNote, draft.Remaining + " falls by different numbers: let it fall by the same for each request, or clients cannot know what a request costs"},
	limiters.Double:    {"L5", "", LevelShould, "let " + draft.Remaining + " fall by 1 per request, or give the policy another unit: it fell by %.0f for each (is it counted twice?)"},
	limiters.Clock:     {"L7", "", LevelShould, "let " + draft.Reset + " go down with the clock: %s"},
	limiters.Unit:      {"L7", "", LevelShould, "write " + draft.Reset + " in seconds: it seems to be in %s"},
	limiters.Overdrawn: {"L5", "", LevelShould, "more requests were served after " + draft.Remaining + " was 0 than can have come back: refuse them, or announce what remains"},
	limiters.Applied:   {"P6", "", LevelShould, "let " + draft.Quota + " be the quota that is applied: it is %.0f, but " + draft.Remaining + " is never more than %.0f"},
	limiters.Window:    {"P6", "", LevelShould, "let " + draft.Window + " be the window that is applied: it seems to be %g s, not %g s"},
	limiters.Back:      {"P6", "", LevelShould, "let " + draft.Quota + " and " + draft.Window + " be the quota and window that are applied: " + draft.Remaining + " is %.0f, but must be at least %.0f by now"},
}

// The other rules of a Sequence.
var (
	ruleUnixTime = &rule{"L7", "", LevelShould, draft.Reset + " is the present time since 1970: write it as seconds from now"}
	ruleNoMore   = &rule{"L7", "", LevelShould, "a request that was sent after " + draft.Reset + " had ended was refused: let " + draft.Reset + " end when a request is served again"}
	ruleTooSoon  = &rule{"S3", "", LevelShould, "a request that was sent after Retry-After had ended was refused: let Retry-After end when a request is served again"}
	ruleBefore   = &rule{"6-8", "", LevelNote, "let Retry-After be no earlier than the reset, because both should be the same point in time"}
	ruleEarly    = &rule{"L5", "", LevelShould, "a request was refused while something remained: let " + draft.Remaining + " be 0 before requests are refused"}
	ruleChanged  = &rule{"P3", "", LevelShould, "the policy was another one in an earlier response: keep it the same, or give the new one another name"}
	ruleNewKeys  = &rule{"P18", "", LevelShould, "most responses have a new partition key: keep it the same for each client, or clients cannot recognize their limit"}
	ruleBare     = &rule{"6585-4", "", LevelShould, "the refusal has no Retry-After and no limits: send one of them, so that clients know when to come back"}
	ruleNegative = &rule{"6-9", "", LevelShould, "write a number that is 0 or more, because clients may ignore the field or take it for a large one"}
	ruleFraction = &rule{"6-9", "", LevelShould, "write a whole number, because many clients read nothing else"}
)

// in returns the finding that a member of a field breaks the rule. If item is -1, the whole field breaks
// the rule. The message is a format for args.
func (r *rule) in(field string, item int, args ...any) Finding {
	return r.at(ratelimit.FieldError{Field: field, Line: -1, Offset: -1, Item: item}, args...)
}

// at returns the finding that the rule is broken at a place.
func (r *rule) at(e ratelimit.FieldError, args ...any) Finding {
	id := r.id
	if r.ofLimit != "" && e.Field == ratelimit.LimitField {
		id = r.ofLimit
	}
	message := fmt.Sprintf(r.message, args...)
	return Finding{Rule: id, Level: r.level, Field: e.Field, Line: e.Line, Offset: e.Offset, Item: e.Item, Message: message}
}
