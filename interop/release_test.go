package interop

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// The modules of the last commit are released to a proxy of files, fetched into an empty
// folder, and used as in a new project. The program at the beginning of README.md prints the output
// in README.md. The replace line in fleet/go.mod is only for this repository.
func TestRelease(t *testing.T) {
	released := module.Version{Path: "github.com/httpfields/ratelimit", Version: "v0.1.0"}
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	proxy := t.TempDir()
	tree := filepath.Join(t.TempDir(), "tree") // only committed files
	command(t, root, nil, "git", "clone", "--quiet", "--depth=1", "file://"+root, tree)
	publish(t, released, tree, proxy)
	fleet := module.Version{Path: released.Path + "/fleet", Version: released.Version}
	command(t, tree, nil, "go", "mod", "edit", "-dropreplace="+released.Path, "fleet/go.mod")
	publish(t, fleet, filepath.Join(tree, "fleet"), proxy)

	cache := strings.TrimSpace(command(t, root, nil, "go", "env", "GOMODCACHE"))
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + cache + "/cache/download," + strings.TrimSpace(command(t, root, nil, "go", "env", "GOPROXY")),
		"GONOSUMDB=" + released.Path, "GOFLAGS=-modcacherw", "GOWORK=off", "GOMODCACHE=" + t.TempDir(),
	}
	empty := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		return command(t, empty, env, "go", args...)
	}
	run("mod", "init", "example.com/newcomer")
	run("get", released.Path+"@"+released.Version)
	require.Equal(t, released.String()+"\n", strings.ReplaceAll(run("list", "-m", released.Path), " ", "@"))

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit-Policy", `"burst";q=100;w=60, "daily";q=1000;w=86400`)
		w.Header().Set("RateLimit", `"burst";r=37;t=12, "daily";r=990;t=80000`)
	}))
	defer server.Close()
	program := inReadme(t, "(?s)```go\n(package main\n.*?)```\n\n[^\n]*\n\n```\n(.*?)```")
	require.NoError(t, os.WriteFile(filepath.Join(empty, "main.go"), []byte(program[1]), 0o600))
	require.Equal(t, program[2], run("run", ".", server.URL))

	requireCommand(t, empty, append(env, "GOBIN="+filepath.Join(empty, "bin")), released)

	command(t, empty, append(env, "GOBIN="+filepath.Join(empty, "bin")), "go", "install", fleet.Path+"/cmd/ratelimit-fleet@"+fleet.Version)
	require.Contains(t, command(t, empty, env, filepath.Join(empty, "bin", "ratelimit-fleet"), "-h"), "\nExample:\n")
	run("get", fleet.Path+"@"+fleet.Version)
	require.Equal(t, fleet.String()+"\n", strings.ReplaceAll(run("list", "-m", fleet.Path), " ", "@"))
	run("build", fleet.Path)

	run("get", "-t", released.Path+"@"+released.Version)
	run("test", released.Path) // the released module passes its own tests without the nested modules
}

// requireCommand requires that the command can be installed into an empty folder and runs.
func requireCommand(t *testing.T, dir string, env []string, released module.Version) {
	t.Helper()
	command(t, dir, env, "go", "install", released.Path+"/cmd/ratelimit@"+released.Version)
	program := filepath.Join(dir, "bin", "ratelimit")
	require.Contains(t, command(t, dir, env, program, "version"), "ratelimit "+released.Version+"\n")
	capture := filepath.Join(dir, "capture.http")
	require.NoError(t, os.WriteFile(capture, []byte("HTTP/1.1 200 OK\r\nRateLimit: \"burst\";r=0;t=12\r\n\r\n"), 0o600))
	require.Contains(t, command(t, dir, env, program, "inspect", "-lint", capture), "Wait 12s (RateLimit \"burst\" is exhausted).\n")
}

// publish writes a version into the folder of the proxy.
func publish(t *testing.T, m module.Version, tree, proxy string) {
	t.Helper()
	dir := filepath.Join(proxy, m.Path, "@v")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	archive, err := os.Create(filepath.Join(dir, m.Version+".zip"))
	require.NoError(t, err)
	defer archive.Close()
	require.NoError(t, zip.CreateFromDir(archive, m, tree))
	mod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	require.NoError(t, err)
	for name, content := range map[string]string{
		m.Version + ".mod":  string(mod),
		m.Version + ".info": fmt.Sprintf(`{"Version":%q}`, m.Version),
		"list":              m.Version + "\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
}

func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s: %s%s", name, strings.Join(args, " "), stderr.String(), out)
	return string(out)
}

// README.md shows the actual output of the command.
func TestReadmeInspect(t *testing.T) {
	shown := inReadme(t, "(?s)```sh\ngo run (./cmd/ratelimit) (inspect) ([^\n]*)\n```\n\n```\n(.*?)```")
	require.Equal(t, shown[4], command(t, "..", nil, "go", append([]string{"run"}, shown[1:4]...)...))
}

// inReadme returns the parts of README.md that match a pattern.
func inReadme(t *testing.T, pattern string) []string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	found := regexp.MustCompile(pattern).FindStringSubmatch(string(readme))
	require.NotNil(t, found)
	return found
}
