package grpc

import (
	"context"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Limit asks a limiter about each call, and announces the limits in the header. A refusal
// also has RetryInfo.
func Limit(take func(context.Context) announce.Decision) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		d := take(ctx)
		policies, err := ratelimit.FormatPolicies(d.Fields.Policies...)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		limits, err := ratelimit.FormatLimits(d.Fields.Limits...)
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		_ = grpc.SetHeader(ctx, metadata.Pairs(ratelimit.PolicyField, policies, ratelimit.LimitField, limits))
		if len(d.Violated) == 0 {
			return next(ctx, req)
		}
		refusal := status.New(codes.ResourceExhausted, "quota exceeded")
		if wait, ok := d.Fields.RetryAfter().Duration(); ok {
			if detailed, err := refusal.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); err == nil {
				refusal = detailed
			}
		}
		return nil, refusal.Err()
	}
}
