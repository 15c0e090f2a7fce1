package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"testing"

	"github.com/google/go-github/v88/github"
	"github.com/stretchr/testify/require"
)

// Clients that follow the links of pages stay at the proxy, so that it counts all their
// requests.
func TestPages(t *testing.T) {
	needNode(t)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		page = max(page, 1)
		if page < 3 {
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?page=%d>; rel="next", <%[1]s%[2]s?page=3>; rel="last"`, server.URL, r.URL.Path, page+1))
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, `[{"number": %d}]`, page)
	}))
	defer server.Close()
	for name, pages := range map[string]func(t *testing.T, address string) string{
		"Octokit": func(t *testing.T, address string) string {
			cmd := exec.CommandContext(t.Context(), "node", "octokit.mjs", address)
			cmd.Dir = nodeDir
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			return string(out)
		},
		"go-github": func(t *testing.T, address string) string {
			client, err := github.NewClient(github.WithURLs(&address, &address))
			require.NoError(t, err)
			var numbers []int
			options := &github.IssueListByRepoOptions{}
			for {
				issues, resp, err := client.Issues.ListByRepo(context.Background(), "o", "r", options)
				require.NoError(t, err)
				for _, issue := range issues {
					numbers = append(numbers, issue.GetNumber())
				}
				if resp.NextPage == 0 {
					return fmt.Sprintf("[%d,%d,%d]\n", numbers[0], numbers[1], numbers[2])
				}
				options.ListOptions.Page = resp.NextPage
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := startEgress(t, server.URL)
			require.Equal(t, "[1,2,3]\n", pages(t, e.address))
			resp, err := http.Get(e.metrics)
			require.NoError(t, err)
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Regexp(t, `(?m)^ratelimit_requests_total\{key="[0-9a-z]+"\} 3$`, string(text), "all through the proxy")
		})
	}
}
