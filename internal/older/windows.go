package older

import (
	"cmp"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// A hint is what the name of a policy contains about it: perhaps a window, perhaps a unit.
type hint struct {
	window int64
	unit   string
}

// hintOf returns the hint in the name of a policy.
func hintOf(policy string, digits bool) hint {
	return hint{windowOfName(policy, digits), unitOfName(policy)}
}

// windowOfName returns the window, in seconds, that the name of a policy tells: the
// number that it begins with, if digits is true, else that of its last part with
// a window; 0 if there is none.
func windowOfName(s string, digits bool) int64 {
	if digits {
		first, rest, _ := strings.Cut(s, "-")
		if next, _, _ := strings.Cut(rest, "-"); windowOfUnits(1, next) == 0 {
			return min(text.ParseDigits(first), text.MaxInteger)
		}
	}
	for rest := s; rest != ""; {
		var part string
		rest, part = cutLast(rest)
		_, before := cutLast(rest)
		t := tokenOf(before)
		n := cmp.Or(t.number, numberOf(before)) // 24-hour, five-min
		if w := cmp.Or(windowOfUnits(n, part), windowOfPart(part)); w > 0 {
			return w
		}
	}
	return 0
}

// numberOf returns the number that a text of digits stands for, else 0.
func numberOf(s string) int64 {
	if !text.All(s, text.Digit) {
		return 0
	}
	return text.ParseDigits(s)
}

// windowOfUnits returns a window of so many units of time.
func windowOfUnits(n int64, unit string) int64 {
	if text.Skip(unit, 0, text.Alpha) == 0 {
		return 0
	}
	span, _ := text.ParseSpan("1" + unit)
	return min(text.SaturatingMul(n, span.Sec), text.MaxInteger)
}

// cutLast cuts the last part off a name.
func cutLast(s string) (rest, part string) {
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		return s[:i], s[i+1:]
	}
	return "", s
}

// windowOfPart returns the window of one part of a name: minute, hourly, 5h,
// 24hour, perday, qps; or glued to another word: AppDay, Get30Min. A month has no
// fixed length.
func windowOfPart(part string) int64 {
	lower := strings.ToLower(part)
	unit := lower
	if i := strings.LastIndex(lower, "per"); i >= 0 { // perday, queriespermin
		unit = lower[i+len("per"):]
	}
	if t := tokenOf(unit); t.window > 0 {
		return t.window
	}
	number := text.TrimRight(lower, text.Alpha)
	digits := number[len(text.TrimRight(number, text.Digit)):]
	if w := windowOfUnits(numberOf(digits), lower[len(number):]); w > 0 {
		return w
	}
	for _, suffix := range [...]string{"second", "minute", "hour", "day"} {
		if n := len(lower) - len(suffix); n >= 2 && lower[n:] == suffix {
			return tokenOf(suffix).window
		}
	}
	return 0
}

// unitOfName returns the unit of a policy by its name; "" if the name has none.
func unitOfName(s string) string {
	for rest := s; rest != ""; {
		var part string
		rest, part = cutLast(rest)
		if t := tokenOf(part); t.unit != "" {
			return t.unit
		}
	}
	return ""
}
