package proxy

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// A client hangs up after sending more of its body than the proxy reads. Its request leaves
// the queue, and is not sent later. Only Linux shows a hang-up behind unread data.
func TestProxyHangUpUnread(t *testing.T) {
	require.LessOrEqual(t, lookAfter, time.Second)
	for _, reset := range []bool{false, true} {
		var n atomic.Int64
		p := startProxy(t, trial.Serve(t, waitingFor("Retry-After", "590", &n)), func(c *Config) { c.BodyMemory = 0 })
		trial.Send(t, "GET", p.url+"/exhaust", nil)
		conn := p.dial(t).(*net.TCPConn)
		_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("a", 20000))
		require.NoError(t, err)
		waiting := func() float64 { return p.metric(t, `ratelimit_waiting{key="anonymous"}`) }
		trial.Until(t, "it waits", func() bool { return waiting() == 1 })
		if reset {
			require.NoError(t, conn.SetLinger(0))
		}
		require.NoError(t, conn.Close())
		trial.Until(t, "it has left", func() bool { return waiting() == 0 })
		require.EqualValues(t, 1, n.Load())
	}

	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	client, err := net.Dial("tcp", server.Addr().String())
	require.NoError(t, err)
	conn, err := server.Accept()
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(client, "more")
	require.NoError(t, err)
	require.False(t, hungUp(conn))
	require.NoError(t, client.Close())
	trial.Until(t, "it shows", func() bool { return hungUp(conn) })
	r := trial.NewRequest(t, "http://api.example/")
	r = r.WithContext(context.WithValue(t.Context(), jobKey{}, &job{body: &requestBody{}, conn: conn, sent: t.Context()}))
	_, err = forward{}.RoundTrip(r)
	require.ErrorIs(t, err, errGone)
}
