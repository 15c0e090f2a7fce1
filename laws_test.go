package ratelimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/stretchr/testify/require"
)

// The laws hold for every input. Tables and fuzzers call the same helpers:
//
//  1. Members that were read are valid. Next to an error there are no members.
//  2. What was written is read unchanged. Written again, it is the same text.
//  3. String, Append…, Format…, Set and Add agree. On error they write nothing.
//  4. Joined lines have the same meaning. The Line and the Offset of an error are in the lines.
//  5. httpsfv agrees about every input.
//  6. Nothing panics.
//  7. Restrict, RestrictHeader, Middleware and Cap permit no more than each input, for readers of
//     each form. Except for Cap, no wait is longer than the longest of the inputs.
//  8. If a response has no limits, Parse and ParseAny allocate nothing.
//  9. A Dialect reads back every number that it writes.
//  10. The order and the spelling of fields make no difference.
//  11. Several parties in front of each other are handled as well as one.
//  12. Work and memory are linear in the input.
//
// The helpers do not call t.Helper, which walks the stack at each call. A failing assertion shows
// all calls.

var (
	_ fmt.Stringer = Policy{}
	_ fmt.Stringer = Limit{}
	_ fmt.Stringer = Seconds{}
	_ error        = (*FieldError)(nil)
)

// memberType has the common methods of Policy and Limit.
type memberType[T any] interface {
	Validate() error
	Equal(T) bool
	String() string
}

// A codec is one of the two fields, with the functions that read and write it.
type codec[T memberType[T]] struct {
	field  string
	key    string
	parse  func(...string) ([]T, error)
	oracle func(...string) ([]T, error) // the same functions, with httpsfv
	append func([]byte, ...T) ([]byte, error)
	format func(...T) (string, error)
	alone  func(...T) Fields
}

var (
	policyCodec = codec[Policy]{
		PolicyField, draft.PolicyKey, ParsePolicies, oraclePolicies,
		AppendPolicies, FormatPolicies, policiesAlone,
	}
	limitCodec = codec[Limit]{
		LimitField, draft.LimitKey, ParseLimits, oracleLimits,
		AppendLimits, FormatLimits, limitsAlone,
	}
)

func policiesAlone(list ...Policy) Fields { return Fields{Policies: list} }

func limitsAlone(list ...Limit) Fields { return Fields{Limits: list} }

func requireEqual[T memberType[T]](t testing.TB, want, got []T) {
	t.Helper()
	require.Equal(t, want == nil, got == nil, "presence: want %v, got %v", want, got)
	require.True(t, slices.EqualFunc(want, got, T.Equal), "want %v\ngot  %v", want, got)
}

// lawRead checks laws 1 to 5 for the members in lines.
func (c codec[T]) lawRead(t testing.TB, lines ...string) {
	list, err := c.parse(lines...)
	c.lawResult(t, list, err, lines)
	c.lawJoined(t, list, err, lines)
	c.lawOracle(t, list, err, lines)
	if err == nil {
		c.lawWrite(t, list...)
		s, err := c.format(list...)
		require.NoError(t, err)
		again, err := c.parse(s)
		require.NoError(t, err)
		fixed, err := c.format(again...)
		require.NoError(t, err)
		require.Equal(t, s, fixed, "law 2: a fixed point")
	}
}

// lawResult is law 1, and the part of law 4 about positions.
func (c codec[T]) lawResult(t testing.TB, list []T, err error, lines []string) {
	if err == nil {
		for _, m := range list {
			require.NoError(t, m.Validate(), "law 1: what was read is valid")
		}
		return
	}
	require.Nil(t, list, "law 1: no result next to an error")
	e := requireFieldError(t, err)
	require.Equal(t, c.field, e.Field)
	require.True(t, 0 <= e.Line && e.Line < len(lines), "law 4: line %d", e.Line)
	require.True(t, 0 <= e.Offset && e.Offset <= len(lines[e.Line]), "law 4: offset %d", e.Offset)
	require.True(t, 0 <= e.Item && e.Item <= maxMembers, "item %d", e.Item)
}

// lawJoined is law 4: joined lines have the same meaning, and an error is at the same byte.
func (c codec[T]) lawJoined(t testing.TB, list []T, err error, lines []string) {
	if len(lines) < 2 {
		return
	}
	joined, joinedErr := c.parse(strings.Join(lines, ", "))
	if err == nil {
		require.NoError(t, joinedErr)
		requireEqual(t, list, joined)
		return
	}
	e := *requireFieldError(t, err)
	for _, line := range lines[:e.Line] {
		e.Offset += len(line) + len(", ")
	}
	e.Line = 0
	require.Equal(t, &e, joinedErr)
}

// lawOracle is law 5. The exceptions are the bounds, and Byte Sequences without padding, which
// a parser should accept (RFC 9651 Section 4.2.7). httpsfv accepts pad bits that are not zero.
func (c codec[T]) lawOracle(t testing.TB, list []T, err error, lines []string) {
	joined := strings.Join(lines, ", ")
	if errors.Is(err, ErrTooMany) {
		require.True(t, strings.Count(joined, ",") >= maxMembers || strings.Count(joined, ";") > maxParams,
			"law 5: too many only where there are many")
		return
	}
	want, wantErr := c.oracle(padBase64(joined))
	require.Equal(t, wantErr == nil, err == nil, "law 5: httpsfv returns %v, this package %v", wantErr, err)
	requireEqual(t, want, list)
}

// padBase64 adds the padding that httpsfv needs to the Byte Sequences of s.
func padBase64(s string) string {
	var b strings.Builder
	quoted, escapes := false, false // a Display String has no escape by backslash
	for i := 0; i < len(s); i++ {
		b.WriteByte(s[i])
		switch {
		case quoted && escapes && s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			quoted = !quoted
			escapes = i == 0 || s[i-1] != '%'
		case !quoted && strings.HasPrefix(s[i:], "=:"):
			n := strings.IndexByte(s[i+2:], ':')
			if n < 0 {
				continue
			}
			text := s[i+2 : i+2+n]
			b.WriteString(":" + text)
			if strings.IndexByte(text, '=') < 0 && n%4 > 1 {
				b.WriteString("=="[n%4-2:])
			}
			i += 1 + n
		}
	}
	return b.String()
}

// lawWrite checks laws 1 to 3 for writing values, valid or not.
func (c codec[T]) lawWrite(t testing.TB, list ...T) {
	const prefix = "prefix"
	s, err := c.format(list...)
	b, appendErr := c.append([]byte(prefix), list...)
	require.Equal(t, err, appendErr, "law 3")
	require.Equal(t, prefix+s, string(b), "law 3: the prefix stays")
	c.lawHeader(t, s, err, list...)
	for _, m := range list {
		c.lawMember(t, m)
	}
	if err != nil {
		require.Empty(t, s)
		e := requireFieldError(t, err)
		require.Equal(t, c.field, e.Field)
		require.Equal(t, -1, e.Offset)
		return
	}
	again, err := c.parse(s)
	require.NoError(t, err, "law 2: what is written can be read")
	require.True(t, slices.EqualFunc(list, again, T.Equal), "law 2: want %v\ngot  %v", list, again)
}

// lawHeader is the part of law 3 about headers.
func (c codec[T]) lawHeader(t testing.TB, s string, err error, list ...T) {
	const old = "old"
	set, added := http.Header{c.key: {old}}, http.Header{c.key: {old}}
	require.Equal(t, err, c.alone(list...).Set(set), "law 3")
	require.Equal(t, err, c.alone(list...).Add(added), "law 3")
	switch {
	case err != nil:
		require.Equal(t, http.Header{c.key: {old}}, set, "on error nothing is written")
		require.Equal(t, http.Header{c.key: {old}}, added, "on error nothing is written")
	case s == "":
		require.Empty(t, set)
		require.Equal(t, http.Header{c.key: {old}}, added)
	default:
		require.Equal(t, http.Header{c.key: {s}}, set)
		require.Equal(t, http.Header{c.key: {old, s}}, added)
	}
}

// lawMember is law 3 for one member.
func (c codec[T]) lawMember(t testing.TB, m T) {
	s, err := c.format(m)
	require.Equal(t, err, m.Validate())
	require.True(t, err != nil || m.Equal(m))

	js, jsonErr := json.Marshal(m)
	if err != nil {
		_, err := c.parse(m.String())
		require.Error(t, err, "an invalid value is no member")
		return
	}
	require.Equal(t, s, m.String())
	require.NoError(t, jsonErr)
	var got T
	require.NoError(t, json.Unmarshal(js, &got))
	require.True(t, m.Equal(got), "law 2 in JSON: %s", js)
}

// lawParse checks that Parse agrees with the parsers of the two fields, and laws
// 1 and 2 for its result.
func lawParse(t testing.TB, h http.Header) {
	f, err := Parse(h)
	policies, policyErr := ParsePolicies(h.Values(PolicyField)...)
	limits, limitErr := ParseLimits(h.Values(LimitField)...)
	requireEqual(t, policies, f.Policies)
	requireEqual(t, limits, f.Limits)
	require.Equal(t, text.JoinErrors(policyErr, limitErr), err)
	require.Equal(t, f.Policies != nil || f.Limits != nil, f.Dialect == "ratelimit")
	require.False(t, f.Guessed)

	written := http.Header{draft.PolicyKey: {"old"}, draft.LimitKey: {"old"}}
	require.NoError(t, f.Set(written))
	again, err := Parse(written)
	require.NoError(t, err)
	requireEqual(t, f.Policies, again.Policies)
	requireEqual(t, f.Limits, again.Limits)
	lawJoin(t, f)
}

// lawJoin checks PolicyOf, Tightest and Validate against their slow definitions.
func lawJoin(t testing.TB, f Fields) {
	// Values that cannot be written may differ from themselves.
	comparable := !slices.ContainsFunc(f.Policies, func(p Policy) bool { return p.Validate() != nil }) &&
		!slices.ContainsFunc(f.Limits, func(l Limit) bool { return l.Validate() != nil })
	many := f
	for len(many.Policies) < manyPolicies && len(f.Policies) > 0 {
		many.Policies = slices.Concat(many.Policies, f.Policies[:1])
	}
	few, maps := matcher{policies: many.Policies}, newMatcher(many.Policies)
	lawTightest(t, f)
	for _, l := range f.Limits {
		require.Same(t, few.policy(&l), maps.policy(&l))
		p, ok := f.PolicyOf(l)
		if !comparable {
			continue
		}
		named := slices.DeleteFunc(slices.Clone(f.Policies), func(p Policy) bool {
			return p.Name != l.Name || p.PartitionKey != nil && l.PartitionKey != nil && !equalKey(p.PartitionKey, l.PartitionKey)
		})
		exact := slices.IndexFunc(named, func(p Policy) bool { return equalKey(p.PartitionKey, l.PartitionKey) })
		switch {
		case exact >= 0:
			require.True(t, ok && p.Equal(named[exact]))
		case len(named) == 1:
			require.True(t, ok && p.Equal(named[0]))
		default:
			require.False(t, ok)
		}
	}
	twice := func(n int, same func(i, j int) bool) bool {
		for j := range n {
			for i := range j {
				if same(i, j) {
					return true
				}
			}
		}
		return false
	}
	ps, ls := f.Policies, f.Limits
	duplicate := twice(len(ps), func(i, j int) bool {
		return ps[i].Name == ps[j].Name && equalKey(ps[i].PartitionKey, ps[j].PartitionKey)
	}) || twice(len(ls), func(i, j int) bool {
		return ls[i].Name == ls[j].Name && equalKey(ls[i].PartitionKey, ls[j].PartitionKey)
	})
	require.Equal(t, comparable && duplicate, comparable && errors.Is(f.Validate(), ErrDuplicate))
}

// lawTightest checks Tightest against its definition. No limit of the same unit has less
// remaining. In every other unit the lowest limit has no smaller fraction remaining.
func lawTightest(t testing.TB, f Fields) {
	tightest, ok := f.Tightest()
	require.Equal(t, len(f.Limits) > 0, ok)
	if !ok {
		return
	}
	policies := newMatcher(f.Policies)
	of := func(l Limit) (unit Unit, remaining int64, part *big.Rat) {
		p := policies.policy(&l)
		switch {
		case l.exhausted(p):
			return p.Unit.Canonical(), 0, new(big.Rat)
		case l.Remaining < 0:
			return p.Unit.Canonical(), math.MaxInt64, nil
		case p.Quota < 0:
			return p.Unit.Canonical(), l.Remaining, nil
		}
		return p.Unit.Canonical(), l.Remaining, big.NewRat(l.Remaining, p.Quota)
	}
	unit, least, part := of(tightest)
	others := map[Unit]Limit{}
	for _, l := range f.Limits {
		u, remaining, _ := of(l)
		if u == unit {
			require.GreaterOrEqual(t, remaining, least)
		} else if o, known := others[u]; !known {
			others[u] = l
		} else if _, before, _ := of(o); remaining < before {
			others[u] = l
		}
	}
	for _, l := range others {
		_, remaining, other := of(l)
		switch {
		case part == nil:
			require.Nil(t, other)
			require.True(t, least < math.MaxInt64 || remaining == math.MaxInt64)
		case other != nil:
			require.LessOrEqual(t, part.Cmp(other), 0)
		}
	}
}

// A hostileShape makes a field value of about a given size. A careless parser would need more
// than linear time or memory for it.
type hostileShape struct {
	name  string
	value func(size int) string
	err   error // of ParseLimits
}

func repeatTo(prefix, unit, suffix string) func(int) string {
	return func(size int) string {
		return prefix + strings.Repeat(unit, max(size-len(prefix)-len(suffix), 0)/len(unit)) + suffix
	}
}

// shortParams returns members with as many extension parameters as allowed. Their keys have
// two letters, and the given text follows each key.
func shortParams(value string) func(int) string {
	return func(size int) string {
		var m strings.Builder
		m.WriteString(`"";r=1`)
		for i := range maxParams - 1 {
			m.WriteString(";" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + value)
		}
		m.WriteByte(',')
		return strings.Repeat(m.String(), min(max(size/m.Len(), 1), maxMembers-1)) + `"";r=1`
	}
}

// wideMembers returns members with 255 distinct extension parameters each. All keys are
// equally long.
func wideMembers(size int) string {
	return repeatTo("", `"";r=1`+extensionText(maxParams-1)+",", `"";r=1`)(size)
}

var hostileShapes = []hostileShape{
	{"members", repeatTo("", `"";r=1,`, `"";r=1`), ErrTooMany},
	{"long members", repeatTo("", `"`+strings.Repeat("x", 1500)+`";r=1,`, `"";r=1`), nil},
	{"wide members", wideMembers, nil},
	{"short parameters", shortParams(""), nil},
	{"short Tokens", shortParams("=a"), nil},
	{"short Integers", shortParams("=1"), nil},
	{"short Decimals", shortParams("=1.0"), nil},
	{"short Dates", shortParams("=@1"), nil},
	{"short Byte Sequences", shortParams("=::"), nil},
	{"parameters", repeatTo(`"";r=1`, ";a", ""), ErrTooMany},
	{"one parameter", repeatTo(`"";r=1`, ";r=1", ""), ErrTooMany},
	{"long key", repeatTo(`"";r=1;`, "k", ""), nil},
	{"long name", repeatTo(`"`, "n", `";r=1`), nil},
	{"escapes", repeatTo(`"`, `\"`, `";r=1`), nil},
	{"escapes never closed", repeatTo(`"`, `\\`, ""), ErrSyntax},
	{"quotes", repeatTo("", `"`, ""), ErrSyntax},
	{"empty names", repeatTo("", `"" `, ""), ErrSyntax},
	{"quotes in commas", repeatTo("", `"",`, ""), ErrMissing},
	{"quote never closed", repeatTo(`"`, ",", ""), ErrSyntax},
	{"commas in a name", repeatTo(`"`, ",", `";r=1`), nil},
	{"commas", repeatTo("", ",", ""), ErrSyntax},
	{"digits", repeatTo(`"";r=`, "1", ""), ErrSyntax},
	{"decimals", repeatTo(`"";r=1;x=1.`, "1", ""), ErrSyntax},
	{"points", repeatTo(`"";r=1;x=1`, ".", ""), ErrSyntax},
	{"colons", repeatTo(`"";r=1;x=`, ":", ""), ErrSyntax},
	{"bytes", repeatTo(`"";r=1;pk=:`, "AAAA", ":"), nil},
	{"bytes never closed", repeatTo(`"";r=1;pk=:`, "A", ""), ErrSyntax},
	{"token", repeatTo(`"";r=1;x=`, "t", ""), nil},
	{"display string", repeatTo(`"";r=1;x=%"`, "%c3%a4", `"`), nil},
	{"display string never closed", repeatTo(`"";r=1;x=%"`, "%", ""), ErrSyntax},
	{"date", repeatTo(`"";r=1;x=@`, "-", ""), ErrSyntax},
	{"spaces", repeatTo(" ", " ", ""), nil},
	{"spaces before", repeatTo("", " ", `"";r=1`), nil},
	{"spaces after", repeatTo(`"";r=1`, " ", ""), nil},
	{"spaces in parameters", repeatTo(`"";`, " ", "r=1"), nil},
	{"tabs", repeatTo(`"";r=1`, "\t", `,"";r=1`), nil},
	{"inner list", repeatTo("", "(", ""), ErrType},
}

// The oracle of law 5 does the same work with httpsfv: it parses, and then checks the types.

var errOracle = errors.New("oracle: refused")

func oraclePolicies(lines ...string) ([]Policy, error) {
	return oracleItems(lines, func(i *oracleItem) Policy {
		return Policy{
			i.name(), i.required("q"), Unit(oracleParam[string](i, "qu")), i.integer("w", 1),
			oracleParam[[]byte](i, "pk"), i.rest("q", "qu", "w", "pk"),
		}
	})
}

func oracleLimits(lines ...string) ([]Limit, error) {
	return oracleItems(lines, func(i *oracleItem) Limit {
		return Limit{i.name(), i.required("r"), i.integer("t", 0), oracleParam[[]byte](i, "pk"), i.rest("r", "t", "pk")}
	})
}

// An oracleItem is a member that httpsfv read, with a flag for members that the draft rejects.
type oracleItem struct {
	httpsfv.Item
	refused bool
}

func oracleItems[T any](lines []string, read func(*oracleItem) T) (list []T, err error) {
	members, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		item, ok := m.(httpsfv.Item)
		if !ok {
			return nil, errOracle
		}
		i := oracleItem{Item: item}
		list = append(list, read(&i))
		if i.refused {
			return nil, errOracle
		}
	}
	return list, nil
}

func (i *oracleItem) name() string {
	name, ok := i.Value.(string)
	i.refused = i.refused || !ok
	return name
}

// oracleParam returns a defined parameter of type T, or zero if it is absent.
func oracleParam[T any](i *oracleItem, key string) (v T) {
	if got, present := i.Params.Get(key); present {
		var ok bool
		v, ok = got.(T)
		i.refused = i.refused || !ok
	}
	return v
}

func (i *oracleItem) integer(key string, least int64) Seconds {
	if _, present := i.Params.Get(key); !present {
		return Seconds{}
	}
	n := oracleParam[int64](i, key)
	i.refused = i.refused || n < least
	return SecondsOf(n)
}

func (i *oracleItem) required(key string) int64 {
	n := i.integer(key, 0)
	i.refused = i.refused || !n.ok
	return n.n
}

func (i *oracleItem) rest(defined ...string) (ps Params) {
	for _, key := range i.Params.Names() {
		if !slices.Contains(defined, key) {
			v, _ := i.Params.Get(key)
			ps = append(ps, Param{key, v})
		}
	}
	return ps
}
