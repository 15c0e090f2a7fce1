package ratelimit

import "strings"

// A wordClass is the part that a word plays in a name.
type wordClass uint8

const (
	otherWord wordClass = iota // a part of a policy's name
	valueWord                  // the role of a number or a time
	titleWord                  // the role of a policy's name
	listWord                   // the role of Integer policies
	unitWord                   // of a time
	emptyWord                  // says nothing: per, this
	retryWord                  // how long to wait
	labelWord                  // part of a policy's name next to a role, else a stop word
	stopWord                   // the field is no limit
	stateWord                  // a stop word, unless it is alone and the value is a record
	rateWord                   // of a rate that is not one of requests, before the anchor
	thingWord                  // of which servers say how many remain, and which are no requests
)

// A word is one word of a name, and what the language says about it.
type word struct {
	text   string
	class  wordClass
	role   Role
	rank   uint8 // of words for one role, the lowest counts; it is 0 if the role is clear without an anchor
	format TimeFormat
	per    int64 // see meaning
	enough bool  // next to what is used, it leaves no doubt that there is a limit (Mashery)
	counts bool  // says that something is counted of which servers limit the rate
	asked  bool  // says that this is requests
}

// is compares a word without case; lower is in lower case.
func (w *word) is(lower string) bool { return strings.EqualFold(w.text, lower) }

const longestWord = 14 // of those below

// wordOf looks a word up, in any case.
func wordOf(s string) word {
	var buf [longestWord]byte
	w := lookUp(string(toLower(&buf, s)))
	w.text = s
	return w
}

// isWindow reports whether a word is the length of a window.
func (w *word) isWindow() bool {
	var buf [longestWord]byte
	return windowOfWord(string(toLower(&buf, w.text))) > 0
}

// lookUp returns what the language says about a word in lower case. Every word
// here has other uses too: testdata/lookalikes.json has fields that it must not
// turn into limits.
func lookUp(lower string) word {
	switch lower {
	case "limit", "limits", "quota":
		return word{class: valueWord, role: RoleQuota, counts: true}
	case "max", "maximum", "total", "capacity", "allowed", "allowance", "allotment", "ceiling", "lim":
		return word{class: valueWord, role: RoleQuota, rank: 1}
	case "allotted", "alloted":
		return word{class: valueWord, role: RoleQuota, rank: 1, enough: true}
	case "remaining", "remain", "remains", "left":
		return word{class: valueWord, role: RoleRemaining}
	case "available", "avail", "rem":
		return word{class: valueWord, role: RoleRemaining, rank: 1}
	case "used":
		return word{class: valueWord, role: RoleUsed}
	case "usage", "observed", "count", "current", "consumed", "spent", "made":
		return word{class: valueWord, role: RoleUsed, rank: 1}
	case "reset", "resets":
		return word{class: valueWord, role: RoleReset}
	case "next", "clear", "renew", "renews", "renewal", "refresh", "refreshes", "refill", "expiry", "expires", "expire", "expiration", "end", "ends", "until":
		return word{class: valueWord, role: RoleReset, rank: 1}
	case "window", "interval", "period", "duration", "timeframe":
		return word{class: valueWord, role: RoleWindow, rank: 1}
	case "name":
		return word{class: titleWord, role: RoleName}
	case "bucket", "resource", "category", "group":
		return word{class: titleWord, role: RoleName, rank: 1}
	case "scope":
		return word{class: titleWord, role: RoleName, rank: 2}
	case "policy", "policies":
		return word{class: listWord, role: RolePolicies}
	case "ms", "msec", "millis", "milliseconds":
		return word{class: unitWord, format: TimeMilli}
	case "sec", "secs", "seconds", "after", "in", "ttl":
		return word{class: unitWord, format: TimeSeconds}
	case "minutes", "mins":
		return word{class: unitWord, format: TimeSeconds, per: 60}
	case "hours":
		return word{class: unitWord, format: TimeSeconds, per: 3600}
	case "at", "date", "time", "timestamp", "datetime", "epoch", "unix", "utc", "gmt", "iso":
		return word{class: unitWord}
	case "per", "this", "to":
		return word{class: emptyWord}
	case "retry", "retryafter":
		return word{class: retryWord}
	case "url", "uri", "link", "docs", "documentation", "help", "message", "reason", "warning", // texts
		"enabled", "disabled", "active", "exceeded", "reached", "hit", "nearlimit", "overlimit", "over", "near", "exempt", "bypass",
		"whitelisted", "blocked", "banned", "throttled", "limited", "ratelimited", "start", "started", "error", "problem", "unlimited", // states
		"type", "version", "region", "mode", "algorithm", "strategy", "source", "field", // kinds
		"cost", "costs", "requested", "currentrequest", "increment", "rate", "fillrate", "delay", "metrics", // costs of one request
		"percent", "percentage", "utilization", "ratio": // parts
		return word{class: stopWord}
	case "info", "status", "state", "details":
		return word{class: stateWord}
	case "requests", "calls", "call", "hits", "queries", "searches", "lookups", "operations", "ops", "transactions":
		return word{counts: true, asked: true}
	case "request":
		return word{class: labelWord, counts: true, asked: true}
	case "api", "quotas", "throttle", "qps", "tokens", "points", "units":
		return word{counts: true}
	case "bit", "baud", "frame", "sample", "sampling", "heart", "interest", "exchange", "tax":
		return word{class: rateWord}
	case "page", "pages", "paging", "pagination", "item", "items", "result", "results", "record", "records", "row", "rows", "list", "cursor", "offset", "batch",
		"product", "products", "customer", "customers", "cart", "order", "orders", "stock", "inventory", "seat", "seats", "ticket", "tickets", "coupon",
		"storage", "disk", "space", "memory", "mem", "heap", "cpu", "battery", "upload", "uploads", "download", "downloads", "file", "files", "size", "length",
		"content", "body", "chunk", "chunks", "bytes", "session", "sessions", "login", "password", "otp", "attempt", "attempts", "retries", "redirect", "redirects",
		"trial", "license", "licenses", "users", "members", "accounts", "balance", "price", "discount", "budget", "cache", "range",
		"depth", "hops", "age", "times", "days", "queue", "job", "jobs", "task", "tasks", "step", "steps", "pool", "connection", "connections", "votes", "views",
		"posts", "messages", "comments", "pixel", "pixels", "image", "images", "width", "height",
		"bandwidth", "traffic", "data", "transfer", "volume":
		return word{class: thingWord}
	case "key", "id", "ip", "user", "client", "account", "plan", "tier", "rule", "match", "matched":
		return word{class: labelWord}
	}
	return word{}
}

// toLower returns s in lower case, in buf. A text that is longer than any word
// here becomes empty.
func toLower(buf *[longestWord]byte, s string) []byte {
	if len(s) > len(buf) {
		return nil
	}
	for i := range len(s) {
		buf[i] = s[i]
		if is(s[i], alpha) {
			buf[i] |= 0x20
		}
	}
	return buf[:len(s)]
}

// usualNames are the names of policies in most responses.
var usualNames = [...]string{"requests", "tokens", "second", "minute", "hour", "day", "daily", "month"}

// lowerCase is strings.ToLower. The usual names cost no allocation.
func lowerCase(s string) string {
	var buf [longestWord]byte
	lower := toLower(&buf, s)
	for _, name := range usualNames {
		if string(lower) == name {
			return name
		}
	}
	return strings.ToLower(s)
}

// A vendor is a word before the anchor that does not name a policy.
type vendor struct {
	unit   Unit
	format TimeFormat // of small resets
}

// vendorOf looks a word before the anchor up. Any word that is no vendor's names
// the policies of its family.
func vendorOf(s string) (v vendor, ok bool) {
	var buf [longestWord]byte
	switch string(toLower(&buf, s)) {
	case "sib", "ogw", "contentful", "zendesk": // Brevo, Lark
		return vendor{format: TimeSeconds}, true
	case "ai": // Kong, APISIX
		return vendor{unit: "tokens", format: TimeSeconds}, true
	case "gw": // KuCoin
		return vendor{format: TimeMilli}, true
	case "gate", "hb": // Gate.io, HTX
		return vendor{format: TimeUnix}, true
	case "beta": // Atlassian
		return vendor{unit: "points"}, true
	case "sentry", "anthropic", "hubspot", "discogs", "ms", "amzn", "github", "docker":
		return vendor{}, true
	}
	return v, false
}

// Windows and units of policies, by the words of their names.

// windowOfName returns the window that the name of a policy tells: the number of
// seconds that it begins with, if seconds is true, else that of its last part with
// a window.
func windowOfName(name string, seconds bool) Seconds {
	if seconds {
		first, rest, _ := strings.Cut(name, "-")
		next, _, _ := strings.Cut(rest, "-")
		if w := windowOf(parseDigits(first)); w.ok && nanoseconds(next) == 0 {
			return w
		}
	}
	for rest := name; rest != ""; {
		var part string
		rest, part = cutLast(rest)
		_, before := cutLast(rest)
		if w := windowOfUnits(smallNumber(before), part); w.ok { // 24-hour, five-min
			return w
		}
		if w := windowOfPart(part); w.ok {
			return w
		}
	}
	return Seconds{}
}

// windowOfUnits returns a window of so many units of time.
func windowOfUnits(n int64, unit string) Seconds {
	return windowOf(saturatingMul(n, nanoseconds(unit)/billion))
}

// smallNumber returns the number that a part of a name stands for, in digits or as
// a word; 0 if it is none.
func smallNumber(part string) int64 {
	switch part {
	case "five":
		return 5
	case "ten":
		return 10
	case "fifteen":
		return 15
	case "thirty":
		return 30
	}
	if !all(part, digit) {
		return 0
	}
	return parseDigits(part)
}

// cutLast cuts the last part off a name.
func cutLast(name string) (rest, part string) {
	for i := len(name) - 1; i >= 0; i-- {
		switch name[i] {
		case '-', '_', '/', ' ':
			return name[:i], name[i+1:]
		}
	}
	return "", name
}

// windowOfPart returns the window of one part of a name: minute, hourly, 5h,
// 24hour, perday, qpd; or glued to another word: AppDay, Get30Min. A month has no
// fixed length.
func windowOfPart(part string) Seconds {
	lower := strings.ToLower(part)
	if n := windowOfWord(strings.TrimPrefix(lower, "per")); n > 0 {
		return SecondsOf(n)
	}
	number := trimRight(lower, alpha)
	digits := number[len(trimRight(number, digit)):]
	if w := windowOfUnits(parseDigits(digits), lower[len(number):]); w.ok { // 30min, of a name before it
		return w
	}
	for _, suffix := range [...]string{"second", "minute", "hour", "day", "week"} {
		if n := len(lower) - len(suffix); n >= 2 && lower[n:] == suffix {
			return SecondsOf(windowOfWord(suffix))
		}
	}
	return Seconds{}
}

// windowOfWord returns the length of a window in seconds, by a word for it in
// lower case; 0 if it is none.
func windowOfWord(lower string) int64 {
	switch lower {
	case "second", "secondly", "sec", "qps", "rps", "tps":
		return 1
	case "minute", "minutely", "min", "qpm", "rpm", "tpm":
		return 60
	case "hour", "hourly", "qph", "rph", "tph":
		return 3600
	case "day", "daily", "today", "qpd", "rpd", "tpd":
		return 86400
	case "week", "weekly":
		return 604800
	}
	return 0
}

// unitOfName returns the unit of a policy by its name; "" if the name has none.
func unitOfName(name string) Unit {
	for rest := name; rest != ""; {
		var part string
		rest, part = cutLast(rest)
		switch part = lowerCase(part); part {
		case "tokens", "tpm", "tps", "tph", "tpd":
			return "tokens"
		case "images", "characters", "credits", "points", "complexity", "neurons", "errors", "weight":
			return Unit(part)
		case "concurrent", "concurrency":
			return ConcurrentRequests
		}
	}
	return ""
}
