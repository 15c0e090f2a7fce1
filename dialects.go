package ratelimit

import (
	"net/http"
	"strings"
	"sync"
)

// The dialects that servers write, for [Dialect.Set] and [LegacyOptions]. They
// are data alone; a program that uses none of them has none in its binary.
var (
	// Draft00 is draft-polli-ratelimit-headers-00: policies follow the quota, as
	// in RateLimit-Limit: 100, 100;window=60. A reset is seconds.
	Draft00 = &Dialect{Name: "draft-00", Fields: []DialectField{
		{Name: "RateLimit-Limit", Role: RoleQuota, write: windowSyntax},
		{Name: "RateLimit-Remaining", Role: RoleRemaining},
		{Name: "RateLimit-Reset", Role: RoleReset, Format: TimeSeconds},
	}}
	// Draft03 is draft-polli-01 to draft-ietf-httpapi-ratelimit-headers-03:
	// RateLimit-Limit: 100, 100;w=60.
	Draft03 = &Dialect{Name: "draft-03", Fields: []DialectField{
		{Name: "RateLimit-Limit", Role: RoleQuota, write: quotaSyntax},
		{Name: "RateLimit-Remaining", Role: RoleRemaining},
		{Name: "RateLimit-Reset", Role: RoleReset, Format: TimeSeconds},
	}}
	// Draft06 is draft-ietf-04 to -06: policies have a field of their own,
	// RateLimit-Policy: 100;w=60.
	Draft06 = &Dialect{Name: "draft-06", Fields: []DialectField{
		{Name: "RateLimit-Limit", Role: RoleQuota},
		{Name: "RateLimit-Remaining", Role: RoleRemaining},
		{Name: "RateLimit-Reset", Role: RoleReset, Format: TimeSeconds},
		{Name: "RateLimit-Policy", Role: RolePolicies},
	}}
	// Draft07 is draft-ietf-07: RateLimit: limit=100, remaining=50, reset=5. It
	// needs a quota and a reset, and cannot stand next to the current fields.
	Draft07 = &Dialect{Name: "draft-07", Fields: []DialectField{
		{Name: "RateLimit", Role: RoleQuota, write: dictionarySyntax},
		{Name: "RateLimit-Policy", Role: RolePolicies},
	}}
	// XRateLimit is X-RateLimit-* with a reset in seconds from now, as written by
	// throttled, fastify and Envoy.
	XRateLimit = &Dialect{Name: "x-ratelimit", Fields: []DialectField{
		{Name: "X-RateLimit-Limit", Role: RoleQuota},
		{Name: "X-RateLimit-Remaining", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset", Role: RoleReset, Format: TimeSeconds},
	}}
	// XRateLimitUnix is X-RateLimit-* with a reset in seconds since the Unix
	// epoch, as written by Laravel, ulule/limiter and go-chi/httprate.
	XRateLimitUnix = &Dialect{Name: "x-ratelimit-unix", Fields: []DialectField{
		{Name: "X-RateLimit-Limit", Role: RoleQuota},
		{Name: "X-RateLimit-Remaining", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset", Role: RoleReset, Format: TimeUnix},
	}}
	// XRateLimitDate is X-RateLimit-* with a timestamp of RFC 3339 for a reset, as
	// written by Mastodon and Atlassian.
	XRateLimitDate = &Dialect{Name: "x-ratelimit-date", Fields: []DialectField{
		{Name: "X-RateLimit-Limit", Role: RoleQuota},
		{Name: "X-RateLimit-Remaining", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset", Role: RoleReset, Format: TimeRFC3339},
	}}
	// XRateLimitByName is X-RateLimit-* with the policy's name in the name of the
	// field, X-RateLimit-Limit-Minute, as written by Kong and the throttler of
	// NestJS. A reset is in seconds.
	XRateLimitByName = &Dialect{Name: "x-ratelimit-by-name", Fields: []DialectField{
		{Name: "X-RateLimit-Limit-*", Role: RoleQuota},
		{Name: "X-RateLimit-Remaining-*", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset-*", Role: RoleReset, Format: TimeSeconds},
	}}
	// Twitter is X-Rate-Limit-* with a reset in seconds since the
	// Unix epoch, as written by X (Twitter) and Okta.
	Twitter = &Dialect{Name: "twitter", Fields: []DialectField{
		{Name: "X-Rate-Limit-Limit", Role: RoleQuota},
		{Name: "X-Rate-Limit-Remaining", Role: RoleRemaining},
		{Name: "X-Rate-Limit-Reset", Role: RoleReset, Format: TimeUnix},
	}}
	// GitHub is X-RateLimit-* with what is used, and the name of the policy as
	// the resource.
	GitHub = &Dialect{Name: "github", Fields: []DialectField{
		{Name: "X-RateLimit-Limit", Role: RoleQuota},
		{Name: "X-RateLimit-Remaining", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset", Role: RoleReset, Format: TimeUnix},
		{Name: "X-RateLimit-Used", Role: RoleUsed},
		{Name: "X-RateLimit-Resource", Role: RoleName},
	}}
	// GitLab is RateLimit-* with a reset in seconds since the Unix epoch.
	GitLab = &Dialect{Name: "gitlab", Fields: []DialectField{
		{Name: "RateLimit-Limit", Role: RoleQuota},
		{Name: "RateLimit-Remaining", Role: RoleRemaining},
		{Name: "RateLimit-Reset", Role: RoleReset, Format: TimeUnix},
		{Name: "RateLimit-Observed", Role: RoleUsed},
		{Name: "RateLimit-Name", Role: RoleName},
	}}
	// OpenAI is X-RateLimit-* with the policy's name in the name of the field, and
	// a duration for a reset.
	OpenAI = &Dialect{Name: "openai", Fields: []DialectField{
		{Name: "X-RateLimit-Limit-*", Role: RoleQuota},
		{Name: "X-RateLimit-Remaining-*", Role: RoleRemaining},
		{Name: "X-RateLimit-Reset-*", Role: RoleReset, Format: TimeDuration},
	}}
	// Anthropic is Anthropic-RateLimit-* with the policy's name before the role,
	// and a timestamp of RFC 3339 for a reset.
	Anthropic = &Dialect{Name: "anthropic", Fields: []DialectField{
		{Name: "Anthropic-RateLimit-*-Limit", Role: RoleQuota},
		{Name: "Anthropic-RateLimit-*-Remaining", Role: RoleRemaining},
		{Name: "Anthropic-RateLimit-*-Reset", Role: RoleReset, Format: TimeRFC3339},
	}}
)

// LookupDialect returns that variable of this package whose Dialect.Name is name,
// such as "draft-06" or "github", for a flag or a configuration file. Names are
// compared byte by byte. If there is none, it returns nil and false.
func LookupDialect(name string) (*Dialect, bool) {
	for _, d := range []*Dialect{
		Draft00, Draft03, Draft06, Draft07, XRateLimit, XRateLimitUnix, XRateLimitDate, XRateLimitByName, Twitter,
		GitHub, GitLab, OpenAI, Anthropic,
	} {
		if d.Name == name {
			return d, true
		}
	}
	return nil, false
}

var (
	builtinOnce sync.Once
	builtinMade lexicon
)

// builtin returns what is known of fields, made ready at first use. It is not a
// sync.OnceValue, whose data would be in every binary.
func builtin() *lexicon {
	builtinOnce.Do(builtinMade.learn)
	return &builtinMade
}

// learn adds the fields that words do not tell, and the usual names, which words
// would tell as well but not as fast.
func (x *lexicon) learn() {
	for i := range exceptionFields {
		x.add(&exceptionFields[i], exceptionOrder)
	}
	for _, family := range [...]string{"RateLimit-", "X-RateLimit-", "X-Rate-Limit-"} {
		x.spell(strings.TrimSuffix(family, "-"))
		for _, role := range [...]string{"Limit", "Remaining", "Reset", "Used", "Policy", "Resource", "Bucket", "Reset-After"} {
			for _, policy := range [...]string{"", "-Requests", "-Tokens", "-Second", "-Minute", "-Hour", "-Day"} {
				x.spell(family + role + policy)
			}
		}
	}
	for _, policy := range [...]string{"Requests-", "Tokens-", "Input-Tokens-", "Output-Tokens-"} {
		for _, role := range [...]string{"Limit", "Remaining", "Reset"} {
			x.spell("Anthropic-RateLimit-" + policy + role)
		}
	}
	for _, word := range [...]string{
		"remaining", "remain", "remains", "--left", "available", "-avail", "x--rem", "allotted", "alloted", "--used", "-count", "-usage", // see findLoose
		"-after", "retry-ms", "after-ms", "in-ms", "--msec", "seconds", "millis", "x--sec", "--secs", "minutes", "-hours", "retry-in", "after-in", "retry-at", "after-at", "x--ttl", // waits
	} {
		x.setTail(word)
	}
	for _, key := range [...]string{"X-Remaining", "X-Left-", "X-Available", "X-Rl", "X-Usage", "X-Quota", "X-Calls", "X-Retry", "Retry-After"} {
		x.setHead(key)
	}
}

// spell adds a name, with what its words say.
func (x *lexicon) spell(name string) {
	key := http.CanonicalHeaderKey(name)
	if m, ok := parseKey(key); ok && x.exact[key] == nil {
		x.exact[key] = &m
	}
}

// exceptionFields are the fields that words do not tell, by vendor: names without
// the usual words, values of a syntax of their own, and windows and units that no
// field tells. testdata/vendors has a case for each.
var exceptionFields = [...]Dialect{
	{Name: "amazon", Fields: []DialectField{ // requests per second
		{Name: "X-Amzn-RateLimit-Limit", Role: RoleQuota, Window: SecondsOf(1)},
	}},
	{Name: "auth0", Fields: []DialectField{
		{Name: "Auth0-Client-Quota-Limit", Role: RoleQuota, Policy: "client", Unit: "tokens"},
		{Name: "Auth0-Organization-Quota-Limit", Role: RoleQuota, Policy: "organization", Unit: "tokens"},
	}},
	{Name: "azure", Fields: []DialectField{
		{Name: "X-Ms-RateLimit-Remaining-Resource", Role: RoleRemaining, Read: readHeads},
		{Name: "X-Ms-User-Quota-Remaining", Role: RoleRemaining, Policy: "user-quota"},
		{Name: "X-Ms-User-Quota-Resets-After", Role: RoleReset, Policy: "user-quota"},
	}},
	{Name: "binance", Fields: []DialectField{
		{Name: "X-Mbx-Used-*", Role: RoleUsed},
		{Name: "X-Mbx-Order-Count-*", Role: RoleUsed, Policy: "order-count"},
		{Name: "X-Sapi-Used-*", Role: RoleUsed, Policy: "sapi"},
	}},
	{Name: "bitget", Fields: []DialectField{ // in a second
		{Name: "X-Mbx-Used-Remain-Limit", Role: RoleRemaining, Window: SecondsOf(1)},
	}},
	{Name: "brightpearl", Fields: []DialectField{
		{Name: "Brightpearl-Requests-Remaining", Role: RoleRemaining},
		{Name: "Brightpearl-Next-Throttle-Period", Role: RoleReset, Format: TimeMilli},
	}},
	{Name: "bybit", Fields: []DialectField{
		{Name: "X-Bapi-Limit", Role: RoleQuota},
		{Name: "X-Bapi-Limit-Status", Role: RoleRemaining},
		{Name: "X-Bapi-Limit-Reset-Timestamp", Role: RoleReset, Format: TimeUnixMilli},
	}},
	{Name: "cohere", Fields: []DialectField{
		{Name: "X-Trial-Endpoint-Call-Limit", Role: RoleQuota, Policy: "trial"},
		{Name: "X-Trial-Endpoint-Call-Remaining", Role: RoleRemaining, Policy: "trial"},
		{Name: "X-Endpoint-Monthly-Call-Limit", Role: RoleQuota, Policy: "monthly"},
		{Name: "X-Endpoint-Monthly-Call-Remaining", Role: RoleRemaining, Policy: "monthly"},
	}},
	{Name: "discogs", Fields: []DialectField{
		{Name: "X-Discogs-RateLimit", Role: RoleQuota, Window: SecondsOf(60)},
		{Name: "X-Discogs-RateLimit-Used", Role: RoleUsed, Window: SecondsOf(60)},
	}},
	{Name: "elevenlabs", Fields: []DialectField{
		{Name: "Maximum-Concurrent-Requests", Role: RoleQuota, Policy: "concurrent", Unit: ConcurrentRequests},
		{Name: "Current-Concurrent-Requests", Role: RoleUsed, Policy: "concurrent", Unit: ConcurrentRequests},
	}},
	{Name: "etsy", Fields: []DialectField{
		{Name: "X-Limit-Per-Second", Role: RoleQuota, Policy: "second"},
		{Name: "X-Limit-Per-Day", Role: RoleQuota, Policy: "day"},
		{Name: "X-Remaining-This-Second", Role: RoleRemaining, Policy: "second"},
		{Name: "X-Remaining-Today", Role: RoleRemaining, Policy: "day"},
	}},
	{Name: "eve-online", Fields: []DialectField{
		{Name: "X-Esi-Error-Limit-Remain", Role: RoleRemaining, Policy: "error-limit", Window: SecondsOf(60), Unit: "errors"},
		{Name: "X-Esi-Error-Limit-Reset", Role: RoleReset, Format: TimeSeconds, Policy: "error-limit", Window: SecondsOf(60), Unit: "errors"},
	}},
	{Name: "gitlab", Fields: []DialectField{ // limits are given per minute
		{Name: "RateLimit-Observed", Role: RoleUsed, Window: SecondsOf(60)},
	}},
	{Name: "hubspot", Fields: []DialectField{
		{Name: "X-HubSpot-RateLimit-Max", Role: RoleQuota, Policy: "interval"},
		{Name: "X-HubSpot-RateLimit-Remaining", Role: RoleRemaining, Policy: "interval"},
		{Name: "X-HubSpot-RateLimit-Interval-Milliseconds", Role: RoleWindow, Format: TimeMilli, Policy: "interval"},
	}},
	{Name: "keap", Fields: []DialectField{ // the interval, 1, is that of the unit
		{Name: "X-Keap-*-Limit", Role: RoleQuota},
		{Name: "X-Keap-*-Available", Role: RoleRemaining},
		{Name: "X-Keap-*-Used", Role: RoleUsed},
		{Name: "X-Keap-*-Time-Unit", Role: RoleWindow},
		{Name: "X-Keap-*-Interval", Role: RoleNone},
		{Name: "X-Keap-*-Expiry-Time", Role: RoleReset},
	}},
	{Name: "lightspeed", Fields: []DialectField{
		{Name: "X-Ls-Api-Bucket-Level", Role: RoleUsed, Policy: "bucket"},
		{Name: "X-Ls-Api-Burst-Level", Role: RoleUsed, Policy: "burst"},
	}},
	{Name: "meta", Fields: []DialectField{
		{Name: "X-App-Usage", Role: RoleUsed, Unit: "percent", Read: readPercents},
		{Name: "X-Business-Use-Case-Usage", Role: RoleUsed, Unit: "percent", Read: readPercents},
		{Name: "X-Ad-Account-Usage", Role: RoleUsed, Unit: "percent", Read: readPercents},
		{Name: "X-Fb-Ads-Insights-Throttle", Role: RoleUsed, Unit: "percent", Read: readPercents},
	}},
	{Name: "pingdom", Fields: []DialectField{
		{Name: "Req-Limit-Short", Role: RoleRemaining, Policy: "short", Read: readProse},
		{Name: "Req-Limit-Long", Role: RoleRemaining, Policy: "long", Read: readProse},
	}},
	{Name: "recharge", Fields: []DialectField{
		{Name: "X-Recharge-Limit", Role: RoleUsed},
	}},
	{Name: "resend", Fields: []DialectField{
		{Name: "X-Resend-Daily-Quota", Role: RoleUsed, Policy: "daily"},
		{Name: "X-Resend-Monthly-Quota", Role: RoleUsed, Policy: "monthly"},
	}},
	{Name: "riot", Fields: []DialectField{
		{Name: "X-App-Rate-Limit", Role: RoleQuota, Policy: "app", Read: readQuotaPairs},
		{Name: "X-App-Rate-Limit-Count", Role: RoleUsed, Policy: "app", Read: readUsedPairs},
		{Name: "X-Method-Rate-Limit", Role: RoleQuota, Policy: "method", Read: readQuotaPairs},
		{Name: "X-Method-Rate-Limit-Count", Role: RoleUsed, Policy: "method", Read: readUsedPairs},
	}},
	{Name: "salesforce", Fields: []DialectField{ // in a rolling day
		{Name: "Sforce-Limit-Info", Role: RoleUsed, Window: SecondsOf(86400)},
	}},
	{Name: "sentry", Fields: []DialectField{
		{Name: "X-Sentry-Rate-Limits", Role: RoleReset, Read: readBans},
	}},
	{Name: "shopify", Fields: []DialectField{
		{Name: "X-Shopify-Shop-Api-Call-Limit", Role: RoleUsed},
	}},
	{Name: "spring-cloud-gateway", Fields: []DialectField{ // a token bucket
		{Name: "X-RateLimit-Burst-Capacity", Role: RoleQuota, Unit: "tokens"},
	}},
	{Name: "twilio", Fields: []DialectField{
		{Name: "Twilio-Concurrent-Requests", Role: RoleUsed, Policy: "concurrent", Unit: ConcurrentRequests},
	}},
	{Name: "walmart", Fields: []DialectField{ // a token bucket
		{Name: "X-Current-Token-Count", Role: RoleRemaining, Unit: "tokens"},
		{Name: "X-Next-Replenish-Time", Role: RoleReset},
		{Name: "X-Next-Replenishment-Time", Role: RoleReset},
	}},
	{Name: "xero", Fields: []DialectField{
		{Name: "X-DayLimit-Remaining", Role: RoleRemaining, Policy: "day"},
		{Name: "X-MinLimit-Remaining", Role: RoleRemaining, Policy: "min"},
		{Name: "X-AppMinLimit-Remaining", Role: RoleRemaining, Policy: "appmin", Window: SecondsOf(60)},
	}},
	{Name: "yelp", Fields: []DialectField{
		{Name: "RateLimit-ResourceDailyLimit", Role: RoleQuota, Policy: "resource", Window: SecondsOf(86400)},
	}},
	{Name: "zoom", Fields: []DialectField{ // next to X-RateLimit-Category
		{Name: "X-RateLimit-Type", Role: RoleName, write: tailSyntax},
	}},
}
