// Package fiber says limits in fiber, which is not net/http.
package fiber

import (
	"errors"
	"net/http"

	"github.com/gofiber/fiber/v3"
	"github.com/httpfields/ratelimit"
)

// Limit asks a limiter about each request, and says what it says. Where the limiter
// fails, requests pass.
func Limit(take func(fiber.Ctx) (ratelimit.Decision, error)) fiber.Handler {
	return func(c fiber.Ctx) error {
		d, err := take(c)
		if err != nil {
			return c.Next()
		}
		said := http.Header{}
		err = errors.Join(d.Fields.Set(said), ratelimit.XRateLimit.Set(said, d.Fields, c.RequestCtx().Time()))
		if err != nil {
			return err // the limiter has said what cannot be written: a negative number, say
		}
		if len(d.Violated) > 0 {
			d.Fields.SetRetryAfter(said)
		}
		for name, lines := range said {
			c.Append(name, lines...)
		}
		if len(d.Violated) == 0 {
			return c.Next()
		}
		problem := ratelimit.NewProblem(ratelimit.QuotaExceeded, d.Violated...)
		return c.Status(problem.Status).JSON(problem, ratelimit.ProblemMediaType)
	}
}
