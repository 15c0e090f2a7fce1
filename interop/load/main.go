// Load measures what a request costs in ratelimit proxy, in httputil.ReverseProxy alone, and in
// nginx if it is installed. It prints the CPU time of the process for each request, and its
// memory and its file descriptors at the end. It needs Linux.
//
//	go run -C interop ./load -for 60s -c 50,500
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "plain" {
		plain(os.Args[2])
		return
	}
	lasts := flag.Duration("for", 60*time.Second, "how long each measurement lasts")
	counts := flag.String("c", "50,500", "how many connections, in a list with commas")
	flag.Parse()
	if err := run(*lasts, strings.Split(*counts, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// plain is httputil.ReverseProxy alone, as a program.
func plain(to string) {
	target, err := url.Parse(to)
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("listening on http://%s\n", l.Addr())
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DisableCompression, base.MaxIdleConns, base.MaxIdleConnsPerHost = true, 0, 1024
	_ = http.Serve(l, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: base})
}

// upstream is the server behind the proxies.
var upstream http.Server

func run(lasts time.Duration, counts []string) error {
	dir, err := os.MkdirTemp("", "load")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	upstream.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit-Policy", `"minute";q=100000000;w=60`)
		w.Header().Set("RateLimit", `"minute";r=99999999;t=60`)
		_, _ = io.WriteString(w, "hello")
	})
	go upstream.Serve(server)
	to := "http://" + server.Addr().String()
	program := filepath.Join(dir, "ratelimit")
	if out, err := exec.Command("go", "build", "-C", "..", "-o", program, "./cmd/ratelimit").CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %s", err, out)
	}
	commands := map[string]*exec.Cmd{
		"httputil.ReverseProxy": exec.Command(os.Args[0], "plain", to),
		"ratelimit proxy":       exec.Command(program, "proxy", "-quiet", "-to", to, "-listen", "127.0.0.1:0"),
	}
	fmt.Println("| proxy | connections | requests/s | CPU of a request | memory halfway and at the end | file descriptors before and after |\n|---|---|---|---|---|---|")
	for _, count := range counts {
		n, err := strconv.Atoi(count)
		if err != nil {
			return err
		}
		for _, name := range []string{"httputil.ReverseProxy", "ratelimit proxy"} {
			c := commands[name]
			if err := measure(name, exec.Command(c.Path, c.Args[1:]...), n, lasts); err != nil {
				return err
			}
		}
		if err := measureNginx(dir, to, n, lasts); err != nil {
			return err
		}
	}
	return nil
}

func measure(name string, cmd *exec.Cmd, n int, lasts time.Duration) error {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	return drive(name, strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), []int{cmd.Process.Pid}, n, lasts)
}

func measureNginx(dir, to string, n int, lasts time.Duration) error {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	l.Close()
	config := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log stderr crit;
events { worker_connections 4096; }
http { access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
upstream u { server %[2]s; keepalive 1024; }
server { listen %[3]s; keepalive_requests 1000000000; location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; } } }`,
		dir, strings.TrimPrefix(to, "http://"), address)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(path, "-c", file, "-p", dir)
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for range 500 {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return drive("nginx, one process", "http://"+address, []int{cmd.Process.Pid}, n, lasts)
}

// drive sends requests through a proxy, and prints what its processes have used.
func drive(name, address string, pids []int, n int, lasts time.Duration) error {
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	client := &http.Client{Transport: transport}
	if resp, err := client.Get(address); err != nil {
		return err
	} else {
		resp.Body.Close()
	}
	transport.CloseIdleConnections()
	time.Sleep(200 * time.Millisecond)
	files := descriptors(pids[0])
	cpu := used(pids[0])
	var sent, failed atomic.Int64
	var all sync.WaitGroup
	var halfway atomic.Int64
	time.AfterFunc(lasts/2, func() { halfway.Store(resident(pids[0])) })
	end := time.Now().Add(lasts)
	for range n {
		all.Go(func() {
			for time.Now().Before(end) {
				resp, err := client.Get(address)
				if err != nil {
					failed.Add(1)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					failed.Add(1)
				}
				sent.Add(1)
			}
		})
	}
	all.Wait()
	cpu = used(pids[0]) - cpu
	memory := resident(pids[0])
	transport.CloseIdleConnections()
	upstream.SetKeepAlivesEnabled(false) // closes those that are idle
	time.Sleep(2 * time.Second)
	upstream.SetKeepAlivesEnabled(true)
	fmt.Printf("| %s | %d | %.0f | %.1f µs | %d, %d MiB | %d, %d |\n", name, n,
		float64(sent.Load())/lasts.Seconds(), cpu.Seconds()*1e6/float64(sent.Load()), halfway.Load()>>20, memory>>20, files, descriptors(pids[0]))
	if failed.Load() > 0 {
		return fmt.Errorf("%s: %d requests failed", name, failed.Load())
	}
	return nil
}

// used returns the CPU time of a process so far.
func used(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / 100
}

// resident returns the memory of a process.
func resident(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

func descriptors(pid int) int {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(entries)
}
