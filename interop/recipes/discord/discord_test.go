package discord

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/ratelimittest"
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

// One channel at full speed delays no other channel, and no guild.
func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, err := ratelimittest.Like("discord")
		require.NoError(t, err)
		api.Limits = []ratelimittest.Limit{{Policy: ratelimit.Policy{Name: "msgs", Quota: 5, Window: ratelimit.SecondsOf(5)}, Kind: ratelimittest.WindowFromFirst}}
		api.Key, api.Latency = func(r *http.Request) string { return r.URL.Path }, 20*time.Millisecond
		client := &http.Client{Transport: NewTransport(fake.Memory(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/channels/") { // the others have no limits
				api.ServeHTTP(w, r)
			}
		})))}
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
		require.Zero(t, api.Counts().Refused)
	})
}
