package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A vendorCase is a response of testdata/vendors.
type vendorCase struct {
	Headers        []string
	Now            time.Time
	Resets         string
	Reason, Missed string
	Want           []vendorRate
}

// A vendorRate is what a response contains about a limit. Absent numbers are nil.
type vendorRate struct {
	Quota, Remaining, Reset *int64
}

// A parsedRate is what ratelimit-header-parser reads.
type parsedRate struct {
	Limit, Remaining, Reset *float64
}

// compare reports whether the numbers of a response are all read, and whether one is wrong. A
// reset may be off by a second.
func (p *parsedRate) compare(want vendorRate) (right, wrong bool) {
	if p == nil {
		return false, false
	}
	right = true
	for _, n := range []struct {
		got  *float64
		want *int64
		off  float64
	}{{p.Limit, want.Quota, 0}, {p.Remaining, want.Remaining, 0}, {p.Reset, want.Reset, 1}} {
		if n.want == nil {
			continue
		}
		near := n.got != nil && max(*n.got-float64(*n.want), float64(*n.want)-*n.got) <= n.off
		right = right && near
		wrong = wrong || n.got != nil && !near
	}
	return right, wrong
}

// parsed returns what ParseAny reads of a response, in the same form.
func (c *vendorCase) parsed(t *testing.T, h http.Header) *parsedRate {
	o := ratelimit.LegacyOptions{Now: c.Now}
	if c.Resets == "milliseconds" {
		o.Reset = ratelimit.TimeMilli
	}
	f, err := ratelimit.ParseAny(h, o)
	require.NoError(t, err)
	p := &parsedRate{}
	number := func(n int64) *float64 {
		x := float64(n)
		return &x
	}
	if len(f.Limits) > 0 {
		p.Remaining = number(f.Limits[0].Remaining)
		if reset, ok := f.Limits[0].Reset.Value(); ok {
			p.Reset = number(reset)
		}
	}
	if len(f.Policies) > 0 {
		p.Limit = number(f.Policies[0].Quota)
	}
	return p
}

// TestVendors compares ParseAny with ratelimit-header-parser on the responses of vendors that
// have one limit. With -update it writes the table of docs/older.md.
func TestVendors(t *testing.T) {
	table := "| responses | that can be known | read | with one limit | read by this library | read by the npm package | wrong numbers of the npm package |\n|---|---|---|---|---|---|---|\n"
	for _, file := range []string{"cases", "third", "fourth", "fifth"} {
		b, err := os.ReadFile("../testdata/vendors/" + file + ".json")
		require.NoError(t, err)
		var cases []vendorCase
		require.NoError(t, json.Unmarshal(b, &cases))
		type question struct {
			Headers [][2]string
			Now     int64
		}
		var asked []question
		var single []vendorCase
		known, read, ours := 0, 0, 0
		for _, c := range cases {
			if c.Reason != "" {
				continue
			}
			known++
			if c.Missed == "" {
				read++
			}
			if len(c.Want) != 1 {
				continue
			}
			h, q := http.Header{}, question{}
			for _, line := range c.Headers {
				name, value, _ := strings.Cut(line, ":")
				h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
				q.Headers = append(q.Headers, [2]string{strings.TrimSpace(name), strings.TrimSpace(value)})
			}
			if made, err := http.ParseTime(h.Get("Date")); c.Now.IsZero() && err == nil {
				c.Now = made
			}
			if c.Now.IsZero() {
				c.Now = time.Now()
			}
			q.Now = c.Now.UnixMilli()
			if right, _ := c.parsed(t, h).compare(c.Want[0]); right {
				ours++
			}
			asked, single = append(asked, q), append(single, c)
		}
		var got []*parsedRate
		batch(t, "vendors.mjs", asked, &got)
		require.Len(t, got, len(single))
		right, wrong := 0, 0
		for i := range got {
			isRight, isWrong := got[i].compare(single[i].Want[0])
			if isRight {
				right++
			}
			if isWrong {
				wrong++
			}
		}
		table += fmt.Sprintf("| `%s.json` | %d | %d | %d | %d | %d | %d |\n", file, known, read, len(single), ours, right, wrong)
	}
	trial.CheckSection(t, "../docs/older.md", "vendors", table)
}
