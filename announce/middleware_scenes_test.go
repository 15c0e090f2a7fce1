package announce_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/internal/laws"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// written expands the abbreviations of these tables. In "X-RateLimit-*: 10, 4, 9" the numbers
// are Limit, Remaining and Reset. The line "limits: burst 4/10 w=60 t=9, daily -/100" becomes
// RateLimit-Policy and RateLimit. It has what remains of each quota, and a dash for an absent
// number.
func written(text string) string {
	text = triple.ReplaceAllString(text, "$1-Limit: $2\n$1-Remaining: $3\n$1-Reset: $4")
	return current.ReplaceAllStringFunc(text, func(line string) string {
		policies, limits := bothFields(strings.TrimPrefix(line, "limits: "))
		return ratelimit.PolicyField + ": " + policies + "\n" + ratelimit.LimitField + ": " + limits
	})
}

var (
	triple  = regexp.MustCompile(`(\S+)-\*: (\S+), (\S+), (\S+)`)
	current = regexp.MustCompile(`limits: .*`)
)

// bothFields returns the values of the two fields.
func bothFields(text string) (policies, limits string) {
	var ps, ls []string
	for member := range strings.SplitSeq(text, ", ") {
		words := strings.Fields(member)
		left, quota, _ := strings.Cut(words[1], "/")
		p, l := `"`+words[0]+`";q=`+quota, `"`+words[0]+`";r=`+left
		for _, word := range words[2:] {
			if word[0] == 'w' {
				p += ";" + word
			} else {
				l += ";" + word
			}
		}
		if quota != "-" {
			ps = append(ps, p)
		}
		if left != "-" {
			ls = append(ls, l)
		}
	}
	return strings.Join(ps, ", "), strings.Join(ls, ", ")
}

// A scene is a request that passes one or more limiters, and a proxy behind them if there is
// an upstream, together with its result. It is a case of testdata/middleware.
type scene struct {
	before   string // the header before the first handler
	handlers []handlerMaker
	limiters []*level // the Middlewares among the handlers; the outermost is first
	upstream string
	proxied  bool
	tries    string // how the proxy's Transport sends the request
	status   int
	answer   string
	breaks   []string // the rules that Check finds broken
	hears    []string // the faults for which OnError or OnFault is called

	faults      []error // the faults for which they were called
	failed      bool    // OnError was called
	taken, done int     // how many Take and Done functions were called
	closed      bool    // OnError responds
}

// A level is a Middleware of a scene.
type level struct {
	announce.Middleware
	decision announce.Decision
	err      error // the result of Take
}

var acme = laws.MustDialect("acme", ratelimit.DialectField{Name: "Acme-Allowed", Role: ratelimit.RoleQuota}, ratelimit.DialectField{Name: "Acme-Still", Role: ratelimit.RoleRemaining},
	ratelimit.DialectField{Name: "Acme-In", Role: ratelimit.RoleReset, Format: ratelimit.TimeSeconds})

// readScene reads a scene. Its parts begin with lines such as `> limiter, refuses burst,
// writes x-ratelimit`. Header lines follow.
func readScene(t testing.TB, text string) (s scene) {
	t.Helper()
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "> "), "\n> ") {
		head, body, _ := strings.Cut(part, "\n")
		head, more, clauses := strings.Cut(head, ", ")
		words := strings.Fields(head)
		require.True(t, !clauses || words[0] == "limiter" || words[0] == "upstream" || words[0] == "answer", head)
		switch words[0] {
		case "before":
			s.before = body
		case "limiter":
			l := readLevel(t, more, body)
			s.limiters, s.handlers = append(s.limiters, l), append(s.handlers, l)
		case "problem": // of the last limiter
			p := new(ratelimit.Problem)
			require.NoError(t, p.UnmarshalJSON([]byte(body)))
			if len(words) > 1 { // with a member that cannot be written
				p.Extensions = map[string]json.RawMessage{words[2]: json.RawMessage(words[3])}
			}
			s.limiters[len(s.limiters)-1].decision.Problem = p
		case "upstream":
			s.upstream, s.proxied, s.tries = body, true, more
			require.True(t, !clauses || tries[more] != nil, more)
		case "answer":
			var err error
			s.status, err = strconv.Atoi(words[1])
			require.NoError(t, err)
			s.answer = body
			if clauses {
				rules, ok := strings.CutPrefix(more, "breaks ")
				require.True(t, ok, more)
				s.breaks = strings.Fields(rules)
			}
		case "sets": // a handler that sets these fields itself
			s.handlers = append(s.handlers, setter(body))
		case "hears":
			require.Empty(t, body, head)
			s.hears = append(s.hears, words[1])
		default:
			require.Contains(t, between, head)
			require.Empty(t, body, head)
			s.handlers = append(s.handlers, between[head])
		}
	}
	return s
}

// readLevel reads the text after `> limiter, `, and the fields.
func readLevel(t testing.TB, clauses, body string) *level {
	t.Helper()
	h := trial.Wire(written(body))
	l := &level{decision: announce.Decision{Fields: laws.FieldsOf(h.Get(ratelimit.PolicyField), h.Get(ratelimit.LimitField))}}
	for clause := range strings.SplitSeq(clauses, ", ") {
		verb, names, _ := strings.Cut(clause, " ")
		switch verb {
		case "down":
			l.err = errDown
		case "refuses":
			l.decision.Violated = strings.Fields(names)
		case "writes":
			for name := range strings.FieldsSeq(names) {
				d, ok := ratelimit.LookupDialect(name)
				if !ok {
					require.Equal(t, acme.Name(), name)
					d = acme
				}
				l.Dialects = append(l.Dialects, d)
			}
		default:
			require.Empty(t, clause, "no clause of a limiter")
		}
	}
	return l
}

// A handlerMaker makes a handler around another, as a Middleware does.
type handlerMaker interface {
	Handler(next http.Handler) http.Handler
}

type constructor func(next http.Handler) http.Handler

func (c constructor) Handler(next http.Handler) http.Handler { return c(next) }

// setting sets a field of the response.
func setting(name, value string) constructor {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(name, value)
			next.ServeHTTP(w, r)
		})
	}
}

// setter sets fields of the response when it is called, as limiter libraries do.
func setter(fields string) constructor {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			maps.Copy(w.Header(), trial.Wire(written(fields)))
			next.ServeHTTP(w, r)
		})
	}
}

// between has the other handlers of a scene.
var between = map[string]constructor{
	"cors":      setting("Access-Control-Allow-Origin", "*"),
	"documents": setting("X-RateLimit-Docs", "https://a.example"),
	"timeout":   func(next http.Handler) http.Handler { return http.TimeoutHandler(next, time.Minute, "") },
	"deadline": func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	},
}

// tries are ways in which a proxy sends a request.
var tries = map[string]func(base http.RoundTripper, r *http.Request) (*http.Response, error){
	"in time": func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		return base.RoundTrip(r.WithContext(ctx))
	},
	"never canceled": func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		return base.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	},
	"by an http.Client": func(base http.RoundTripper, r *http.Request) (*http.Response, error) {
		r.RequestURI = ""
		return (&http.Client{Transport: base, Timeout: time.Minute}).Do(r)
	},
	"down": func(http.RoundTripper, *http.Request) (*http.Response, error) { return nil, errDown },
}

// trying returns a Transport that sends requests in that way.
func trying(way string, base http.RoundTripper) http.RoundTripper {
	if tries[way] == nil {
		return base
	}
	return trial.RoundTripFunc(func(r *http.Request) (*http.Response, error) { return tries[way](base, r) })
}

// refusal returns the problem document of the response.
func (s *scene) refusal(t testing.TB) string {
	for _, l := range s.limiters {
		if violated := l.decision.Violated; violated != nil && l.err == nil {
			if p := l.decision.Problem; p != nil {
				b, err := (&ratelimit.Problem{Type: p.Type, Title: p.Title, Status: p.Status}).MarshalJSON()
				require.NoError(t, err)
				return string(b)
			}
			names, _ := json.Marshal(violated)
			return `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"violated-policies":` + string(names) + `}`
		}
	}
	return ""
}

// causes are the errors by the names that the scenes use.
var causes = map[string]error{
	"syntax": ratelimit.ErrSyntax, "type": ratelimit.ErrType, "missing": ratelimit.ErrMissing, "range": ratelimit.ErrRange,
	"duplicate": ratelimit.ErrDuplicate, "conflict": ratelimit.ErrConflict, "too-many": ratelimit.ErrTooMany, "down": errDown,
}

// handler makes the nested handlers of a scene.
func (s *scene) handler(t *testing.T, upstream *http.Response) http.Handler {
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.False(t, s.closed, "next was called")
		require.Zero(t, s.done, "the slot is taken")
		w.WriteHeader(http.StatusAccepted)
	})
	if s.proxied {
		proxy := proxyTo(upstream)
		proxy.Transport = trying(s.tries, proxy.Transport)
		next = proxy
	}
	for _, l := range s.limiters {
		l.decision.Done = func() { s.done++ }
		l.Take = func(*http.Request) (announce.Decision, error) { s.taken++; return l.decision, l.err }
		l.OnError = func(w http.ResponseWriter, r *http.Request, err error) bool {
			require.ErrorIs(t, err, errDown)
			require.NotNil(t, r)
			if s.faults, s.failed = append(s.faults, err), true; s.closed {
				http.Error(w, "closed", http.StatusServiceUnavailable)
			}
			return s.closed
		}
		l.OnFault = func(r *http.Request, err error) {
			require.NotErrorIs(t, err, errDown)
			require.NotContains(t, err.Error(), "\n")
			require.NotNil(t, r)
			s.faults = append(s.faults, err)
		}
	}
	for _, h := range slices.Backward(s.handlers) {
		next = h.Handler(next)
	}
	return next
}

// run plays a scene. It compares the response byte by byte, and checks whether the next
// handler is called.
func (s *scene) run(t *testing.T) {
	text := func(lines string) string { return written(trial.Spell(lines, time.Now())) }
	header, document := trial.Wire(text(s.answer)), s.refusal(t)
	if document != "" {
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Type", ratelimit.ProblemMediaType)
	}
	upstream := trial.ResponseOf(text(s.upstream))
	upstream.Header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	handler := s.handler(t, upstream)
	serve := func() *httptest.ResponseRecorder {
		s.faults, s.taken, s.done = nil, 0, 0
		w := served(handler, trial.Wire(text(s.before)))
		require.Equal(t, s.taken, s.done)
		require.Positive(t, s.done)
		require.Equal(t, len(s.hears) > 0, len(s.faults) > 0)
		return w
	}
	w := serve()
	s.requireAnswer(t, w, header, document)
	require.Len(t, s.faults, len(s.hears))
	for i, cause := range s.hears {
		require.NotNil(t, causes[cause], cause)
		require.ErrorIs(t, s.faults[i], causes[cause])
	}
	if s.proxied {
		s.requireNoLess(t, upstream, w.Result())
		return
	}
	for _, l := range s.limiters { // too late to have an effect
		clear(l.Dialects)
		l.OnError, l.OnFault, l.Take, l.Dialects = nil, nil, nil, nil
	}
	s.requireAnswer(t, serve(), header, document)
	if s.closed = s.failed; s.closed { // OnError responds instead of the next handler or the refusal
		w := serve()
		require.Equal(t, 503, w.Code)
		require.Equal(t, "closed\n", w.Body.String())
	}
}

func (s *scene) requireAnswer(t *testing.T, w *httptest.ResponseRecorder, header http.Header, document string) {
	t.Helper()
	require.Equal(t, s.status, w.Code)
	if s.proxied {
		require.Equal(t, header, limitFields(w.Header()))
		return
	}
	require.Equal(t, header, w.Header())
	require.Equal(t, sentDocument(document), w.Body.String())
	if len(s.limiters) > 1 {
		var broken []string
		for _, f := range ratelimittest.Check(w.Result()) {
			if f.Level > ratelimittest.LevelNote {
				broken = append(broken, f.Rule)
			}
		}
		require.Equal(t, s.breaks, broken)
	}
}

// requireNoLess checks that no client waits less than without the gateway, or less than the
// gateway asks for.
func (s *scene) requireNoLess(t *testing.T, upstream, answer *http.Response) {
	t.Helper()
	direct, through := ratelimit.Advise(upstream, time.Now()), ratelimit.Advise(answer, time.Now())
	require.GreaterOrEqual(t, through.Asked, direct.Asked)
	for _, l := range s.limiters {
		mine := laws.Asked(l.decision.Fields)
		require.GreaterOrEqual(t, through.Asked, mine.Wait)
		if upstream.Header.Get("Age") == "" {
			require.GreaterOrEqual(t, max(through.Pace, through.Asked), mine.Pace)
		}
	}
}

func runScenes(t *testing.T, table string) {
	for _, b := range trial.BlocksOf("testdata/middleware/" + table + ".txt") {
		trial.InBubble(t, b.Name, func(t *testing.T) {
			s := readScene(t, b.Text)
			s.run(t)
		})
	}
}
