// Egress sends requests to an address, ten at a time, and counts the statuses. It is one of the
// programs that share a quota through ratelimit proxy.
//
//	go run ./egress http://127.0.0.1:8700/ 50
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
)

func main() {
	address := os.Args[1]
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	statuses := make(chan int, n)
	var workers sync.WaitGroup
	for i := range 10 {
		workers.Go(func() {
			for j := i; j < n; j += 10 {
				statuses <- get(address)
			}
		})
	}
	workers.Wait()
	close(statuses)
	counts := map[int]int{}
	for status := range statuses {
		counts[status]++
	}
	fmt.Println(counts)
}

// get returns the status of a response, or 0.
func get(address string) int {
	resp, err := http.Get(address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}
