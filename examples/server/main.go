// Server is an API that announces to its clients how much of their quota is left.
//
//	server [-addr localhost:8080] [-keys demo,other] [-reduced] [-redis host:port]
//
// Each API key has two quotas, kept by golang.org/x/time/rate or, for any number of servers, in
// one Redis by go-redis/redis_rate. Responses carry the fields RateLimit-Policy and RateLimit,
// X-RateLimit-* for old clients, and the fields of CORS that let scripts read them. A request
// beyond a quota is answered with a problem document. See README.md.
package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	addr, api, err := configure(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2)
	}
	log.Printf("listening on http://%s", addr)
	server := &http.Server{Addr: addr, Handler: api.handler(hello()), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// configure reads the command line.
func configure(args []string, stderr io.Writer) (addr string, a *api, err error) {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&addr, "addr", "localhost:8080", "address to listen on")
	keys := flags.String("keys", "demo,other", "API keys, separated by commas")
	reduced := flags.Bool("reduced", false, "run with temporarily reduced capacity")
	redis := flags.String("redis", "", "keep the quotas in the Redis or Valkey at this `address`")
	timeout := flags.Duration("redis-timeout", 250*time.Millisecond, "let a request pass without a quota where Redis takes longer")
	if err := flags.Parse(args); err != nil {
		return "", nil, err
	}
	// RATELIMIT_SECRET keeps partition keys the same across restarts, and on all servers that
	// share quotas.
	secret := []byte(os.Getenv("RATELIMIT_SECRET"))
	a = &api{buckets: buckets(*reduced), reduced: *reduced, clients: map[string][]byte{}}
	switch {
	case *redis != "" && len(secret) == 0:
		err := errors.New("-redis needs a RATELIMIT_SECRET that all servers share")
		fmt.Fprintln(stderr, "server:", err)
		return "", nil, err
	case *redis != "":
		a.engine = newShared(*redis, *timeout)
	default:
		a.engine = newMemory()
		if len(secret) == 0 {
			secret = []byte(rand.Text())
		}
	}
	for key := range strings.SplitSeq(*keys, ",") {
		a.clients[key] = partitionKey(secret, key)
	}
	return addr, a, nil
}

// hello is the handler behind the quotas.
func hello() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	return mux
}
