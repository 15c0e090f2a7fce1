package trial

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Serve runs a server on a socket until the test ends, and returns its address.
func Serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// Send sends a request with the names and values of fields. It returns the response, and its body.
func Send(t testing.TB, method, url string, body io.Reader, fields ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, body)
	require.NoError(t, err)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(text)
}

// Until waits until a condition holds, for at most the longest pause of a busy machine.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 20*time.Second, 5*time.Millisecond, what)
}
