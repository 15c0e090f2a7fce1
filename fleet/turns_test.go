package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/obey"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// A roundTrip is a server in memory.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer returns a response with these fields.
func answer(status int, fields ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}
}

func request(t testing.TB, ctx context.Context) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", "http://api.example/", nil)
	require.NoError(t, err)
	return r
}

// If a request's deadline is certain to be too early, it fails at once, with the time at
// which it could proceed.
func TestTurnsDeadline(t *testing.T) {
	store := startStore(t)
	sent := 0
	turns := &Turns{Redis: store.rdb, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		sent++
		return answer(429, "Retry-After", "60"), nil
	})}
	_, err := turns.RoundTrip(request(t, t.Context()))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	began := time.Now()
	_, err = turns.RoundTrip(request(t, ctx))
	var wait *obey.WaitError
	require.ErrorAs(t, err, &wait)
	require.WithinDuration(t, began.Add(time.Minute), wait.Until, 10*time.Second)
	require.Less(t, time.Since(began), 10*time.Second)

	waits := make(chan error)
	ctx, stop := context.WithCancelCause(t.Context())
	go func() {
		_, err := turns.RoundTrip(request(t, ctx))
		waits <- err
	}()
	require.Eventually(t, func() bool { turns.mu.Lock(); defer turns.mu.Unlock(); return len(turns.lines) == 1 }, 20*time.Second, time.Millisecond)
	cause := errors.New("enough")
	stop(cause)
	require.ErrorIs(t, <-waits, cause)
	require.Equal(t, 1, sent)
	require.Empty(t, turns.lines)
}

// A request is no longer in flight after it fails or its base panics.
func TestTurnsFailure(t *testing.T) {
	store := startStore(t)
	broken := errors.New("broken")
	turns := &Turns{Redis: store.rdb, Base: roundTrip(func(*http.Request) (*http.Response, error) { return nil, broken })}
	for range 30 {
		_, err := turns.RoundTrip(request(t, t.Context()))
		require.ErrorIs(t, err, broken)
	}
	turns.Base = roundTrip(func(*http.Request) (*http.Response, error) { panic("broken") })
	require.Panics(t, func() { _, _ = turns.RoundTrip(request(t, t.Context())) })
	require.Zero(t, store.underWay(t))
	_, err := turns.RoundTrip(nil)
	require.Error(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	closed := false
	r := request(t, ctx)
	r.Body = closer{strings.NewReader("x"), &closed}
	_, err = turns.RoundTrip(r)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, closed)
}

type closer struct {
	io.Reader
	closed *bool
}

func (c closer) Close() error { *c.closed = true; return nil }

// A request with the key "" is not delayed, and leaves nothing in Redis.
func TestTurnsWithoutKey(t *testing.T) {
	store := startStore(t)
	turns := &Turns{Redis: store.rdb, Key: func(*http.Request) string { return "" }, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return answer(200, "RateLimit", `"a";r=0;t=60`), nil
	})}
	for range 3 {
		_, err := turns.RoundTrip(request(t, t.Context()))
		require.NoError(t, err)
	}
	require.Empty(t, store.keys(t))
}

// At most ten requests are sent before the first response, or one request if requests have
// costs.
func TestTurnsFirstRequests(t *testing.T) {
	for _, tc := range []struct {
		name  string
		costs []obey.Cost
		want  int64
	}{
		{"requests", nil, 10},
		{"tokens", []obey.Cost{{Unit: "tokens", Units: 10}}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := startStore(t)
			var sent atomic.Int64
			goOn := make(chan bool)
			turns := &Turns{
				Redis: store.rdb,
				Cost:  func(*http.Request) []obey.Cost { return tc.costs },
				Base: roundTrip(func(*http.Request) (*http.Response, error) {
					sent.Add(1)
					<-goOn
					return answer(200, "RateLimit", `"a";r=40;t=60`), nil
				}),
			}
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					if _, err := turns.RoundTrip(request(t, t.Context())); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(200 * time.Millisecond) // the rule ends after half a second
			require.LessOrEqual(t, sent.Load(), tc.want)
			close(goOn)
			all.Wait()
			require.EqualValues(t, 30, sent.Load())
		})
	}
}

// If the end of a limit is unknown, its exhaustion does not delay requests for ever.
func TestTurnsWithoutReset(t *testing.T) {
	store := startStore(t)
	n := 0
	turns := &Turns{Redis: store.rdb, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		if n++; n == 1 {
			return answer(200, "RateLimit", `"a";r=0`), nil
		}
		return answer(200), nil
	})}
	for range 5 {
		_, err := turns.RoundTrip(request(t, t.Context()))
		require.NoError(t, err)
	}
	require.Equal(t, 5, n)
}

// If Redis hangs, requests wait for at most one time-out in each second, for any timeouts of
// the client.
func TestTurnsStoreHangs(t *testing.T) {
	t.Parallel()
	for _, obeys := range []bool{false, true} {
		t.Run(fmt.Sprintf("ContextTimeoutEnabled %t", obeys), func(t *testing.T) {
			t.Parallel()
			store := startStore(t)
			rdb := redis.NewClient(&redis.Options{Addr: store.addr, ContextTimeoutEnabled: obeys})
			defer rdb.Close()
			var failures atomic.Int64
			turns := &Turns{
				Redis: rdb, Timeout: 100 * time.Millisecond,
				OnError: func(error) { failures.Add(1) },
				Base:    roundTrip(func(*http.Request) (*http.Response, error) { return answer(200), nil }),
			}
			_, err := turns.RoundTrip(request(t, t.Context()))
			require.NoError(t, err)
			require.NoError(t, store.cmd.Process.Signal(syscall.SIGSTOP))
			defer func() { _ = store.cmd.Process.Signal(syscall.SIGCONT) }()
			began, sent := time.Now(), 0
			for time.Since(began) < 3*time.Second {
				_, err := turns.RoundTrip(request(t, t.Context()))
				require.NoError(t, err)
				sent++
			}
			require.Greater(t, sent, 100)
			require.LessOrEqual(t, failures.Load(), int64(3))
			require.Positive(t, failures.Load())
			require.NoError(t, store.cmd.Process.Signal(syscall.SIGCONT))
			for failures.Store(0); !turns.asks() || failures.Load() > 0; failures.Store(0) {
				_, err := turns.RoundTrip(request(t, t.Context()))
				require.NoError(t, err)
				time.Sleep(10 * time.Millisecond)
			}
			until(t, func() bool { return store.underWay(t) == 0 }) // late turns are given back
		})
	}
}

// A lateStore answers each question after a delay.
type lateStore struct {
	redis.Scripter
	delay time.Duration
}

func (s lateStore) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	defer time.Sleep(s.delay)
	return s.Scripter.EvalSha(context.WithoutCancel(ctx), sha, keys, args...)
}

func (s lateStore) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	defer time.Sleep(s.delay)
	return s.Scripter.Eval(context.WithoutCancel(ctx), script, keys, args...)
}

// A turn that Redis grants too late is given back before its lease expires.
func TestTurnsGivenBack(t *testing.T) {
	store := startStore(t)
	turns := &Turns{
		Redis: lateStore{store.rdb, 200 * time.Millisecond}, Timeout: 100 * time.Millisecond,
		Base: roundTrip(func(*http.Request) (*http.Response, error) { return answer(200), nil }),
	}
	require.NoError(t, enterScript.Load(t.Context(), store.rdb).Err())
	require.NoError(t, learnScript.Load(t.Context(), store.rdb).Err())
	_, err := turns.RoundTrip(request(t, t.Context()))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return store.underWay(t) == 0 }, leaseTime/2, 10*time.Millisecond)
}

// While Redis is away, two processes use half of the quota each. Afterwards they share it
// through Redis.
func TestTurnsAlone(t *testing.T) {
	store := startStore(t)
	s := window(20, time.Second, 10*time.Millisecond)
	var both [2]*Turns
	var all sync.WaitGroup
	var stopped atomic.Bool
	for i := range both {
		rdb := redis.NewClient(&redis.Options{Addr: store.addr})
		defer rdb.Close()
		both[i] = &Turns{Redis: rdb, Base: s.RoundTripper()}
		client := &http.Client{Transport: &obey.Transport{Base: both[i]}}
		for range 4 {
			all.Go(func() {
				for !stopped.Load() {
					resp, err := client.Do(request(t, t.Context()))
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
				}
			})
		}
	}
	defer all.Wait()
	defer stopped.Store(true)
	served := func(n int) {
		before, _ := countsOf(s)
		until(t, func() bool { now, _ := countsOf(s); return now >= before+n })
	}
	processes := func(n int) {
		until(t, func() bool {
			got := store.rdb.ZCard(t.Context(), both[0].keysOf("http://api.example")[2])
			return got.Val() == int64(n)
		})
	}
	processes(2)
	time.Sleep(2 * countAfter) // both processes have counted by then
	served(20)
	kill(t, store)
	until(t, func() bool { return !both[0].asks() && !both[1].asks() })
	served(40)
	store.start(t)
	until(t, func() bool { return both[0].asks() && both[1].asks() })
	processes(2)
	served(40)
	_, refused := countsOf(s)
	t.Logf("%d refused", refused)
	require.LessOrEqual(t, refused, 10)
}

// The server counts requests in another order than they were sent, and the answers arrive in a
// third order. None of them raises what is left above what the server has left.
func TestTurnsAnswersOvertake(t *testing.T) {
	for _, tc := range []struct {
		name     string
		answers  []string // in the order of arrival: the place in the order of sending, and the limit
		underWay int      // sent before the first answer arrives
		left     int      // in Redis when all answers have arrived
		ends     int      // seconds until all is restored
	}{
		{"as sent", []string{"0 r=9;t=60", "1 r=8;t=60", "2 r=7;t=60"}, 2, 7, 60},
		{"counted in another order", []string{"1 r=9;t=60", "2 r=8;t=60", "0 r=7;t=60"}, 2, 7, 60},
		{"the last one counted arrives before an earlier one", []string{"1 r=9;t=60", "0 r=7;t=60", "2 r=8;t=60"}, 2, 7, 60},
		{"the last one counted arrives first", []string{"1 r=7;t=60", "0 r=8;t=60", "2 r=9;t=60"}, 3, 7, 60},
		{"the first one announces a later reset", []string{"1 r=8;t=60", "0 r=9;t=600"}, 2, 8, 600},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := startStore(t)
			var sent []chan string
			sends := make(chan bool)
			turns := &Turns{Redis: store.rdb, Base: roundTrip(func(*http.Request) (*http.Response, error) {
				limit := make(chan string)
				sent = append(sent, limit)
				sends <- true
				return answer(200, "RateLimit-Policy", `"a";q=10`, "RateLimit", `"a";`+<-limit), nil
			})}
			arrived := make(chan error)
			send := func() {
				go func() {
					_, err := turns.RoundTrip(request(t, t.Context()))
					arrived <- err
				}()
				<-sends
			}
			for range tc.underWay {
				send()
			}
			for _, text := range tc.answers {
				place, limit, _ := strings.Cut(text, " ")
				i, err := strconv.Atoi(place)
				require.NoError(t, err)
				sent[i] <- limit
				require.NoError(t, <-arrived)
				if len(sent) < len(tc.answers) {
					send()
				}
			}
			record := store.rdb.HGet(t.Context(), turns.keysOf("http://api.example")[0], "limit:requests a")
			var got struct{ Left, At, Ends int }
			require.NoError(t, json.Unmarshal([]byte(record.Val()), &got))
			require.Equal(t, tc.left, got.Left)
			require.InDelta(t, tc.ends, (got.Ends-got.At)/1000, 30)
		})
	}
}

// Answers without limits, such as those of a cache, do not erase what a process knows of limits.
func TestTurnsAloneKnowsLimits(t *testing.T) {
	turns := &Turns{Redis: redis.NewClient(&redis.Options{Addr: freeAddress(t), MaxRetries: -1})}
	turns.Base = roundTrip(func(*http.Request) (*http.Response, error) { return answer(200), nil })
	key := turns.keysOf("http://api.example")[0]
	l, err := turns.queue(t.Context(), key)
	require.NoError(t, err)
	l.processes = 2
	for _, resp := range []*http.Response{answer(200, "RateLimit", `"a";r=0;t=60`), answer(200)} {
		a := turns.Advisor.Advise(resp, time.Now())
		l.learn(turns, &a)
	}
	turns.leave(key, l)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = turns.RoundTrip(request(t, ctx))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A cost of 0 that names a policy takes the place of costs that name its unit alone.
func TestTurnsCostOfNothing(t *testing.T) {
	store := startStore(t)
	costs := []obey.Cost{{Unit: "tokens", Units: 10}, {Policy: "cached"}}
	sent := 0
	turns := &Turns{Redis: store.rdb, Cost: func(*http.Request) []obey.Cost { return costs }, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		sent++
		return answer(200, "RateLimit-Policy", `"cached";q=100;qu="tokens";w=60`, "RateLimit", `"cached";r=1;t=60`), nil
	})}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := turns.RoundTrip(request(t, ctx))
		cancel()
		require.NoError(t, err)
	}
	require.Equal(t, 3, sent)
}

// If the record of a key cannot be read, the requests of that key alone go on without Redis, until the
// record is removed.
func TestTurnsUnreadableRecord(t *testing.T) {
	for _, tc := range []struct {
		name, write string // a command
	}{
		{"the record is a string", "SET {} x"},
		{"a limit is not JSON", "HSET {} limit:x {"},
		{"a limit is a number", "HSET {} limit:x 5"},
		{"a limit has no members", "HSET {} limit:x {}"},
		{"a limit has other members", `HSET {} limit:x {"unit":"requests","name":"a","left":[]}`},
		{"the claim is not JSON", "HSET {} claim x"},
		{"the leases are a string", "SET {}:leases x"},
		{"a lease that no script wrote", "ZADD {}:leases 1e15 junk"},
		{"a lease with costs of another kind", "ZADD {}:leases 1e15 9000000000000000x"},
		{"the processes are a string", "SET {}:processes x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			store := startStore(t)
			var mu sync.Mutex
			var failures []string
			turns := &Turns{Redis: store.rdb, Timeout: 10 * time.Second}
			turns.Base = roundTrip(func(*http.Request) (*http.Response, error) {
				return answer(200, "RateLimit-Policy", `"a";q=10;w=60`, "RateLimit", `"a";r=9;t=60`), nil
			})
			turns.OnError = func(err error) {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err.Error())
			}
			send := func(url string) {
				r := request(t, t.Context())
				r.URL.Host = url
				_, err := turns.RoundTrip(r)
				require.NoError(t, err)
			}
			readable := func(url string) bool {
				limit, err := store.rdb.HGet(t.Context(), turns.keysOf("http://" + url)[0], "limit:requests a").Result()
				return err == nil && strings.Contains(limit, `"left":9`)
			}
			bad := turns.keysOf("http://bad.example")
			require.NoError(t, store.rdb.Do(t.Context(), commandOf(strings.ReplaceAll(tc.write, "{}", bad[0]))...).Err())
			send("bad.example")
			send("good.example")
			require.True(t, turns.asks())
			require.True(t, readable("good.example"))
			require.Len(t, failures, 1)
			require.Contains(t, failures[0], bad[0])
			until(t, func() bool { send("bad.example"); return readable("bad.example") })
			require.Len(t, failures, 1)
			requireExpiry(t, store)
		})
	}
}

// commandOf returns the words of a command. A word may be JSON.
func commandOf(text string) (words []any) {
	for word := range strings.SplitSeq(text, " ") {
		words = append(words, word)
	}
	return words
}

// What an older version has written is not read, and stays as it is.
func TestTurnsOlderRecord(t *testing.T) {
	store := startStore(t)
	turns := &Turns{Redis: store.rdb, OnError: func(err error) { t.Error(err) }, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return answer(200, "RateLimit", `"a";r=9;t=60`), nil
	})}
	older := strings.Replace(turns.keysOf("http://api.example")[0], version, "", 1)
	require.NoError(t, store.rdb.HSet(t.Context(), older, "limit:requests a", `["of another kind"]`).Err())
	_, err := turns.RoundTrip(request(t, t.Context()))
	require.NoError(t, err)
	require.Equal(t, int64(1), store.rdb.HLen(t.Context(), older).Val())
}

// An errorStore answers with an error of Redis itself.
type errorStore struct {
	redis.Scripter
	text string
}

func (s errorStore) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(errorReply(s.text))
	return cmd
}

type errorReply string

func (e errorReply) Error() string { return string(e) }
func (errorReply) RedisError()     {}

// An error of Redis itself holds for all keys.
func TestTurnsErrorsOfRedis(t *testing.T) {
	for _, text := range []string{
		"LOADING Redis is loading the dataset in memory",
		"NOAUTH Authentication required.",
		"READONLY You can't write against a read only replica. script: b3ed, on @user_script:1.",
		"OOM command not allowed when used memory > 'maxmemory'. script: b3ed, on @user_script:1.",
		"ERR The user executing the script can't run this command or subcommand script: b3ed, on @user_script:1.",
		"ERR Error running script (call to f_b3ed): @user_script: 1: -READONLY You can't write against a read only replica.",
	} {
		t.Run(text, func(t *testing.T) {
			var failures []error
			turns := &Turns{
				Redis: errorStore{text: text}, OnError: func(err error) { failures = append(failures, err) },
				Base: roundTrip(func(*http.Request) (*http.Response, error) { return answer(200), nil }),
			}
			_, err := turns.RoundTrip(request(t, t.Context()))
			require.NoError(t, err)
			require.False(t, turns.asks())
			require.Len(t, failures, 1)
			require.EqualError(t, failures[0], text)
		})
	}
}

// A process keeps few keys that only other processes use.
func TestTurnsForgets(t *testing.T) {
	turns := &Turns{}
	for i := range 2 * maxLines {
		key := fmt.Sprint(i)
		l, err := turns.queue(t.Context(), key)
		require.NoError(t, err)
		l.processes = 1 + i%2
		turns.leave(key, l)
		require.LessOrEqual(t, len(turns.lines), maxLines)
		require.Equal(t, i%2 == 1, turns.lines[key] == l, "kept if it is shared")
	}
	require.Len(t, turns.lines, maxLines)
}

// asks reports whether Redis has responded to the last request.
func (t *Turns) asks() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retry.IsZero()
}

// until waits until a condition holds, for at most the longest pause of a busy machine.
func until(t testing.TB, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 20*time.Second, 10*time.Millisecond)
}

// The record and the leases of a key are in one slot of a cluster.
func TestTurnsCluster(t *testing.T) {
	_, port, err := net.SplitHostPort(freeAddress(t))
	require.NoError(t, err)
	store := startStore(t, "--cluster-enabled", "yes", "--cluster-port", port, "--cluster-config-file", "nodes.conf")
	require.NoError(t, store.rdb.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	require.Eventually(t, func() bool {
		info, err := store.rdb.ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	}, 20*time.Second, 20*time.Millisecond)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{store.addr}, ContextTimeoutEnabled: true})
	defer cluster.Close()
	turns := &Turns{
		Redis: cluster, Timeout: 10 * time.Second, OnError: func(err error) { t.Error(err) },
		Base: roundTrip(func(*http.Request) (*http.Response, error) { return answer(200, "RateLimit", `"a";r=9;t=60`), nil }),
	}
	_, err = turns.RoundTrip(request(t, t.Context()))
	require.NoError(t, err)
	require.NotEmpty(t, store.keys(t))
}

// A response can write only bounded data to a record, and any response can be processed.
func TestTurnsHostileAnswers(t *testing.T) {
	store := startStore(t)
	var many []string
	for i := range 100 {
		many = append(many, `"`+strings.Repeat("n", 1000)+string(rune('a'+i%26))+strings.Repeat("x", i)+`";r=999999999999999;t=999999999999999`)
	}
	fields := []string{
		strings.Join(many, ", "), `"a\"b\\c";r=1;t=1`, `"limit:x";r=1`, `"{}";r=999999999999999;t=0`, `"":r=0`, `"%s%d\\0";r=5;t=9`,
		`"a";r=5;t=9;pk=:cGs=:, "a";r=3;t=9`,
	}
	i := 0
	turns := &Turns{
		Redis: store.rdb, Timeout: 10 * time.Second, OnError: func(err error) { t.Error(err) },
		Base: roundTrip(func(*http.Request) (*http.Response, error) {
			i++
			return answer(200, "RateLimit", fields[(i-1)%len(fields)], "RateLimit-Policy", `"a";q=9;w=999999999999999, "{}";q=1;w=1;qu="\\ %"`), nil
		}),
		Cost: func(*http.Request) []obey.Cost {
			return []obey.Cost{{Unit: "\\ %\xff", Units: 1<<63 - 1}, {Policy: "a", Units: -5}, {Units: 1}}
		},
	}
	for range 3 * len(fields) {
		_, err := turns.RoundTrip(request(t, t.Context()))
		require.NoError(t, err)
		record, err := store.rdb.HGetAll(t.Context(), turns.keysOf("http://api.example")[0]).Result()
		require.NoError(t, err)
		size := 0
		for field, value := range record {
			size += len(field) + len(value)
		}
		require.Less(t, size, 10<<10)
	}
	requireExpiry(t, store)
}

// BenchmarkTurns measures how much longer a request takes with a turn than without, in the
// median. To measure:
//
//	go test -C fleet -run '^$' -bench Turns -benchtime 20000x .
func BenchmarkTurns(b *testing.B) {
	for _, obeys := range []bool{true, false} {
		b.Run(fmt.Sprintf("ContextTimeoutEnabled %t", obeys), func(b *testing.B) { benchmarkTurns(b, obeys) })
	}
}

func benchmarkTurns(b *testing.B, obeys bool) {
	rdb := redis.NewClient(&redis.Options{Addr: startStore(b).addr, ContextTimeoutEnabled: obeys})
	defer rdb.Close()
	turns := &Turns{Redis: rdb, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return answer(200, "RateLimit-Policy", `"a";q=1000000;w=60`, "RateLimit", `"a";r=999999;t=60`), nil
	})}
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		_, err := turns.RoundTrip(request(b, b.Context()))
		took = append(took, time.Since(began))
		require.NoError(b, err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-99%")
}
