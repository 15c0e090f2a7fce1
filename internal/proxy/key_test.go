package proxy

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// keyOf returns the key of a request with these lines.
func keyOf(t *testing.T, list string, request string) string {
	t.Helper()
	k, err := newKeyer(strings.Fields(list))
	require.NoError(t, err)
	head, body, _ := strings.Cut(request, "\n\n")
	lines := strings.Split(head, "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	p := &Proxy{config: Config{BodyMemory: 64 << 20}}
	p.memory.left.Store(p.config.BodyMemory)
	return k.keyOf(r, k.partsOf(r, p.bodyOf(httptest.NewRecorder(), r)))
}

// Requests with the same key share their limits.
func TestKeyer(t *testing.T) {
	const post = "POST /v1/chat\nContent-Type: application/json\nAuthorization: a\n\n"
	for _, tc := range []struct {
		name, key, one, other string
		equal                 bool
	}{
		{"a field", "Authorization", "GET /a\nAuthorization: a", "GET /b\nAuthorization: a", true},
		{"one of several fields", "Authorization X-API-Key", "GET /a\nX-Api-Key: a", "GET /a\nX-Api-Key: b", false},
		{"another field", "Authorization", "GET /a\nX-Tenant: a", "GET /a\nX-Tenant: b", true},
		{"no field", "", "GET /a\nAuthorization: a", "GET /a\nAuthorization: b", true},
		{"another user", "Authorization", "GET /a\nAuthorization: a", "GET /a\nAuthorization: b", false},
		{"the path", "Authorization path:1", "GET /a/b\nAuthorization: a", "GET /a/c\nAuthorization: a", true},
		{"the path differs", "Authorization path:2", "GET /a/b\nAuthorization: a", "GET /a/c\nAuthorization: a", false},
		{"the path is short", "path:3", "GET /a", "GET /a?b", true},
		{"a user with a path", "Authorization path:1", "GET /a\nAuthorization: a", "GET /a\nAuthorization: b", false},
		{"a member", "Authorization json:model", post + `{"model":"x","n":1}`, post + `{"n":2,"model":"x"}`, true},
		{"a member differs", "Authorization json:model", post + `{"model":"x"}`, post + `{"model":"y"}`, false},
		{"a number", "json:n", post + `{"n":1}`, post + `{"n":2}`, false},
		{"no member", "json:model", post + `{}`, post + `{"other":1}`, true},
		{"a member of a member", "json:model", post + `{"a":{"model":"x"}}`, post + `{"a":{"model":"y"}}`, true},
		{"null is a member", "json:model", post + `{"model":null}`, post + `{}`, false},
		{"two members", "json:model json:user", post + `{"model":"x","user":"u"}`, post + `{"model":"x","user":"v"}`, false},
		{"no object", "json:model", post + `["model"]`, post + `"x"`, true},
		{"no JSON", "json:model", post + `{"model":`, post + `x`, true},
		{"another type", "json:model", strings.Replace(post, "application/json", "text/plain", 1) + `{"model":"x"}`, post, true},
		{"problem+json; charset=utf-8", "json:model", strings.Replace(post, "application/json", "application/problem+json; charset=utf-8", 1) + `{"model":"x"}`, post + `{"model":"y"}`, false},
		{"a body of 1 MiB", "json:model", post + `{"model":"x"}` + strings.Repeat(" ", maxJSON-13), post + `{}`, false},
		{"a longer body", "json:model", post + `{"model":"x"}` + strings.Repeat(" ", maxJSON-12), post + `{}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			one, other := keyOf(t, tc.key, tc.one), keyOf(t, tc.key, tc.other)
			require.Equal(t, tc.equal, one == other)
			for _, word := range []string{"model", "chat", "/a"} {
				require.NotContains(t, strings.TrimPrefix(one, "http://example.com"), word)
			}
		})
	}
}

func TestKeyFlag(t *testing.T) {
	for list, ok := range map[string]bool{
		"": true, "Authorization": true, "path:2": true, "Authorization, path:2 ,json:model": true, "json:a:b": true,
		"path:": false, "path:0": false, "path:-1": false, "path:x": false, "json:": false, "query:x": false, "a b": false,
	} {
		flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
		c := NewCommand("proxy", flags)
		require.NoError(t, flags.Parse([]string{"-to", "https://api.example", "-key", list}))
		if err := c.Complete(); ok {
			require.NoError(t, err, list)
		} else {
			require.ErrorContains(t, err, "-key is not a list of fields, path:N and json:NAME: write", list)
		}
	}
}

// A body that was read for its key arrives whole, in order, and only once.
func TestKeyBodyWhole(t *testing.T) {
	to := trial.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write(body)
	})
	for _, memory := range []int64{64 << 20, 64 << 10, 0} {
		p := startProxy(t, to, fieldsOf("json:model"), func(c *Config) { c.BodyMemory = memory })
		for _, size := range []int{0, 1, partSize, 3*partSize + 7, maxJSON - 20, maxJSON + 1, 3 << 20} {
			for _, expect := range []string{"", "100-continue"} {
				body := []byte(`{"model":"x","n":"`)
				for i := 0; len(body) < size; i++ {
					body = fmt.Append(body, i, " ")
				}
				body = append(body, `"}`...)
				resp, got := trial.Send(t, http.MethodPost, p.url, bytes.NewReader(body), "Content-Type", "application/json", "Expect", expect)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.True(t, string(body) == got, "%d bytes", size)
			}
		}
		trial.Until(t, "the memory is free", func() bool { return p.proxy.memory.left.Load() == memory })
	}
}

// Five agents share an account. The model of one of them is always refused. The others get as much as
// without it, if the key has the model.
func TestKeyFleet(t *testing.T) {
	served := func(agents int, key ...string) (good int) {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			p := inProcess(func(w http.ResponseWriter, r *http.Request) {
				var asked struct{ Model string }
				_ = json.NewDecoder(r.Body).Decode(&asked)
				time.Sleep(50 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				if asked.Model == "spent-model" {
					w.Header().Set("Retry-After", "8")
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				good++
			}, fieldsOf(key...), func(c *Config) { c.BodyMemory = 64 << 20 }, maxWait(20*time.Second))
			end := time.Now().Add(time.Minute)
			var all sync.WaitGroup
			for i := range agents {
				all.Go(func() {
					body := `{"model":"other-model"}`
					if i == 4 {
						body = `{"model":"spent-model"}`
					}
					for time.Now().Before(end) {
						ask(p, http.MethodPost, "/v1/chat", strings.NewReader(body), "Content-Type", "application/json", "Authorization", "Bearer s3cret")
						time.Sleep(200 * time.Millisecond)
					}
				})
			}
			all.Wait()
			state := ask(p.Admin(), "GET", "/state", nil).Body.String() + ask(p.Admin(), "GET", "/metrics", nil).Body.String()
			for _, secret := range []string{"s3cret", "chat", "model"} { // no word of hexadecimal digits alone, as a key is written
				require.NotContains(t, state, secret)
			}
		})
		return good
	}
	without := served(4, "Authorization")
	require.GreaterOrEqual(t, served(5, "Authorization", "json:model"), without*9/10)
	require.Less(t, served(5, "Authorization"), without/2, "one path, so one route")
}
