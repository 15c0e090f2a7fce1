package older

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// exceptions are the fields that words do not tell, by vendor: names without the usual
// words, values of a syntax of their own, and windows and units that no field tells.
// testdata/vendors has a case for each.
var exceptions = []struct {
	vendor string
	row    Row
}{
	{"amazon", Row{Name: "X-Amzn-RateLimit-Limit", Role: Quota, Window: 1}}, // requests per second
	{"auth0", Row{Name: "Auth0-Client-Quota-Limit", Role: Quota, Policy: "client", Unit: "tokens"}},
	{"auth0", Row{Name: "Auth0-Organization-Quota-Limit", Role: Quota, Policy: "organization", Unit: "tokens"}},
	{"azure", Row{Name: "X-Ms-RateLimit-Remaining-Resource", Role: Remaining, Read: readHeads}},
	{"azure", Row{Name: "X-Ms-User-Quota-Remaining", Role: Remaining, Policy: "user-quota"}},
	{"azure", Row{Name: "X-Ms-User-Quota-Resets-After", Role: Reset, Policy: "user-quota"}},
	{"binance", Row{Name: "X-Mbx-Used-*", Role: Used}},
	{"binance", Row{Name: "X-Mbx-Order-Count-*", Role: Used, Policy: "order-count"}},
	{"binance", Row{Name: "X-Sapi-Used-*", Role: Used, Policy: "sapi"}},
	{"bitget", Row{Name: "X-Mbx-Used-Remain-Limit", Role: Remaining, Window: 1}}, // in a second
	{"bitmart", Row{Name: "X-BM-RateLimit-Limit", Role: Quota}},                  // what is called remaining is used, says the vendor, and the reset is the window
	{"bitmart", Row{Name: "X-BM-RateLimit-Remaining", Role: Used}},
	{"bitmart", Row{Name: "X-BM-RateLimit-Reset", Role: Window, Format: Seconds}},
	{"brightpearl", Row{Name: "Brightpearl-Requests-Remaining", Role: Remaining}},
	{"brightpearl", Row{Name: "Brightpearl-Next-Throttle-Period", Role: Reset, Format: Milli}},
	{"bybit", Row{Name: "X-Bapi-Limit", Role: Quota}},
	{"bybit", Row{Name: "X-Bapi-Limit-Status", Role: Remaining}},
	{"bybit", Row{Name: "X-Bapi-Limit-Reset-Timestamp", Role: Reset, Format: UnixMilli}},
	{"cohere", Row{Name: "X-Trial-Endpoint-Call-Limit", Role: Quota, Policy: "trial"}},
	{"cohere", Row{Name: "X-Trial-Endpoint-Call-Remaining", Role: Remaining, Policy: "trial"}},
	{"cohere", Row{Name: "X-Endpoint-Monthly-Call-Limit", Role: Quota, Policy: "monthly"}},
	{"cohere", Row{Name: "X-Endpoint-Monthly-Call-Remaining", Role: Remaining, Policy: "monthly"}},
	{"discogs", Row{Name: "X-Discogs-RateLimit", Role: Quota, Window: 60}}, // a limiter in between lowers what is used by it
	{"discogs", Row{Name: "X-Discogs-RateLimit-Used", Role: Used, Window: 60}},
	{"egnyte", Row{Name: "X-Quota-Reset", Role: Reset, Policy: "accesstoken", Loose: true}}, // it counts only with the other fields
	{"elevenlabs", Row{Name: "Maximum-Concurrent-Requests", Role: Quota, Policy: "concurrent", Unit: "concurrent-requests"}},
	{"elevenlabs", Row{Name: "Current-Concurrent-Requests", Role: Used, Policy: "concurrent", Unit: "concurrent-requests"}},
	{"epo", Row{Name: "X-IndividualQuotaPerHour-Used", Role: Used, Policy: "individual", Window: 3600, Unit: "bytes"}}, // bytes
	{"epo", Row{Name: "X-RegisteredQuotaPerWeek-Used", Role: Used, Policy: "registered", Window: 604800, Unit: "bytes"}},
	{"etsy", Row{Name: "X-Limit-Per-Second", Role: Quota, Policy: "second"}},
	{"etsy", Row{Name: "X-Limit-Per-Day", Role: Quota, Policy: "day"}},
	{"etsy", Row{Name: "X-Remaining-This-Second", Role: Remaining, Policy: "second"}},
	{"etsy", Row{Name: "X-Remaining-Today", Role: Remaining, Policy: "day"}},
	{"eve-online", Row{Name: "X-Esi-Error-Limit-Remain", Role: Remaining, Policy: "error-limit", Window: 60, Unit: "errors"}},
	{"eve-online", Row{Name: "X-Esi-Error-Limit-Reset", Role: Reset, Format: Seconds, Policy: "error-limit", Window: 60, Unit: "errors"}},
	{"football-data", Row{Name: "X-RequestCounter-Reset", Role: Reset, Format: Seconds, Policy: "minute"}},
	{"gitlab", Row{Name: "RateLimit-Observed", Role: Used, Window: 60}}, // limits are given per minute
	{"hubspot", Row{Name: "X-HubSpot-RateLimit-Max", Role: Quota, Policy: "interval"}},
	{"hubspot", Row{Name: "X-HubSpot-RateLimit-Remaining", Role: Remaining, Policy: "interval"}},
	{"hubspot", Row{Name: "X-HubSpot-RateLimit-Interval-Milliseconds", Role: Window, Format: Milli, Policy: "interval"}},
	{"hotstuff", Row{Name: "X-Used-Weight-*", Role: Used, Policy: "weight"}},
	{"ip-api", Row{Name: "X-Rl", Role: Remaining, Loose: true}}, // each of the two counts only with the other
	{"ip-api", Row{Name: "X-Ttl", Role: Reset, Format: Seconds, Loose: true}},
	{"keap", Row{Name: "X-Keap-*-Available", Role: Remaining}},
	{"keap", Row{Name: "X-Keap-*-Used", Role: Used}},
	{"keap", Row{Name: "X-Keap-*-Time-Unit", Role: Window}},
	{"keap", Row{Name: "X-Keap-*-Expiry-Time", Role: Reset}},
	{"lightspeed", Row{Name: "X-Ls-Api-Bucket-Level", Role: Used, Policy: "bucket"}},
	{"lightspeed", Row{Name: "X-Ls-Api-Burst-Level", Role: Used, Policy: "burst"}},
	{"litellm", Row{Name: "X-Litellm-Key-Remaining-Requests-*", Role: Remaining, Policy: "requests"}}, // a model behind it
	{"litellm", Row{Name: "X-Litellm-Key-Remaining-Tokens-*", Role: Remaining, Policy: "tokens", Unit: "tokens"}},
	{"meta", Row{Name: "X-App-Usage", Role: Used, Unit: "percent", Read: readPercents}},
	{"meta", Row{Name: "X-Business-Use-Case-Usage", Role: Used, Unit: "percent", Read: readPercents}},
	{"meta", Row{Name: "X-Ad-Account-Usage", Role: Used, Unit: "percent", Read: readPercents}},
	{"meta", Row{Name: "X-Fb-Ads-Insights-Throttle", Role: Used, Unit: "percent", Read: readPercents}},
	{"pingdom", Row{Name: "Req-Limit-Short", Role: Remaining, Policy: "short", Read: readProse}},
	{"pingdom", Row{Name: "Req-Limit-Long", Role: Remaining, Policy: "long", Read: readProse}},
	{"recharge", Row{Name: "X-Recharge-Limit", Role: Used}},
	{"resend", Row{Name: "X-Resend-Daily-Quota", Role: Used, Policy: "daily"}},
	{"resend", Row{Name: "X-Resend-Monthly-Quota", Role: Used, Policy: "monthly"}},
	{"riot", Row{Name: "X-App-Rate-Limit", Role: Quota, Policy: "app", Read: readQuotaPairs}},
	{"riot", Row{Name: "X-App-Rate-Limit-Count", Role: Used, Policy: "app", Read: readUsedPairs}},
	{"riot", Row{Name: "X-Method-Rate-Limit", Role: Quota, Policy: "method", Read: readQuotaPairs}},
	{"riot", Row{Name: "X-Method-Rate-Limit-Count", Role: Used, Policy: "method", Read: readUsedPairs}},
	{"salesforce", Row{Name: "Sforce-Limit-Info", Role: Used, Window: 86400}}, // in a rolling day
	{"sentry", Row{Name: "X-Sentry-Rate-Limits", Role: Reset, Read: readBans}},
	{"shopify", Row{Name: "X-Shopify-Shop-Api-Call-Limit", Role: Used}},
	{"spring-cloud-gateway", Row{Name: "X-RateLimit-Burst-Capacity", Role: Quota, Unit: "tokens"}}, // a token bucket
	{"strava", Row{Name: "X-RateLimit-Usage", Role: Used, Columns: &stravaColumns}},                // its lists have no windows
	{"strava", Row{Name: "X-ReadRateLimit-Usage", Role: Used, Policy: "read", Columns: &stravaColumns}},
	{"twilio", Row{Name: "Twilio-Concurrent-Requests", Role: Used, Policy: "concurrent", Unit: "concurrent-requests"}},
	{"walmart", Row{Name: "X-Current-Token-Count", Role: Remaining, Unit: "tokens"}}, // a token bucket
	{"walmart", Row{Name: "X-Next-Replenish-Time", Role: Reset}},
	{"walmart", Row{Name: "X-Next-Replenishment-Time", Role: Reset}},
	{"world-weather-online", Row{Name: "X-WWO-Qpd-Left", Role: Remaining, Policy: "qpd", Window: 86400}},
	{"xero", Row{Name: "X-DayLimit-Remaining", Role: Remaining, Policy: "day"}},
	{"xero", Row{Name: "X-MinLimit-Remaining", Role: Remaining, Policy: "min"}},
	{"xero", Row{Name: "X-AppMinLimit-Remaining", Role: Remaining, Policy: "appmin", Window: 60}},
	{"yelp", Row{Name: "RateLimit-ResourceDailyLimit", Role: Quota, Policy: "resource", Window: 86400}},
	{"zoom", Row{Name: "X-RateLimit-Type", Role: Name, Tail: true}}, // next to X-RateLimit-Category
}

var stravaColumns = [...]Column{{"15min", 900}, {"daily", 86400}}

// readQuotaPairs and readUsedPairs read 100:1,1000:10 (Riot): a number, and the
// window in seconds. If there are several, the window names the policy.
func readQuotaPairs(facts []Fact, line string) ([]Fact, bool) { return readPairs(facts, Quota, line) }
func readUsedPairs(facts []Fact, line string) ([]Fact, bool)  { return readPairs(facts, Used, line) }

func readPairs(facts []Fact, role Role, line string) ([]Fact, bool) {
	several, ok := strings.IndexByte(line, ',') >= 0, true
	for pair := range strings.SplitSeq(line, ",") {
		count, window, _ := strings.Cut(pair, ":")
		w, isWindow := text.ParseNumber(text.Trim(window))
		if len(facts) > 4*MaxMembers || !isWindow {
			ok = false
			continue
		}
		policy := ""
		if several {
			policy = strconv.FormatInt(w.Ceil(), 10)
		}
		facts = append(facts, Fact{Policy: policy, Role: role, Value: text.Trim(count)},
			Fact{Policy: policy, Role: Window, Format: Seconds, Value: text.Trim(window)})
	}
	return facts, ok
}

// readHeads reads Microsoft.Compute/HighCostGet3Min;46 (Azure): a policy, and what
// remains of it.
func readHeads(facts []Fact, line string) ([]Fact, bool) {
	for part := range strings.SplitSeq(line, ",") {
		policy, remaining, _ := strings.Cut(part, ";")
		if len(facts) > 4*MaxMembers {
			return facts, false
		}
		facts = append(facts, Fact{Policy: text.Trim(policy), Role: Remaining, Value: text.Trim(remaining)})
	}
	return facts, true
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

// readProse reads Remaining: 394 Time until reset: 3589 (Pingdom).
func readProse(facts []Fact, line string) ([]Fact, bool) {
	before := len(facts)
	for _, said := range [...]struct {
		words string
		role  Role
	}{{"Remaining:", Remaining}, {"reset:", Reset}} {
		_, rest, _ := strings.Cut(line, said.words)
		rest = text.Trim(rest)
		if end := text.Skip(rest, 0, text.Digit); end > 0 {
			facts = append(facts, Fact{Role: said.role, Format: Seconds, Value: rest[:end]})
		}
	}
	return facts, len(facts) > before
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
