package adoption

import (
	"context"
	"errors"
	"math/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/provider"
	"github.com/envoyproxy/ratelimit/src/redis"
	"github.com/envoyproxy/ratelimit/src/server"
	ratelimitservice "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
	gostats "github.com/lyft/gostats"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/health"
)

// now is 20 s before the end of a minute, and 40 min 20 s before the end of an hour.
const now clock = 1795231180

type clock int64

func (c clock) UnixNow() int64 { return int64(c) }

// once provides one configuration.
type once struct{ config config.RateLimitConfig }

func (o once) ConfigUpdateEvent() <-chan provider.ConfigUpdateEvent {
	events := make(chan provider.ConfigUpdateEvent, 1)
	events <- o
	return events
}
func (once) Stop()                                      {}
func (o once) GetConfig() (config.RateLimitConfig, any) { return o.config, nil }

// newService starts the service of envoyproxy/ratelimit with its fixed windows in Redis.
func newService(t *testing.T) ratelimitservice.RateLimitServiceServer {
	t.Helper()
	t.Setenv("LIMIT_RESPONSE_HEADERS_ENABLED", "true")
	manager := stats.NewStatManager(gostats.NewStore(gostats.NewNullSink(), false), settings.NewSettings())
	limits := config.NewRateLimitConfigImpl([]config.RateLimitConfigToLoad{{Name: "api", ConfigYaml: &config.YamlRoot{
		Domain: "api",
		Descriptors: []config.YamlDescriptor{
			{Key: "ip", RateLimit: &config.YamlRateLimit{Name: "per-ip", RequestsPerUnit: 3, Unit: "minute"}},
			{Key: "user", RateLimit: &config.YamlRateLimit{RequestsPerUnit: 100, Unit: "hour"}},
			{Key: "route", RateLimit: &config.YamlRateLimit{RequestsPerUnit: 50, Unit: "hour"}},
		},
	}}}, manager, false)
	server := miniredis.RunT(t)
	client := redis.NewClientImpl(manager.GetStatsStore(), false, "", "tcp", "single", server.Addr(), 1, 0, 0, nil, false, nil, time.Second, "WAIT", "")
	t.Cleanup(func() { _ = client.Close() })
	cache := redis.NewFixedRateLimitCacheImpl(client, nil, now, rand.New(rand.NewSource(1)), 0, nil, 0.8, "", manager, false)
	return ratelimitservice.NewService(cache, once{limits}, manager, newHealth(), now, false, false, false)
}

func newHealth() *server.HealthChecker {
	return server.NewHealthChecker(health.NewServer(), "ratelimit", false)
}

func ask(t *testing.T, s ratelimitservice.RateLimitServiceServer, keys ...string) *pb.RateLimitResponse {
	t.Helper()
	request := &pb.RateLimitRequest{Domain: "api"}
	for _, key := range keys {
		request.Descriptors = append(request.Descriptors, &common.RateLimitDescriptor{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: "x"}},
		})
	}
	response, err := s.ShouldRateLimit(context.Background(), request)
	require.NoError(t, err)
	return response
}

func header(headers []*core.HeaderValue) http.Header {
	h := http.Header{}
	for _, field := range headers {
		h.Add(field.Key, field.Value)
	}
	return h
}

// The service announces only one limit of a request. The fields announce all of them.
func TestFields(t *testing.T) {
	s := newService(t)
	for _, row := range []struct {
		name, policies, limits string
		keys                   []string
		code                   pb.RateLimitResponse_Code
		triple                 [3]string // of the service: limit, remaining, reset
	}{
		{"three limits", `"per-ip";q=3;w=60, "hour";q=100;w=3600, "hour-2";q=50;w=3600`, `"per-ip";r=2;t=20, "hour";r=99;t=2420, "hour-2";r=49;t=2420`, []string{"ip", "user", "route"}, pb.RateLimitResponse_OK, [3]string{"3", "2", "20"}},
		{"no limit matches one descriptor", `"hour";q=100;w=3600`, `"hour";r=98;t=2420`, []string{"unknown", "user"}, pb.RateLimitResponse_OK, [3]string{"100", "98", "2420"}},
		{"no limit matches", ``, ``, []string{"unknown"}, pb.RateLimitResponse_OK, [3]string{}},
		{"the second of three", `"per-ip";q=3;w=60`, `"per-ip";r=1;t=20`, []string{"ip"}, pb.RateLimitResponse_OK, [3]string{"3", "1", "20"}},
		{"the last", `"per-ip";q=3;w=60`, `"per-ip";r=0;t=20`, []string{"ip"}, pb.RateLimitResponse_OK, [3]string{"3", "0", "20"}},
		{"refused by one of two", `"per-ip";q=3;w=60, "hour";q=100;w=3600`, `"per-ip";r=0;t=20, "hour";r=97;t=2420`, []string{"ip", "user"}, pb.RateLimitResponse_OVER_LIMIT, [3]string{"3", "0", "20"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			response := ask(t, s, row.keys...)
			require.Equal(t, row.code, response.OverallCode)
			h := header(response.ResponseHeadersToAdd)
			require.Equal(t, row.triple, [3]string{h.Get("RateLimit-Limit"), h.Get("RateLimit-Remaining"), h.Get("RateLimit-Reset")})

			fields, err := rateLimitFields(response.Statuses)
			require.NoError(t, err)
			h = header(fields)
			require.Equal(t, []string{row.policies, row.limits}, []string{h.Get("RateLimit-Policy"), h.Get("RateLimit")})
			resp := &http.Response{StatusCode: http.StatusOK, Header: h}
			require.Empty(t, ratelimittest.Check(resp))
			if row.code == pb.RateLimitResponse_OVER_LIMIT {
				resp.StatusCode = http.StatusTooManyRequests
				advice := ratelimit.Advise(resp, time.Unix(int64(now), 0))
				require.Equal(t, 20*time.Second, advice.Wait)
			}
		})
	}
}

// If the fields cannot express a name, the result is an error, and all headers stay complete.
func TestFieldsName(t *testing.T) {
	_, err := rateLimitFields([]*pb.RateLimitResponse_DescriptorStatus{{CurrentLimit: &pb.RateLimitResponse_RateLimit{
		Name: "zürich", RequestsPerUnit: 1, Unit: pb.RateLimitResponse_RateLimit_SECOND,
	}}})
	require.Error(t, err)
}

// TestPatch applies the patch to the service and compiles it. The patch adds fields.go as it is.
func TestPatch(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	patch, err := filepath.Abs("envoyproxy-ratelimit.patch")
	require.NoError(t, err)
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		command := exec.Command(name, args...)
		command.Dir = dir
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	source, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/ratelimit").Output()
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(source)))))
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chmod(path, 0o755)) // files of the module cache are read-only
	}))
	run("git", "apply", patch)
	ours, err := os.ReadFile("fields.go")
	require.NoError(t, err)
	theirs, err := os.ReadFile(filepath.Join(dir, "src/service/fields.go"))
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(ours), "package adoption\n")
	require.Equal(t, "package ratelimit\n"+code, string(theirs))
	run("go", "mod", "edit", "-require=github.com/httpfields/ratelimit@v0.0.0", "-replace=github.com/httpfields/ratelimit="+root)
	run("go", "build", "-mod=mod", "./src/service")
	lines, err := os.ReadFile(patch)
	require.NoError(t, err)
	changed := regexp.MustCompile(`(?m)^[+-]`).FindAll(lines, -1)
	require.Len(t, changed, 59+4, "with two lines for each file's name")
}
