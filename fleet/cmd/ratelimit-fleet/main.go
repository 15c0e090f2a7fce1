// Ratelimit-fleet is ratelimit proxy for several proxies that share a quota by Redis.
//
//	ratelimit-fleet -redis redis://localhost:6379 -to https://api.example/
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/fleet"
	"github.com/httpfields/ratelimit/internal/proxy"
	"github.com/httpfields/ratelimit/obey"
)

const help = `usage: ratelimit-fleet -redis URL -to URL [flags]

The same as ratelimit proxy, for several proxies in front of one server. By one
Redis or Valkey they share its limits, which they learn from the answers. If Redis
does not answer, each proxy uses its share, and asks again after a second. Redis
holds hashes of the fields of -key, and no credential.

The exit status is 0 after an interrupt, and 2 if the command line is wrong or
it cannot listen.

Example:

  ratelimit-fleet -redis redis://localhost:6379 -to https://api.github.com

Flags:

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("ratelimit-fleet", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	address := flags.String("redis", "", "the `URL` of the Redis or Valkey of all proxies, such as redis://localhost:6379")
	command := proxy.NewCommand("ratelimit-fleet", flags)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return 0
	case err != nil:
		return failed(stderr, err)
	}
	if *address == "" {
		return failed(stderr, errors.New("-redis is missing: give the address of Redis"))
	}
	options, err := redis.ParseURL(*address)
	if err != nil { // which may contain a password
		return failed(stderr, errors.New("-redis is no address of Redis: write redis://host:port"))
	}
	if err := command.Complete(); err != nil {
		return failed(stderr, err)
	}
	logging.Disable() // it would log each connection that fails
	rdb := redis.NewClient(options)
	defer rdb.Close()
	var minute atomic.Int64 // of the latest line about Redis
	command.Share = func(base http.RoundTripper, key func(*http.Request) string, cost func(*http.Request) []obey.Cost) http.RoundTripper {
		return &fleet.Turns{
			Redis: rdb, Base: base, Key: key, Cost: cost, Advisor: ratelimit.Advisor{MaxWait: command.MaxWait},
			OnError: func(err error) {
				if now := time.Now().Unix() / 60; minute.Swap(now) != now {
					command.Log.Printf("Redis fails, and this proxy goes on alone: %.200v", err)
				}
			},
		}
	}
	if err := command.Run(ctx, stdout, stderr); err != nil {
		return failed(stderr, err)
	}
	return 0
}

func failed(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "ratelimit-fleet: %v\nFor help: ratelimit-fleet -h\n", err)
	return 2
}
