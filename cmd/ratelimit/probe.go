package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit/internal/report"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// A prober is one run of the verb.
type prober struct {
	address     string
	requests    int
	rate        float64
	concurrency int
	header      headerFlag
	method      string
	timeout     time.Duration
	shared      bool
	pastRefusal bool
	require     bool
	json        bool
	rows        io.Writer // gets a row for each answer; may be nil
	base        http.RoundTripper
}

func probe(ctx context.Context, args []string, _ io.Reader, stdout, _ io.Writer) (int, error) {
	base := newTransport()
	defer base.CloseIdleConnections()
	p := &prober{base: base, header: headerFlag{}}
	flags := newFlags("probe")
	p.flags(flags)
	if err := parse(flags, args, stdout); err != nil {
		return 0, err
	}
	if err := p.check(flags.Args()); err != nil {
		return 0, usageError{err}
	}
	base.MaxIdleConnsPerHost = p.concurrency
	if !p.json {
		p.rows = stdout
	}
	r, err := p.run(ctx)
	if err != nil {
		return 0, err
	}
	if p.json {
		return r.status(), report.WriteJSON(stdout, r)
	}
	return r.status(), r.writeText(stdout)
}

func (p *prober) flags(flags *flag.FlagSet) {
	flags.IntVar(&p.requests, "n", 30, "send at most this many requests")
	flags.Float64Var(&p.rate, "rate", 5, "send at most this many requests a second")
	flags.IntVar(&p.concurrency, "c", 1, "send at most this many at the same time")
	flags.Func("H", "send this header `field`; can be repeated", p.header.addField)
	flags.StringVar(&p.method, "method", http.MethodGet, "the method of the requests")
	flags.DurationVar(&p.timeout, "timeout", time.Minute, "end the run after this time")
	flags.BoolVar(&p.shared, "shared", false, "other clients use the quota too")
	flags.BoolVar(&p.pastRefusal, "past-refusal", false, "after a refusal, wait as long as the server asks, and go on")
	flags.BoolVar(&p.require, "require", false, "exit 1 if no request was refused")
	flags.BoolVar(&p.json, "json", false, "print JSON")
}

// check returns the fault of the command line.
func (p *prober) check(args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("the address is missing: give that of a server")
	case len(args) > 1:
		return errors.New("there are several addresses: give one")
	case !isAddress(args[0]):
		return errors.New("the argument is not an address: begin it with http:// or https://")
	case p.requests < 1 || p.requests > mostRequests:
		return fmt.Errorf("-n is out of range: give 1 to %d", mostRequests)
	case !(p.rate >= leastRate && p.rate <= mostRate):
		return fmt.Errorf("-rate is out of range: give at least one request an hour (0.00028) and at most %d a second", mostRate)
	case p.concurrency < 1 || p.concurrency > mostRequests:
		return fmt.Errorf("-c is out of range: give 1 to %d", mostRequests)
	case p.timeout <= 0:
		return errors.New("-timeout is out of range: give a time above 0")
	}
	p.address = args[0]
	_, err := p.request(context.Background())
	return err
}

// The bounds of -n, -c and -rate, because this is not a load test.
const (
	mostRequests = 10_000
	mostRate     = 1000
	leastRate    = 1.0 / 3600 // so that the time between two requests is a Duration
)

func (p *prober) request(ctx context.Context) (*http.Request, error) {
	r, err := p.header.newRequest(ctx, p.method, p.address)
	if err == nil && r.Header["User-Agent"] == nil {
		r.Header.Set("User-Agent", "ratelimit-probe")
	}
	return r, err
}

// A course is the state of a run.
type course struct {
	*prober
	*probeReport
	events   chan func() // what step calls when a response arrives, and when its body was read
	underWay int
	next     time.Time // the earliest time of the next request
	end      time.Time // of the run
}

// run sends the requests. It returns an error if the server cannot be reached.
func (p *prober) run(ctx context.Context) (*probeReport, error) {
	now := time.Now()
	c := &course{prober: p, events: make(chan func()), next: now, end: now.Add(p.timeout)}
	c.probeReport = &probeReport{URL: shown(p.address), require: p.require, started: now, sequence: ratelimittest.Sequence{Alone: !p.shared}}
	ctx, cancel := context.WithDeadlineCause(ctx, c.end, errOver)
	defer cancel()
	for c.Stopped == "" || c.underWay > 0 {
		c.step(ctx)
	}
	switch {
	case c.Answered > 0 || c.Stopped == interrupted:
		c.complete()
		return c.probeReport, nil
	case c.failure != nil:
		return nil, fmt.Errorf("%s: %w", c.URL, c.failure)
	}
	return nil, fmt.Errorf("the server did not answer within %v: check the address, or raise -timeout", p.timeout)
}

var errOver = errors.New("the time of -timeout is over")

const interrupted = "it was interrupted"

// step waits for the time of the next request, for an event, or for the end.
func (c *course) step(ctx context.Context) {
	var due <-chan time.Time
	var over <-chan struct{}
	if c.Stopped == "" { // afterwards the requests under way end with ctx
		over = ctx.Done()
		if c.underWay < c.concurrency {
			due = time.After(time.Until(c.next))
		}
	}
	select {
	case <-over:
		c.Stopped = interrupted
		if errors.Is(context.Cause(ctx), errOver) {
			c.Stopped = errOver.Error()
		}
	case event := <-c.events:
		event()
	case <-due:
		c.Sent++
		c.underWay++
		c.next = time.Now().Add(time.Duration(float64(time.Second) / c.rate))
		if c.Sent == c.requests {
			c.Stopped = "all requests are sent"
		}
		go c.ask(ctx)
	}
}

// ask sends a request. It reads the body of the response up to a bound, so that the connection can
// be used again.
func (c *course) ask(ctx context.Context) {
	const mostBody, mostTime = 1 << 20, time.Second
	defer func() { c.events <- func() { c.underWay-- } }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var resp *http.Response
	sent := time.Now()
	r, err := c.request(ctx)
	if err == nil {
		resp, err = c.base.RoundTrip(r)
	}
	received := time.Now()
	if ctx.Err() != nil {
		err = nil // the end of the run cut it off
	}
	c.events <- func() { c.take(resp, err, sent, received) }
	if resp == nil {
		return
	}
	defer time.AfterFunc(mostTime, cancel).Stop()
	_, _ = io.CopyN(io.Discard, resp.Body, mostBody)
	_ = resp.Body.Close()
}

// take adds an answer to the report, and decides whether and when to go on.
func (c *course) take(resp *http.Response, err error, sent, received time.Time) {
	l := c.add(resp, err, sent, received)
	if c.Answered > 0 && c.rows != nil {
		fmt.Fprintln(c.rows, c.row(l))
	}
	switch {
	case err != nil && c.Answered == 0:
		c.Stopped = "the server cannot be reached"
	case !l.Refused || c.Stopped != "":
	case !c.pastRefusal:
		c.Stopped = "a request was refused"
	case !l.until.Before(c.end):
		c.Stopped = "the requested wait ends after -timeout"
	case l.until.After(c.next):
		c.next = l.until
	}
}
