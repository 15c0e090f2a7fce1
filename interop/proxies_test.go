package interop

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/interop/internal/peers"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

// A proxy is an existing server that limits requests and announces little. It is in front of
// a handler that takes 50 ms.
type proxy struct {
	name    string
	program string
	config  string  // ADDRESS is the listening address; BACKEND and DIR are replaced too
	least   float64 // the least ratio of requests served by a Transport to those by go-retryablehttp; 0 is not checked
	refused bool    // more refusals than with go-retryablehttp are allowed
}

// nginx runs as one process, so that killing it leaves no other process.
const nginxConfig = `daemon off; master_process off; pid DIR/pid; error_log stderr crit;
events { worker_connections 2048; }
http {
	access_log off;
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi; uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
	limit_req_zone all zone=req:1m rate=20r/s; limit_conn_zone all zone=conn:1m;
	server { listen ADDRESS; location / { LIMIT proxy_pass BACKEND; } }
}`

const haproxyConfig = `defaults
	mode http
	timeout connect 5s
	timeout client 30s
	timeout server 30s
frontend front
	bind ADDRESS
	stick-table type integer size 10 expire 10s store http_req_rate(5s)
	http-request track-sc0 int(1)
	http-request deny deny_status 429 if { sc_http_req_rate(0) gt 50 }
	default_backend back
backend back
	server one BACKEND
`

func nginx(limit string) string { return strings.ReplaceAll(nginxConfig, "LIMIT", limit) }

var proxies = []proxy{
	{"nginx limit_req without burst", "nginx", nginx("limit_req zone=req; limit_req_status 429;"), 0.7, true},
	{"nginx limit_req, burst 20", "nginx", nginx("limit_req zone=req burst=20 nodelay; limit_req_status 429;"), 0.98, false},
	{"nginx limit_conn 5", "nginx", nginx("limit_conn conn 5; limit_conn_status 429;"), 0.95, false},
	{"HAProxy stick table, 50 per 5 s", "haproxy", haproxyConfig, 0.98, false},
	{"nginx limit_req, with its default of 503", "nginx", nginx("limit_req zone=req;"), 0, true},
}

// In TestProxies 20 workers send requests for 20 s through each proxy, with a Transport and
// with go-retryablehttp.
func TestProxies(t *testing.T) {
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			needProgram(t, p.program)
			var ours, theirs tally
			var both sync.WaitGroup
			both.Go(func() {
				ours.drive(p.start(t), func(base http.RoundTripper) http.RoundTripper { return &obey.Transport{Base: base} })
			})
			both.Go(func() {
				theirs.drive(p.start(t), peers.Retryable)
			})
			both.Wait()
			t.Logf("Transport %v, go-retryablehttp %v", &ours, &theirs)
			require.Positive(t, theirs.served.Load())
			require.GreaterOrEqual(t, float64(ours.served.Load()), p.least*float64(theirs.served.Load()), "served")
			if !p.refused {
				require.Less(t, ours.refused.Load(), theirs.refused.Load(), "refused")
			}
		})
	}
}

// needProgram skips the test if a program is not installed. In CI it fails.
func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	require.Empty(t, os.Getenv("CI"), "%s is not installed, and CI is set", name)
	t.Skipf("%s is not installed", name)
}

// start starts the proxy, and returns its address when it responds.
func (p *proxy) start(t *testing.T) (address string) {
	backend := httptest.NewServer(slowly)
	t.Cleanup(backend.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return ""
	}
	address = listener.Addr().String()
	listener.Close() // other listeners get other ports
	dir := t.TempDir()
	target := backend.URL
	if p.program == "haproxy" {
		target = strings.TrimPrefix(target, "http://")
	}
	config := strings.NewReplacer("ADDRESS", address, "BACKEND", target, "DIR", dir).Replace(p.config)
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Error(err)
		return ""
	}
	args := []string{"-f", file}
	if p.program == "nginx" {
		args = []string{"-p", dir, "-e", "stderr", "-c", file}
	}
	command := exec.CommandContext(t.Context(), p.program, args...)
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Error(err)
		return ""
	}
	t.Cleanup(func() { _ = command.Wait() }) // the context of the test ends it
	for range 100 {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "http://" + address
}

// A tally counts served and refused requests.
type tally struct{ served, refused atomic.Int64 }

func (c *tally) String() string {
	return fmt.Sprintf("%d served, %d refused", c.served.Load(), c.refused.Load())
}

// drive lets 20 workers send requests for 20 s. A job is tried until it succeeds, with pauses
// of up to 100 ms·2^k.
func (c *tally) drive(address string, wrap func(http.RoundTripper) http.RoundTripper) {
	base := &http.Transport{MaxIdleConnsPerHost: 20}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: wrap(roundTrip(func(req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		switch {
		case err != nil:
		case resp.StatusCode == http.StatusOK:
			c.served.Add(1)
		default:
			c.refused.Add(1)
		}
		return resp, err
	})), Timeout: 10 * time.Second}
	end := time.Now().Add(20 * time.Second)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for try := 0; time.Now().Before(end); try++ {
				resp, err := client.Get(address)
				if err == nil {
					resp.Body.Close()
					if resp.StatusCode == http.StatusOK {
						try = -1
						continue
					}
				}
				time.Sleep(min(rand.N(100*time.Millisecond<<min(try, 6)+1), time.Until(end)))
			}
		})
	}
	all.Wait()
}
