// Package slog logs announced limits and waits.
package slog

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// NewTransport returns a Transport that logs with the context of each request.
func NewTransport(log *slog.Logger) *obey.Transport {
	return &obey.Transport{
		Observe: func(r *http.Request, a ratelimit.Advice) {
			level := slog.LevelDebug
			if a.Refused {
				level = slog.LevelWarn
			}
			log.Log(r.Context(), level, "limits", "host", r.URL.Host, "policy", a.Limit.Name, "refused", a.Refused, "wait", a.Wait, "pace", a.Pace)
		},
		Waiting: func(r *http.Request, w obey.Wait) (done func()) {
			start := time.Now()
			log.InfoContext(r.Context(), "waiting", "host", r.URL.Host, "policy", w.Advice.Limit.Name, "reason", w.Reason, "until", w.Until)
			return func() { log.InfoContext(r.Context(), "waited", "host", r.URL.Host, "for", time.Since(start)) }
		},
	}
}
