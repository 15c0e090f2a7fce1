package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want int
		text string // a part of the output
	}{
		{"help", []string{"-h"}, 0, "no credential"},
		{"no Redis", []string{"-to", "http://a/"}, 2, "-redis is missing"},
		{"a wrong address of Redis", []string{"-to", "http://a/", "-redis", "http://u:s3cret@a/"}, 2, "-redis is no address"},
		{"no server", []string{"-redis", "redis://127.0.0.1:1"}, 2, "-to is missing"},
		{"an unknown flag", []string{"-x"}, 2, "-x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, tc.want, run(t.Context(), tc.args, &stdout, &stderr))
			require.Contains(t, stdout.String()+stderr.String(), tc.text)
			require.NotContains(t, stderr.String(), "s3cret")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(ctx, []string{"-redis", "redis://127.0.0.1:1", "-to", "http://a/", "-listen", "127.0.0.1:0"}, &stdout, &stderr))
	require.Empty(t, stderr.String())
}

// If Redis answers with an error, such as that of a missing password, the error is printed once a
// minute. Requests are forwarded.
func TestRedisFails(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	redis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer redis.Close()
	go func() {
		for {
			conn, err := redis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					line, err := in.ReadString('\n')
					if err != nil {
						return
					}
					if strings.HasPrefix(line, "*") { // the beginning of a command
						_, _ = io.WriteString(conn, "-NOAUTH Authentication required.\r\n")
					}
				}
			}()
		}
	}()
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stderr bytes.Buffer
	status := make(chan int)
	go func() {
		status <- run(ctx, []string{"-redis", "redis://" + redis.Addr().String(), "-to", server.URL, "-listen", "127.0.0.1:0", "-quiet"}, in, &stderr)
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	for range 3 {
		resp, err := http.Get(strings.TrimSpace(strings.TrimPrefix(line, "listening on ")))
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusNotFound, resp.StatusCode)
	}
	cancel()
	require.Zero(t, <-status)
	require.Contains(t, stderr.String(), "ratelimit-fleet: Redis fails, and this proxy goes on alone: NOAUTH Authentication required.\n")
	require.LessOrEqual(t, strings.Count(stderr.String(), "\n"), 2, "a minute may end")
}
