package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// A figure is the mean result of a client in a scenario.
type figure struct{ seconds, refused float64 }

// measure returns the mean figure over a number of seeds, from 1.
func measure(t *testing.T, sc *scenario, c client, seeds int) (f figure) {
	if sc.maxWait > 0 && c.name == ours.name {
		c.make = transport(sc.maxWait, false)
	}
	for seed := range uint64(seeds) {
		r := run(t, sc.load, c, sc.server, seed+1)
		f.seconds += r.time.Seconds() / float64(seeds)
		f.refused += float64(r.refused) / float64(seeds)
	}
	return f
}

// misses returns the missed goals. Figures are rounded like goals.
func (f *figure) misses(w wanted) (faults []string) {
	if got := roundAs(f.seconds, w.seconds); got > w.seconds {
		faults = append(faults, fmt.Sprintf("seconds: got %v, wanted at most %v", got, w.seconds))
	}
	if got := roundAs(f.refused, w.refused); got > w.refused {
		faults = append(faults, fmt.Sprintf("refused: got %v, wanted at most %v", got, w.refused))
	}
	return faults
}

// roundAs rounds x to a whole number if as is whole and more than 5, else to tenths.
func roundAs(x, as float64) float64 {
	if as > 5 && as == float64(int(as)) {
		return float64(int(x + 0.5))
	}
	return float64(int(x*10+0.5)) / 10
}

// clients are the clients of the tables.
var clients = []client{ours, paced, plain, hashicorp, cubic}

// A table is a heading and its rows.
type table struct {
	title, text string
	rows        []scenario
}

var tables = []table{
	{"Short answers", "300 jobs of 20 workers. The network takes up to 150 ms each way. It loses 5 % of the requests, half\n" +
		"of them after they were served.", shortAnswers},
	{"Slow answers", "Many workers, each with several jobs. Nothing is lost.", slowAnswers},
	{"Limits in tokens", "Buckets of 500 requests and 30,000 tokens a minute, or windows. 300 jobs of 200 to 6,000 tokens,\n" +
		"with answers of 2 s. Transport knows the tokens of each request, and the other clients do not.", inTokens},
	{"Servers that announce little", "Nothing is lost.", terse},
}

// writeTables writes all tables as Markdown.
func writeTables(t *testing.T, w io.Writer, seeds int) {
	fmt.Fprintf(w, "Each figure is the mean of %d seeds: seconds until all jobs are done / refused requests.\n", seeds)
	for _, x := range tables {
		fmt.Fprintf(w, "\n### %s\n\n%s\n\n", x.title, x.text)
		writeScenarios(t, w, x.rows, seeds)
	}
}

func writeScenarios(t *testing.T, w io.Writer, rows []scenario, seeds int) {
	head := []string{"server (ideal)", "wanted"}
	for _, c := range clients {
		head = append(head, c.name)
	}
	var times [][]string
	var notes []string
	for i := range rows {
		sc := &rows[i]
		line := []string{sc.title(), fmt.Sprintf("%v / %v", sc.wanted.seconds, sc.wanted.refused)}
		for _, c := range clients {
			f := measure(t, sc, c, seeds)
			line = append(line, fmt.Sprintf("%.1f / %.0f", f.seconds, f.refused))
		}
		times = append(times, line)
		if sc.note != "" {
			notes = append(notes, fmt.Sprintf("*%s*, more than \"wanted\": %s.", sc.name, sc.note))
		}
		if sc.loses != "" {
			notes = append(notes, fmt.Sprintf("*%s*, slower than others: %s.", sc.name, sc.loses))
		}
	}
	writeTable(w, head, times)
	fmt.Fprintln(w)
	for _, n := range notes {
		fmt.Fprintln(w, "-", n)
	}
}

// title returns the first cell of a row.
func (sc *scenario) title() string { return fmt.Sprintf("%s (%v)", sc.name, sc.ideal) }

func writeTable(w io.Writer, head []string, rows [][]string) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
	}
}
