package kubernetes

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// seats is an API server with five seats, and no queue (API Priority and Fairness).
type seats struct {
	mu            sync.Mutex
	used, refused int
}

func (s *seats) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == 5 {
		s.refused++
		return false
	}
	s.used++
	return true
}

func (s *seats) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.take() {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	time.Sleep(50 * time.Millisecond)
	s.mu.Lock()
	s.used--
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
}

// load lets 40 workers send 300 requests.
func load(t *testing.T, configure func(*rest.Config)) (took time.Duration, refused int) {
	s := &seats{}
	server := httptest.NewServer(s)
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
	return time.Since(began), s.refused
}

func TestConfigure(t *testing.T) {
	took, refused := load(t, Configure)
	t.Logf("%.1f s, %d refused", took.Seconds(), refused)
	require.LessOrEqual(t, refused, 10)
	took, refused = load(t, func(config *rest.Config) { config.QPS = -1 })
	t.Logf("without: %.1f s, %d refused", took.Seconds(), refused)
}
