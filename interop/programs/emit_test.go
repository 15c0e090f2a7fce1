package programs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/gofiber/fiber/v2"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/valyala/fasthttp"
)

// fields returns a response header in the canonical form of net/http, with current and older
// fields.
func fields() http.Header {
	f := announce.FixedWindow{Name: "minute", Quota: 100, Used: 63, Window: time.Minute, Left: 12 * time.Second}.Fields()
	h := http.Header{}
	if err := f.Set(h); err != nil {
		panic(err)
	}
	if err := ratelimit.XRateLimit.Set(h, f, time.Time{}); err != nil {
		panic(err)
	}
	return h
}

// A handler of fasthttp. HeaderOf reads the responses that fasthttp receives.
func Example_fasthttp() {
	handler := func(ctx *fasthttp.RequestCtx) {
		for key, lines := range fields() {
			for _, line := range lines {
				ctx.Response.Header.Add(key, line)
			}
		}
	}

	var ctx fasthttp.RequestCtx
	handler(&ctx)
	received := map[string][]string{}
	for key, value := range ctx.Response.Header.All() {
		received[string(key)] = append(received[string(key)], string(value))
	}
	f, err := ratelimit.Parse(ratelimit.HeaderOf(received))
	fmt.Println(f.Policies, f.Limits, err)
	// Output: ["minute";q=100;w=60] ["minute";r=37;t=12] <nil>
}

// A handler of fiber.
func Example_fiber() {
	app := fiber.New()
	app.Get("/", func(c *fiber.Ctx) error {
		for key, lines := range fields() {
			for _, line := range lines {
				c.Append(key, line)
			}
		}
		return c.SendString("hello")
	})

	resp, err := app.Test(httptest.NewRequest("GET", "/", nil))
	if err != nil {
		panic(err)
	}
	fmt.Println(resp.Header.Get("RateLimit"), resp.Header.Get("X-RateLimit-Remaining"))
	// Output: "minute";r=37;t=12 37
}

// The response of a function of AWS Lambda behind an API Gateway.
func Example_lambda() {
	handle := func(events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		return events.APIGatewayProxyResponse{StatusCode: http.StatusOK, MultiValueHeaders: fields(), Body: "hello"}, nil
	}

	resp, err := handle(events.APIGatewayProxyRequest{})
	if err != nil {
		panic(err)
	}
	event, err := json.Marshal(resp.MultiValueHeaders)
	fmt.Println(string(event), err)
	// Output: {"Ratelimit":["\"minute\";r=37;t=12"],"Ratelimit-Policy":["\"minute\";q=100;w=60"],"X-Ratelimit-Limit":["100"],"X-Ratelimit-Remaining":["37"],"X-Ratelimit-Reset":["12"]} <nil>
}
