package github

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-github/v88/github"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/httpfields/ratelimit/obey"
	"github.com/httpfields/ratelimit/ratelimittest"
	"github.com/stretchr/testify/require"
)

// like returns an API that announces one limit as GitHub does.
func like(t *testing.T, resource string, quota int64, h http.HandlerFunc) *ratelimittest.API {
	api, err := ratelimittest.Like("github")
	require.NoError(t, err)
	api.Limits[0].Policy.Name, api.Limits[0].Policy.Quota, api.Handler = resource, quota, h
	return api
}

// startGitHub starts a server where one search is allowed, and a secondary limit applies to one
// repository.
func startGitHub(t *testing.T) *httptest.Server {
	hub := http.NewServeMux()
	hub.Handle("/search/issues", like(t, "search", 1, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"total_count": 7}`) }))
	hub.Handle("/", like(t, "core", 5000, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/repos/a/private":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"message": "Resource not accessible by personal access token"}`)
		case "/repos/a/busy":
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"message": "You have exceeded a secondary rate limit.", "documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	}))
	server := httptest.NewServer(hub)
	t.Cleanup(server.Close)
	return server
}

func TestGitHub(t *testing.T) {
	server := startGitHub(t)
	client, err := NewClient("token")
	require.NoError(t, err)
	base := server.URL + "/"
	client, err = client.Clone(github.WithURLs(&base, &base))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	search := func() error { _, _, err := client.Search.Issues(ctx, "q", nil); return err }
	repo := func(name string) error { _, _, err := client.Repositories.Get(ctx, "a", name); return err }
	var wait *obey.WaitError

	require.NoError(t, search())
	require.ErrorAs(t, search(), &wait)
	require.Equal(t, "search", wait.Advice.Limit.Name)

	require.NoError(t, repo("b"), "another resource")
	require.ErrorContains(t, repo("private"), "403")
	require.NoError(t, repo("b"), "a lack of rights holds nothing back")

	require.ErrorContains(t, repo("busy"), "secondary")
	require.NoError(t, repo("b"), "one request asks whether the limit is that of busy alone")
	require.ErrorAs(t, repo("b"), &wait, "the next one asks after half of the wait")
}

// Without a Retry-After, only the body shows the secondary limit.
func TestSecondary(t *testing.T) {
	for body, want := range map[string]bool{
		`{"documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`: true,
		`{"documentation_url":"https://docs.github.com/rest/#abuse-rate-limits"}`:                                                 true,
		`You have triggered an abuse detection mechanism.`:                                                                        true,
		"Not accessible": false,
	} {
		w := httptest.NewRecorder()
		w.WriteHeader(http.StatusForbidden)
		w.WriteString(body)
		resp := w.Result()
		a := ratelimit.Advisor{Refused: secondary}.Advise(resp, time.Now())
		require.Equal(t, want, a.Refused)
		require.Equal(t, want, a.Wait == time.Minute && a.Source == ratelimit.SourceRefused)
		var left [200]byte
		n, _ := resp.Body.Read(left[:])
		require.Equal(t, body, string(left[:n]))
	}
}

// In a minute, five workers are refused at most five times.
func TestFiveWorkers(t *testing.T) {
	fake.FiveWorkers(t, ratelimit.Advisor{Refused: secondary}, http.StatusForbidden, func(time.Duration) string {
		return `{"documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
	})
}
