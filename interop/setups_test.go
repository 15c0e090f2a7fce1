package interop

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/interop/internal/peers"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
)

// A setup is an existing limiter in front of a handler that takes 50 ms.
type setup struct {
	name  string
	start func(t *testing.T) (address string) // with new counters at each start
	// refused is how often a Transport may be refused in each of the jobs; 0 means any number
	// of times. docs/simulation.md has the measured figures.
	refused [3]int
	// times is how often each load is run; 0 means once. The means of these runs count.
	times int
}

// slowly responds after 50 ms.
var slowly = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-r.Context().Done():
	}
})

var setups = []setup{
	// The goal is 1.3 times as often as aws adaptive, which is refused 25, 280 and 33 times. Single runs
	// vary: 14 to 40, 266 to 295, 19 to 70.
	{name: "HAProxy, a stick table that counts refused requests, 50 per 5 s", start: behind("haproxy", haproxyConfig), refused: [3]int{40, 340, 60}, times: 6},
	{name: "nginx limit_req 20/s without burst, 503 (its default)", start: behind("nginx", nginx("limit_req zone=req;")), refused: [3]int{20, 20, 20}},
	{name: "nginx limit_req 20/s without burst, 429", start: behind("nginx", nginx("limit_req zone=req; limit_req_status 429;")), refused: [3]int{20, 20, 20}},
	{name: "nginx limit_req 20/s, burst=20 nodelay, 429", start: behind("nginx", nginx("limit_req zone=req burst=20 nodelay; limit_req_status 429;"))},
	{name: "nginx limit_req 20/s, burst=20 with delay, 429", start: behind("nginx", nginx("limit_req zone=req burst=20; limit_req_status 429;"))},
	{name: "nginx limit_conn 5, 429", start: behind("nginx", nginx("limit_conn conn 5; limit_conn_status 429;")), refused: [3]int{12, 12, 12}},
	{name: "express-rate-limit 50 per 5 s, draft-8", start: node("load.mjs", "draft-8")},
	{name: "express-rate-limit 50 per 5 s, draft-7", start: node("load.mjs", "draft-7")},
	{name: "express-rate-limit 50 per 5 s, X-RateLimit", start: node("load.mjs", "legacy")},
	{name: "ulule/limiter 50 per 5 s", start: serve(ululeServer(50, 5*time.Second, slowly))},
	{name: "go-limiter 50 per 5 s", start: serve(goLimiterServer(50, 5*time.Second, slowly))},
	{name: "tollbooth 10 per s", start: serve(tollboothServer(10, slowly))},
	{name: "httprate 50 per 5 s, a sliding counter", start: serve(httprateServer(50, 5*time.Second, slowly))},
	{name: "throttled 10 per s, GCRA with burst 5", start: serve(throttledServer(throttled.PerSec(10), 5, slowly))},
}

// setupJobs are the loads of each setup.
var setupJobs = [3]struct{ jobs, workers int }{{200, 10}, {300, 300}, {400, 30}}

// setupClients are the clients of each setup.
var setupClients = [3]struct {
	name string
	wrap func(http.RoundTripper) http.RoundTripper
}{
	{"Transport", func(base http.RoundTripper) http.RoundTripper { return &obey.Transport{Base: base} }},
	{"aws adaptive", peers.Adaptive},
	{"go-retryablehttp", peers.Retryable},
}

// outcomesOfSetup has the outcomes of each load and client.
type outcomesOfSetup [len(setupJobs)][len(setupClients)][]outcome

// An outcome is the result of a client with the jobs of a load.
type outcome struct {
	seconds float64
	refused int
	given   int // jobs that were given up after longestSetup
}

func (o outcome) String() string {
	if o.given > 0 {
		return fmt.Sprintf("(%d not done)/%d", o.given, o.refused)
	}
	return fmt.Sprintf("%.0f/%d", o.seconds, o.refused)
}

// mean is the mean of runs. Of the jobs that were given up it counts all.
func mean(runs []outcome) outcome {
	var sum outcome
	for _, o := range runs {
		sum.seconds += o.seconds / float64(len(runs))
		sum.refused += o.refused
		sum.given += o.given
	}
	sum.refused = (sum.refused + len(runs)/2) / len(runs)
	return sum
}

const longestSetup = 2 * time.Minute

// TestSetups runs the jobs of each client with existing limiters. With -update it writes the
// table of docs/simulation.md.
func TestSetups(t *testing.T) {
	var runs []func()
	outcomes := make([]outcomesOfSetup, len(setups))
	for i, s := range setups {
		for j, load := range setupJobs {
			for k, client := range setupClients {
				outcomes[i][j][k] = make([]outcome, max(s.times, 1))
				for n := range outcomes[i][j][k] {
					address := s.start(t)
					runs = append(runs, func() {
						outcomes[i][j][k][n] = doJobs(address, load.jobs, load.workers, client.wrap)
					})
				}
			}
		}
	}
	var all sync.WaitGroup
	for _, run := range runs {
		all.Go(run)
		time.Sleep(300 * time.Millisecond) // keeps the first requests apart
	}
	all.Wait()
	table := setupTable(outcomes)
	t.Log("\n" + table)
	if *trial.Update {
		trial.CheckSection(t, simulationFile, "setups", table)
		return
	}
	_, old := trial.ReadSection(t, simulationFile, "setups")
	for i, s := range setups {
		require.Contains(t, old, "| "+s.name+" | ")
		for j := range setupJobs {
			ours := mean(outcomes[i][j][0])
			require.Zero(t, ours.given, "%s, job %d: not done", s.name, j+1)
			if s.refused[j] > 0 {
				require.LessOrEqual(t, ours.refused, s.refused[j], "%s, job %d: refused", s.name, j+1)
			}
		}
	}
}

const simulationFile = "../docs/simulation.md"

func setupTable(outcomes []outcomesOfSetup) string {
	var b strings.Builder
	b.WriteString("| server |")
	for _, c := range setupClients {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(setupClients)) + "\n")
	for i, s := range setups {
		fmt.Fprintf(&b, "| %s |", s.name)
		for k := range setupClients {
			var cells []string
			for j := range setupJobs {
				cells = append(cells, mean(outcomes[i][j][k]).String())
			}
			fmt.Fprintf(&b, " %s |", strings.Join(cells, ", "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// doJobs lets workers do jobs. Every third job is a POST. A job is tried until it succeeds,
// with pauses of up to 100 ms·2^k, at most 10 s.
func doJobs(address string, jobs, workers int, wrap func(http.RoundTripper) http.RoundTripper) outcome {
	base := &http.Transport{MaxIdleConnsPerHost: min(workers, 50), IdleConnTimeout: 5 * time.Second}
	defer base.CloseIdleConnections()
	var refused, done, next atomic.Int64
	client := &http.Client{Transport: wrap(trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil && resp.StatusCode != http.StatusOK {
			refused.Add(1)
		}
		return resp, err
	}))}
	begin := time.Now()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				job := next.Add(1)
				if job > int64(jobs) {
					return
				}
				for try := 0; time.Since(begin) < longestSetup; try++ {
					if sendJob(client, address, job%3 == 0) {
						done.Add(1)
						break
					}
					time.Sleep(rand.N(min(100*time.Millisecond<<min(try, 7), 10*time.Second) + 1))
				}
			}
		})
	}
	all.Wait()
	return outcome{time.Since(begin).Seconds(), int(refused.Load()), jobs - int(done.Load())}
}

func sendJob(client *http.Client, address string, post bool) bool {
	var resp *http.Response
	var err error
	if post {
		resp, err = client.Post(address, "text/plain", strings.NewReader("a job"))
	} else {
		resp, err = client.Get(address)
	}
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return err == nil && resp.StatusCode == http.StatusOK
}
