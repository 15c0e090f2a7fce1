package rpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// A quota allows three calls, and then asks for a wait of a second.
type quota struct{ calls atomic.Int64 }

func (q *quota) take(context.Context) (ratelimit.Fields, bool) {
	used := (q.calls.Add(1)-1)%3 + 1
	return announce.FixedWindow{Name: "quota", Quota: 3, Used: used, Window: time.Second, Left: time.Second}.Fields(), true
}

// start runs a server with limits on a socket, and returns a client that waits.
func start(t *testing.T, take func(context.Context) (ratelimit.Fields, bool), gate *obey.Gate) (healthpb.HealthClient, *grpc.Server) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(Limit(take)))
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; !errors.Is(err, grpc.ErrServerStopped) { // the test can end before the server serves
			require.NoError(t, err)
		}
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(Wait(gate)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return healthpb.NewHealthClient(conn), server
}

func TestWaits(t *testing.T) {
	var waited []ratelimit.Advice
	client, _ := start(t, new(quota).take, &obey.Gate{Waiting: func(w obey.Wait) func() {
		waited = append(waited, w.Advice)
		return nil
	}})
	for range 7 { // one after the other, so that the limit becomes known
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
		require.NoError(t, err)
	}
	require.Len(t, waited, 2, "before the fourth and the seventh")
	for _, a := range waited {
		require.Equal(t, time.Second, a.Wait)
		require.Equal(t, `"quota";r=0;t=1`, a.Limit.String())
	}
}

func TestRefused(t *testing.T) {
	spent := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "a", Reset: ratelimit.SecondsOf(3600)}}}
	client, server := start(t, func(context.Context) (ratelimit.Fields, bool) { return spent, false }, &obey.Gate{})
	_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))

	short, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = client.Check(short, &healthpb.HealthCheckRequest{})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err), "it is refused at once, without a call")
	require.Error(t, err)
	require.NoError(t, short.Err())
	server.Stop()
}

// A call without a response does not delay other calls.
func TestNoAnswer(t *testing.T) {
	client, server := start(t, new(quota).take, &obey.Gate{})
	server.Stop()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
			assert.Equal(t, codes.Unavailable, status.Code(err))
		})
	}
	group.Wait()
}
