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
	"github.com/stretchr/testify/require"
)

// gitHub responds as GitHub does: one search is allowed, and a secondary limit applies to one
// repository.
func gitHub(w http.ResponseWriter, r *http.Request) {
	f := ratelimit.Fields{
		Policies: []ratelimit.Policy{{Name: "core", Quota: 5000}},
		Limits:   []ratelimit.Limit{{Name: "core", Remaining: 4999, Reset: ratelimit.SecondsOf(3600)}},
	}
	if r.URL.Path == "/search/issues" {
		f.Policies[0], f.Limits[0] = ratelimit.Policy{Name: "search", Quota: 30}, ratelimit.Limit{Name: "search", Reset: ratelimit.SecondsOf(60)}
	}
	if err := ratelimit.GitHub.Set(w.Header(), f, time.Now()); err != nil {
		panic(err)
	}
	switch r.URL.Path {
	case "/repos/a/private":
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message": "Resource not accessible by personal access token"}`)
	case "/repos/a/busy":
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message": "You have exceeded a secondary rate limit.", "documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`)
	default:
		fmt.Fprint(w, `{"total_count": 7}`)
	}
}

func TestGitHub(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(gitHub))
	defer server.Close()
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
