// Package discord waits for the limits of Discord, which counts each channel apart.
package discord

import (
	"net/http"
	"strings"

	"github.com/httpfields/ratelimit/obey"
)

// NewTransport returns a Transport for the requests of one bot.
func NewTransport(base http.RoundTripper) *obey.Transport {
	return &obey.Transport{Base: base, Key: Key}
}

// Key returns the method, the channel, guild or webhook, and what of it a request is about:
// /api/v10/channels/1/messages/2 is "POST /api/v10/channels/1/messages/".
func Key(req *http.Request) string {
	parts, n := strings.SplitAfter(req.URL.Path, "/"), 6
	if len(parts) > 3 && (parts[3] == "webhooks/" || parts[3] == "interactions/") {
		n = 5 // a token follows, which no key should contain
	}
	return req.Method + " " + strings.Join(parts[:min(n, len(parts))], "")
}
