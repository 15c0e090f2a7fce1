package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/httpfields/ratelimit/examples/internal/report"
)

// A section prints one part of a report, or nothing if there is nothing to say.
type section func(w io.Writer, r *report.Report)

var sections = []section{printHeading, printLimits, printMalformed, printAdvice, printFindings}

func printText(w io.Writer, reports []*report.Report) error {
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

func printHeading(w io.Writer, r *report.Report) {
	dialect := r.Dialect
	if dialect == "" {
		dialect = report.Absent
	}
	guessed := ""
	if r.Guessed {
		guessed = ", the unit of RESET is guessed"
	}
	fmt.Fprintf(w, "%s: %s, dialect %s%s\n", r.Source, r.Status, dialect, guessed)
}

func printLimits(w io.Writer, r *report.Report) {
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
			l.QuotedName(),
			l.Key(),
			remaining(l),
			l.UnitName(),
			report.Seconds(l.Window),
			report.Seconds(l.Reset),
		}, "\t"))
	}
	table.Flush()
}

const barCells = 10

func remaining(l report.Limit) string {
	bar := strings.Repeat(" ", len("[]")+barCells)
	if filled, ok := l.Filled(barCells); ok {
		bar = "[" + strings.Repeat("#", int(filled)) + strings.Repeat("-", barCells-int(filled)) + "]"
	}
	return bar + " " + l.Left()
}

func printMalformed(w io.Writer, r *report.Report) {
	const columns = 70
	for _, m := range r.Malformed {
		fmt.Fprintln(w, m.Error)
		if m.Offset >= 0 {
			text, caret := report.Excerpt(m.Value, m.Offset, columns)
			fmt.Fprintf(w, "  %s\n  %*s\n", text, caret+1, "^")
		}
	}
}

func printAdvice(w io.Writer, r *report.Report) {
	for _, sentence := range []string{r.Advice.String(), r.Advice.Note()} {
		if sentence != "" {
			fmt.Fprintln(w, sentence)
		}
	}
}

func printFindings(w io.Writer, r *report.Report) {
	if r.Findings != nil && len(r.Findings) == 0 {
		fmt.Fprintln(w, "no findings")
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s (%s) %s: %s\n", f.Rule, f.Level, f.Place(), f.Message)
	}
}

func printJSON(w io.Writer, reports []*report.Report) error {
	for _, r := range reports {
		if err := r.WriteJSON(w); err != nil {
			return err
		}
	}
	return nil
}
