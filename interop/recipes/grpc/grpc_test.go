package grpc

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// start runs a server with an interceptor, and returns a function that makes clients.
func start(t *testing.T, limit grpc.UnaryServerInterceptor) func() healthpb.HealthClient {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(limit))
	healthpb.RegisterHealthServer(server, health.NewServer())
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return func() healthpb.HealthClient {
		conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(Wait(&obey.Gate{})))
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return healthpb.NewHealthClient(conn)
	}
}

func TestGRPC(t *testing.T) {
	take, taken := fake.Take()
	client := start(t, Limit(func(context.Context) announce.Decision { d, _ := take(nil); return d }))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	first := client()
	_, err := first.Check(ctx, &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = first.Check(ctx, &healthpb.HealthCheckRequest{})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.NoError(t, ctx.Err(), "it was not waited for")
	require.Equal(t, 1, *taken, "nor sent")

	_, err = client().Check(ctx, &healthpb.HealthCheckRequest{})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Len(t, status.Convert(err).Details(), 1)
	require.Equal(t, 2, *taken)
}

// A server that sends only RetryInfo.
func TestRetryInfo(t *testing.T) {
	calls := 0
	client := start(t, func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
		calls++
		s, err := status.New(codes.ResourceExhausted, "").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Minute)})
		if err != nil {
			return nil, err
		}
		return nil, s.Err()
	})()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, want := range []codes.Code{codes.ResourceExhausted, codes.DeadlineExceeded} {
		_, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
		require.Equal(t, want, status.Code(err))
	}
	require.NoError(t, ctx.Err())
	require.Equal(t, 1, calls)
}
