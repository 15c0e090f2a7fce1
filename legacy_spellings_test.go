package ratelimit

import "testing"

// TestSpellings reads forms that the grammar has to know although no case of
// testdata/vendors has them: each row is a general form, under a name made up or
// seen in the wild.
func TestSpellings(t *testing.T) {
	runLegacy(t, []legacyCase{
		// a prefix before the anchor
		{"a vendor's word", "Orbit-RateLimit-Limit: 600\nOrbit-RateLimit-Remaining: 598\nOrbit-RateLimit-Reset: @unix+41", "orbit-ratelimit", "orbit : 598/600 w=- t=41", ""},
		{"a vendor's word behind X, and other words for the roles", "X-Kappa-Ratelimit-Max: 50\nX-Kappa-Ratelimit-Left: 12\nX-Kappa-Ratelimit-Reset-Ms: 4000", "x-kappa-ratelimit", "kappa : 12/50 w=- t=4", ""},
		{"a vendor's word, and what is used", "Kappa-Rate-Limit-Quota: 100\nKappa-Rate-Limit-Used: 3", "kappa-rate-limit", "kappa : 97/100 w=- t=-", ""},
		{"two words, and thousands", "X-Lumen-Api-Ratelimit-Total: 1,000\nX-Lumen-Api-Ratelimit-Available: 999", "x-lumen-api-ratelimit", "lumen-api : 999/1000 w=- t=-", ""},
		{"a glued word without X", "NovaRateLimit-Limit: 5\nNovaRateLimit-Remaining: 4", "novaratelimit", "nova : 4/5 w=- t=-", ""},
		{"underscores", "nova_ratelimit_limit: 5\nnova_ratelimit_remaining: 4", "nova_ratelimit", "nova : 4/5 w=- t=-", ""},
		{"a vendor's word and a window", "X-Svc-Rate-Limit-Limit-Hour: 20\nX-Svc-Rate-Limit-Remaining-Hour: 10", "x-svc-rate-limit", "svc-hour : 10/20 w=3600 t=-", ""},
		{"policies under a prefix", "Gateway-RateLimit-Limit: 100\nGateway-RateLimit-Remaining: 5\nGateway-RateLimit-Policy: 100;w=60", "gateway-ratelimit", "gateway : 5/100 w=60 t=-", ""},
		{"the Dictionary under a prefix", "X-Edge-RateLimit: limit=10, remaining=3, reset=20", "x-edge-ratelimit", "edge : 3/10 w=- t=20", ""},
		{"the current form under a prefix", "X-Edge-RateLimit: \"burst\";r=3;t=20", "x-edge-ratelimit", "burst : 3/- w=- t=20", ""},
		{"a plural", "X-RateLimits-Limit: 5\nX-RateLimits-Remaining: 4", "x-ratelimit", "default : 4/5 w=- t=-", ""},
		{"the role glued to the anchor, with a policy behind it", "X-RateLimitLimit-Search: 5\nX-RateLimitRemaining-Search: 4", "x-ratelimit", "search : 4/5 w=- t=-", ""},
		// families without an anchor
		{"calls, all three", "X-Acme-Calls-Limit: 100\nX-Acme-Calls-Remaining: 99\nX-Acme-Calls-Reset: @unix+60", "x-acme-calls", "acme-calls : 99/100 w=- t=60", ""},
		{"no X", "Api-Limit: 100\nApi-Remaining: 99", "api", "api : 99/100 w=- t=-", ""},
		{"what is allowed and what is left", "X-Quota-Allowed: 100\nX-Quota-Left: 5", "x-quota", "quota : 5/100 w=- t=-", ""},
		{"three numbers that agree", "X-Api-Quota-Max: 100\nX-Api-Quota-Current: 40\nX-Api-Quota-Remaining: 60", "x-api-quota", "api : 60/100 w=- t=-", ""},
		{"a throttle", "X-Throttle-Limit: 10\nX-Throttle-Remaining: 0\nX-Throttle-Reset: @http+9", "x-throttle", "throttle : 0/10 w=- t=9", ""},
		{"requests and a window", "X-Requests-Limit: 60\nX-Requests-Left: 59\nX-Requests-Window: 60s", "x-requests", "requests : 59/60 w=60 t=-", ""},
		{"daily", "Bar-Daily-Limit: 1000\nBar-Daily-Remaining: 900", "bar-daily", "bar-daily : 900/1000 w=86400 t=-", ""},
		{"daily alone", "X-Daily-Limit: 30\nX-Daily-Used: 1\nX-Daily-Remaining: 29", "x-daily", "daily : 29/30 w=86400 t=-", ""},
		{"hourly", "X-Hourly-Quota: 100\nX-Hourly-Quota-Remaining: 40", "x-hourly", "hourly : 40/100 w=3600 t=-", ""},
		{"the role first", "X-Limit-Requests: 100\nX-Remaining-Requests: 99\nX-Reset-Requests: 20s", "x-limit", "requests : 99/100 w=- t=20", ""},
		{"one request", "X-Request-Limit: 100\nX-Request-Remaining: 99\nX-Request-Reset: 20s", "x-request", "request : 99/100 w=- t=20", ""},
		{"what may be used", "X-Usage-Limit: 5\nX-Usage-Remaining: 4", "x-usage", "default : 4/5 w=- t=-", ""},
		{"limit as a word of the name", "X-Api-Limit: 3000\nX-Api-Limit-Remaining: 2999\nX-Api-Limit-Reset-Timestamp: @ms+5", "x-api", "api : 2999/3000 w=- t=5", ""},
		{"two limits of one family", "X-Api-Limit-Read: 500\nX-Api-Limit-Read-Remaining: 400\nX-Api-Limit-Write: 50\nX-Api-Limit-Write-Remaining: 40", "x-api-limit", "api-read : 400/500 w=- t=- | api-write : 40/50 w=- t=-", ""},
		{"what is left of five minutes", "X-Five-Min-Limit-Remaining: 98.5\nX-Five-Min-Limit-Resets-In: 298", "x-five-min-limit", "five-min : 98/- w=300 t=298", ""},
		{"requests that were counted, and the most", "X-Request-Limit-Count: 30\nX-Request-Limit-Max: 5000", "x-request-limit", "request : 4970/5000 w=- t=-", ""},
		{"requests that were used", "X-Api-Calls-Used: 3\nX-Api-Calls-Limit: 10", "x-api-calls", "api-calls : 7/10 w=- t=-", ""},
		{"the quota in one family, what is left in another", "X-Rate-Limit-Hourly: 400\nX-Hourly-Requests-Left: 399\nX-Rate-Limit-Minute: 200\nX-Minute-Requests-Left: 199", "x-rate-limit", "hourly : 399/400 w=3600 t=- | minute : 199/200 w=60 t=-", ""},
		// synonyms and word order
		{"a ceiling", "X-RateLimit-Ceiling: 10\nX-RateLimit-Remaining: 9", "x-ratelimit", "default : 9/10 w=- t=-", ""},
		{"short words", "RateLimit-Max: 10\nRateLimit-Avail: 9\nRateLimit-Refresh: 8", "draft-06", "default : 9/10 w=- t=8", ""},
		{"calls, behind the role", "X-RateLimit-Max-Calls: 10\nX-RateLimit-Remaining-Calls: 9", "x-ratelimit", "calls : 9/10 w=- t=-", ""},
		{"calls, before the role", "X-RateLimit-Calls-Allowed: 10\nX-RateLimit-Calls-Left: 9", "x-ratelimit", "calls : 9/10 w=- t=-", ""},
		{"requests that were made", "X-RateLimit-Limit: 10\nX-RateLimit-Requests-Made: 3", "x-ratelimit", "default : 7/10 w=- t=-", ""},
		{"time until the reset", "X-RateLimit-Remaining: 9\nX-RateLimit-Time-Until-Reset: 30s", "x-ratelimit", "default : 9/- w=- t=30", ""},
		{"seconds until the reset", "X-RateLimit-Remaining: 9\nX-RateLimit-Seconds-Until-Reset: 30", "x-ratelimit", "default : 9/- w=- t=30", ""},
		{"the next reset", "X-RateLimit-Remaining: 9\nX-RateLimit-Next-Reset: @unix+60", "x-ratelimit", "default : 9/- w=- t=60", ""},
		{"the reset of the window", "X-RateLimit-Remaining: 9\nX-RateLimit-Window-Reset: @unix+60", "x-ratelimit", "default : 9/- w=- t=60", ""},
		{"seconds to the reset of a quota", "X-RateLimit-Quota-Capacity: 10\nX-RateLimit-Remaining-Quota: 9\nX-RateLimit-Seconds-To-Reset-Quota: 8", "x-ratelimit", "quota : 9/10 w=- t=8", ""},
		{"seconds to the refresh of a limit", "X-RateLimit-Limit: 200\nX-RateLimit-Remaining: 195\nX-RateLimit-Seconds-To-Refresh-Limit: 0.5", "x-ratelimit", "default : 195/200 w=- t=1", ""},
		{"a count of what remains", "X-RateLimit-Limit-Count: 10\nX-RateLimit-Remaining-Count: 9", "x-ratelimit", "default : 9/10 w=- t=-", ""},
		{"the period as a policy", "X-RateLimit-Remaining-Period: 9\nX-RateLimit-Reset-Period: @unix+60", "x-ratelimit", "period : 9/- w=- t=60", ""},
		{"the current number of a policy", "X-RateLimit-Limit-Per-Minute: 10\nX-RateLimit-Current-Per-Minute: 4", "x-ratelimit", "minute : 6/10 w=60 t=-", ""},
		{"expiry", "X-RateLimit-Remaining: 9\nX-RateLimit-Expires-In: 30", "x-ratelimit", "default : 9/- w=- t=30", ""},
		{"points", "X-RateLimit-Limit-Points: 10\nX-RateLimit-Remaining-Points: 9", "x-ratelimit", "points points: 9/10 w=- t=-", ""},
		{"images, glued", "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-ImageLimit: 5\nX-RateLimit-ImageRemaining: 4", "x-ratelimit", "default : 9/10 w=- t=- | image : 4/5 w=- t=-", ""},
		// windows
		{"per and minute, glued", "X-RateLimit-Limit-PerMin: 10\nX-RateLimit-Remaining-PerMin: 9", "x-ratelimit", "permin : 9/10 w=60 t=-", ""},
		{"per and day, glued, before the role", "X-RateLimit-PerDay-Limit: 10\nX-RateLimit-PerDay-Remaining: 9", "x-ratelimit", "perday : 9/10 w=86400 t=-", ""},
		{"the role glued to its window", "X-RateLimit-LimitPerMinute: 10\nX-RateLimit-RemainingPerMinute: 9", "x-ratelimit", "perminute : 9/10 w=60 t=-", ""},
		{"the window glued to its role", "X-RateLimit-MinuteLimit: 10\nX-RateLimit-MinuteRemaining: 9", "x-ratelimit", "minute : 9/10 w=60 t=-", ""},
		{"ten seconds", "X-RateLimit-Limit-10s: 10\nX-RateLimit-Remaining-10s: 9", "x-ratelimit", "10s : 9/10 w=10 t=-", ""},
		{"24 hours", "X-RateLimit-24h-Limit: 10\nX-RateLimit-24h-Remaining: 9", "x-ratelimit", "24h : 9/10 w=86400 t=-", ""},
		{"a number of seconds", "X-RateLimit-Limit-60: 10\nX-RateLimit-Remaining-60: 9", "x-ratelimit", "60 : 9/10 w=60 t=-", ""},
		{"requests per minute", "X-RateLimit-Rpm-Limit: 10\nX-RateLimit-Rpm-Remaining: 9", "x-ratelimit", "rpm : 9/10 w=60 t=-", ""},
		{"a number and its unit", "X-RateLimit-Limit-Per-10-Seconds: 10\nX-RateLimit-Remaining-Per-10-Seconds: 9", "x-ratelimit", "10-seconds : 9/10 w=10 t=-", ""},
		{"a number in words", "X-RateLimit-Limit-Fifteen-Minutes: 10\nX-RateLimit-Remaining-Fifteen-Minutes: 9", "x-ratelimit", "fifteen-minutes : 9/10 w=900 t=-", ""},
		{"a window behind another word", "X-RateLimit-Limit-Daily-Global: 10\nX-RateLimit-Remaining-Daily-Global: 9", "x-ratelimit", "daily-global : 9/10 w=86400 t=-", ""},
		{"objects a second", "X-RateLimit-Limit-Per-Second-Objects: 10\nX-RateLimit-Remaining-Per-Second-Objects: 9", "x-ratelimit", "second-objects : 9/10 w=1 t=-", ""},
		// a second limit
		{"daily next to the plain one", "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Limit-Daily: 100\nX-RateLimit-Remaining-Daily: 90", "x-ratelimit", "daily : 90/100 w=86400 t=- | default : 9/10 w=- t=-", ""},
		{"burst, glued", "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-BurstLimit: 5\nX-RateLimit-BurstRemaining: 4", "x-ratelimit", "burst : 4/5 w=- t=- | default : 9/10 w=- t=-", ""},
		{"requests in all next to those of a second", "X-RateLimit-Requests-Limit: 100\nX-RateLimit-Requests-Remaining: 99\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9", "x-ratelimit", "default : 9/10 w=- t=- | requests : 99/100 w=- t=-", ""},
		{"in the names of the drafts", "RateLimit-Limit: 10\nRateLimit-Remaining: 9\nRateLimit-Reset: 8\nRateLimit-Daily-Limit: 100\nRateLimit-Daily-Remaining: 90", "draft-06", "daily : 90/100 w=86400 t=- | default : 9/10 w=- t=8", ""},
		// lists
		{"parallel lists with windows", "X-RateLimit-Limit: 10, 1000\nX-RateLimit-Remaining: 9, 950\nX-RateLimit-Window: 1, 3600", "x-ratelimit", "1000/3600 : 950/1000 w=3600 t=- | default : 9/10 w=1 t=-", ""},
		{"parallel lists with bars", "X-RateLimit-Limit: 10|1000\nX-RateLimit-Remaining: 9|950", "x-ratelimit", "1000 : 950/1000 w=- t=- | default : 9/10 w=- t=-", ""},
		// pairs
		{"used and quota", "X-RateLimit-Usage: 5/100", "x-ratelimit", "default : 95/100 w=- t=-", ""},
		{"remaining and quota", "X-RateLimit-Remaining: 95/100", "x-ratelimit", "default : 95/100 w=- t=-", ""},
		{"used and quota of a day", "X-RateLimit-Daily: 5/100", "x-ratelimit", "daily : 95/100 w=86400 t=-", ""},
		{"quota and window in words", "X-RateLimit-Limit: 100/minute\nX-RateLimit-Remaining: 9", "x-ratelimit", "default : 9/100 w=60 t=-", ""},
		{"quota per window", "X-RateLimit-Limit: \"5 per 60s\"\nX-RateLimit-Remaining: 2", "x-ratelimit", "default : 2/5 w=60 t=-", ""},
		{"quota per window in prose", "X-RateLimit-Limit: 100 requests per 15 minutes\nX-RateLimit-Remaining: 2", "x-ratelimit", "default : 2/100 w=900 t=-", ""},
		{"quota and window under the anchor", "X-RateLimit: 100/60\nX-RateLimit-Remaining: 9", "x-ratelimit", "default : 9/100 w=60 t=-", ""},
		// records
		{"a record with semicolons", "X-RateLimit: limit=100; remaining=99; reset=30", "x-ratelimit", "default : 99/100 w=- t=30", ""},
		{"a record with colons", "X-RateLimit: limit:100,remaining:99,reset:30", "x-ratelimit", "default : 99/100 w=- t=30", ""},
		{"records of windows", "X-RateLimit-Limit: minute=60, hour=1000\nX-RateLimit-Remaining: minute=59, hour=999", "x-ratelimit", "hour : 999/1000 w=3600 t=- | minute : 59/60 w=60 t=-", ""},
		{"a record with a name", "X-RateLimit: name=search; max=30; left=29; window=60", "x-ratelimit", "search : 29/30 w=60 t=-", ""},
		{"a record under a word for it", "X-RateLimit-Status: limit=100; remaining=99", "x-ratelimit", "default : 99/100 w=- t=-", ""},
		// JSON
		{"a date in JSON", `X-RateLimit: {"name":"General","period":60,"limit":1000,"remaining":999,"until":"@rfc+30"}`, "x-ratelimit", "General : 999/1000 w=60 t=30", ""},
		{"an array of objects", `X-RateLimit: [{"name":"minute","limit":60,"remaining":59},{"name":"day","limit":900,"remaining":890}]`, "x-ratelimit", "day : 890/900 w=86400 t=- | minute : 59/60 w=60 t=-", ""},
		{"names in camel case", `X-RateLimit: {"perMinute":{"max":60,"left":59}}`, "x-ratelimit", "perminute : 59/60 w=60 t=-", ""},
		{"numbers by name", `X-RateLimit-Remaining: {"minute":59,"day":999}`, "x-ratelimit", "day : 999/- w=86400 t=- | minute : 59/- w=60 t=-", ""},
		{"an object around objects", `X-RateLimit: {"limits":{"requests":{"limit":10,"remaining":9}}}`, "x-ratelimit", "requests : 9/10 w=- t=-", ""},
		{"numbers as texts", `X-RateLimit: {"rate_limit":"10","rate_remaining":"9","reset_after_ms":5000}`, "x-ratelimit", "default : 9/10 w=- t=5", ""},
		{"JSON under a word for it", `X-RateLimit-Info: {"limit":10,"remaining":9}`, "x-ratelimit", "default : 9/10 w=- t=-", ""},
	})
}
