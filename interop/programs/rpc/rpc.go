// Package rpc announces limits in the header metadata of gRPC, and obeys them.
package rpc

import (
	"context"
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Limit forwards the calls that take allows, and announces the limits in each answer.
func Limit(take func(context.Context) (f ratelimit.Fields, ok bool)) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		f, ok := take(ctx)
		policies, _ := ratelimit.FormatPolicies(f.Policies...)
		limits, _ := ratelimit.FormatLimits(f.Limits...)
		_ = grpc.SetHeader(ctx, metadata.Pairs(ratelimit.PolicyField, policies, ratelimit.LimitField, limits))
		if !ok {
			return nil, status.Error(codes.ResourceExhausted, "quota exceeded")
		}
		return next(ctx, req)
	}
}

// Wait delays calls as their servers ask.
func Wait(gate *obey.Gate) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		pass, err := gate.Enter(ctx, cc.Target())
		if err != nil {
			return status.FromContextError(err).Err()
		}
		defer pass.Failed() // unless it is answered
		var md metadata.MD
		err = call(ctx, method, req, reply, cc, append(opts, grpc.Header(&md))...)
		if resp := (http.Response{Header: ratelimit.HeaderOf(md)}); len(md) > 0 {
			if status.Code(err) == codes.ResourceExhausted {
				resp.StatusCode = http.StatusTooManyRequests
			}
			pass.Answered(ratelimit.Advise(&resp, time.Now()), time.Now())
		}
		return err
	}
}
