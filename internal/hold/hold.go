// Package hold lets the command tell a Gate that a deadline is that of a wait. Otherwise
// it is that of the answer, and a request is not sent where no answer can come in time.
package hold

import "context"

type key struct{}

// Context returns a context whose deadline is that of the wait alone.
func Context(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Is reports whether the deadline of a context is that of the wait alone.
func Is(ctx context.Context) bool { return ctx.Value(key{}) != nil }
