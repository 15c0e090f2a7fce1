package report

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// Absent stands for a number or a text that the response does not say.
const Absent = "-"

const ellipsis = "..."

// Printable replaces every byte that is not printable ASCII. It goes by bytes,
// not by characters, to keep offsets.
func Printable(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

// Clip cuts a text to 40 bytes.
func Clip(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return s[:most-len(ellipsis)] + ellipsis
}

// Excerpt cuts a text to the columns around an offset, and returns the column
// of that offset. The offset is never under an ellipsis.
func Excerpt(s string, offset, columns int) (text string, column int) {
	if len(s) <= columns {
		return s, offset
	}
	start := min(max(offset-columns/2, 0), len(s)-columns)
	end := start + columns
	text = s[start:end]
	if start > 0 {
		text = ellipsis + text[len(ellipsis):]
	}
	if end < len(s) {
		text = text[:len(text)-len(ellipsis)] + ellipsis
	}
	return text, offset - start
}

// QuotedName returns the name of the limit in quotes, cut to 40 bytes.
func (l Limit) QuotedName() string { return Quoted(l.Name) }

// Quoted returns a name in quotes, cut to 40 bytes.
func Quoted(name string) string { return Clip(strconv.QuoteToASCII(name)) }

// Key returns the partition key as the fields write it, cut to 40 bytes.
func (l Limit) Key() string {
	if l.PartitionKey == nil {
		return Absent
	}
	return Clip(":" + base64.StdEncoding.EncodeToString(l.PartitionKey) + ":")
}

// UnitName returns the quota unit, cut to 40 bytes. A policy without one has
// the unit that it means.
func (l Limit) UnitName() string {
	switch {
	case l.Unit != "":
		return Clip(l.Unit)
	case l.Quota != nil:
		return string(ratelimit.Requests)
	}
	return Absent
}

// Filled returns how many of so many parts of a bar what remains fills, and
// false where the quota or what remains is not known. It rounds down, so that
// only a quota that is whole looks like it. A limit may exceed its quota.
func (l Limit) Filled(parts int64) (int64, bool) {
	if l.Remaining == nil || l.Quota == nil {
		return 0, false
	}
	remaining, quota := *l.Remaining, *l.Quota
	switch {
	case remaining >= quota && remaining > 0:
		return parts, true
	case quota > 0:
		return remaining * parts / quota, true // far from overflow: ratelimit.MaxInteger
	}
	return 0, true
}

// A State says of a limit that it is used up, or that little remains.
type State string

// The states that are worth a colour.
const (
	Exhausted State = "exhausted"
	Low       State = "low" // less than a fifth
)

// State returns how far the limit is used up, or "".
func (l Limit) State() State {
	fifths, ok := l.Filled(5)
	switch {
	case l.Remaining != nil && *l.Remaining == 0:
		return Exhausted
	case ok && fifths == 0:
		return Low
	}
	return ""
}

// FormName returns the name of a dialect in words.
func FormName(dialect string) string {
	switch dialect {
	case "ratelimit":
		return "current form (draft-08 to draft-11)"
	case "ratelimit-lenient":
		return "current form (draft-08 to draft-11), with values that strict clients refuse"
	case "ratelimit-next":
		return "form of the editors' copy after draft-11"
	}
	return "older form: " + Clip(dialect)
}

// Integer returns a number that may be absent.
func Integer(n *int64) string {
	if n == nil {
		return Absent
	}
	return strconv.FormatInt(*n, 10)
}

// Left returns what remains and the quota, as far as the response says them.
func (l Limit) Left() string {
	switch {
	case l.Remaining != nil && l.Quota != nil:
		return Integer(l.Remaining) + " of " + Integer(l.Quota)
	case l.Remaining != nil:
		return Integer(l.Remaining) + " left"
	case l.Quota != nil:
		return "quota " + Integer(l.Quota)
	}
	return Absent
}

// Seconds returns a number of seconds that may be absent, as Readable does.
func Seconds(n *int64) string {
	if n == nil {
		return Absent
	}
	return Readable(*n)
}

// Readable returns a number of seconds in days, hours, minutes and seconds, as
// 1m26s. All times are written so.
func Readable(seconds int64) string {
	if seconds == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, unit := range []struct {
		seconds int64
		symbol  string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}} {
		if n := seconds / unit.seconds; n > 0 {
			b.WriteString(strconv.FormatInt(n, 10) + unit.symbol)
			seconds %= unit.seconds
		}
	}
	return b.String()
}

const century = 100 * 365 * 24 * time.Hour

// duration returns a time as Readable does. Below a minute it has up to three
// decimals.
func duration(d time.Duration) string {
	if d > century {
		return "more than a century"
	}
	if d = d.Round(time.Millisecond); d >= time.Minute {
		return Readable(int64(d.Round(time.Second) / time.Second))
	}
	s := strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".") + "s"
}
