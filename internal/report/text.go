package report

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// Absent is printed for an absent number or text.
const Absent = "-"

const ellipsis = "..."

// Printable replaces each byte that is not printable ASCII, so that offsets stay the same.
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
	text, _ := Excerpt(s, 0, 40)
	return text
}

// Excerpt cuts a text to a number of columns around an offset, makes it printable, and returns the
// column of the offset, which is never in an ellipsis.
func Excerpt(s string, offset, columns int) (text string, column int) {
	start := max(min(offset-columns/2, len(s)-columns), 0)
	end := min(start+columns, len(s))
	text = Printable(s[start:end])
	if start > 0 {
		text = ellipsis + text[len(ellipsis):]
	}
	if end < len(s) {
		text = text[:len(text)-len(ellipsis)] + ellipsis
	}
	return text, offset - start
}

// Quoted returns a name in quotes, cut to 40 bytes.
func Quoted(name string) string { return Clip(strconv.QuoteToASCII(name)) }

// Key returns the partition key in base64 between colons, cut to 40 bytes.
func (l Limit) Key() string {
	if l.PartitionKey == nil {
		return Absent
	}
	return Clip(":" + base64.StdEncoding.EncodeToString(l.PartitionKey) + ":")
}

// UnitName returns the quota unit, cut to 40 bytes. The default of a policy is requests.
func (l Limit) UnitName() string {
	switch {
	case l.Unit != "":
		return Clip(l.Unit)
	case l.Quota != nil:
		return string(ratelimit.Requests)
	}
	return Absent
}

// Filled returns the number of filled parts of a bar, and false if the quota or the remaining number
// is unknown. It rounds down, so that only a whole quota fills the bar.
func (l Limit) Filled(parts int64) (int64, bool) {
	if l.Remaining == nil || l.Quota == nil {
		return 0, false
	}
	quota := max(*l.Quota, 1)
	return min(*l.Remaining, quota) * parts / quota, true // no overflow up to ratelimit.MaxInteger
}

// Exhausted reports whether nothing remains.
func (l Limit) Exhausted() bool { return l.Remaining != nil && *l.Remaining == 0 }

// FormName describes a dialect.
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

// Integer returns a number, or Absent.
func Integer(n *int64) string {
	if n == nil {
		return Absent
	}
	return strconv.FormatInt(*n, 10)
}

// Left returns the remaining number and the quota, as far as they are known.
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

// Seconds returns a number of seconds in the form of Readable, or Absent.
func Seconds(n *int64) string {
	if n == nil {
		return Absent
	}
	return Readable(*n)
}

// Readable returns a number of seconds in days, hours, minutes and seconds, such as 1m26s.
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

// duration returns a time in the form of Readable, with up to three decimals below a minute.
func duration(d time.Duration) string {
	if d > century {
		return "more than a century"
	}
	if d = d.Round(time.Millisecond); d >= time.Minute {
		return Readable(int64(d.Round(time.Second) / time.Second))
	}
	return strconv.FormatFloat(float64(d.Milliseconds())/1000, 'f', -1, 64) + "s"
}
