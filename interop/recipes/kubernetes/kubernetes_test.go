package kubernetes

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// seats is an API server with five seats, and no queue (API Priority and Fairness).
func seats() *ratelimittest.API {
	p := ratelimit.Policy{Name: "seats", Quota: 5, Unit: ratelimit.ConcurrentRequests}
	config := fake.JSON(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": "a"}})
	return &ratelimittest.API{
		Limits: []ratelimittest.Limit{{Policy: p, Kind: ratelimittest.Concurrency}}, Silent: true,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Del("Retry-After")
			time.Sleep(50 * time.Millisecond) // a refusal takes no time
			config.ServeHTTP(w, r)
		}),
	}
}

// load lets 40 workers send 300 requests.
func load(t *testing.T, configure func(*rest.Config)) (took time.Duration, refused int64) {
	api := seats()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1") // of a refusal
		api.ServeHTTP(w, r)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	configure(config)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	began := time.Now()
	var all sync.WaitGroup
	jobs := make(chan bool, 300)
	for range 300 {
		jobs <- true
	}
	close(jobs)
	for range 40 {
		all.Go(func() {
			for range jobs {
				if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return time.Since(began), api.Counts().Refused
}

func TestConfigure(t *testing.T) {
	took, refused := load(t, Configure)
	t.Logf("%.1f s, %d refused", took.Seconds(), refused)
	require.LessOrEqual(t, refused, int64(10))
	took, refused = load(t, func(config *rest.Config) { config.QPS = -1 })
	t.Logf("without: %.1f s, %d refused", took.Seconds(), refused)
	require.Greater(t, refused, int64(50))
}
