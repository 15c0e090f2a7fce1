package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// Metrics are UTF-8 whatever bytes a server sends, because Prometheus rejects them all otherwise.
func TestMetricsText(t *testing.T) {
	var b strings.Builder
	require.NoError(t, metrics.Execute(&b, []keyStats{{
		Key:    "a",
		Waits:  []waitStats{{Resource: "caf\xe9\""}, {Resource: "caf\xe8\""}, {Resource: "café\\"}},
		Limits: []limitStats{{Policy: strings.Repeat("é", 100)[:127]}},
	}}))
	text := b.String()
	require.True(t, utf8.ValidString(text))
	for _, want := range []string{`resource="caf\\xe9\\\""}`, `resource="caf\\xe8\\\""}`, `resource="café\\"}`} {
		require.Contains(t, text, want)
	}
}

// In front of GitHub, an exhausted resource delays no requests for other resources. This
// needs no flag.
func TestProxyResources(t *testing.T) {
	to := trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		resource, left := "core", 4999
		if r.URL.Path == "/graphql" {
			resource, left = "graphql", 0
		}
		w.Header().Set("X-RateLimit-Limit", "5000")
		w.Header().Set("X-RateLimit-Remaining", fmt.Sprint(left))
		w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(10*time.Minute).Unix()))
		w.Header().Set("X-RateLimit-Resource", resource)
	})
	p := startProxy(t, to, maxWait(time.Second), fieldsOf("Authorization"))
	for _, user := range []string{"", "Bearer a"} {
		for _, tc := range []struct {
			path string
			want int
		}{{"/graphql", 200}, {"/repos/a", 200}, {"/repos/b", 200}, {"/graphql", 429}, {"/user", 200}} {
			resp, _ := trial.Send(t, http.MethodGet, p.url+tc.path, nil, "Authorization", user)
			require.Equal(t, tc.want, resp.StatusCode, tc.path)
		}
	}
}
