// Package grpc announces limits in the metadata of gRPC, and obeys them.
package grpc

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Wait delays calls as their servers ask.
func Wait(gate *obey.Gate) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		pass, err := gate.Enter(ctx, conn.Target())
		if err != nil {
			return status.FromContextError(err).Err()
		}
		defer pass.Failed() // does nothing if it was answered
		var md metadata.MD
		err = call(ctx, method, req, reply, conn, append(opts, grpc.Header(&md))...)
		resp := &http.Response{StatusCode: http.StatusOK, Header: ratelimit.HeaderOf(md)}
		for _, detail := range status.Convert(err).Details() {
			if info, ok := detail.(*errdetails.RetryInfo); ok {
				seconds := math.Ceil(info.GetRetryDelay().AsDuration().Seconds())
				resp.Header.Set("Retry-After", strconv.Itoa(int(seconds)))
			}
		}
		switch status.Code(err) {
		case codes.ResourceExhausted:
			resp.StatusCode = http.StatusTooManyRequests
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
			return err // which need not come from the server
		}
		pass.Answered(ratelimit.Advise(resp, time.Now()), time.Now())
		return err
	}
}
