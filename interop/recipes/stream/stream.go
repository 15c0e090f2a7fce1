// Package stream waits after refusals that are the first event of a stream.
package stream

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// NewTransport returns a Transport that sends a request again if its stream begins with a refusal.
func NewTransport(base http.RoundTripper) *obey.Transport {
	return &obey.Transport{Base: base, Advisor: ratelimit.Advisor{Refused: inStream}, MaxRetries: 50}
}

// inStream reports a stream whose first event is the error of an overloaded server.
func inStream(resp *http.Response) (wait time.Duration, refused bool) {
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return 0, false
	}
	events := bufio.NewReader(resp.Body)
	resp.Body = struct {
		io.Reader
		io.Closer
	}{events, resp.Body}
	const failed = "event: error"
	if start, _ := events.Peek(len(failed)); string(start) != failed {
		return 0, false
	}
	text, _ := events.Peek(1 << 10) // as much as there is: the server ends the stream after an error
	return 0, bytes.Contains(text, []byte(`"overloaded_error"`)) || bytes.Contains(text, []byte(`"rate_limit_error"`))
}
