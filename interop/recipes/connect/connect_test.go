package connect

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestConnect(t *testing.T) {
	for _, failing := range []bool{false, true} {
		take, taken := fake.Take()
		limit := Limit(func(context.Context, connect.AnyRequest) announce.Decision { d, _ := take(nil); return d })
		server := httptest.NewServer(connect.NewUnaryHandler("/", func(context.Context, *connect.Request[emptypb.Empty]) (*connect.Response[wrapperspb.StringValue], error) {
			if failing {
				return nil, connect.NewError(connect.CodeNotFound, nil)
			}
			return connect.NewResponse(wrapperspb.String("hello")), nil
		}, connect.WithInterceptors(limit)))
		defer server.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		client := NewClient(server.URL + "/")
		_, err := client.CallUnary(ctx, connect.NewRequest(&emptypb.Empty{}))
		require.Equal(t, failing, err != nil)
		_, err = client.CallUnary(ctx, connect.NewRequest(&emptypb.Empty{}))
		var wait *obey.WaitError
		require.ErrorAs(t, err, &wait)
		require.Equal(t, 1, *taken, "the second call is not sent")

		_, err = NewClient(server.URL+"/").CallUnary(ctx, connect.NewRequest(&emptypb.Empty{}))
		var refused *connect.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, connect.CodeResourceExhausted, refused.Code())
		require.Regexp(t, `^"window";r=0;t=60$`, refused.Meta().Get("RateLimit"))
		require.Regexp(t, `^60$`, refused.Meta().Get("Retry-After"))
	}
}

// The codes of Connect correspond to statuses of HTTP.
func TestStatus(t *testing.T) {
	take, _ := fake.Take()
	_, _ = take(nil)
	limit := Limit(func(context.Context, connect.AnyRequest) announce.Decision { d, _ := take(nil); return d })
	server := httptest.NewServer(connect.NewUnaryHandler("/", func(context.Context, *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
		panic("it is refused")
	}, connect.WithInterceptors(limit)))
	defer server.Close()
	resp, err := http.Post(server.URL, "application/proto", nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Regexp(t, `^"window";r=0;t=60$`, resp.Header.Get("RateLimit"))
}
