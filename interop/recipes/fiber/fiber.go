// Package fiber announces limits in fiber, which is not net/http.
package fiber

import (
	"net/http"

	"github.com/gofiber/fiber/v3"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

// Limit asks a limiter about each request, and announces the limits. If the limiter fails,
// requests pass.
func Limit(take func(fiber.Ctx) (announce.Decision, error)) fiber.Handler {
	return func(c fiber.Ctx) error {
		d, err := take(c)
		if err != nil {
			return c.Next()
		}
		if d.Done != nil {
			defer d.Done()
		}
		said := http.Header{}
		if err := d.Fields.Set(said); err != nil {
			return err // the fields cannot be written, for example a negative number
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
