// Simulate compares clients of rate-limited servers, in virtual time. It prints tables in
// Markdown: how long the clients take, and how many requests are refused.
//
//	go run -C interop ./simulate
//	go run -C interop ./simulate -plot DIR
//	go run -C interop ./simulate -search 600
//
// The second command draws two of the runs as SVG: served requests over time, the quota, and
// marks for refused requests. The third runs all clients against 600 random servers and
// loads of each of three sets, and compares the results with the goals.
package main

import (
	"flag"
	"os"
	"testing"
)

func main() {
	flags := flag.NewFlagSet("simulate", flag.ExitOnError)
	dir := flags.String("plot", "", "the `directory` to draw pictures into, in place of the tables")
	seeds := flags.Int("seeds", 10, "how many runs are averaged")
	servers := flags.Int("search", 0, "how many random servers and loads of each set are tried, in place of the tables")
	details := flags.Bool("details", false, "with -search: list the servers on which another client is better")
	first := flags.Uint64("first", 1, "the `number` of the first of these")
	_ = flags.Parse(os.Args[1:]) // exits on an error
	out := os.Stdout
	inTest(func(t *testing.T) {
		switch {
		case *servers > 0:
			search(t, out, *servers, *first, *details)
		case *dir == "":
			writeTables(t, out, max(1, *seeds))
		default:
			if err := drawAll(t, *dir); err != nil {
				t.Error(err)
			}
		}
	})
}

// inTest calls a function in a test, because virtual time exists only in tests. It then
// exits. The output does not contain the result of the test.
func inTest(f func(t *testing.T)) {
	os.Stdout = os.Stderr
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil {
		panic(err) // there is nothing to parse
	}
	match := func(string, string) (bool, error) { return true, nil }
	testing.Main(match, []testing.InternalTest{{Name: "simulate", F: f}}, nil, nil)
}
