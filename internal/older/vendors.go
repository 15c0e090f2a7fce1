package older

import (
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
const vendorTableText = `
vendor                field                                        role       format             policy            window  unit
amazon                X-Amzn-RateLimit-Limit                       quota      -                  -                 1       -
auth0                 Auth0-Client-Quota-Limit                     quota      -                  client            -       tokens
auth0                 Auth0-Organization-Quota-Limit               quota      -                  organization      -       tokens
azure                 X-Ms-RateLimit-Remaining-Resource            remaining  -                  -                 -       -
azure                 X-Ms-User-Quota-Remaining                    remaining  -                  user-quota        -       -
azure                 X-Ms-User-Quota-Resets-After                 reset      -                  user-quota        -       -
binance               X-Mbx-Used-*                                 used       -                  -                 -       -
binance               X-Mbx-Order-Count-*                          used       -                  order-count       -       -
binance               X-Sapi-Used-*                                used       -                  sapi              -       -
bitget                X-Mbx-Used-Remain-Limit                      remaining  -                  -                 1       -
bitmart               X-BM-RateLimit-Limit                         quota      -                  -                 -       -
bitmart               X-BM-RateLimit-Remaining                     used       -                  -                 -       -
bitmart               X-BM-RateLimit-Reset                         window     seconds            -                 -       -
brightpearl           Brightpearl-Requests-Remaining               remaining  -                  -                 -       -
brightpearl           Brightpearl-Next-Throttle-Period             reset      milliseconds       -                 -       -
bybit                 X-Bapi-Limit                                 quota      -                  -                 -       -
bybit                 X-Bapi-Limit-Status                          remaining  -                  -                 -       -
bybit                 X-Bapi-Limit-Reset-Timestamp                 reset      unix-milliseconds  -                 -       -
cohere                X-Trial-Endpoint-Call-Limit                  quota      -                  trial             -       -
cohere                X-Trial-Endpoint-Call-Remaining              remaining  -                  trial             -       -
cohere                X-Endpoint-Monthly-Call-Limit                quota      -                  monthly           -       -
cohere                X-Endpoint-Monthly-Call-Remaining            remaining  -                  monthly           -       -
dataverse             X-Ms-RateLimit-Burst-Remaining-Xrm-Requests  remaining  -                  burst             -       -
dataverse             X-Ms-RateLimit-Time-Remaining-Xrm-Requests   remaining  -                  time              -       seconds
discogs               X-Discogs-RateLimit                          quota      -                  -                 60      -
discogs               X-Discogs-RateLimit-Used                     used       -                  -                 60      -
e621                  X-Api-Limit-Read                             quota      -                  api-read          -       -
e621                  X-Api-Limit-Write                            quota      -                  api-write         -       -
egnyte                X-AccessToken-Quota-Allotted                 quota      -                  accesstoken       -       -
egnyte                X-AccessToken-Quota-Current                  used       -                  accesstoken       -       -
egnyte                X-Quota-Reset                                reset      -                  accesstoken       -       -
elevenlabs            Maximum-Concurrent-Requests                  quota      -                  concurrent        -       concurrent-requests
elevenlabs            Current-Concurrent-Requests                  used       -                  concurrent        -       concurrent-requests
epo                   X-IndividualQuotaPerHour-Used                used       -                  individual        3600    bytes
epo                   X-RegisteredQuotaPerWeek-Used                used       -                  registered        604800  bytes
etsy                  X-Limit-Per-Second                           quota      -                  second            -       -
etsy                  X-Limit-Per-Day                              quota      -                  day               -       -
etsy                  X-Remaining-This-Second                      remaining  -                  second            -       -
etsy                  X-Remaining-Today                            remaining  -                  day               -       -
eve-online            X-Esi-Error-Limit-Remain                     remaining  -                  error-limit       60      errors
eve-online            X-Esi-Error-Limit-Reset                      reset      seconds            error-limit       60      errors
football-data         X-Requests-Available-Minute                  remaining  -                  minute            -       -
football-data         X-RequestCounter-Reset                       reset      seconds            minute            -       -
gitlab                RateLimit-Name                               name       -                  -                 -       -
gitlab                RateLimit-Observed                           used       -                  -                 60      -
hubspot               X-HubSpot-RateLimit-Max                      quota      -                  interval          -       -
hubspot               X-HubSpot-RateLimit-Remaining                remaining  -                  interval          -       -
hubspot               X-HubSpot-RateLimit-Interval-Milliseconds    window     milliseconds       interval          -       -
ip-api                X-Rl                                         remaining  -                  -                 -       -
ip-api                X-Ttl                                        reset      seconds            -                 -       -
keap                  X-Keap-*-Available                           remaining  -                  -                 -       -
keap                  X-Keap-*-Time-Unit                           window     -                  -                 -       -
keap                  X-Keap-*-Expiry-Time                         reset      -                  -                 -       -
keap                  X-Keap-*-Limit                               quota      -                  -                 -       -
keap                  X-Keap-*-Interval                            none       -                  -                 -       -
lightspeed            X-Ls-Api-Bucket-Level                        used       -                  bucket            -       -
lightspeed            X-Ls-Api-Burst-Level                         used       -                  burst             -       -
litellm               X-Litellm-Key-Remaining-Requests-*           remaining  -                  requests          -       -
litellm               X-Litellm-Key-Remaining-Tokens-*             remaining  -                  tokens            -       tokens
meta                  X-App-Usage                                  used       percents           -                 -       percent
meta                  X-Business-Use-Case-Usage                    used       percents           -                 -       percent
meta                  X-Ad-Account-Usage                           used       percents           -                 -       percent
meta                  X-Fb-Ads-Insights-Throttle                   used       percents           -                 -       percent
path-of-exile         X-Rate-Limit-Rules                           name       -                  -                 -       -
path-of-exile         X-Rate-Limit-*-State                         used       -                  -                 -       -
pingdom               Req-Limit-Short                              remaining  -                  short             -       -
pingdom               Req-Limit-Long                               remaining  -                  long              -       -
recharge              X-Recharge-Limit                             used       -                  -                 -       -
resend                X-Resend-Daily-Quota                         used       -                  daily             -       -
resend                X-Resend-Monthly-Quota                       used       -                  monthly           -       -
salesforce            Sforce-Limit-Info                            used       -                  -                 86400   -
sentry                X-Sentry-Rate-Limits                         reset      bans               -                 -       -
shopify               X-Shopify-Shop-Api-Call-Limit                used       -                  -                 -       -
sophos                X-Rate-Limit-Value                           quota      -                  -                 -       -
sophos                X-Rate-Limit-End                             reset      seconds            -                 -       -
spring-cloud-gateway  X-RateLimit-Burst-Capacity                   quota      -                  -                 -       tokens
spring-cloud-gateway  X-RateLimit-Replenish-Rate                   rate       -                  -                 -       -
strava                X-RateLimit-Usage                            used       -                  15min|daily       -       -
strava                X-ReadRateLimit-Usage                        used       -                  read:15min|daily  -       -
twilio                Twilio-Concurrent-Requests                   used       -                  concurrent        -       concurrent-requests
walmart               X-Current-Token-Count                        remaining  -                  -                 -       tokens
walmart               X-Next-Replenish-Time                        reset      -                  -                 -       -
walmart               X-Next-Replenishment-Time                    reset      -                  -                 -       -
world-weather-online  X-WWO-Qpd-Left                               remaining  -                  qpd               86400   -
xero                  X-DayLimit-Remaining                         remaining  -                  day               -       -
xero                  X-MinLimit-Remaining                         remaining  -                  min               -       -
xero                  X-AppMinLimit-Remaining                      remaining  -                  appmin            60      -
yelp                  RateLimit-ResourceDailyLimit                 quota      -                  resource          86400   -
yelp                  RateLimit-ResourceRemaining                  remaining  -                  resource          -       -
zoom                  X-RateLimit-Category                         name       -                  -                 -       -
zoom                  X-RateLimit-Type                             subname    -                  -                 -       -
`

// abbreviations are words that vendors use in place of their names.
const abbreviations = "amazon:amzn azure:ms binance:mbx binance:sapi bitget:mbx bitmart:bm bybit:bapi dataverse:xrm eve-online:esi " +
	"lightspeed:ls meta:fb salesforce:sforce world-weather-online:wwo"

// vendorRows returns the rows of the table.
func vendorRows() (rows []Row) {
	roles := strings.Fields("none quota remaining used reset window name policies subname rate")
	formats := strings.Fields("- seconds milliseconds unix unix-milliseconds")
	for line := range strings.Lines(strings.TrimSpace(vendorTableText)) {
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
