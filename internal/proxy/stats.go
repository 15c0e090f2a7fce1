package proxy

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io/fs"
	"log"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// Bounds of the statistics.
const (
	maxKeys     = 1024
	maxPolicies = 16  // of a key
	maxName     = 128 // bytes of the name of a policy
)

// stats counts the requests of each key.
type stats struct {
	gate *obey.Gate // knows why requests wait
	seed maphash.Seed
	talk *log.Logger // nil is quiet

	mu    sync.Mutex
	keys  map[string]*keyStats
	turns uint64 // how often a key was used
}

// keyStats has the counters of one key, and its newest limits.
type keyStats struct {
	Key      string       `json:"key"`              // a hash
	Requests int64        `json:"requests"`         // received
	Refused  int64        `json:"refused"`          // by the server
	TooLate  int64        `json:"refused_by_proxy"` // because the wait or the queue was too long
	Waiting  int          `json:"waiting"`          // now
	Waited   float64      `json:"waited_seconds"`   // in total
	Rewrote  int64        `json:"rewritten"`        // references to the server in headers of responses
	Waits    []waitStats  `json:"waits,omitempty"`  // why the next request would wait
	Limits   []limitStats `json:"limits,omitempty"`

	used   uint64 // the value of turns at the last use of the key
	waited int    // requests that have begun to wait since the last time without a waiting request
	over   func() // is called when no request waits any more: see begun
}

// waitStats is the [obey.Wait] of a key, or of a part of a key.
type waitStats struct {
	Resource string    `json:"resource,omitempty"`
	Reason   string    `json:"reason"`
	Until    time.Time `json:"until,omitzero"` // zero if the time depends on the answer to another request
	Seconds  float64   `json:"seconds"`        // until then
	Queued   int       `json:"queued"`
	UnderWay int       `json:"under_way"`
}

// limitStats is the newest limit of one policy.
type limitStats struct {
	Policy    string  `json:"policy"`
	Remaining int64   `json:"remaining"`
	Quota     int64   `json:"quota,omitempty"`         // 0 if it is not known
	Reset     float64 `json:"reset_seconds,omitempty"` // from now; 0 if that is past or unknown

	End time.Time `json:"-"` // zero if the server has announced no reset
}

func newStats(gate *obey.Gate, talk *log.Logger) *stats {
	return &stats{gate: gate, talk: talk, keys: make(map[string]*keyStats), seed: maphash.MakeSeed()}
}

// of returns the statistics of a key, and makes them if the key has none. If there are too many keys,
// it drops the key that was used longest ago.
func (s *stats) of(key string) *keyStats {
	s.turns++
	k := s.keys[key]
	if k == nil {
		if len(s.keys) >= maxKeys {
			byUse := func(a, b string) int { return cmp.Compare(s.keys[a].used, s.keys[b].used) }
			delete(s.keys, slices.MinFunc(slices.Collect(maps.Keys(s.keys)), byUse))
		}
		k = &keyStats{Key: fmt.Sprintf("%016x", maphash.String(s.seed, key))}
		s.keys[key] = k
	}
	k.used = s.turns
	return k
}

func (s *stats) update(key string, change func(*keyStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.of(key))
}

// wait counts a request that begins to wait. Call end when the wait ends.
func (s *stats) wait(key string) (end func()) {
	began := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.of(key)
	if k.Waiting == 0 {
		k.waited, k.over = 0, s.begun(key, k)
	}
	k.Waiting++
	k.waited++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		k.Waiting--
		k.Waited += time.Since(began).Seconds()
		if k.Waiting == 0 {
			k.over()
		}
	}
}

// observe keeps the limits that the server announces.
func (s *stats) observe(key string, a ratelimit.Advice, now time.Time) {
	limits := limitsOf(a.Fields, now)
	s.update(key, func(k *keyStats) {
		if a.Refused {
			k.Refused++
		}
		if len(limits) > 0 {
			k.Limits = limits
		}
	})
}

// limitsOf returns the tightest limit of each name.
func limitsOf(f ratelimit.Fields, now time.Time) (list []limitStats) {
	for l, p := range f.Pairs() {
		if l.Remaining == ratelimit.Unknown {
			continue
		}
		next := limitStats{Policy: strings.Clone(l.Name[:min(len(l.Name), maxName)]), Remaining: l.Remaining, Quota: max(p.Quota, 0)}
		if d, ok := l.Reset.Duration(); ok {
			next.End = now.Add(d)
		}
		i := slices.IndexFunc(list, func(other limitStats) bool { return other.Policy == next.Policy })
		switch {
		case i < 0 && len(list) < maxPolicies:
			list = append(list, next)
		case i >= 0 && next.Remaining < list[i].Remaining:
			list[i] = next
		}
	}
	return list
}

// snapshot returns a copy of the statistics of all keys, in the order of the keys.
func (s *stats) snapshot(now time.Time) []keyStats {
	waits := s.waits(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]keyStats, 0, len(s.keys))
	for key, k := range s.keys {
		c := *k
		c.Waited = rounded(c.Waited)
		c.Waits = waits[key]
		c.Limits = slices.Clone(k.Limits)
		for i := range c.Limits {
			c.Limits[i].Reset = rounded(max(c.Limits[i].End.Sub(now), 0).Seconds())
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b keyStats) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// waits returns why requests of each key would wait.
func (s *stats) waits(now time.Time) map[string][]waitStats {
	all := make(map[string][]waitStats)
	for name := range s.gate.Keys() {
		if w, ok := s.gate.State(name); ok && string(w.Reason) != "" {
			key, resource, _ := strings.Cut(name, " ")
			all[key] = append(all[key], waitStats{
				Resource: resource, Reason: string(w.Reason), Queued: w.Queued, UnderWay: w.UnderWay,
				Until: w.Until.Round(time.Millisecond).UTC(), Seconds: rounded(max(w.Until.Sub(now), 0).Seconds()),
			})
		}
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b waitStats) int { return cmp.Compare(a.Resource, b.Resource) })
	}
	return all
}

// rounded rounds seconds to milliseconds.
func rounded(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }

// Admin returns the handler of the page, /metrics and /state.
func (p *Proxy) Admin() http.Handler {
	s := p.stats
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = metrics.Execute(w, s.snapshot(time.Now()))
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": s.snapshot(time.Now())})
	})
	files, _ := fs.Sub(page, "page") // the program contains the folder
	mux.Handle("GET /", http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", pagePolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

// page is the page of -admin: the limits of each key, how many requests wait, and why.
//
//go:embed page
var page embed.FS

// pagePolicy lets the page load nothing from elsewhere, and no other page embed it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// metrics writes a list of keys in the text format of Prometheus.
var metrics = template.Must(template.New("metrics").Funcs(template.FuncMap{"label": labelOf}).Parse(metricsText))

//go:embed metrics.txt
var metricsText string

// labelOf returns a text as the value of a label. Prometheus rejects all metrics if one label is
// not UTF-8, and a server may send any byte.
func labelOf(text string) string {
	if !utf8.ValidString(text) {
		text = strconv.QuoteToASCII(text)
		text = text[1 : len(text)-1]
	}
	return labelEscapes.Replace(text)
}

// labelEscapes are the escapes of labels in the text format.
var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
