package trial

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// RecorderOf returns a recorder whose header is a copy of h.
func RecorderOf(h http.Header) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	maps.Copy(w.Header(), h)
	return w
}

// A RoundTripFunc is an [http.RoundTripper].
type RoundTripFunc func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f RoundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// NewRequest returns a GET request that ends with the test.
func NewRequest(t testing.TB, address string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	return req
}

// Example is the address of a server.
const Example = "http://api.example/"

// Closing is a body that records how it is used.
type Closing struct {
	io.Reader
	Reads, Closed int
}

// Read counts the bytes that it reads.
func (c *Closing) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.Reads += n
	return n, err
}

// Close counts how often it is called.
func (c *Closing) Close() error { c.Closed++; return nil }
