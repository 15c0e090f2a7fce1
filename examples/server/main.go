// Server is an API that tells its clients how much of their quota is left.
//
//	server [-addr localhost:8080] [-keys demo,other] [-reduced]
//
// Each API key has two quotas, kept by golang.org/x/time/rate. Responses carry
// the fields RateLimit-Policy and RateLimit, X-RateLimit-* for old clients, and
// what CORS needs to let scripts read them. A request beyond a quota is answered
// with a problem document. See README.md.
package main

import (
	"crypto/rand"
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
	addr, handler, err := configure(os.Args[1:], os.Stderr)
	if err != nil {
		os.Exit(2)
	}
	log.Printf("listening on http://%s", addr)
	server := &http.Server{Addr: addr, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// configure reads the command line.
func configure(args []string, stderr io.Writer) (addr string, handler http.Handler, err error) {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&addr, "addr", "localhost:8080", "address to listen on")
	keys := flags.String("keys", "demo,other", "API keys, separated by commas")
	reduced := flags.Bool("reduced", false, "run with temporarily reduced capacity")
	if err := flags.Parse(args); err != nil {
		return "", nil, err
	}
	// RATELIMIT_SECRET keeps partition keys the same over restarts.
	secret := []byte(os.Getenv("RATELIMIT_SECRET"))
	if len(secret) == 0 {
		secret = []byte(rand.Text())
	}
	api := &api{reduced: *reduced, now: time.Now, clients: map[string]*client{}}
	for key := range strings.SplitSeq(*keys, ",") {
		api.clients[key] = newClient(policies(*reduced), partitionKey(secret, key))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	api.next = mux
	return addr, api, nil
}
