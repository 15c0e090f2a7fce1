package text

import (
	"strings"
	"time"
)

// mostSkew is the longest time between the date of a response and its arrival. A date that is
// further away comes from a wrong clock.
const mostSkew = 24 * time.Hour

// A Clock has the times at which a response was made and arrived. It reads the header only when a
// time is needed, because most responses contain no absolute times. It reads it once, because there
// may be many lines.
type Clock struct {
	Header  map[string][]string // of the response
	Arrived time.Time           // zero means time.Now(), which is called when it is needed

	made, now time.Time // once they are needed
	read      bool      // made is in the field Date
}

// Made returns the time in the field Date (RFC 9110 Section 6.6.1), or the zero time if there is
// none.
func (c *Clock) Made() time.Time {
	if !c.read {
		d, _ := ParseDate(FirstLine(c.Header["Date"]))
		if c.made, c.read = d.Time, true; d.Short {
			c.made = d.In(c.arrival())
		}
	}
	return c.made
}

// Now returns the time from which absolute times in the response are measured. It is the Date,
// because the same clock wrote both times. It is the arrival if there is no Date, if the Date is
// more than mostSkew away, or if the response comes from a cache.
func (c *Clock) Now() time.Time {
	if c.now.IsZero() {
		c.now = c.Made()
		if c.now.IsZero() || c.now.Sub(c.arrival()).Abs() > mostSkew || Stored(c.Header) {
			c.now = c.arrival()
		}
	}
	return c.now
}

func (c *Clock) arrival() time.Time {
	if c.Arrived.IsZero() {
		c.Arrived = time.Now()
	}
	return c.Arrived
}

// Stored reports whether a response with header h comes from a cache. If Age is a list, its first
// member counts (RFC 9111 Section 5.1). github.com/gregjones/httpcache sets X-From-Cache to 1, and
// no Age.
func Stored(h map[string][]string) bool {
	first, _, _ := strings.Cut(FirstLine(h["Age"]), ",")
	age, ok := ParseNumber(Trim(first))
	return ok && age.Ceil() > 0 || FirstLine(h["X-From-Cache"]) == "1"
}

// A small number can be a point in time if it is at most a Month from the time of the response: see
// Near.
const Month = 31 * 24 * time.Hour

// Near reports whether a time is within a month of the time at which the response was made or
// arrived. The time is in seconds since the Unix epoch.
func (c *Clock) Near(sec int64) bool {
	t, made := time.Unix(sec, 0), c.Made()
	return t.Sub(c.arrival()).Abs() <= Month || !made.IsZero() && t.Sub(made).Abs() <= Month
}

// Until returns the span from now until a point in time, which is given as seconds and nanoseconds
// since the Unix epoch. It returns 0 if that is in the past. If the point in time is in whole
// seconds, it rounds the span up to whole seconds.
func (c *Clock) Until(sec, nsec int64) Span {
	now := c.Now()
	d := Span{Sec: sec - now.Unix(), Nsec: nsec - int64(now.Nanosecond())}
	if d.Nsec < 0 {
		d = Span{Sec: d.Sec - 1, Nsec: d.Nsec + Billion}
	}
	switch {
	case d.Sec < 0:
		return Span{}
	case nsec == 0 && d.Nsec > 0:
		return Span{Sec: d.Sec + 1}
	}
	return d
}
