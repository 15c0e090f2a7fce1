// Fleet is one of any number of processes that send requests to one server, and share a rate
// of requests through one Redis.
//
//	fleet [-redis localhost:6379] [-rate 10] [-n 50] URL
//
// It prints the number of responses for each status. See README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(2)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("redis", "localhost:6379", "the `address` of the Redis or Valkey that all processes use")
	rate := flags.Int("rate", 10, "requests per second of all processes together")
	n := flags.Int("n", 50, "how many requests this process sends")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("which URL?")
	}
	const timeout = 250 * time.Millisecond
	store := newStore(*addr, timeout)
	defer store.Close()
	counts, err := send(newClient(store, "fleet:"+flags.Arg(0), *rate, timeout), flags.Arg(0), *n)
	if err != nil {
		return err
	}
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(stdout, "%d %s\n", counts[status], http.StatusText(status))
	}
	return nil
}

// send sends n requests, one after the other.
func send(client *http.Client, url string, n int) (counts map[int]int, err error) {
	counts = map[int]int{}
	for range n {
		resp, err := client.Get(url)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		counts[resp.StatusCode]++
	}
	return counts, nil
}
