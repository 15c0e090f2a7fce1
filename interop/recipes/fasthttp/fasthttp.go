// Package fasthttp is a gateway without net/http.
package fasthttp

import (
	"log"
	"net/http"
	"slices"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/valyala/fasthttp"
)

// Gateway passes requests to upstream, and announces the limits of both.
func Gateway(upstream *fasthttp.HostClient, take func(*fasthttp.RequestCtx) announce.Decision) fasthttp.RequestHandler {
	return func(c *fasthttp.RequestCtx) {
		d := take(c)
		if d.Done != nil {
			defer d.Done()
		}
		h := http.Header{}
		if len(d.Violated) > 0 {
			problem := ratelimit.NewProblem(ratelimit.QuotaExceeded, d.Violated...)
			body, _ := problem.MarshalJSON()
			c.SetStatusCode(problem.Status)
			c.SetContentType(ratelimit.ProblemMediaType)
			c.SetBody(body)
		} else if err := upstream.Do(&c.Request, &c.Response); err != nil {
			c.Error("Bad Gateway", fasthttp.StatusBadGateway)
		}
		for name, line := range c.Response.Header.All() {
			h.Add(string(name), string(line))
		}
		before := h.Clone()
		o := ratelimit.RestrictOptions{Refused: len(d.Violated) > 0, Dialects: []*ratelimit.Dialect{ratelimit.XRateLimit}}
		if err := ratelimit.RestrictHeader(h, c.Response.StatusCode(), d.Fields, o); err != nil {
			log.Print(err) // all else is written
		}
		for name, lines := range h {
			if !slices.Equal(lines, before[name]) {
				c.Response.Header.Del(name)
				for _, line := range lines {
					c.Response.Header.Add(name, line)
				}
			}
		}
	}
}
