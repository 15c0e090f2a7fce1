package stream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
	started    = "event: message_start\ndata: {\"type\":\"message_start\"}\n\n"
)

// A model is overloaded for 30 s, and says so in streams of status 200.
type model struct {
	mu    sync.Mutex
	until time.Time
	sent  int
}

func (m *model) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(50 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent++
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	if time.Now().Before(m.until) {
		w.WriteString(overloaded)
	} else {
		w.WriteString(started)
	}
	return w.Result(), nil
}

// Ten requests at an overloaded model take a few requests each, and the callers see only good streams.
func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &model{until: time.Now().Add(30 * time.Second)}
		client := &http.Client{Transport: NewTransport(m)}
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				resp, err := client.Post("https://models.example/v1/messages", "application/json", strings.NewReader("{}"))
				require.NoError(t, err)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, started, string(got))
			})
		}
		callers.Wait()
		t.Log(m.sent)
		require.LessOrEqual(t, m.sent, 40)
	})
}

func TestInStream(t *testing.T) {
	const events = "text/event-stream"
	for _, tc := range []struct {
		name, contentType, body string
		want                    bool
	}{
		{"overloaded", events, overloaded, true},
		{"too many requests", events, "event: error\ndata: {\"error\":{\"type\":\"rate_limit_error\"}}\n\n", true},
		{"another error", events, "event: error\ndata: {\"error\":{\"type\":\"api_error\"}}\n\n", false},
		{"a message", events, started, false},
		{"a message about errors", events, started + overloaded, false},
		{"a short stream", events, ":\n\n", false},
		{"no stream", "application/json", overloaded, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", tc.contentType)
			w.WriteString(tc.body)
			resp := w.Result()
			_, got := inStream(resp)
			require.Equal(t, tc.want, got)
			left, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, tc.body, string(left), "the caller reads the whole stream")
		})
	}
}

// The first event is passed on when it arrives, before the stream goes on.
func TestInStreamAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		go func() {
			w.Write([]byte(started))
			time.Sleep(time.Minute)
			w.Close()
		}()
		start := time.Now()
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: r}
		_, refused := inStream(resp)
		require.False(t, refused)
		got := make([]byte, len(started))
		_, err := io.ReadFull(resp.Body, got)
		require.NoError(t, err)
		require.Equal(t, started, string(got))
		require.Zero(t, time.Since(start))
		io.Copy(io.Discard, resp.Body)
	})
}
