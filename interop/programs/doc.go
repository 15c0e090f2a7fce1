// Package programs holds four small programs, as users of package ratelimit would write them.
// They are a client library, an API over a shared Redis, a gateway, and gRPC on both sides. Its
// examples emit the fields where there is no net/http.
package programs
