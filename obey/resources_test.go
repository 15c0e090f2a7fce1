package obey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// playResources plays an exchange with one origin. A line has the time in seconds, and a path, or a
// method and a path, with its response, or `path: waits` for a request whose deadline is too early. The response
// is a status and a resource with its limit, `core r=5;t=60`, or other field lines.
func playResources(t *testing.T, rt *Transport, scene string) {
	t.Helper()
	start, header := time.Now(), http.Header{}
	var reply string
	rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) { return answer(req, reply), nil })
	for line := range strings.Lines(scene) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		at, rest, _ := strings.Cut(line, " ")
		path, said, _ := strings.Cut(rest, ": ")
		d, err := time.ParseDuration(at + "s")
		require.NoError(t, err)
		time.Sleep(time.Until(start.Add(d)))
		reason, waits := strings.CutPrefix(said, "waits")
		if reply = ""; !waits {
			reply = resourceAnswer(said)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		method := http.MethodGet
		if name, rest, named := strings.Cut(path, " "); named {
			method, path = name, rest
		}
		req, err := http.NewRequestWithContext(ctx, method, "https://api.example"+path, nil)
		require.NoError(t, err)
		req.Header = header
		resp, err := rt.RoundTrip(req)
		cancel()
		if waits {
			var wait *WaitError
			require.ErrorAs(t, err, &wait, line)
			require.Equal(t, Reason(strings.TrimSpace(reason)), wait.Reason, line)
			continue
		}
		require.NoError(t, err, line)
		resp.Body.Close()
	}
}

// resourceAnswer returns the lines of a response.
func resourceAnswer(said string) string {
	text := ""
	if status, rest, _ := strings.Cut(said, "; "); len(status) == 3 {
		text, said = "HTTP/1.1 "+status+" x\n", rest
	}
	name, limit, ok := strings.Cut(said, " r=")
	if !ok || strings.Contains(name, ":") {
		return text + strings.ReplaceAll(said, "; ", "\n")
	}
	limit, more, _ := strings.Cut(limit, "; ")
	left, reset, _ := strings.Cut(limit, ";t=")
	return text + fmt.Sprintf("X-RateLimit-Limit: 5000\nX-RateLimit-Remaining: %s\nX-RateLimit-Reset: %s\nX-RateLimit-Resource: %s\n%s", left, reset, name, more)
}

// The limits of a resource delay only requests for its paths.
func TestResources(t *testing.T) {
	for _, tc := range []struct{ name, scene string }{
		{"GitHub: graphql is exhausted, the rest is served at once", `
			0 /repos/a: core r=4999;t=60
			0 /graphql: graphql r=0;t=60
			0 /repos/b: core r=4998;t=60
			0 /users/a: core r=4997;t=60
			1 /graphql: waits limit
			60 /graphql: graphql r=10;t=60`},
		{"a silent answer gives nothing back to a resource", `
			0 /graphql: graphql r=1;t=60
			0 /graphql: Server: x
			0 /graphql: waits limit`},
		{"a path that has not been seen belongs to the key alone", `
			0 /graphql: graphql r=0;t=60
			0 /repos/a: core r=4999;t=60`},
		{"the secondary limit holds all: Retry-After alone", `
			0 /repos/a: core r=4999;t=60
			0 /graphql: graphql r=10;t=60
			0 /repos/b: 403; Retry-After: 30
			1 /new: waits retry-after
			1 /graphql: 403; Retry-After: 29
			1 /graphql: waits retry-after
			1 /repos/a: waits retry-after
			1 /new: waits retry-after
			30 /graphql: graphql r=9;t=60
			30 /repos/a: core r=4998;t=60`},
		{"the secondary limit holds all: Retry-After next to limits that are not exhausted", `
			0 /repos/a: core r=4999;t=60
			0 /graphql: graphql r=10;t=60
			0 /repos/b: 403; core r=4998;t=60; Retry-After: 30
			1 /repos/b: waits retry-after
			1 /graphql: 403; graphql r=9;t=60; Retry-After: 29
			1 /graphql: waits retry-after
			1 /repos/a: waits retry-after
			30 /graphql: graphql r=9;t=60`},
		{"a refusal without a wait", `
			0 /graphql: graphql r=10;t=60
			0 /repos/b: 429; core r=4998;t=60
			0 /graphql: waits backoff
			1 /graphql: graphql r=9;t=60`},
		{"Retry-After next to an exhausted limit is that of the resource", `
			0 /repos/a: core r=1;t=60
			0 /graphql: 403; graphql r=0;t=60; Retry-After: 30
			0 /repos/a: core r=0;t=60
			0 /graphql: waits retry-after
			0 /repos/a: waits limit
			30 /graphql: graphql r=9;t=60`},
		{"GitHub Enterprise: one first segment, two resources", `
			0 /api/v3/repos: core r=4999;t=60
			0 /api/graphql: graphql r=0;t=60
			1 /api/v3/repos: core r=4998;t=60
			1 /api/v3/users: waits limit
			1 /api/graphql: waits limit
			60 /api/v3/users: core r=4997;t=60`},
		{"a request to one of two resources takes nothing of the other", `
			0 /api/graphql: graphql r=2;t=60
			0 /api/v3/a: core r=4999;t=60
			0 /api/v3/a: core r=4998;t=60
			0 /api/v3/a: core r=4997;t=60
			0 /api/v3/a: core r=4996;t=60`},
		{"two paths of one resource", `
			0 /repos/a: core r=2;t=60
			0 /users/a: core r=1;t=60
			0 /repos/b: core r=0;t=60
			0 /users/b: waits limit
			0 /repos/b: waits limit`},
		{"a path that names another resource than before", `
			0 /a: one r=5;t=60
			0 /b: two r=5;t=60
			0 /a: two r=4;t=60
			0 /b: two r=0;t=60
			0 /a: waits limit
			60 /b: two r=5;t=60
			60 /c: one r=0;t=60
			60 /b: two r=4;t=60
			60 /a: waits limit`},
		{"buckets", `
			0 /a: X-RateLimit-Limit: 5; X-RateLimit-Remaining: 0; X-RateLimit-Reset-After: 30; X-RateLimit-Bucket: abcd
			0 /b: X-RateLimit-Limit: 5; X-RateLimit-Remaining: 4; X-RateLimit-Reset-After: 30; X-RateLimit-Bucket: efgh
			0 /a: waits limit
			0 /b: X-RateLimit-Limit: 5; X-RateLimit-Remaining: 3; X-RateLimit-Reset-After: 30; X-RateLimit-Bucket: efgh`},
		{"limits that name no resource hold those that announce them, and new paths", `
			0 /a: one r=5;t=60
			0 /b: RateLimit: "all";r=0;t=30
			0 /a: one r=4;t=60
			0 /b: waits limit
			0 /c: waits limit
			0 /a: RateLimit: "all";r=0;t=30
			0 /a: waits limit
			30 /c: Server: x`},
		{"limits of a resource leave those of the key as they are", `
			0 /b: RateLimit: "all";r=2;t=30
			0 /a: one r=5;t=60
			0 /a: one r=4;t=60
			0 /a: one r=3;t=60
			0 /a: one r=2;t=60
			0 /b: RateLimit: "all";r=0;t=30
			0 /b: waits limit`},
		{"a wait of the key outlasts one of a resource", `
			0 /a: one r=0;t=10
			0 /b: 503; Retry-After: 20
			0 /a: waits limit
			10 /a: 503; one r=5;t=60; Retry-After: 10
			10 /a: waits retry-after
			20 /a: one r=5;t=60`},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) { playResources(t, &Transport{}, tc.scene) })
		trial.InBubble(t, tc.name+", KeyBy", func(t *testing.T) { playResources(t, &Transport{Key: KeyBy("Authorization")}, tc.scene) })
	}
	trial.InBubble(t, "a Key of the user's own is not split", func(t *testing.T) {
		rt := &Transport{Key: func(*http.Request) string { return "https://api.example#mine" }}
		playResources(t, rt, `
			0 /graphql: graphql r=0;t=60
			0 /repos/a: waits limit`)
		require.Equal(t, []string{"https://api.example#mine"}, slices.Collect(rt.gate().Keys()))
	})
}

// With credentials, each key of KeyBy has its own resources.
func TestResourcesOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &Gate{}
		rt := &Transport{Key: KeyBy("Authorization"), Gate: gate}
		var reply string
		rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) { return answer(req, reply), nil })
		get := func(user, path, said string) error {
			reply = resourceAnswer(said)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example"+path, nil)
			req.Header.Set("Authorization", user)
			_, err := rt.RoundTrip(req)
			return err
		}
		require.NoError(t, get("a", "/graphql", "graphql r=0;t=60"))
		require.NoError(t, get("b", "/graphql", "graphql r=9;t=60"))
		require.NoError(t, get("a", "/repos", "core r=9;t=60"))
		require.Error(t, get("a", "/graphql", ""))

		keys := slices.Sorted(gate.Keys())
		require.Len(t, keys, 5)
		waits := 0
		for _, key := range keys {
			w, ok := gate.State(key)
			require.True(t, ok)
			require.Equal(t, key, w.Key)
			if w.Reason != "" {
				waits++
				require.Equal(t, ReasonLimit, w.Reason)
				require.True(t, strings.HasSuffix(key, " graphql"))
				require.Equal(t, time.Minute, time.Until(w.Until))
				gate.Forget(key)
			}
		}
		require.Equal(t, 1, waits)
		require.NoError(t, get("a", "/graphql", "graphql r=0;t=60"), "the resource is forgotten")
		gate.Forget("https://api.example")
		require.NoError(t, get("a", "/graphql", "graphql r=9;t=60"), "the key is, with its resources")
		_, ok := gate.State("https://api.example nothing")
		require.False(t, ok)
	})
}

// Requests that wait for the first response, and requests under way, belong to the resource
// that the response names.
func TestResourcesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		left, served, refused := 25, map[string]int{}, 0
		rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			defer time.Sleep(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if strings.HasPrefix(req.URL.Path, "/b/") {
				served["b"]++
				return answer(req, resourceAnswer("two r=4999;t=60")), nil
			}
			if left == 0 {
				refused++
				return answer(req, resourceAnswer("403; one r=0;t=60")), nil
			}
			left--
			served["a"]++
			return answer(req, resourceAnswer(fmt.Sprintf("one r=%d;t=60", left))), nil
		})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 100 {
			for _, path := range []string{"/a/", "/b/"} {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example"+path+fmt.Sprint(i), nil)
				require.NoError(t, err)
				go func() { _, _ = rt.RoundTrip(req) }()
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, map[string]int{"a": 25, "b": 100}, served)
		require.Zero(t, refused)
		w, ok := rt.gate().State("https://api.example one")
		require.True(t, ok)
		require.Equal(t, 75, w.Queued)
		require.Zero(t, w.UnderWay)
		w, _ = rt.gate().State("https://api.example")
		require.Equal(t, []any{Reason(""), 0, 0}, []any{w.Reason, w.Queued, w.UnderWay})
		cancel()
		synctest.Wait()
		w, _ = rt.gate().State("https://api.example one")
		require.Zero(t, w.Queued)
	})
}

// A resource waits until its own wait and the wait of its key have both ended.
func TestResourcesState(t *testing.T) {
	const first = "0 /graphql: graphql r=10;t=60\n"
	for _, tc := range []struct {
		name, scene, resource string
		reason                string
		until                 time.Duration
	}{
		{"neither waits", "0 /repos: core r=9;t=60", "core", "", 0},
		{"the key waits", "0 /repos: 403; core r=9;t=60; Retry-After: 30", "core", "retry-after", 30 * time.Second},
		{"the key waits for another resource too", "0 /repos: 403; core r=9;t=60; Retry-After: 30", "graphql", "retry-after", 30 * time.Second},
		{"the resource waits", "0 /repos: core r=0;t=60", "core", "limit", time.Minute},
		{"the resource waits longer", "0 /repos: core r=0;t=60\n0 /graphql: 403; Retry-After: 30", "core", "limit", time.Minute},
		{"the key waits longer", "0 /repos: core r=0;t=60\n0 /graphql: 403; Retry-After: 90", "core", "retry-after", 90 * time.Second},
	} {
		trial.InBubble(t, tc.name, func(t *testing.T) {
			var rt Transport
			start := time.Now()
			playResources(t, &rt, first+tc.scene)
			w, ok := rt.gate().State("https://api.example " + tc.resource)
			require.True(t, ok)
			require.Equal(t, "https://api.example "+tc.resource, w.Key)
			require.Equal(t, Reason(tc.reason), w.Reason)
			if tc.until == 0 {
				require.Zero(t, w.Until)
			} else {
				require.Equal(t, tc.until, w.Until.Sub(start))
			}
		})
	}
	now := time.Now()
	open, depends, known := Wait{}, Wait{Reason: "concurrency"}, Wait{Reason: "limit", Until: now}
	later := Wait{Reason: "limit", Until: now.Add(1)}
	for i, w := range []Wait{open, known, later, depends} {
		for j, other := range []Wait{open, known, later, depends} {
			require.Equal(t, i > j, w.outlasts(&other), "%d and %d", i, j)
		}
	}
}

// After a restart with an exhausted quota, at most one request is sent for each unseen path.
func TestResourcesUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		refused := 0
		rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			refused++
			return answer(req, resourceAnswer("403; core r=0;t=60")), nil
		})}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 500 {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://api.example/p%d/x", i%10), nil)
			require.NoError(t, err)
			go func() { _, _ = rt.RoundTrip(req) }()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.LessOrEqual(t, refused, firstOnes+9, "one for each path that the first ten requests have not been to")
		w, _ := rt.gate().State("https://api.example core")
		require.Equal(t, 500-refused, w.Queued)
		cancel()
		synctest.Wait()
	})
}

// A hostile server can use memory for at most 256 routes and 256 limits of a key. A route obeys at
// most 16 of them.
func TestResourcesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const paths = 10_000
		named := ""
		rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			return answer(req, resourceAnswer(named+" r=4999;t=60")), nil
		})}
		get := func(path string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example"+path, nil)
			require.NoError(t, err)
			_, err = rt.RoundTrip(req)
			require.NoError(t, err)
		}
		for i := range paths {
			named = fmt.Sprint("r", i%20)
			get(fmt.Sprintf("/p%d/x", i))
		}
		k, _ := rt.gate().find("https://api.example")
		require.Len(t, k.scope.routes, maxRoutes+1, "one for all others")
		limits := func() (n int) {
			for _, x := range k.parts() {
				if x.route == nil {
					n++
				}
			}
			return n
		}
		require.Equal(t, 20, limits())
		for i := range 2 * maxParts {
			named = fmt.Sprint("more", i)
			get(fmt.Sprintf("/p%d/x", i%30))
		}
		require.Len(t, k.scope.routes, maxRoutes+1)
		require.LessOrEqual(t, len(k.scope.parts), maxParts)
		for _, r := range k.scope.routes {
			require.LessOrEqual(t, len(r.limits), maxAnnounced)
		}
		require.Len(t, slices.Collect(rt.gate().Keys()), 1+limits())
		for i := range maxParts { // of other routes
			named = fmt.Sprint("again", i)
			get(fmt.Sprintf("/p%d/x", 30+i%30))
		}
		require.Len(t, k.scope.parts, maxParts)
		named = "another" // there is no room for it, so its limits apply to the key
		rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			return answer(req, resourceAnswer("another r=0;t=60")), nil
		})
		get("/p100/x")
		w, _ := rt.gate().State("https://api.example")
		require.Equal(t, ReasonLimit, w.Reason)
	})
}

// A path whose answers name no resource needs no entry, until an answer names one.
func TestResourcesUnnamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rt Transport
		playResources(t, &rt, "0 /graphql: graphql r=9;t=60")
		for i := range 2 * maxRoutes {
			playResources(t, &rt, fmt.Sprintf("0 /p%d: 200; Server: x", i))
		}
		k, _ := rt.gate().find("https://api.example")
		for name, r := range k.scope.routes {
			require.Equal(t, name.path == "/graphql", len(r.limits) == 1, name.path)
		}
		playResources(t, &rt, `
			0 /p7: core r=0;t=60
			0 /p7: waits limit
			0 /p8: 200; Server: x
			1 /p8: core r=0;t=60
			1 /p8: waits limit
			1 /graphql: graphql r=8;t=59`)
	})
}

// Requests that wait for the first answer of their path are sent after it, even if it names no
// resource.
func TestResourcesUnnamedWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rt Transport
		playResources(t, &rt, "0 /graphql: graphql r=9;t=60")
		var sent atomic.Int32
		rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			sent.Add(1)
			time.Sleep(300 * time.Millisecond)
			return answer(req, ""), nil
		})
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() { _ = get(t, &rt, "https://api.example/new") })
		}
		synctest.Wait()
		require.EqualValues(t, 1, sent.Load())
		start := time.Now()
		group.Wait()
		require.EqualValues(t, 20, sent.Load())
		require.Equal(t, 600*time.Millisecond, time.Since(start))
	})
}

// A key is not displaced while a wait of one of its resources is in effect.
func TestResourcesDisplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{Gate: &Gate{MaxKeys: 2}}
		playResources(t, rt, `0 /graphql: graphql r=0;t=540`)
		for i := range 5 {
			entered(t, rt.Gate, fmt.Sprint(i), "")
		}
		time.Sleep(8 * time.Minute)
		w, ok := rt.Gate.State("https://api.example graphql")
		require.True(t, ok)
		require.Equal(t, ReasonLimit, w.Reason)
		time.Sleep(time.Hour)
		for i := range 5 {
			entered(t, rt.Gate, fmt.Sprint(i), "429; Retry-After: 60")
		}
		_, ok = rt.Gate.State("https://api.example graphql")
		require.False(t, ok)
	})
}

// A key is not displaced while a request waits for the first answer of its path.
func TestResourcesScoutDisplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{Gate: &Gate{MaxKeys: 1}}
		playResources(t, rt, `0 /graphql: graphql r=9;t=60`)
		rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			time.Sleep(200 * time.Millisecond)
			return answer(req, resourceAnswer("core r=0;t=60")), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example/new", nil)
			require.NoError(t, err)
			go func() { _, _ = rt.RoundTrip(req) }()
		}
		synctest.Wait()
		for i := range 3 {
			entered(t, rt.Gate, fmt.Sprint(i), "")
		}
		time.Sleep(time.Second)
		w, ok := rt.Gate.State("https://api.example core")
		require.True(t, ok)
		require.Equal(t, []any{ReasonLimit, 1}, []any{w.Reason, w.Queued}, "the second request waits for the resource of the first answer")
		cancel()
		synctest.Wait()
		entered(t, rt.Gate, "another", "")
		require.LessOrEqual(t, len(slices.Collect(rt.Gate.Keys())), 3)
	})
}

// Paths that have not been used for long give room to others.
func TestResourcesForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{Gate: &Gate{MaxWait: 20 * time.Minute}}
		for i := range 300 {
			playResources(t, rt, fmt.Sprintf("0 /p%d: core r=4999;t=60", i))
		}
		time.Sleep(5 * time.Minute)
		playResources(t, rt, "0 /new: graphql r=0;t=1200")
		routes := func() int {
			k, _ := rt.gate().find("https://api.example")
			return len(k.scope.routes)
		}
		require.Equal(t, maxRoutes+1, routes())
		time.Sleep(time.Hour)
		playResources(t, rt, "0 /new: graphql r=0;t=1200\n0 /other: core r=4999;t=60\n0 /new: waits limit")
		require.Equal(t, 3, routes(), "and that of requests without a route")
		time.Sleep(11 * time.Minute)
		playResources(t, rt, "0 /new: waits limit\n0 /other: core r=4999;t=60")
	})
}

// An exchange over HTTP with the fields of GitHub.
func TestResourcesGitHub(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, left := "core", int64(4999)
		if r.URL.Path == "/graphql" {
			name, left = "graphql", 0
		}
		f := ratelimit.Fields{Policies: []ratelimit.Policy{{Name: name, Quota: 5000}}, Limits: []ratelimit.Limit{{Name: name, Remaining: left, Reset: ratelimit.SecondsOf(600)}}}
		if err := ratelimit.GitHub.Set(w.Header(), f, time.Now()); err != nil {
			panic(err)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: &Transport{}}
	get := func(path string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	require.NoError(t, get("/graphql"))
	require.NoError(t, get("/repos/golang/go"))
	require.NoError(t, get("/repos/golang/net"))
	var wait *WaitError
	require.ErrorAs(t, get("/graphql"), &wait)
	require.Equal(t, "graphql", wait.Advice.Limit.Name)
}

// Whatever the responses are, every request ends, and no request stays under way or in a queue.
// Most requests have no deadline, so a wait that does not end is a deadlock of the bubble.
func TestResourcesEnd(t *testing.T) {
	for seed := range uint64(20) {
		trial.InBubble(t, fmt.Sprint(seed), func(t *testing.T) {
			var mu sync.Mutex
			r := rand.New(rand.NewPCG(seed, 0))
			draw := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return r.IntN(n)
			}
			reply := func(req *http.Request) string {
				resource := fmt.Sprint("r", draw(3))
				switch draw(14) {
				case 0, 10:
					return "HTTP/1.1 429 Too Many Requests"
				case 1:
					return "HTTP/1.1 403 Forbidden\nRetry-After: 3"
				case 2:
					return resourceAnswer("403; " + resource + " r=0;t=5")
				case 3:
					return resourceAnswer("403; " + resource + " r=7;t=5; Retry-After: 2")
				case 4:
					return `RateLimit: "all";r=1;t=2`
				case 5:
					return `RateLimit-Policy: "c";q=2;qu="concurrent-requests"`
				case 6:
					return "RateLimit-Policy: \"t\";q=100;w=60;qu=\"tokens\"\nRateLimit: \"t\";r=3;t=2"
				case 7:
					return ""
				case 8:
					return fmt.Sprintf("X-RateLimit-Limit: %d\nX-RateLimit-Remaining: %d\nX-RateLimit-Reset: %d", 5+5*draw(2), draw(4), 1+draw(20))
				case 9:
					return fmt.Sprintf(`RateLimit: "n%d";r=%d;t=5`, draw(20), draw(3))
				}
				return resourceAnswer(fmt.Sprintf("%s r=%d;t=5", resource, draw(4)))
			}
			base := trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
				time.Sleep(time.Duration(draw(2000)) * time.Millisecond)
				if draw(200) == 0 {
					time.Sleep(11 * time.Minute) // the key may be forgotten meanwhile
				}
				if draw(12) == 0 {
					return nil, errCutOff
				}
				resp := answer(req, reply(req))
				resp.Body = &panicking{slow: time.Duration(draw(300)) * time.Millisecond}
				return resp, nil
			})
			g := &Gate{MaxWait: time.Minute, MaxKeys: 1 + int(seed)%5, Pace: seed%3 == 0}
			transports := []*Transport{
				{Base: base, Gate: g, MaxRetries: int(seed % 3)},
				{Base: base, Gate: g, Cost: func(*http.Request) []Cost { return []Cost{{Unit: "tokens", Units: int64(draw(20))}} }},
				{Base: &Transport{Base: base}, Gate: g},
			}
			request := func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch draw(12) {
				case 0:
					time.AfterFunc(time.Duration(draw(3000))*time.Millisecond, cancel)
				case 1:
					ctx, cancel = context.WithTimeout(ctx, time.Duration(draw(20))*time.Second)
					defer cancel()
				}
				host := "api"
				if draw(5) == 0 {
					host = fmt.Sprint(draw(4))
				}
				method := []string{http.MethodGet, http.MethodPost}[draw(2)]
				req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("https://%s.example/p%d/x", host, draw(6)), nil)
				require.NoError(t, err)
				if resp, err := transports[draw(3)].RoundTrip(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
			var all sync.WaitGroup
			for range 60 {
				all.Go(func() {
					for range 6 {
						request()
						if keys := slices.Collect(g.Keys()); len(keys) > 0 && draw(20) == 0 {
							g.Forget(keys[draw(len(keys))])
						}
						if draw(40) == 0 {
							time.Sleep(12 * time.Minute) // no key is used for long
						}
						pass, _ := g.TryEnter("https://api.example")
						pass.Failed()
					}
				})
			}
			all.Wait()
			require.LessOrEqual(t, len(g.keys), g.MaxKeys)
			require.Equal(t, len(g.keys), g.used.Len())
			for _, e := range g.keys {
				for _, x := range e.lines() {
					require.Zero(t, x.queue.Len()+len(x.byDeadline)+x.machine.UnderWay(), x.name)
				}
			}
		})
	}
}

// Forget lets requests go that wait for the first answer of their path.
func TestResourcesForgetWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rt Transport
		playResources(t, &rt, "0 /graphql: graphql r=10;t=60")
		sent, answers := 0, make(chan struct{})
		rt.Base = trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
			sent++
			<-answers
			return answer(req, ""), nil
		})
		for range 2 {
			go func() {
				req, _ := http.NewRequest(http.MethodGet, "https://api.example/repos/a", nil)
				if resp, err := rt.RoundTrip(req); err == nil {
					resp.Body.Close()
				}
			}()
			synctest.Wait()
		}
		require.Equal(t, 1, sent)
		rt.gate().Forget("https://api.example")
		synctest.Wait()
		require.Equal(t, 2, sent)
		close(answers)
	})
}

// A request under way counts for a resource that is learnt meanwhile, unless its path is another.
func TestResourcesOtherPath(t *testing.T) {
	for _, tc := range []struct {
		slow string
		core int // the requests to /core before the slow one is answered
	}{{"slow", 2}, {"core", 1}} {
		trial.InBubble(t, tc.slow, func(t *testing.T) {
			var sent atomic.Int64
			rt := &Transport{Base: trial.RoundTripFunc(func(req *http.Request) (*http.Response, error) {
				if sent.Add(1) == 1 {
					time.Sleep(time.Minute)
				}
				time.Sleep(100 * time.Millisecond)
				return answer(req, resourceAnswer("core r=1;t=300")), nil
			})}
			var all sync.WaitGroup
			for _, path := range []string{tc.slow, "core"} {
				all.Go(func() { require.NoError(t, get(t, rt, trial.Example+path)) })
				synctest.Wait()
			}
			time.Sleep(time.Second)
			all.Go(func() { require.NoError(t, get(t, rt, trial.Example+"core")) })
			synctest.Wait()
			require.EqualValues(t, 1+tc.core, sent.Load(), "one was left")
			all.Wait()
		})
	}
}

// A request of the Gate's own has no path, so no resource delays it.
func TestResourcesNoPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{Gate: &Gate{}}
		playResources(t, rt, "0 /graphql: graphql r=0;t=60")
		start := time.Now()
		for range 20 {
			pass, until := rt.Gate.TryEnter("https://api.example")
			require.NotNil(t, pass)
			require.Zero(t, until)
			enter(t, rt.Gate, "https://api.example")
		}
		require.Zero(t, time.Since(start))
	})
}

// An answer that names a resource but has no limit makes no entry for the resource.
func TestResourcesWithoutLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rt Transport
		playResources(t, &rt, `
			0 /graphql: graphql r=9;t=60
			0 /repos/a: 429; X-RateLimit-Resource: core; Retry-After: 5
			0 /repos/a: waits retry-after`)
		require.ElementsMatch(t, []string{"https://api.example", "https://api.example graphql"}, slices.Collect(rt.gate().Keys()))
	})
}

// Pace spaces the requests to each resource by what is left of it.
func TestResourcesPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, start := &Transport{Gate: &Gate{Pace: true}}, time.Now()
		playResources(t, rt, `
			0 /a: one r=5;t=60
			0 /b: two r=10;t=60`)
		for _, tc := range []struct {
			path string
			at   time.Duration
		}{{"/b", 6 * time.Second}, {"/a", 12 * time.Second}} {
			_, err := rt.RoundTrip(trial.NewRequest(t, "https://api.example"+tc.path))
			require.NoError(t, err)
			require.Equal(t, tc.at, time.Since(start), tc.path)
		}
	})
}

// Forget forgets one resource, and the requests that wait for it go on.
func TestResourcesForgetOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &Transport{Gate: &Gate{}}
		playResources(t, rt, "0 /repos: core r=0;t=60\n0 /graphql: graphql r=0;t=60")
		start := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			require.NoError(t, get(t, rt, "https://api.example/graphql"))
			require.Zero(t, time.Since(start))
		})
		synctest.Wait()
		rt.Gate.Forget("https://api.example graphql")
		all.Wait()
		_, ok := rt.Gate.State("https://api.example graphql")
		require.True(t, ok, "the answer has named it again")
		rt.Gate.Forget("https://api.example core")
		_, ok = rt.Gate.State("https://api.example core")
		require.False(t, ok)
		_, ok = rt.Gate.State("https://api.example graphql")
		require.True(t, ok)
	})
}

// A refusal by a resource is no answer for its key, so it does not change the average time of
// answers.
func TestResourcesRefusalTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gate{}
		pass := func(path string) *Pass {
			p, err := g.enter(t.Context(), []byte("k"), &terms{route: routeName{path: path}})
			require.NoError(t, err)
			return p
		}
		served, several := pass("x"), []*Pass{}
		time.Sleep(200 * time.Millisecond)
		left := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "a", Remaining: 9, Reset: ratelimit.SecondsOf(9)}}}
		served.answered(&ratelimit.Advice{Fields: left}, "core", time.Time{}, false, false)
		for range 8 {
			several = append(several, pass("x"))
		}
		for _, p := range several {
			spent := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "a", Reset: ratelimit.SecondsOf(1)}}}
			p.answered(&ratelimit.Advice{Refused: true, Wait: time.Second, Source: ratelimit.SourceLimit, Fields: spent}, "core", time.Time{}, false, false)
		}
		pass("y").Answered(ratelimit.Advice{Refused: true, Wait: 300 * time.Millisecond, Source: ratelimit.SourceRetryAfter}, time.Time{})
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		_, err := g.enter(ctx, []byte("k"), &terms{route: routeName{path: "y"}})
		var late *WaitError
		require.ErrorAs(t, err, &late, "100 ms are left, and answers take 200 ms")
	})
}

// After half of a second a request of a resource is refused. Then the resource waits whole seconds,
// also if the refusal does not name it.
func TestResourcesWholeSeconds(t *testing.T) {
	for name, refusal := range map[string]string{
		"named":           "429; core r=0;t=1",
		"without a limit": "429; Retry-After: 1",
	} {
		trial.InBubble(t, name, func(t *testing.T) {
			playResources(t, &Transport{}, `
				0 /a: core r=0;t=1
				1 /a: core r=0;t=1
				1.49 /a: waits limit
				1.5 /a: `+refusal+`
				2.5 /a: core r=0;t=1
				3.49 /a: waits limit
				3.5 /a: core r=1;t=1`)
		})
	}
	for name, named := range map[string]string{"": "", ", the path names another": "1.5", ", the path named another before": "0"} {
		trial.InBubble(t, "a refusal without a limit says nothing of concurrency"+name, func(t *testing.T) {
			scene := `
				0 /a: core r=0;t=1
				1 /a: core r=0;t=1
				1.5 /a: 429; Retry-After: 1
				2.5 /b: 200; Server: x`
			if named != "" {
				scene = strings.Replace(scene, named+" /a", named+" /a: other r=9;t=60\n"+named+" /a", 1)
			}
			rt := &Transport{Gate: &Gate{}}
			playResources(t, rt, scene)
			for range 2 {
				p, _ := rt.Gate.TryEnter("https://api.example")
				require.NotNil(t, p)
			}
		})
	}
	trial.InBubble(t, "a refusal before one was shorter shows nothing", func(t *testing.T) {
		playResources(t, &Transport{}, `
			0 /a: core r=3;t=1
			1.2 /a: 429; Retry-After: 1
			2.2 /a: core r=0;t=1
			2.69 /a: waits limit
			2.7 /a: core r=1;t=1`)
	})
}

// A request that waits for its key, and then for a resource, fails as soon as it is certain that its
// deadline is too early for the resource, also behind a request that costs less.
func TestResourcesDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, costs := time.Now(), int64(1)
		rt := &Transport{Cost: func(*http.Request) []Cost { return []Cost{{Unit: "tokens", Units: costs}} }}
		playResources(t, rt, `
			0 /a: RateLimit-Policy: "t";q=60;w=60;qu="tokens"; RateLimit: "t";r=20;t=1; X-RateLimit-Resource: one
			0 /b: 302; Retry-After: 10`)
		var all sync.WaitGroup
		wait := func(cost int64, by, ends time.Duration, refused bool) {
			costs = cost
			all.Go(func() {
				ctx, cancel := context.WithDeadline(t.Context(), start.Add(by))
				defer cancel()
				req := trial.NewRequest(t, "https://api.example/a").WithContext(ctx)
				_, err := rt.RoundTrip(req)
				require.Equal(t, refused, errors.As(err, new(*WaitError)))
				require.Equal(t, ends, time.Since(start))
			})
			synctest.Wait()
		}
		wait(50, time.Minute, 31*time.Second, false)
		wait(60, 35*time.Second, 10*time.Second, true)
		all.Wait()
	})
}
