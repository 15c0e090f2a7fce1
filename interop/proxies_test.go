package interop

import (
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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

// needProgram skips the test if a program is not installed. In CI it fails.
func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	require.Empty(t, os.Getenv("CI"), "%s is not installed, and CI is set", name)
	t.Skipf("%s is not installed", name)
}

// behind returns a function that starts nginx or HAProxy in front of a handler that takes 50 ms. In
// the configuration, ADDRESS is the listening address; BACKEND and DIR are replaced too.
func behind(program, config string) func(*testing.T) string {
	return func(t *testing.T) (address string) {
		needProgram(t, program)
		backend := httptest.NewServer(slowly)
		t.Cleanup(backend.Close)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address = listener.Addr().String()
		listener.Close() // other listeners get other ports
		dir, target := t.TempDir(), backend.URL
		if program == "haproxy" {
			target = strings.TrimPrefix(target, "http://")
		}
		text := strings.NewReplacer("ADDRESS", address, "BACKEND", target, "DIR", dir).Replace(config)
		file := filepath.Join(dir, "config")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		args := []string{"-f", file}
		if program == "nginx" {
			args = []string{"-p", dir, "-e", "stderr", "-c", file}
		}
		command := exec.CommandContext(t.Context(), program, args...)
		command.Stderr = os.Stderr
		require.NoError(t, command.Start())
		t.Cleanup(func() { _ = command.Wait() }) // the context of the test ends it
		require.Eventually(t, func() bool {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			return err == nil
		}, 10*time.Second, 50*time.Millisecond)
		return "http://" + address
	}
}
