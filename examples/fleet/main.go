// Fleet is one of any number of processes that send requests to one server and share its limits
// through one Redis. See README.md.
//
//	fleet REDIS URL N
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/httpfields/ratelimit/fleet"
	"github.com/httpfields/ratelimit/obey"
)

// newClient returns the client of a process. All processes with the same Redis share the
// limits of each server.
func newClient(addr string) *http.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	return &http.Client{Transport: &obey.Transport{Base: &fleet.Turns{Redis: rdb}}}
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: fleet REDIS URL N")
		os.Exit(2)
	}
	n, _ := strconv.Atoi(os.Args[3])
	for client := newClient(os.Args[1]); n > 0; n-- {
		resp, err := client.Get(os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, "fleet:", err)
			os.Exit(1)
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
}
