package terraform

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-log/tflogtest"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/stretchr/testify/require"
)

func TestTerraform(t *testing.T) {
	server := httptest.NewServer(fake.Spent())
	defer server.Close()
	var configured provider.ConfigureResponse
	var p provider.Provider = Provider{}
	p.Configure(t.Context(), provider.ConfigureRequest{}, &configured)
	client := configured.ResourceData.(*http.Client)

	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(tflogtest.RootLogger(t.Context(), &log), 30*time.Second) // the timeout of an apply
	defer cancel()
	get := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	require.NoError(t, get())
	var wait *obey.WaitError
	require.ErrorAs(t, get(), &wait)
	lines, err := tflogtest.MultilineJSONDecode(&log)
	require.NoError(t, err)
	require.Len(t, lines, 1)
	require.Equal(t, "window", lines[0]["policy"])
}
