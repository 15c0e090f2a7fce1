// Bench times this package, httpsfv and hand-written code on the same inputs, in one run, and prints
// a table in Markdown.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"
	"time"
)

type options struct {
	rounds int
	round  time.Duration // the least time of one contender in one round
}

func main() {
	log.SetFlags(0)
	var o options
	flag.IntVar(&o.rounds, "rounds", 500, "how often each contender has its turn; the fastest counts")
	flag.DurationVar(&o.round, "time", 300*time.Microsecond, "how long a turn is at the least")
	flag.Parse()
	table, err := run(o)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(table)
}

// run times all works, and returns the table.
func run(o options) (string, error) {
	works := worksAt(time.Now())
	if err := checkAll(works); err != nil {
		return "", err
	}
	if err := timeAll(works, o); err != nil {
		return "", err
	}
	return table(works, o), nil
}

// timeAll lets the contenders of a work take turns, so that other load on the machine slows
// all of them.
func timeAll(works []work, o options) error {
	for _, w := range works {
		for range o.rounds {
			for _, c := range w.contenders {
				if c == nil {
					continue
				}
				if err := c.turn(o.round); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
			}
		}
	}
	return nil
}

func table(works []work, o options) string {
	var b strings.Builder
	b.WriteString("| work |")
	for _, name := range libraryNames {
		fmt.Fprintf(&b, " %s |", name)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 1+len(libraryNames)) + "\n")
	for _, w := range works {
		fmt.Fprintf(&b, "| %s |", w.name)
		for _, c := range w.contenders {
			fmt.Fprintf(&b, " %s |", cell(c, w))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nEach time is the fastest of %d interleaved rounds of %v, by `go run -C interop/bench .` with\n"+
		"%s %s/%s, %s.\n"+
		"[interop/bench](../interop/bench) explains the columns.\n",
		o.rounds, o.round, runtime.Version(), runtime.GOOS, runtime.GOARCH, processor())
	return b.String()
}

// cell is a time, the allocations if they are known, and the ratio to the time of
// this package.
func cell(c *contender, w work) string {
	if c == nil {
		return ""
	}
	text := duration(c.best / float64(max(1, w.members)))
	if c.allocs >= 0 {
		text += fmt.Sprintf(", %.0f", c.allocs)
	}
	if first := w.contenders[ours]; c != first {
		text += fmt.Sprintf(" (%.1f)", c.best/first.best)
	}
	return text
}

// duration writes nanoseconds with about three digits.
func duration(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e4:
		return fmt.Sprintf("%.2f µs", ns/1e3)
	case ns < 1e6:
		return fmt.Sprintf("%.0f µs", ns/1e3)
	default:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	}
}

// processor returns the model of the processor, or "" if the system does not reveal it.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor unknown"
}
