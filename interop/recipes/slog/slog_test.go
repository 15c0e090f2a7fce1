package slog

import (
	"bytes"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestSlog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		rt := NewTransport(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
		rt.Base = fake.Spent().RoundTripper()
		_, err := (&http.Client{Transport: rt.Base}).Get("http://api.example") // by another process
		require.NoError(t, err)
		client := &http.Client{Transport: rt}
		for range 2 {
			_, err := client.Get("http://api.example")
			require.NoError(t, err)
		}
		require.Equal(t, `level=WARN msg=limits host=api.example policy=window refused=true wait=1m0s pace=0s
level=INFO msg=waiting host=api.example policy=window reason=retry-after until=2000-01-01T00:01:00.000Z
level=INFO msg=waited host=api.example for=1m0s
`, b.String())
	})
}
