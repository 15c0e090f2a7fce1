package obey_test

import (
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// The tests of this file contain the code of README.md and docs/ word for word, which
// TestReadmeCode checks.

func TestReadmeTransport(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client := &http.Client{
		Transport: &obey.Transport{MaxRetries: 3}, // waits as servers ask, at most 10 minutes at a time
		Timeout:   time.Minute,                    // includes the waits; a request that cannot go in time fails at once
	}
	resp, err := client.Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

func TestReadmeState(t *testing.T) {
	gate := new(obey.Gate)
	if pass, _ := gate.TryEnter("api"); pass != nil {
		spent := ratelimit.Advice{Wait: time.Minute, Source: ratelimit.SourceLimit}
		pass.Answered(spent, time.Date(2099, time.January, 1, 0, 0, 0, 0, time.UTC))
	}
	for key := range gate.Keys() {
		if w, ok := gate.State(key); ok && w.Reason != "" {
			log.Printf("%s waits until %v (%s), %d queued", w.Key, w.Until, w.Reason, w.Queued)
		}
	}
	w, _ := gate.State("api")
	require.Equal(t, obey.ReasonLimit, w.Reason)
}
