package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/httpfields/ratelimit/internal/report"
)

// A printer prints reports and summaries, until an error.
type printer struct {
	w       io.Writer
	palette palette
	json    bool
	printed bool // a paragraph
	err     error
}

func (p *printer) report(r *report.Report) {
	switch {
	case p.err != nil:
	case p.json:
		p.err = report.WriteJSON(p.w, r)
	default:
		p.paragraph(textOf(r, p.palette))
	}
}

// A summary counts the responses of a text.
type summary struct {
	responses int
	limited   int  // responses with limits
	found     int  // responses with findings or malformed fields
	doubtful  bool // a field is malformed, or a finding is above a note
}

func (s *summary) add(r *report.Report) {
	s.responses++
	if len(r.Limits) > 0 {
		s.limited++
	}
	if hasFindings(r) {
		s.found++
	}
	s.doubtful = s.doubtful || r.Doubtful()
}

func hasFindings(r *report.Report) bool { return len(r.Findings) > 0 || len(r.Malformed) > 0 }

// summary prints a summary. In JSON there is none.
func (p *printer) summary(name string, s summary) {
	if p.json || p.err != nil {
		return
	}
	found := fmt.Sprintf("%d with findings", s.found)
	switch {
	case s.found == 0 && s.limited == 0:
		found = "no rate limits found"
	case s.found == 0:
		found = p.palette.paint(green, noFindings)
	}
	p.paragraph(fmt.Sprintf("%s: %d responses, %s\n", p.palette.paint(bold, report.Printable(name)), s.responses, found))
}

// paragraph prints a text after an empty line, unless it is the first.
func (p *printer) paragraph(text string) {
	if p.printed {
		text = "\n" + text
	}
	p.printed = true
	_, p.err = io.WriteString(p.w, text)
}

func textOf(r *report.Report, p palette) string {
	var b strings.Builder
	source := r.Source
	if r.Number > 0 {
		source += fmt.Sprintf(", response %d", r.Number)
	}
	if r.Number > 0 && r.Host != "" {
		source += " of " + report.Clip(r.Host)
	}
	fmt.Fprintf(&b, "%s: %s\n", p.paint(bold, source), r.Heading())
	writeLimits(&b, r, p)
	writeAdvice(&b, r, p)
	writeFaults(&b, r, p)
	return b.String()
}

func writeLimits(w io.Writer, r *report.Report, p palette) {
	if len(r.Limits) == 0 {
		if len(r.Malformed) == 0 {
			fmt.Fprintln(w, "no rate limits found")
		}
		return
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tPARTITION KEY\tREMAINING\tUNIT\tWINDOW\tRESET")
	for _, l := range r.Limits {
		reset := report.Seconds(l.Reset)
		if l.Reset != nil && r.Guessed { // the unit
			reset += "?"
		}
		fmt.Fprintf(table, "%s\t%s\t%s %s\t%s\t%s\t%s\n",
			report.Quoted(l.Name), l.Key(), bar(l), l.Left(), l.UnitName(), report.Seconds(l.Window), reset)
	}
	table.Flush()
	// A tabwriter would count colours as text, so they are added after it.
	for i, row := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		colour := ""
		if i == 0 {
			colour = bold
		} else if r.Limits[i-1].Exhausted() {
			colour = red
		}
		fmt.Fprintln(w, p.paint(colour, row))
	}
}

const barCells = 10

// bar returns the remaining part of the quota as a bar, or blanks if it is unknown.
func bar(l report.Limit) string {
	filled, ok := l.Filled(barCells)
	if !ok {
		return strings.Repeat(" ", len("[]")+barCells)
	}
	return "[" + strings.Repeat("#", int(filled)) + strings.Repeat("-", barCells-int(filled)) + "]"
}

func writeAdvice(w io.Writer, r *report.Report, p palette) {
	if advice := r.Advice.String(); r.Advice.Refused || r.Advice.Asked > 0 {
		fmt.Fprintln(w, p.paint(red, advice))
	} else if advice != "" {
		fmt.Fprintln(w, p.paint(green, advice))
	}
	for _, note := range r.Notes() {
		fmt.Fprintln(w, note)
	}
}

const noFindings = "no findings"

func writeFaults(w io.Writer, r *report.Report, p palette) {
	if r.Findings != nil && len(r.Findings) == 0 && len(r.Malformed) == 0 {
		text := noFindings
		if r.IsOlder() {
			text += " (few rules are about older forms)"
		}
		fmt.Fprintln(w, p.paint(green, text))
	}
	colours := map[string]string{"should": yellow, "note": faint}
	for _, f := range r.Faults() {
		colour, fault := cmp.Or(colours[f.Level], red), f.Level
		if f.Rule != "" {
			fault = fmt.Sprintf("%s (%s)", f.Rule, f.Level)
		}
		fmt.Fprintf(w, "%s %s: %s\n", p.paint(colour, fault), f.Place, cmp.Or(f.Cause, f.Remedy))
		if f.Offset >= 0 {
			const columns = 70
			text, caret := report.Excerpt(f.Value, f.Offset, columns)
			fmt.Fprintf(w, "  %s\n  %s%s\n", text, strings.Repeat(" ", caret), p.paint(colour, "^"))
		}
		if f.Cause != "" && f.Remedy != "" {
			fmt.Fprintf(w, "  %s\n", f.Remedy)
		}
	}
}

// A palette colours text if it is true.
type palette bool

// paletteOf returns the palette for an output. Only terminals get colours, and none if NO_COLOR is
// set (https://no-color.org).
func paletteOf(w io.Writer, getenv func(string) string) palette {
	f, ok := w.(*os.File)
	if !ok || getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" {
		return false
	}
	if runtime.GOOS == "windows" && getenv("WT_SESSION") == "" && getenv("TERM") == "" {
		return false // the old console prints the escape sequences
	}
	return palette(isTerminal(f))
}

// isTerminal reports whether a file is a character device. The null device is one too.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// paint returns a text in a colour. The colour "" leaves the text as it is.
func (p palette) paint(colour, text string) string {
	if !p || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
