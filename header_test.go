package ratelimit

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeaderOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   map[string][]string
		want http.Header
	}{
		{"nil", nil, http.Header{}},
		{"metadata of gRPC", map[string][]string{"ratelimit": {`"a";r=1`, `"b";r=2`}, "ratelimit-policy": {`"a";q=9`}, "content-type": {"application/grpc"}},
			http.Header{"Ratelimit": {`"a";r=1`, `"b";r=2`}, "Ratelimit-Policy": {`"a";q=9`}, "Content-Type": {"application/grpc"}}},
		{"as the draft spells them", map[string][]string{"RateLimit": {`"a";r=1`}, "X-RateLimit-Limit": {"9"}}, http.Header{"Ratelimit": {`"a";r=1`}, "X-Ratelimit-Limit": {"9"}}},
		{"several spellings", map[string][]string{"ratelimit": {"3", "4"}, "RATELIMIT": {"1"}, "RateLimit": {"2"}}, http.Header{"Ratelimit": {"1", "2", "3", "4"}}},
		{"canonical already", map[string][]string{"Retry-After": {"1"}}, http.Header{"Retry-After": {"1"}}},
		{"no name", map[string][]string{"a b": {"1"}, ":status": {"200"}}, http.Header{"a b": {"1"}, ":status": {"200"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, HeaderOf(tc.in))
		})
	}
	m := map[string][]string{"ratelimit": make([]string, 1, 2)}
	HeaderOf(m).Add("RateLimit", "2")
	require.Equal(t, []string{"", ""}, m["ratelimit"][:2], "no memory is shared")
}
