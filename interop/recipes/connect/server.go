package connect

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"github.com/httpfields/ratelimit/announce"
)

// Limit asks a limiter about each call, and announces the limits.
func Limit(take func(context.Context, connect.AnyRequest) announce.Decision) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			d := take(ctx, req)
			if len(d.Violated) > 0 {
				refusal := connect.NewError(connect.CodeResourceExhausted, errors.New("quota exceeded"))
				d.Fields.SetRetryAfter(refusal.Meta())
				return nil, errors.Join(refusal, d.Fields.Set(refusal.Meta()))
			}
			resp, err := next(ctx, req)
			var failed *connect.Error
			switch {
			case err == nil:
				err = d.Fields.Set(resp.Header())
			case errors.As(err, &failed):
				err = errors.Join(err, d.Fields.Set(failed.Meta()))
			}
			return resp, err
		}
	}
}
