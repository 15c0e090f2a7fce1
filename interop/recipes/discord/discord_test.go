package discord

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestKey(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v10/channels/1/messages/2":          "/api/v10/channels/1/messages/",
		"/api/v10/channels/1/messages":            "/api/v10/channels/1/messages",
		"/api/v10/guilds/1":                       "/api/v10/guilds/1",
		"/api/v10/webhooks/1/secret/messages/2":   "/api/v10/webhooks/1/",
		"/api/v10/interactions/1/secret/callback": "/api/v10/interactions/1/",
		"/api/v10/users/@me":                      "/api/v10/users/@me",
		"/":                                       "/",
		"":                                        "",
	} {
		req, err := http.NewRequest(http.MethodPost, "https://discord.com"+path, nil)
		require.NoError(t, err)
		require.Equal(t, "POST "+want, Key(req))
	}
}

// discord allows five messages in five seconds in each channel, and names the bucket after the route.
type discord struct {
	mu       sync.Mutex
	channels map[string]*bucket
	refused  int
}

type bucket struct {
	end  time.Time
	used int
}

func (d *discord) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	time.Sleep(20 * time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !strings.Contains(r.URL.Path, "/channels/") {
		return
	}
	b := d.channels[r.URL.Path]
	if now := time.Now(); b == nil || !now.Before(b.end) {
		b = &bucket{end: now.Add(5 * time.Second)}
		d.channels[r.URL.Path] = b
	}
	if b.used++; b.used > 5 {
		d.refused++
		w.Header().Set("Retry-After", "5")
		defer w.WriteHeader(http.StatusTooManyRequests)
	}
	w.Header().Set("X-RateLimit-Bucket", "msgs")
	w.Header().Set("X-RateLimit-Limit", "5")
	w.Header().Set("X-RateLimit-Remaining", fmt.Sprint(max(5-b.used, 0)))
	w.Header().Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", time.Until(b.end).Seconds()))
}

// One channel at full speed delays no other channel, and no guild.
func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &discord{channels: map[string]*bucket{}}
		client := &http.Client{Transport: NewTransport(fake.Memory(d))}
		end := time.Now().Add(time.Minute)
		var all sync.WaitGroup
		work := func(path string, pause, most time.Duration) {
			all.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					start := time.Now()
					resp, err := client.Post("https://discord.com/api/v10"+path, "", nil)
					require.NoError(t, err)
					resp.Body.Close()
					require.LessOrEqual(t, time.Since(start), most, path)
					time.Sleep(pause)
				}
			})
		}
		work("/channels/1/messages", 0, 6*time.Second)
		work("/channels/2/messages", 2*time.Second, 20*time.Millisecond)
		work("/guilds/3/bans", time.Second, 20*time.Millisecond)
		all.Wait()
		require.Zero(t, d.refused)
	})
}
