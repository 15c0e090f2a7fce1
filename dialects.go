package ratelimit

import (
	"maps"
	"slices"
)

// Dialects returns the built-in dialects, the most specific first, in the order
// in which [ParseLegacy] tries them. The copy is the caller's.
//
// A dialect whose fields look like those of another is passed over unless
// something in the response tells it, and some have to be asked for, in
// [LegacyOptions]: those that differ from "draft-06", "x-ratelimit" or
// "x-rate-limit" in nothing but the unit of the reset.
func Dialects() []Dialect {
	list := slices.Clone(table)
	for i := range list {
		list[i] = list[i].clone()
	}
	return list
}

// LookupDialect returns a copy of the built-in dialect with that name.
func LookupDialect(name string) (Dialect, bool) {
	for i := range table {
		if table[i].Name == name {
			return table[i].clone(), true
		}
	}
	return Dialect{}, false
}

func (d Dialect) clone() Dialect {
	d.Windows, d.Units = maps.Clone(d.Windows), maps.Clone(d.Units)
	return d
}

// builtin is the table, compiled.
var builtin = newIndex(compile(table))

// commonWindows are the seconds of words for a window. Months and years are
// calendars, and have none.
var commonWindows = map[string]int64{
	"second": 1, "sec": 1, "secondly": 1, "qps": 1,
	"minute": 60, "min": 60, "minutely": 60,
	"hour": 3600, "hourly": 3600,
	"day": 86400, "daily": 86400,
	"week": 604800, "weekly": 604800,
}

// minutely is for dialects whose window is always a minute, daily for a day.
var (
	minutely = map[string]int64{"*": 60}
	daily    = map[string]int64{"*": 86400}
)

// commonUnits are the units that names of policies tell.
var commonUnits = map[string]Unit{
	"tokens":     tokens,
	"images":     "images",
	"characters": "characters",
	"complexity": "complexity",
	"credits":    "credits",
	"points":     "points",
}

// tokens are units of work of a model, or of a token bucket.
const tokens Unit = "tokens"

var allTokens = map[string]Unit{"*": tokens}

// words are lower-case names of policies by their spelling in a canonical key.
var words = func() map[string]string {
	m := map[string]string{}
	for _, list := range [][]string{
		{"requests", "Requests"}, {"tokens", "Tokens"}, {"input-tokens", "Input-Tokens"}, {"output-tokens", "Output-Tokens"},
		{"second", "Second"}, {"minute", "Minute"}, {"hour", "Hour"}, {"day", "Day"}, {"month", "Month"},
		{"user", "User"}, {"client", "Client"}, {"complexity", "Complexity"},
	} {
		m[list[0]], m[list[1]] = list[0], list[0]
	}
	return m
}()

// What all that write the triple RateLimit-Limit, RateLimit-Remaining and
// RateLimit-Reset may add to it.
var tripleMore = []cell{
	{role: policyRole, name: "RateLimit-Policy"},
	{role: bucketRole, name: "RateLimit-Name"},
	{role: bucketRole, name: "RateLimit-Scope"}, // Buildkite
	{role: usedRole, name: "RateLimit-Observed"},
	{role: usedRole, name: "RateLimit-Used"},
	{role: windowRole, name: "RateLimit-Window"},
	{role: resetRole, name: "RateLimit-Reset-After", format: ResetDelta},
	{role: resetRole, name: "RateLimit-ResetTime"},
}

// The same for X-RateLimit-Limit, with its synonyms.
var xMore = []cell{
	{role: limitRole, name: "X-RateLimit-Total"}, // Freshdesk
	{role: resetRole, name: "X-RateLimit-Reset-After", format: ResetDelta},
	{role: resetRole, name: "X-RateLimit-Reset-In", format: ResetDelta},
	{role: resetRole, name: "X-RateLimit-After", format: ResetDelta},
	{role: resetRole, name: "X-RateLimit-Reset-At"},
	{role: resetRole, name: "X-RateLimit-Reset-Date"},
	{role: resetRole, name: "X-RateLimit-Reset-Time"},
	{role: resetRole, name: "X-RateLimit-Next"},
	{role: resetRole, name: "X-RateLimit-Clear"},
	{role: usedRole, name: "X-RateLimit-Used"},
	{role: usedRole, name: "X-RateLimit-Observed"},
	{role: usedRole, name: "X-RateLimit-Usage"},
	{role: windowRole, name: "X-RateLimit-Period"},
	{role: windowRole, name: "X-RateLimit-Window"},
	{role: windowRole, name: "X-RateLimit-Interval"},
	{role: bucketRole, name: "X-RateLimit-Resource"},
	{role: bucketRole, name: "X-RateLimit-Category"},
	{role: bucketRole, name: "X-RateLimit-Bucket"},
	{role: bucketRole, name: "X-RateLimit-Name"},
	{role: bucketRole, name: "X-RateLimit-Group"},
	{role: policyRole, name: "X-RateLimit-Policy"},
}

// The same for X-Rate-Limit-Limit.
var xRateMore = []cell{
	{role: limitRole, name: "X-Rate-Limit"}, // Zendesk, CometChat
	{role: limitRole, name: "X-Rate-Limit-Total"},
	{role: resetRole, name: "X-Rate-Limit-Reset-After", format: ResetDelta},
	{role: resetRole, name: "X-Rate-Limit-Next"},
	{role: resetRole, name: "X-Rate-Limit-Clear"},
	{role: usedRole, name: "X-Rate-Limit-Used"},
	{role: usedRole, name: "X-Rate-Limit-Observed"},
	{role: windowRole, name: "X-Rate-Limit-Period"},
	{role: windowRole, name: "X-Rate-Limit-Window"},
	{role: windowRole, name: "X-Rate-Limit-Duration"},
	{role: windowRole, name: "X-Rate-Limit-Interval"}, // Crossref
	{role: bucketRole, name: "X-Rate-Limit-Resource"},
	{role: bucketRole, name: "X-Rate-Limit-Bucket"},
	{role: bucketRole, name: "X-Rate-Limit-Name"},
	{role: bucketRole, name: "X-Rate-Limit-Group"},
	{role: policyRole, name: "X-Rate-Limit-Policy"},
}

// table is all there is to know of each dialect.
var table = []Dialect{
	// Vendors with a mark beside names that others have, too.
	{
		Name:  "github",
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset",
		Used: "X-RateLimit-Used", Bucket: "X-RateLimit-Resource",
		Format: ResetUnix,
		traits: traits{marks: []string{"X-RateLimit-Used", "X-RateLimit-Resource"}, all: true, doubt: true},
	},
	{
		Name:  "gitlab",
		Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset",
		Used: "RateLimit-Observed", Bucket: "RateLimit-Name",
		Format:  ResetUnix,
		Windows: minutely, // the limit is scaled to it
		traits: traits{
			doubt: true,
			marks: []string{"RateLimit-Observed"},
			more: []cell{
				{role: resetRole, name: "RateLimit-ResetTime", format: ResetDate},
				{role: policyRole, name: "RateLimit-Policy"},
			},
		},
	},
	{
		Name:  "tollbooth",
		Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset",
		Window: "X-Rate-Limit-Duration",
		Format: ResetDelta,
		traits: traits{
			marks: []string{"X-Rate-Limit-Duration"},
			more: []cell{
				{role: limitRole, name: "X-Rate-Limit-Limit"},
				{role: policyRole, name: "RateLimit-Policy"},
			},
		},
	},
	{
		Name:  "zendesk",
		Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset",
		Format: ResetDelta,
		traits: traits{
			marks: []string{"Zendesk-RateLimit-*"},
			more: []cell{
				{role: limitRole, name: "X-Rate-Limit"},
				{role: remainingRole, name: "X-Rate-Limit-Remaining"},
				{role: recordRole, name: "Zendesk-RateLimit-*", format: ResetDelta},
				{role: policyRole, name: "RateLimit-Policy"},
			},
		},
	},
	{
		Name:  "resend",
		Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset",
		Format: ResetDelta,
		traits: traits{
			marks: []string{"X-Resend-Daily-Quota", "X-Resend-Monthly-Quota"},
			more: []cell{
				{role: usedRole, name: "X-Resend-Daily-Quota", group: "daily"},
				{role: usedRole, name: "X-Resend-Monthly-Quota", group: "monthly"},
				{role: policyRole, name: "RateLimit-Policy"},
			},
		},
	},
	{
		Name:  "yelp",
		Limit: "RateLimit-DailyLimit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-ResetTime",
		Format:  ResetDate,
		Windows: daily,
		traits: traits{
			group: "daily",
			marks: []string{"RateLimit-DailyLimit", "RateLimit-ResourceDailyLimit"},
			more: []cell{
				{role: limitRole, name: "RateLimit-ResourceDailyLimit", group: "resource"},
				{role: remainingRole, name: "RateLimit-ResourceRemaining", group: "resource"},
				{role: resetRole, name: "RateLimit-ResetTime", group: "resource", format: ResetDate},
			},
		},
	},
	{
		Name:  "auth0",
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset",
		Format:  ResetUnix,
		Windows: commonWindows,
		Units:   map[string]Unit{"client": tokens, "organization": tokens},
		traits: traits{
			marks: []string{"Auth0-Client-Quota-Limit", "Auth0-Organization-Quota-Limit"},
			more: []cell{
				{role: recordRole, name: "Auth0-Client-Quota-Limit", group: "client", format: ResetDelta},
				{role: recordRole, name: "Auth0-Organization-Quota-Limit", group: "organization", format: ResetDelta},
			},
		},
	},
	{
		Name:  "atlassian",
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset",
		Format: ResetDate,
		Units:  map[string]Unit{"global-app-quota": "points"},
		traits: traits{
			marks: []string{"Beta-RateLimit", "Beta-RateLimit-Policy"},
			more: []cell{
				{role: listRole, name: "Beta-RateLimit"},
				{role: listPolicyRole, name: "Beta-RateLimit-Policy"},
			},
		},
	},
	{
		Name:  "zoom",
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset",
		Bucket:  "X-RateLimit-Category",
		Format:  ResetUnix,
		Windows: commonWindows,
		traits: traits{
			doubt: true,
			marks: []string{"X-RateLimit-Category"},
			more:  []cell{{role: tailRole, name: "X-RateLimit-Type"}},
		},
	},
	{
		Name:  "eve-online",
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining",
		Used: "X-RateLimit-Used", Bucket: "X-RateLimit-Group",
		Windows: map[string]int64{"error-limit": 60},
		Units:   map[string]Unit{"error-limit": "errors"},
		traits: traits{
			marks: []string{"X-Esi-Error-Limit-Remain", "X-Esi-Error-Limit-Reset"},
			more: []cell{
				{role: remainingRole, name: "X-Esi-Error-Limit-Remain", group: "error-limit"},
				{role: resetRole, name: "X-Esi-Error-Limit-Reset", group: "error-limit", format: ResetDelta},
			},
		},
	},
	{
		Name:  "spring-cloud-gateway",
		Limit: "X-RateLimit-Burst-Capacity", Remaining: "X-RateLimit-Remaining",
		Units:  allTokens,
		traits: traits{marks: []string{"X-RateLimit-Burst-Capacity"}, dash: true},
	},
	{
		Name:  "zuul",
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset",
		Format: ResetDeltaMillis,
		traits: traits{marks: []string{"X-RateLimit-Quota", "X-RateLimit-Remaining-Quota"}},
	},
	{
		Name:  "zuul-verbose", // the * is a key such as service_10.0.0.1
		Limit: "X-RateLimit-Limit-*", Remaining: "X-RateLimit-Remaining-*", Reset: "X-RateLimit-Reset-*",
		Format: ResetDeltaMillis,
		traits: traits{
			marks: []string{"X-RateLimit-Quota-*", "X-RateLimit-Limit-rate-limit-application_*"},
			more:  []cell{{role: ignoredRole, name: "X-RateLimit-Remaining-Quota-*"}},
		},
	},
	{
		Name:  "twitter",
		Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset",
		Format:  ResetUnix,
		Windows: map[string]int64{"app-24hour": 86400, "user-24hour": 86400},
		traits: traits{
			marks: []string{"X-App-Limit-24hour-*", "X-User-Limit-24hour-*"},
			more: []cell{
				{role: limitRole, name: "X-App-Limit-24hour-Limit", group: "app-24hour"},
				{role: remainingRole, name: "X-App-Limit-24hour-Remaining", group: "app-24hour"},
				{role: resetRole, name: "X-App-Limit-24hour-Reset", group: "app-24hour", format: ResetUnix},
				{role: limitRole, name: "X-User-Limit-24hour-Limit", group: "user-24hour"},
				{role: remainingRole, name: "X-User-Limit-24hour-Remaining", group: "user-24hour"},
				{role: resetRole, name: "X-User-Limit-24hour-Reset", group: "user-24hour", format: ResetUnix},
			},
		},
	},
	{
		Name:  "gravitee",
		Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset",
		Format: ResetUnixMillis,
		traits: traits{
			dash:  true,
			marks: []string{"X-Quota-Limit", "X-Quota-Remaining", "X-Quota-Reset"},
			more: []cell{
				{role: limitRole, name: "X-Quota-Limit", group: "quota"},
				{role: remainingRole, name: "X-Quota-Remaining", group: "quota"},
				{role: resetRole, name: "X-Quota-Reset", group: "quota", format: ResetUnixMillis},
			},
		},
	},
	{
		Name:    "strava",
		Limit:   "X-RateLimit-Limit",
		Windows: commonWindows,
		traits: traits{
			doubt:  true,
			syntax: columnsRole,
			marks:  []string{"X-RateLimit-Usage", "X-ReadRateLimit-Limit", "X-ReadRateLimit-Usage"},
			more: []cell{
				{role: columnUsedRole, name: "X-RateLimit-Usage"},
				{role: columnsRole, name: "X-ReadRateLimit-Limit", group: "read"},
				{role: columnUsedRole, name: "X-ReadRateLimit-Usage", group: "read"},
			},
		},
	},

	// Vendors with names of their own.
	{
		Name:   "amazon-sp-api",
		Limit:  "X-Amzn-RateLimit-Limit",
		traits: traits{syntax: rateRole},
	},
	{
		Name:  "anthropic",
		Limit: "Anthropic-RateLimit-*-Limit", Remaining: "Anthropic-RateLimit-*-Remaining", Reset: "Anthropic-RateLimit-*-Reset",
		Format: ResetDate,
		Units:  commonUnits,
	},
	{
		Name:      "apisix",
		Limit:     "X-AI-*-RateLimit-Limit",
		Remaining: "X-AI-*-RateLimit-Remaining",
		Reset:     "X-AI-*-RateLimit-Reset",
		Format:    ResetDelta,
		Units:     allTokens,
	},
	{
		Name:      "azure",
		Remaining: "X-Ms-RateLimit-Remaining-*",
		traits: traits{more: []cell{
			{role: headRole, name: "X-Ms-RateLimit-Remaining-Resource"},
			{role: remainingRole, name: "X-Ms-User-Quota-Remaining", group: "user-quota"},
			{role: resetRole, name: "X-Ms-User-Quota-Resets-After", group: "user-quota", format: ResetDuration},
		}},
	},
	{
		Name:  "bigcommerce",
		Limit: "X-Rate-Limit-Requests-Quota", Remaining: "X-Rate-Limit-Requests-Left",
		Reset: "X-Rate-Limit-Time-Reset-Ms", Window: "X-Rate-Limit-Time-Window-Ms",
		Format: ResetDeltaMillis,
	},
	{
		Name: "binance",
		Used: "X-Mbx-Used-*",
		traits: traits{
			dash: true,
			more: []cell{
				{role: usedRole, name: "X-Mbx-Order-Count-*", group: "order-count"},
				{role: usedRole, name: "X-Sapi-Used-*", group: "sapi"},
			},
		},
	},
	{
		Name:  "brevo",
		Limit: "X-Sib-RateLimit-Limit", Remaining: "X-Sib-RateLimit-Remaining", Reset: "X-Sib-RateLimit-Reset",
		Format: ResetDelta,
	},
	{
		Name:  "bybit",
		Limit: "X-Bapi-Limit", Remaining: "X-Bapi-Limit-Status", Reset: "X-Bapi-Limit-Reset-Timestamp",
		Format: ResetUnixMillis,
	},
	{
		Name:  "cohere",
		Limit: "X-Trial-Endpoint-Call-Limit", Remaining: "X-Trial-Endpoint-Call-Remaining",
		traits: traits{
			group: "trial",
			more: []cell{
				{role: limitRole, name: "X-Endpoint-Monthly-Call-Limit", group: "monthly"},
				{role: remainingRole, name: "X-Endpoint-Monthly-Call-Remaining", group: "monthly"},
			},
		},
	},
	{
		Name:  "contentful",
		Limit: "X-Contentful-RateLimit-*-Limit", Remaining: "X-Contentful-RateLimit-*-Remaining",
		Windows: commonWindows,
		traits:  traits{more: []cell{{role: resetRole, name: "X-Contentful-RateLimit-Reset", format: ResetDelta}}},
	},
	{
		Name:  "discogs",
		Limit: "X-Discogs-RateLimit", Remaining: "X-Discogs-RateLimit-Remaining", Used: "X-Discogs-RateLimit-Used",
		Windows: minutely,
	},
	{
		Name:  "etsy",
		Limit: "X-Limit-Per-*", Remaining: "X-Remaining-This-*",
		Windows: commonWindows,
		traits:  traits{more: []cell{{role: remainingRole, name: "X-Remaining-Today", group: "day"}}},
	},
	{
		Name:  "gate",
		Limit: "X-Gate-RateLimit-Limit", Remaining: "X-Gate-RateLimit-Requests-Remain", Reset: "X-Gate-RateLimit-Reset-Timestamp",
		Format: ResetUnix,
	},
	{
		Name:  "hubspot",
		Limit: "X-HubSpot-RateLimit-Max", Remaining: "X-HubSpot-RateLimit-Remaining",
		Window:  "X-HubSpot-RateLimit-Interval-Milliseconds",
		Windows: map[string]int64{"daily": 86400, "secondly": 1},
		traits: traits{
			group: "interval",
			more: []cell{
				{role: limitRole, name: "X-HubSpot-RateLimit-Daily", group: "daily"},
				{role: remainingRole, name: "X-HubSpot-RateLimit-Daily-Remaining", group: "daily"},
				{role: limitRole, name: "X-HubSpot-RateLimit-Secondly", group: "secondly"},
				{role: remainingRole, name: "X-HubSpot-RateLimit-Secondly-Remaining", group: "secondly"},
			},
		},
	},
	{
		Name:      "ip-api",
		Remaining: "X-Rl",
		Reset:     "X-Ttl",
		Format:    ResetDelta,
		traits:    traits{marks: []string{"X-Rl"}}, // caches have X-Ttl, too
	},
	{
		Name:  "kong-ai", // and APISIX
		Limit: "X-AI-RateLimit-Limit-*", Remaining: "X-AI-RateLimit-Remaining-*", Reset: "X-AI-RateLimit-Reset-*",
		Format:  ResetDelta,
		Windows: commonWindows,
		Units:   allTokens,
		traits: traits{
			beside: true,
			more: []cell{
				{role: limitRole, name: "X-AI-RateLimit-Limit"},
				{role: remainingRole, name: "X-AI-RateLimit-Remaining"},
				{role: resetRole, name: "X-AI-RateLimit-Reset", format: ResetDelta},
			},
		},
	},
	{
		Name:  "kucoin",
		Limit: "Gw-RateLimit-Limit", Remaining: "Gw-RateLimit-Remaining", Reset: "Gw-RateLimit-Reset",
		Format: ResetDeltaMillis,
	},
	{
		Name:  "lark",
		Limit: "X-Ogw-RateLimit-Limit", Remaining: "X-Ogw-RateLimit-Remaining", Reset: "X-Ogw-RateLimit-Reset",
		Format: ResetDelta,
	},
	{
		Name:  "lightspeed",
		Limit: "X-LS-API-Bucket-Level",
		traits: traits{
			syntax: ratioRole,
			group:  "bucket",
			more:   []cell{{role: ratioRole, name: "X-LS-API-Burst-Level", group: "burst"}},
		},
	},
	{
		Name:  "meta",
		Limit: "X-App-Usage",
		Units: map[string]Unit{"*": "percent"},
		traits: traits{
			syntax: percentRole,
			more: []cell{
				{role: percentRole, name: "X-Business-Use-Case-Usage"},
				{role: percentRole, name: "X-Ad-Account-Usage"},
				{role: percentRole, name: "X-FB-Ads-Insights-Throttle"},
			},
		},
	},
	{
		Name:  "mistral",
		Limit: "X-RateLimitBySize-Limit-*", Remaining: "X-RateLimitBySize-Remaining-*",
		Windows: commonWindows,
		Units:   allTokens,
		traits: traits{more: []cell{
			{role: limitRole, name: "RateLimitBySize-Limit"},
			{role: remainingRole, name: "RateLimitBySize-Remaining"},
			{role: resetRole, name: "RateLimitBySize-Reset", format: ResetDelta},
		}},
	},
	{
		Name:  "openai",
		Limit: "X-RateLimit-Limit-*", Remaining: "X-RateLimit-Remaining-*", Reset: "X-RateLimit-Reset-*",
		Format:  ResetDuration,
		Windows: commonWindows,
		Units:   commonUnits,
		traits: traits{marks: []string{
			"X-RateLimit-Limit-Requests", "X-RateLimit-Remaining-Requests",
			"X-RateLimit-Limit-Tokens", "X-RateLimit-Remaining-Tokens",
			"X-RateLimit-Limit-Requests-*", "X-RateLimit-Remaining-Requests-*",
			"X-RateLimit-Limit-Tokens-*", "X-RateLimit-Remaining-Tokens-*",
		}},
	},
	{
		Name:  "pingdom",
		Limit: "Req-Limit-Short",
		traits: traits{
			syntax: proseRole,
			group:  "short",
			more:   []cell{{role: proseRole, name: "Req-Limit-Long", group: "long"}},
		},
	},
	{
		Name:  "riot",
		Limit: "X-App-Rate-Limit",
		traits: traits{
			syntax: pairsRole,
			group:  "app",
			more: []cell{
				{role: pairsUsedRole, name: "X-App-Rate-Limit-Count", group: "app"},
				{role: pairsRole, name: "X-Method-Rate-Limit", group: "method"},
				{role: pairsUsedRole, name: "X-Method-Rate-Limit-Count", group: "method"},
			},
		},
	},
	{
		Name:    "salesforce",
		Limit:   "Sforce-Limit-Info",
		Windows: daily,
		traits:  traits{syntax: ratioRole},
	},
	{
		Name:  "sentry",
		Limit: "X-Sentry-Rate-Limit-Limit", Remaining: "X-Sentry-Rate-Limit-Remaining", Reset: "X-Sentry-Rate-Limit-Reset",
		Format: ResetUnix,
		Units:  map[string]Unit{"concurrent": ConcurrentRequests},
		traits: traits{more: []cell{
			{role: limitRole, name: "X-Sentry-Rate-Limit-ConcurrentLimit", group: "concurrent"},
			{role: remainingRole, name: "X-Sentry-Rate-Limit-ConcurrentRemaining", group: "concurrent"},
			{role: secondsRole, name: "X-Sentry-Rate-Limits"},
		}},
	},
	{
		Name:   "shopify",
		Limit:  "X-Shopify-Shop-Api-Call-Limit",
		traits: traits{syntax: ratioRole},
	},
	{
		Name:  "trello",
		Limit: "X-Rate-Limit-*-Max", Remaining: "X-Rate-Limit-*-Remaining", Window: "X-Rate-Limit-*-Interval-Ms",
		traits: traits{marks: []string{"X-Rate-Limit-*-Max", "X-Rate-Limit-*-Interval-Ms"}},
	},
	{
		Name:   "twilio",
		Used:   "Twilio-Concurrent-Requests",
		Units:  map[string]Unit{"*": ConcurrentRequests},
		traits: traits{group: "concurrent"},
	},
	{
		Name:      "xero",
		Remaining: "X-DayLimit-Remaining",
		Windows:   map[string]int64{"day": 86400, "min": 60, "appmin": 60},
		traits: traits{
			group: "day",
			more: []cell{
				{role: remainingRole, name: "X-MinLimit-Remaining", group: "min"},
				{role: remainingRole, name: "X-AppMinLimit-Remaining", group: "appmin"},
			},
		},
	},

	// Families whose names carry the name of the policy.
	{
		Name:  "x-ratelimit-scoped", // X-RateLimit-UserLimit: Imgur, hapi
		Limit: "X-RateLimit-*Limit", Remaining: "X-RateLimit-*Remaining", Reset: "X-RateLimit-*Reset",
		traits: traits{more: []cell{
			{role: ignoredRole, name: "X-RateLimit-NearLimit"}, // true or false
			{role: limitRole, name: "X-Post-Rate-Limit-Limit", group: "post"},
			{role: remainingRole, name: "X-Post-Rate-Limit-Remaining", group: "post"},
			{role: resetRole, name: "X-Post-Rate-Limit-Reset", group: "post", format: ResetDelta},
		}},
	},
	{
		Name:  "x-ratelimit-suffix", // X-RateLimit-Limit-Minute: Kong, NestJS, and the plain fields beside them
		Limit: "X-RateLimit-Limit-*", Remaining: "X-RateLimit-Remaining-*", Reset: "X-RateLimit-Reset-*",
		Windows: commonWindows,
		Units:   commonUnits,
		traits: traits{
			beside: true,
			more: []cell{
				{role: ignoredRole, name: "X-RateLimit-Reset-After"}, // not a policy's name
				{role: ignoredRole, name: "X-RateLimit-Reset-In"},
				{role: ignoredRole, name: "X-RateLimit-Reset-At"},
				{role: ignoredRole, name: "X-RateLimit-Reset-Date"},
				{role: ignoredRole, name: "X-RateLimit-Reset-Time"},
				{role: ignoredRole, name: "X-RateLimit-Remaining-Quota"},
				{role: limitRole, name: "RateLimit-Limit"},
				{role: remainingRole, name: "RateLimit-Remaining"},
				{role: resetRole, name: "RateLimit-Reset"},
				{role: limitRole, name: "X-RateLimit-Limit"},
				{role: remainingRole, name: "X-RateLimit-Remaining"},
				{role: resetRole, name: "X-RateLimit-Reset"},
			},
		},
	},
	{
		Name:  "x-rate-limit-suffix",
		Limit: "X-Rate-Limit-Limit-*", Remaining: "X-Rate-Limit-Remaining-*", Reset: "X-Rate-Limit-Reset-*",
		Windows: commonWindows,
		Units:   commonUnits,
		traits: traits{
			beside: true,
			more: []cell{
				{role: ignoredRole, name: "X-Rate-Limit-Reset-After"},
				{role: limitRole, name: "X-Rate-Limit-Limit"},
				{role: remainingRole, name: "X-Rate-Limit-Remaining"},
				{role: resetRole, name: "X-Rate-Limit-Reset"},
			},
		},
	},
	{
		Name:  "x-ratelimit-infix", // X-RateLimit-Requests-Limit: Linear, RapidAPI
		Limit: "X-RateLimit-*-Limit", Remaining: "X-RateLimit-*-Remaining", Reset: "X-RateLimit-*-Reset",
		Windows: commonWindows,
		Units:   commonUnits,
	},
	{
		Name:  "x-rate-limit-infix",
		Limit: "X-Rate-Limit-*-Limit", Remaining: "X-Rate-Limit-*-Remaining", Reset: "X-Rate-Limit-*-Reset",
		Windows: commonWindows,
		Units:   commonUnits,
	},

	// Generations of the specification, and who uses their names.
	{
		Name:   "draft-07",
		Limit:  "RateLimit",
		Policy: "RateLimit-Policy",
		traits: traits{syntax: dictionaryRole, needs: limitSign},
	},
	{
		Name:  "draft-00",
		Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset",
		traits: traits{needs: windowSign | dateSign, seconds: true, window: windowName, more: tripleMore},
	},
	{
		Name:  "draft-03",
		Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset",
		traits: traits{needs: listSign, seconds: true, window: windowKey, more: tripleMore},
	},
	{
		Name:  "draft-06",
		Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset",
		Policy: "RateLimit-Policy",
		traits: traits{seconds: true, more: tripleMore[1:]},
	},
	{
		Name:  "draft-08", // drafts 08 to 11 where they are not kept to
		Limit: "RateLimit",
		traits: traits{
			syntax: listRole,
			more:   []cell{{role: listPolicyRole, name: "RateLimit-Policy"}},
		},
	},

	// The families that most servers write.
	{
		Name:  "x-ratelimit",
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset",
		traits: traits{more: xMore},
	},
	{
		Name:  "x-rate-limit",
		Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset",
		traits: traits{resetDash: true, more: xRateMore}, // Gravitee
	},
	{
		Name:  "x-vendor-ratelimit", // the * is that of a vendor
		Limit: "X-*-RateLimit-Limit", Remaining: "X-*-RateLimit-Remaining", Reset: "X-*-RateLimit-Reset",
	},
	{
		Name:  "x-vendor-rate-limit",
		Limit: "X-*-Rate-Limit-Limit", Remaining: "X-*-Rate-Limit-Remaining", Reset: "X-*-Rate-Limit-Reset",
	},

	// Dialects that nothing tells from these but the unit of the reset.
	{
		Name:  "ratelimit-unix", // Bluesky, DigitalOcean, Hetzner, Twitch
		Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset",
		Policy: "RateLimit-Policy",
		Format: ResetUnix,
		traits: traits{hint: true, more: tripleMore[1:]},
	},
	{
		Name:  "ratelimit-date", // GoCardless
		Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset",
		Format: ResetDate,
		traits: traits{hint: true, more: tripleMore},
	},
	{
		Name:  "x-ratelimit-delta", // fastify, Reddit, throttled
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset",
		Format: ResetDelta,
		traits: traits{hint: true, more: xMore},
	},
	{
		Name:  "x-ratelimit-unix", // express-rate-limit, httprate, Laravel, SendGrid, ulule
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset",
		Format: ResetUnix,
		traits: traits{hint: true, more: xMore},
	},
	{
		Name:  "x-ratelimit-unix-ms", // OpenRouter
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset",
		Format: ResetUnixMillis,
		traits: traits{hint: true, more: xMore},
	},
	{
		Name:  "x-ratelimit-date", // go-limiter, Mastodon
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Reset: "X-RateLimit-Reset",
		Format: ResetDate,
		traits: traits{hint: true, more: xMore},
	},
	{
		Name:  "x-rate-limit-unix", // Okta, X
		Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset",
		Format: ResetUnix,
		traits: traits{hint: true, more: xRateMore},
	},
	{
		Name:  "x-rate-limit-ms", // Nuvemshop, Prisjakt
		Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset",
		Format: ResetDeltaMillis,
		traits: traits{hint: true, more: xRateMore},
	},
	{
		Name:  "linear",
		Limit: "X-RateLimit-*-Limit", Remaining: "X-RateLimit-*-Remaining", Reset: "X-RateLimit-*-Reset",
		Format: ResetUnixMillis,
		Units:  commonUnits,
		traits: traits{hint: true},
	},
	{
		Name:  "rapidapi",
		Limit: "X-RateLimit-*-Limit", Remaining: "X-RateLimit-*-Remaining", Reset: "X-RateLimit-*-Reset",
		Format: ResetDelta,
		traits: traits{hint: true},
	},
}
