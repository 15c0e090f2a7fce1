package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/httpfields/ratelimit"
)

// A section prints one part of a report, or nothing if there is nothing to say.
type section func(w io.Writer, r *report)

var sections = []section{printHeading, printLimits, printMalformed, printAdvice, printFindings}

func printText(w io.Writer, reports []*report) error {
	var b bytes.Buffer
	for i, r := range reports {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, section := range sections {
			section(&b, r)
		}
	}
	_, err := b.WriteTo(w)
	return err
}

const absent = "-"

func printHeading(w io.Writer, r *report) {
	dialect := r.Dialect
	if dialect == "" {
		dialect = absent
	}
	guessed := ""
	if r.Guessed {
		guessed = ", the unit of RESET is guessed"
	}
	fmt.Fprintf(w, "%s: %s, dialect %s%s\n", r.Source, r.Status, dialect, guessed)
}

func printLimits(w io.Writer, r *report) {
	if len(r.Limits) == 0 {
		if len(r.Malformed) == 0 {
			fmt.Fprintln(w, "no rate limits found")
		}
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tPARTITION KEY\tREMAINING\tUNIT\tWINDOW\tRESET")
	for _, l := range r.Limits {
		fmt.Fprintln(table, strings.Join([]string{
			clip(strconv.Quote(l.Name)),
			clip(formatKey(l.PartitionKey)),
			formatRemaining(l.Remaining, l.Quota),
			clip(formatUnit(l)),
			formatSeconds(l.Window),
			formatSeconds(l.Reset),
		}, "\t"))
	}
	table.Flush()
}

// clip bounds a cell: every row of the table is as wide as the widest.
func clip(cell string) string {
	const most = 40
	if len(cell) <= most {
		return cell
	}
	return cell[:most-len(ellipsis)] + ellipsis
}

func formatKey(key []byte) string {
	if key == nil {
		return absent
	}
	return ":" + base64.StdEncoding.EncodeToString(key) + ":"
}

// formatUnit gives a policy without unit the one that it means.
func formatUnit(l limit) string {
	switch {
	case l.Unit != "":
		return l.Unit
	case l.Quota != nil:
		return string(ratelimit.Requests)
	}
	return absent
}

func formatInteger(n *int64) string {
	if n == nil {
		return absent
	}
	return strconv.FormatInt(*n, 10)
}

func formatRemaining(remaining, quota *int64) string {
	bar := strings.Repeat(" ", len("[]")+barCells)
	if remaining != nil && quota != nil {
		bar = formatBar(*remaining, *quota)
	}
	return bar + " " + formatInteger(remaining) + " of " + formatInteger(quota)
}

const barCells = 10

// formatBar rounds down, so that only a quota that is whole looks like it. A
// limit may exceed its quota.
func formatBar(remaining, quota int64) string {
	filled := 0
	switch {
	case remaining >= quota && remaining > 0:
		filled = barCells
	case quota > 0:
		filled = int(remaining * barCells / quota) // far from overflow: ratelimit.MaxInteger
	}
	return "[" + strings.Repeat("#", filled) + strings.Repeat("-", barCells-filled) + "]"
}

// formatSeconds adds a readable form to what is longer than a minute.
func formatSeconds(seconds *int64) string {
	if seconds == nil {
		return absent
	}
	s := strconv.FormatInt(*seconds, 10) + "s"
	if *seconds <= 60 {
		return s
	}
	return s + " (" + readable(*seconds) + ")"
}

func readable(seconds int64) string {
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

func printMalformed(w io.Writer, r *report) {
	for _, m := range r.Malformed {
		text, caret := excerpt(m.Value, m.Offset)
		fmt.Fprintf(w, "%s\n  %s\n  %*s\n", m.Error, text, caret+1, "^")
	}
}

const ellipsis = "..."

// excerpt cuts a value to the columns around an offset, and returns the column
// of that offset. The offset is never under an ellipsis.
func excerpt(value string, offset int) (text string, column int) {
	const columns = 70
	if len(value) <= columns {
		return value, offset
	}
	start := min(max(offset-columns/2, 0), len(value)-columns)
	end := start + columns
	text = value[start:end]
	if start > 0 {
		text = ellipsis + text[len(ellipsis):]
	}
	if end < len(value) {
		text = text[:len(text)-len(ellipsis)] + ellipsis
	}
	return text, offset - start
}
