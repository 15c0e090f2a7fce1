package caddy

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"golang.org/x/time/rate"
)

// A Zone is a rate limit as a module of Caddy.
type Zone struct {
	Name   string         `json:"name"`
	Events int            `json:"max_events"`
	Window caddy.Duration `json:"window"`
	bucket *rate.Limiter
}

func (Zone) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.zone", New: func() caddy.Module { return new(Zone) }}
}

// Provision returns an error for a name that the fields cannot carry, such as zürich.
func (z *Zone) Provision(caddy.Context) error {
	z.bucket = rate.NewLimiter(rate.Limit(float64(z.Events)/time.Duration(z.Window).Seconds()), z.Events)
	return z.fields().Validate()
}

func (z *Zone) fields() ratelimit.Fields {
	b := announce.TokenBucket{Name: z.Name, Burst: int64(z.Events), PerSecond: float64(z.bucket.Limit()), Tokens: z.bucket.Tokens()}
	return b.Fields()
}

func (z *Zone) take(*http.Request) (d announce.Decision, err error) {
	if !z.bucket.Allow() {
		d.Violated = []string{z.Name}
	}
	d.Fields = z.fields()
	return d, nil
}

// ServeHTTP puts a Middleware around next.
func (z *Zone) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (err error) {
	m := &announce.Middleware{Take: z.take}
	m.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { err = next.ServeHTTP(w, r) })).ServeHTTP(w, r)
	return err
}
