package older

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// vendorTableText has the fields that words do not tell, by vendor: names without the usual
// words, values of a syntax of their own, and windows and units that no field tells. A row
// counts if the name of the field contains the vendor's (or an abbreviation, see below), if
// its value has a syntax of its own, or next to another field of its vendor. A field without
// a role is not read. A window is in seconds; a | is between the policies of
// parallel lists. testdata/vendors has a case for each row.
//
//go:embed vendors.txt
var vendorTableText string

// abbreviations are words that vendors use in place of their names.
const abbreviations = "amazon:amzn azure:ms binance:mbx binance:sapi bitget:mbx bitmart:bm bybit:bapi dataverse:xrm eve-online:esi " +
	"lightspeed:ls meta:fb salesforce:sforce world-weather-online:wwo"

// vendorRows returns the rows of the table.
func vendorRows() (rows []Row) {
	roles := strings.Fields("none quota remaining used reset window name policies subname rate")
	formats := strings.Fields("- seconds milliseconds unix unix-milliseconds")
	for line := range strings.Lines(vendorTableText) {
		c := strings.Fields(line)
		for i := range c {
			c[i] = strings.TrimPrefix(c[i], "-")
		}
		row := Row{Name: c[1], Role: Role(slices.Index(roles, c[2])), Policy: c[4], Unit: c[6], vendor: c[0]}
		switch c[3] {
		case "bans":
			row.Read = readBans
		case "percents":
			row.Read = readPercents
		default:
			row.Format = Format(max(slices.Index(formats, c[3]), 0))
		}
		row.Window, _ = strconv.ParseInt(c[5], 10, 64)
		if i := strings.LastIndexByte(row.Policy, ':') + 1; strings.IndexByte(row.Policy, '|') > 0 {
			row.Policy, row.columns = strings.TrimSuffix(row.Policy[:i], ":"), row.Policy[i:]
		}
		rows = append(rows, row)
	}
	return rows[1:] // behind the titles
}

// isVendors reports whether no other server would use the field of a row.
func (r *Row) isVendors() bool {
	letters := strings.NewReplacer("-", "").Replace
	words := "-" + strings.ToLower(r.Name) + "-"
	short := slices.ContainsFunc(strings.Fields(abbreviations), func(s string) bool {
		vendor, word, _ := strings.Cut(s, ":")
		return vendor == r.vendor && strings.Contains(words, "-"+word+"-")
	})
	return short || r.Read != nil || r.columns != "" || strings.Contains(letters(words), letters(r.vendor))
}

// readBans reads 60:default;error:organization:reason (Sentry): for 60 seconds
// nothing of these categories is allowed in that scope.
func readBans(facts []Fact, line string) ([]Fact, bool) {
	ok := true
	for ban := range strings.SplitSeq(line, ",") {
		seconds, rest, _ := strings.Cut(ban, ":")
		categories, rest, _ := strings.Cut(rest, ":")
		scope, _, _ := strings.Cut(rest, ":")
		policy := strings.Trim(text.Trim(categories)+":"+text.Trim(scope), ":")
		if _, isNumber := text.ParseNumber(text.Trim(seconds)); len(facts) >= 8*MaxMembers || !isNumber {
			ok = false
			continue
		}
		facts = append(facts, Fact{Policy: policy, Role: Remaining, Value: "0"},
			Fact{Policy: policy, Role: Reset, Format: Seconds, Value: text.Trim(seconds)})
	}
	return facts, ok
}

// readPercents reads JSON whose numbers are percentages of what has been spent, at
// any depth (Meta).
func readPercents(facts []Fact, line string) ([]Fact, bool) {
	v, ok := parseJSON(line)
	return appendPercents(facts, v, maxDepth), ok
}

func appendPercents(facts []Fact, v any, depth int) []Fact {
	if depth == 0 {
		return facts
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			facts = appendPercents(facts, e, depth-1)
		}
	case map[string]any:
		group, _ := v["type"].(string)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			policy := below(group, key)
			switch used, _ := v[key].(json.Number); {
			case used == "":
				facts = appendPercents(facts, v[key], depth-1)
			case isPercent(key):
				facts = append(facts, Fact{Policy: policy, Role: Quota, Value: "100"}, Fact{Policy: policy, Role: Used, Value: used.String()})
				if seconds := regain(v); seconds != "0" {
					facts = append(facts, Fact{Policy: policy, Role: Reset, Format: Seconds, Value: seconds})
				}
			}
		}
	}
	return facts
}

// isPercent reports whether a member is a percentage.
func isPercent(key string) bool {
	switch key {
	case "call_count", "total_cputime", "total_time":
		return true
	}
	return strings.HasSuffix(key, "_pct")
}

// regain returns in how many seconds access is regained, which an object gives in minutes
// or in seconds.
func regain(v map[string]any) string {
	minutes, _ := v["estimated_time_to_regain_access"].(json.Number)
	seconds, _ := v["reset_time_duration"].(json.Number)
	n, _ := text.ParseNumber(minutes.String())
	m, _ := text.ParseNumber(seconds.String())
	return strconv.FormatInt(max(text.SaturatingMul(n.Ceil(), 60), m.Ceil()), 10)
}
