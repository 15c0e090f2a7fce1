package ratelimittest

import (
	"cmp"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/laws"
	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/httpfields/ratelimit/obey"
)

type (
	// A sequenceVector has the responses of a server to one client, and the time at which an
	// obedient client may send its next request. If the time is absent, the vector is about
	// the findings of a Sequence.
	sequenceVector struct {
		Name      string           `json:"name"`
		Began     time.Time        `json:"began"` // times count from then
		Alone     bool             `json:"alone,omitempty"`
		Exchanges []exchangeVector `json:"exchanges"`      // in the order in which the responses arrived
		Next      *int64           `json:"next,omitempty"` // in milliseconds
	}
	// An exchangeVector is a request and its response. The response is absent if it was lost
	// or has not arrived yet. Times are in milliseconds.
	exchangeVector struct {
		Sent     int64    `json:"sent"`
		Received *int64   `json:"received,omitempty"`
		Status   int      `json:"status,omitempty"`
		Header   []string `json:"header,omitempty"`
	}
	sequenceFinding struct {
		Exchange int `json:"exchange"` // index of the exchange that shows the finding
		lintFinding
	}
)

// exchangeOf returns the exchange of a request and a response in wire text.
func exchangeOf(sent, received int64, text string) exchangeVector {
	v := trial.ResponseVectorOf("", text, time.Time{})
	return exchangeVector{sent, &received, v.Status, v.Header}
}

// response returns the response, or nil if there is none.
func (x *exchangeVector) response() *http.Response {
	if x.Received == nil {
		return nil
	}
	return (&trial.ResponseVector{Status: x.Status, Header: x.Header}).Response()
}

func (v *sequenceVector) at(ms int64) time.Time {
	return v.Began.Add(time.Duration(ms) * time.Millisecond)
}

// findings returns the findings of a Sequence for the exchanges.
func (v *sequenceVector) findings() []sequenceFinding {
	list := []sequenceFinding{}
	s := &Sequence{Alone: v.Alone}
	for i := range v.Exchanges {
		x := &v.Exchanges[i]
		received := x.Sent + 2000 // when a client gives up
		if x.Received != nil {
			received = *x.Received
		}
		for _, f := range s.Add(x.response(), v.at(x.Sent), v.at(received)) {
			list = append(list, sequenceFinding{i, lintFindingOf(f)})
		}
	}
	return list
}

// next returns when a Gate permits the next request after the exchanges.
func (v *sequenceVector) next(t *testing.T) int64 {
	type event struct {
		at int64
		do func()
	}
	var g obey.Gate
	var events []event
	passes := make([]*obey.Pass, len(v.Exchanges))
	for i := range v.Exchanges {
		x := &v.Exchanges[i]
		events = append(events, event{x.Sent, func() {
			var until time.Time
			passes[i], until = g.TryEnter("server")
			require.NotNil(t, passes[i], "exchange %d is sent too early: %v", i, until.Sub(v.Began))
		}})
		if resp := x.response(); resp != nil {
			events = append(events, event{*x.Received, func() {
				passes[i].Answered(ratelimit.Advise(resp, time.Now()), time.Now())
			}})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	time.Sleep(time.Until(v.Began))
	for _, e := range events {
		time.Sleep(time.Until(v.at(e.at)))
		e.do()
	}
	for {
		pass, until := g.TryEnter("server")
		if pass != nil {
			return time.Since(v.Began).Milliseconds()
		}
		time.Sleep(time.Until(until))
	}
}

// TestVectors fails if the files of vectors differ from the tables of the tests.
func TestVectors(t *testing.T) {
	lintVectors(t)
	sequenceVectors(t)
}

// Check names the rules that the vectors of malformed fields name.
func TestVectorRules(t *testing.T) {
	for kind, key := range map[string]string{"policies": draft.PolicyKey, "limits": draft.LimitKey} {
		checked := 0
		for _, v := range trial.ReadVectors[struct {
			Name  string
			Lines []string
			Error *struct{ Rule string }
		}](t, kind) {
			if v.Error != nil {
				findings := Check(&http.Response{Header: http.Header{key: trial.BytesOf(v.Lines)}})
				require.Equal(t, v.Error.Rule, findings[0].Rule, v.Name)
				checked++
			}
		}
		require.Greater(t, checked, 10, kind)
	}
}

// found is the result of a vector.
type found struct {
	Findings any `json:"findings,omitempty"`
}

// A lintFinding is a Finding in a vector.
type lintFinding struct {
	Rule  string `json:"rule"`
	Level string `json:"level"`
	Field string `json:"field"`
	Item  *int64 `json:"item,omitempty"`
}

func lintFindingOf(f Finding) lintFinding {
	out := lintFinding{Rule: f.Rule, Level: f.Level.String(), Field: f.Field}
	if item := int64(f.Item); item >= 0 {
		out.Item = &item
	}
	return out
}

func lintVectors(t *testing.T) {
	var list []trial.ResponseVector
	for _, tc := range slices.Concat(lintCases, draftExamples) {
		if !strings.HasPrefix(tc.name, "D8") { // the next draft has its own file
			list = append(list, trial.ResponseVectorOf(tc.name, tc.wire, time.Time{}))
		}
	}
	about := "responses, and the rules of CONFORMANCE.md that they break"
	trial.CheckVectors(t, "lint", about, list, func(v trial.ResponseVector) found {
		findings := []lintFinding{}
		for _, f := range Check(v.Response()) {
			findings = append(findings, lintFindingOf(f))
		}
		return found{findings}
	})
}

func sequenceVectors(t *testing.T) {
	list := honestSequences(t)
	for _, f := range faults() {
		v := sequenceVector{Name: "a fault: " + f.name, Began: trial.Arrival, Alone: true}
		for i := range f.n {
			ms := int64(float64(i)*f.every*1000 + 0.5)
			v.Exchanges = append(v.Exchanges, exchangeOf(ms, ms+10, f.serve(i, float64(ms)/1000)))
			shows := func(found sequenceFinding) bool {
				return found.Rule == f.rule.id && found.Level == f.alone.String()
			}
			if slices.ContainsFunc(v.findings(), shows) {
				break
			}
		}
		require.NotEmpty(t, v.findings(), f.name)
		list = append(list, v)
		if f.rule == ruleEarly { // other findings explain it
			v.Name, v.Alone = "not alone: "+f.name, false
			list = append(list, v)
		}
	}
	for _, tc := range trial.Rows("testdata/clients.txt") {
		next, err := strconv.ParseInt(tc.Want, 10, 64)
		require.NoError(t, err, tc.Name)
		v := sequenceVector{Name: "a client: " + tc.Name, Began: trial.Arrival, Next: &next}
		for line := range strings.Lines(tc.Wire) {
			v.Exchanges = append(v.Exchanges, parseExchange(t, strings.TrimSpace(line)))
		}
		list = append(list, v)
	}
	shown := map[string]bool{} // the rules that the vectors show
	about := "the responses of a server to one client, with their faults or the time of the next request"
	trial.CheckVectors(t, "sequences", about, list, func(v sequenceVector) found {
		if v.Next != nil {
			synctest.Test(t, func(t *testing.T) { require.Equal(t, *v.Next, v.next(t)) })
			return found{}
		}
		findings := v.findings()
		for _, f := range findings {
			shown[f.Rule] = true
		}
		return found{findings}
	})
	for _, r := range sequenceRules {
		require.True(t, shown[r.id], "no vector breaks %s", r.id)
	}
}

// parseExchange reads a line of testdata/clients.txt.
func parseExchange(t *testing.T, line string) exchangeVector {
	words := strings.SplitN(line, " ", 3)
	sent, err := strconv.ParseInt(words[0], 10, 64)
	require.NoError(t, err)
	if words[1] == "-" {
		return exchangeVector{Sent: sent}
	}
	received, err := strconv.ParseInt(words[1], 10, 64)
	require.NoError(t, err)
	return exchangeOf(sent, received, strings.ReplaceAll(words[2], " | ", "\n"))
}

// honestSequences returns the responses of honest servers to a client that ignores all limits
// and sends two requests a second. One response is lost.
func honestSequences(t *testing.T) (list []sequenceVector) {
	for _, server := range []struct {
		name     string
		limiters []laws.Limiter
	}{
		{"a fixed window", []laws.Limiter{&laws.Fixed{Name: "a", Quota: 5, Window: 5 * time.Second}}},
		{"a sliding log", []laws.Limiter{&laws.Sliding{Name: "a", Quota: 5, Window: 4 * time.Second}}},
		{"a token bucket", []laws.Limiter{&laws.Pail{Name: "a", Burst: 3, PerSecond: 0.5}}},
		{"two windows", []laws.Limiter{&laws.Fixed{Name: "a", Quota: 3, Window: 3 * time.Second}, &laws.Fixed{Name: "b", Quota: 7, Window: 60 * time.Second}}},
	} {
		v := sequenceVector{Name: "honest: " + server.name, Began: trial.Arrival, Alone: true}
		synctest.Test(t, func(t *testing.T) {
			h := laws.Host{Form: "current", Limiters: server.limiters}
			for i := range int64(12) {
				time.Sleep(time.Until(v.at(500 * i)))
				resp := h.Serve(0)
				text := "RateLimit-Policy: " + resp.Header.Get(ratelimit.PolicyField) + "\nRateLimit: " + resp.Header.Get(ratelimit.LimitField)
				if resp.StatusCode == http.StatusTooManyRequests {
					text = status429 + text
				}
				x := exchangeOf(500*i, 500*i+10, text)
				if i == 2 {
					x = exchangeVector{Sent: x.Sent}
				}
				v.Exchanges = append(v.Exchanges, x)
			}
		})
		require.Empty(t, v.findings(), server.name)
		list = append(list, v)
	}
	return list
}

// A seeds keeps what a fuzz target would get.
type seeds []string

func (s *seeds) Add(args ...any) { *s = append(*s, args[0].(string)) }

// AddLines adds the lines of all files, without names of fields, as bytes, and each once.
func TestAddLines(t *testing.T) {
	var got seeds
	AddLines(&got)
	unique := slices.Compact(slices.Sorted(slices.Values(got)))
	require.Len(t, unique, len(got))
	require.Greater(t, len(got), 1000)
	for _, line := range []string{
		`"a\"b\\c";r=1`,                 // limits.json
		`"a";q=3;w=3, "b";q=7;w=60`,     // sequences.json
		"10;window=1;w=1",               // legacy.json, behind RateLimit-Limit
		"Sat, 21 Nov 2026 23:59:60 GMT", // retry-after.json
	} {
		require.Contains(t, got, line)
	}
}

// Vectors has every file of the folder.
func TestVectorFiles(t *testing.T) {
	require.NoError(t, fstest.TestFS(Vectors(), "README.md", "schema.json", "limits.json", "sequences.json", "structured-fields/list.json"))
	want, err := os.ReadFile("vectors/limits.json")
	require.NoError(t, err)
	got, err := fs.ReadFile(Vectors(), "limits.json")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
