// Package connect announces limits in the header of Connect, and obeys them.
package connect

import (
	"net/http"

	"connectrpc.com/connect"
	"github.com/httpfields/ratelimit/obey"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// NewClient returns a client of a procedure. Clients of generated code are made in the same way.
func NewClient(url string) *connect.Client[emptypb.Empty, wrapperspb.StringValue] {
	httpClient := &http.Client{Transport: &obey.Transport{}}
	return connect.NewClient[emptypb.Empty, wrapperspb.StringValue](httpClient, url)
}
