package announce

import (
	"net/http"

	"github.com/httpfields/ratelimit"
)

// AnnouncerOf returns a function that makes the ResponseWriter of the handlers behind a Handler,
// which announces f.
func AnnouncerOf(w http.ResponseWriter, f ratelimit.Fields) func() http.ResponseWriter {
	s := &serving{writer: w, decided: true, decision: Decision{Fields: f}}
	return s.announcer
}
