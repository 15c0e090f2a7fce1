// Stress sends as many requests as it can through Transports, to a server on loopback with random
// answers, panics, deadlines, cancellations and slow bodies. It fails if a goroutine, a body or a
// request under way is left over, or if a request waits for too long.
//
//	go run -C interop -race ./stress -for 300s
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"
)

func main() {
	lasts := flag.Duration("for", 20*time.Second, "how long it runs")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of what is random")
	flag.Parse()
	fmt.Printf("stress: seed %d\n", *seed)
	report, err := stress(*lasts, *seed)
	fmt.Println(report)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stress:", err)
		os.Exit(1)
	}
}

// settle waits until there are no more goroutines than before.
func settle(before int) error {
	var now int
	for range 100 {
		if now = runtime.NumGoroutine(); now <= before {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return fmt.Errorf("%d goroutines before, %d after:\n%s", before, now, stacks)
}
