package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/report"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// A serving is one run of the verb.
type serving struct {
	like, kind, key, address string
	limits                   []ratelimit.Policy
	dialects                 []*ratelimit.Dialect
	silent, json             bool
	latency                  time.Duration

	api *ratelimittest.API

	mu      sync.Mutex
	rows    probeReport // formats the rows as those of probe
	stdout  io.Writer
	numbers map[[sha256.Size]byte]int // of the keys
}

func runServe(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) (int, error) {
	s := &serving{stdout: stdout, numbers: map[[sha256.Size]byte]int{}}
	flags := newFlags("serve")
	s.flags(flags)
	if err := parse(flags, args, stdout); err != nil {
		return 0, err
	}
	if err := s.complete(flags.NArg()); err != nil {
		return 0, usageError{err}
	}
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return 0, fmt.Errorf("-addr: %w: give another address, such as 127.0.0.1:0", err)
	}
	if !s.json {
		fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())
	}
	s.rows.started = time.Now()
	server := &http.Server{
		Handler: s, ErrorLog: log.New(stderr, "ratelimit serve: ", 0), ReadHeaderTimeout: 30 * time.Second,
		DisableGeneralOptionsHandler: true,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return 0, err
	case <-ctx.Done():
	}
	const patience = time.Second // for requests under way
	ending, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = server.Shutdown(ending)
	_ = server.Close()
	return exitFine, s.printCounts()
}

// kindNames are the values of -kind, in the order of the constants.
var kindNames = []string{"fixed-window", "window-from-first", "sliding-log", "sliding-counter", "token-bucket", "concurrency"}

func (s *serving) flags(flags *flag.FlagSet) {
	flags.StringVar(&s.like, "like", "", "limit, announce and refuse as this `vendor` does")
	flags.Func("limit", "a `policy` in the form of RateLimit-Policy, in place of the vendor's; can be repeated", s.addLimit)
	flags.StringVar(&s.kind, "kind", "", "the `kind` of limiter (default that of the vendor, or window-from-first)")
	flags.Func("dialect", "announce in this older `form` in place of the current fields; can be repeated", s.addDialect)
	flags.BoolVar(&s.silent, "silent", false, "announce nothing; refusals may have Retry-After")
	flags.StringVar(&s.key, "key", "", "requests with equal values in this `field` share the limits (default all requests)")
	flags.DurationVar(&s.latency, "latency", 0, "wait before each answer")
	flags.StringVar(&s.address, "addr", "127.0.0.1:8080", "the `address` to listen at; port 0 is any free port")
	flags.BoolVar(&s.json, "json", false, "print a JSON object for each answer, and one for the counts")
}

const anyLimit = `'"core";q=50;w=10'`

func (s *serving) addLimit(list string) error {
	policies, err := ratelimit.ParsePolicies(list)
	if err != nil || len(policies) == 0 {
		return errors.New("is not a policy: write " + anyLimit)
	}
	s.limits = append(s.limits, policies...)
	return nil
}

func (s *serving) addDialect(name string) error {
	d, ok := ratelimit.LookupDialect(name)
	if !ok {
		return errors.New("is unknown: write draft-06, draft-07, x-ratelimit, x-ratelimit-unix or another one of docs/older.md")
	}
	s.dialects = append(s.dialects, d)
	return nil
}

// fault returns the fault of the command line, or nil. args is the number of arguments that are no
// flags.
func (s *serving) fault(args int) error {
	_, port, notAddress := net.SplitHostPort(s.address)
	switch {
	case args > 0:
		return errors.New("there are arguments: give the limits with -limit")
	case s.like == "" && s.limits == nil:
		return errors.New("there are no limits: give -limit " + anyLimit + " or -like github")
	case s.kind != "" && !slices.Contains(kindNames, s.kind):
		return errors.New("-kind is unknown: write " + strings.Join(kindNames, ", "))
	case s.key != "" && !text.IsToken(s.key):
		return errors.New("-key is not the name of a field: write it without a colon and spaces")
	case s.latency < 0:
		return errors.New("-latency is negative: give a time of 0 or more")
	case notAddress != nil || port == "":
		return errors.New("-addr is not an address: write 127.0.0.1:8080")
	}
	for _, p := range s.limits {
		if fault := s.faultOf(p); fault != "" {
			return errors.New("-limit has " + fault + ": write " + anyLimit)
		}
	}
	return nil
}

// century bounds windows, because a sliding counter adds up two of them.
const century = 100 * 365 * 24 * time.Hour

// faultOf returns the fault of a limit, or "".
func (s *serving) faultOf(p ratelimit.Policy) string {
	window, isWindow := p.Window.Duration()
	switch {
	case !isWindow && s.kind != "concurrency":
		return "no window"
	case window > century:
		return "a window of more than a century"
	case p.Quota == 0:
		return "the quota 0"
	}
	return ""
}

// complete makes the API. An API panics if a form cannot express the limits. Therefore complete first
// sends a request to a second API with the same flags, and returns its panic as an error.
func (s *serving) complete(args int) (err error) {
	if err := s.fault(args); err != nil {
		return err
	}
	if s.api, err = s.newAPI(); err != nil {
		return err
	}
	tried, _ := s.newAPI()
	tried.Latency = 0
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%s: change -limit, -kind or -dialect", strings.TrimPrefix(fmt.Sprint(fault), "ratelimittest: "))
		}
	}()
	_, err = tried.RoundTripper().RoundTrip(httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
	return err
}

func (s *serving) newAPI() (api *ratelimittest.API, err error) {
	api, kind := &ratelimittest.API{}, ratelimittest.WindowFromFirst
	if s.like != "" {
		if api, err = ratelimittest.Like(s.like); err != nil {
			_, names, _ := strings.Cut(err.Error(), ": use ")
			return nil, errors.New("-like is unknown: write " + names)
		}
		kind = api.Limits[0].Kind
	}
	if s.limits != nil {
		api.Limits = nil
	}
	for _, p := range s.limits {
		api.Limits = append(api.Limits, ratelimittest.Limit{Policy: p, Kind: kind})
	}
	for i := range api.Limits {
		if s.kind != "" {
			api.Limits[i].Kind = ratelimittest.Kind(slices.Index(kindNames, s.kind))
		}
	}
	if s.dialects != nil {
		api.Dialects = s.dialects
	}
	api.Silent, api.Latency = api.Silent || s.silent, s.latency
	if s.key != "" {
		api.Key = s.keyOf
	}
	api.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if a, ok := w.(*answer); ok {
			a.served = true
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return api, nil
}

func (s *serving) keyOf(r *http.Request) string {
	return strings.Join(r.Header[http.CanonicalHeaderKey(s.key)], "\n")
}

// number returns a number for the key of a request, from 1, so that no credential is printed. It
// returns 0 if all requests share one key, and for keys after the first ten thousand.
func (s *serving) number(r *http.Request) int {
	const most = 10_000
	if s.key == "" {
		return 0
	}
	hash := sha256.Sum256([]byte(s.keyOf(r)))
	if s.numbers[hash] == 0 && len(s.numbers) < most {
		s.numbers[hash] = len(s.numbers) + 1
	}
	return s.numbers[hash]
}

// An answer notes how a request is answered.
type answer struct {
	http.ResponseWriter
	status int // 0 is 200, or that the client has gone
	served bool
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// ServeHTTP answers a request, and prints a line.
func (s *serving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &answer{ResponseWriter: w}
	s.api.ServeHTTP(a, r)
	if a.served {
		a.status = cmp.Or(a.status, http.StatusOK)
	}
	now := time.Now()
	advice := ratelimit.Advisor{MaxWait: math.MaxInt64}.Advise(&http.Response{StatusCode: a.status, Header: w.Header()}, now)
	l := line{Status: a.status, Refused: !a.served && a.status > 0, Form: advice.Fields.Dialect, Limits: report.LimitsOf(advice.Fields)}
	l.At = now.Sub(s.rows.started).Seconds()
	if l.Refused && advice.Source != ratelimit.SourceNone {
		wait := advice.Asked.Seconds()
		l.Asked = &wait
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.number(r)
	if s.json {
		_ = json.NewEncoder(s.stdout).Encode(struct {
			line
			Key int `json:"key,omitempty"`
		}{l, key})
		return
	}
	row := s.rows.row(l)
	if key > 0 {
		row = fmt.Sprintf("%s  key %d", row, key)
	}
	fmt.Fprintln(s.stdout, row)
}

// printCounts prints what the API has counted. Nothing is printed afterwards.
func (s *serving) printCounts() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, stdout := s.api.Counts(), s.stdout
	s.stdout = io.Discard
	if s.json {
		return json.NewEncoder(stdout).Encode(map[string]int64{"served": n.Served, "refused": n.Refused, "early": n.Early})
	}
	_, err := fmt.Fprintf(stdout, "%d served, %d refused, %d early\n", n.Served, n.Refused, n.Early)
	return err
}
