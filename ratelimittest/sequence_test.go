package ratelimittest

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/laws"
	"github.com/httpfields/ratelimit/internal/limiters"
	"github.com/httpfields/ratelimit/internal/trial"
)

// A faulty server breaks a rule. It gets requests at regular times.
type faulty struct {
	name  string
	rule  *rule
	alone Level   // of the finding, for a client that is alone
	other Level   // and for one that is not
	every float64 // seconds
	n     int     // requests
	// serve answers request i, which is sent s seconds after the first request.
	serve func(i int, s float64) string
}

// say writes the current fields of a policy.
func say(policy, limit string, args ...any) string {
	return "RateLimit-Policy: \"a\";" + policy + "\nRateLimit: \"a\";" + fmt.Sprintf(limit, args...) + "\n"
}

const (
	status429 = "HTTP/1.1 429 Too Many Requests\n"
	status500 = "HTTP/1.1 500 Internal Server Error\n"
	status503 = "HTTP/1.1 503 Service Unavailable\n"
)

// always returns a server with one answer.
func always(answer string) func(int, float64) string {
	return func(int, float64) string { return answer }
}

// windows returns a server with a fixed window. say writes what the server announces.
func windows(quota int, window float64, say func(left int, reset float64) string) func(int, float64) string {
	used, end := 0, 0.0
	return func(_ int, s float64) string {
		if s >= end {
			used, end = 0, s+window
		}
		if used++; used > quota {
			return status429 + say(0, end-s)
		}
		return say(quota-used, end-s)
	}
}

// none is the level of a rule that is not reported.
const none = Level(-1)

// faults returns a new server for each rule. The server breaks the rule.
func faults() []faulty {
	return []faulty{
		{"what remains is always the same", modelRules[limiters.Spent], LevelShould, LevelNote, 0.2, 30,
			func(_ int, s float64) string { return say("q=100;w=60", "r=50;t=%d", 60-int(s)) }},
		{"nothing is ever spent, and no time passes", modelRules[limiters.Spent], LevelShould, LevelNote, 0.2, 30,
			always(say("q=1000;w=60", "r=1000;t=60"))},
		{"older fields that never change", modelRules[limiters.Spent], LevelShould, LevelNote, 0.2, 30,
			always("X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 100\nX-RateLimit-Reset: 60\n")},
		{"some cost two", modelRules[limiters.Uneven], LevelNote, LevelNote, 0.2, 20,
			func(i int, s float64) string { return say("q=100;w=60", "r=%d;t=%d", 99-i-i/3, 60-int(s)) }},
		{"every request costs two", modelRules[limiters.Double], LevelShould, LevelNote, 0.2, 20,
			func(i int, s float64) string { return say("q=100;w=60", "r=%d;t=%d", 98-2*i, 60-int(s)) }},
		{"the reset is always a third of the window", modelRules[limiters.Clock], LevelShould, LevelNote, 0.5, 40,
			func(i int, _ float64) string { return say("q=50;w=60", "r=%d;t=20", 49-i) }},
		{"the reset is in milliseconds", modelRules[limiters.Unit], LevelShould, LevelNote, 0.2, 30,
			func(i int, s float64) string { return say("q=100;w=60", "r=%d;t=%d", 99-i, int(60000-1000*s)) }},
		{"the reset of draft-06 is in milliseconds", modelRules[limiters.Unit], LevelShould, LevelShould, 0.2, 1,
			always("RateLimit-Policy: 10;w=60\nRateLimit-Limit: 10\nRateLimit-Remaining: 9\nRateLimit-Reset: 60000\n")},
		{"the window is twice as long", modelRules[limiters.Window], LevelShould, LevelNote, 0.2, 30,
			func(i int, s float64) string { return say("q=100;w=60", "r=%d;t=%d", 99-i, 120-int(s)) }},
		{"the reset is a Unix time", ruleUnixTime, LevelShould, LevelShould, 0.2, 1,
			always(say("q=100;w=60", "r=99;t=%d", trial.Arrival.Unix()+60))},
		{"the reset is a Unix time in milliseconds", ruleUnixTime, LevelShould, LevelShould, 0.2, 1,
			always(say("q=100;w=60", "r=99;t=%d", trial.Arrival.UnixMilli()+60000))},
		{"nothing comes back after the reset", ruleNoMore, LevelShould, LevelNote, 4.5, 30,
			windows(3, 600, func(left int, reset float64) string {
				return say("q=3;w=3", "r=%d;t=%d", left, 1+int(reset)%3)
			})},
		{"nothing comes back after Retry-After", ruleTooSoon, LevelShould, LevelNote, 3.5, 30,
			always(status429 + "Retry-After: 2\n")},
		{"Retry-After is before the reset", ruleBefore, LevelNote, LevelNote, 0.2, 1,
			always(status429 + "X-RateLimit-Limit: 3\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 60\nRetry-After: 1\n")},
		{"the refusal says that something remains", ruleEarly, LevelShould, LevelNote, 0.2, 6,
			func(i int, s float64) string {
				return strings.Repeat(status429, i/5) + say("q=10;w=60", "r=%d;t=%d", max(9-i, 5), 60-int(s))
			}},
		{"many remained before refusals that are silent", ruleEarly, LevelShould, LevelNote, 0.2, 16,
			func(i int, s float64) string {
				if i%4 == 3 {
					return status429 + "Retry-After: 1\n"
				}
				return say("q=100;w=60", "r=%d;t=%d", 99-i, 60-int(s))
			}},
		{"requests are served at nothing remaining", modelRules[limiters.Overdrawn], LevelShould, LevelNote, 0.2, 30,
			func(i int, s float64) string { return say("q=3;w=60", "r=%d;t=%d", max(2-i, 0), 60-int(s)) }},
		{"the quota is a tenth of what is announced", modelRules[limiters.Applied], LevelShould, LevelNote, 0.5, 60,
			windows(5, 5, func(left int, reset float64) string { return say("q=50;w=5", "r=%d;t=%d", left, int(reset+0.99)) })},
		{"the window is in milliseconds", modelRules[limiters.Window], LevelShould, LevelNote, 0.5, 60,
			windows(5, 3, func(left int, reset float64) string { return say("q=5;w=3000", "r=%d;t=%d", left, int(reset+0.99)) })},
		{"less comes back than is announced", modelRules[limiters.Back], LevelShould, LevelNote, 1, 60,
			func(i int, _ float64) string { return say("q=97;w=20", "r=%d", 96-i%20-37*min(i/20, 1)) }},
		{"the policy changes twice", ruleChanged, LevelShould, LevelShould, 0.2, 3,
			func(i int, _ float64) string { return say(fmt.Sprintf("q=%d;w=60", 10+10*i), "r=%d;t=60", 9-i) }},
		{"the partition key is new each time", ruleNewKeys, LevelShould, LevelNote, 0.2, 20, func(i int, _ float64) string {
			return fmt.Sprintf("RateLimit-Policy: \"a\";q=9;w=60;pk=:%[1]s:\nRateLimit: \"a\";r=8;t=60;pk=:%[1]s:\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}))
		}},
		{"a refusal that says nothing", ruleBare, LevelShould, LevelShould, 0.2, 1, always(status429)},
		{"less than nothing remains", ruleNegative, LevelShould, LevelShould, 0.2, 1,
			always(status429 + "X-RateLimit-Limit: 3\nX-RateLimit-Remaining: -1\n")},
		{"a fraction of a Unix time", ruleFraction, LevelShould, LevelShould, 0.2, 1,
			always(fmt.Sprintf("X-RateLimit-Limit: 3\nX-RateLimit-Remaining: 2\nX-RateLimit-Reset: %d.5\n", trial.Arrival.Unix()+60))},
	}
}

// wrote reports whether a message comes from the rule.
func (r rule) wrote(message string) bool {
	form := regexp.MustCompile(`%(\\\.0f|[sgd])`).ReplaceAllString(regexp.QuoteMeta(r.message), ".*")
	return regexp.MustCompile("^" + form + "$").MatchString(message)
}

// ask returns the findings of a Sequence for the answers of the server.
func (f *faulty) ask(s *Sequence) (found []Finding) {
	const takes = 10 * time.Millisecond
	for i := range f.n {
		at := float64(i) * f.every
		sent := trial.Arrival.Add(time.Duration(at * float64(time.Second)))
		found = append(found, s.Add(trial.ResponseOf(f.serve(i, at)), sent, sent.Add(takes))...)
	}
	return found
}

func TestSequence(t *testing.T) {
	for i, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			for alone, want := range map[bool]Level{true: f.alone, false: f.other} {
				f := faults()[i]
				r := f.rule
				found := f.ask(&Sequence{Alone: alone})
				highest := none
				for _, finding := range found {
					if finding.Rule == r.id && r.wrote(finding.Message) {
						highest = max(highest, finding.Level)
					}
					lawFinding(t, finding)
				}
				require.Equal(t, want, highest, "alone %v: %v", alone, found)
			}
		})
	}
}

// TestSequenceWords: the message contains what seems to be wrong with the numbers.
func TestSequenceWords(t *testing.T) {
	window := func(text func(left int, reset float64) string) func(int, float64) string {
		return windows(100, 60, text)
	}
	for _, tc := range []struct {
		name  string
		every float64 // seconds
		serve func(i int, s float64) string
		want  string
	}{
		{"t in milliseconds", 0.5, window(func(left int, reset float64) string {
			return say("q=100;w=60", "r=%d;t=%.0f", left, 1000*reset)
		}), "write t in seconds: it seems to be in milliseconds"},
		{"t in milliseconds, or absent", 0.5, func(i int, s float64) string {
			if i%3 == 2 {
				return say("q=100;w=60", "r=%d", 99-i)
			}
			return say("q=100;w=60", "r=%d;t=%.0f", 99-i, 60000-1000*s)
		}, "write t in seconds: it seems to be in milliseconds"},
		{"t in minutes", 30, windows(1000, 3600, func(left int, reset float64) string {
			return say("q=1000;w=3600", "r=%d;t=%.0f", left, math.Ceil(reset/60))
		}), "let t go down with the clock: no limiter has these resets"},
		{"t is always the same", 1, window(func(left int, _ float64) string {
			return say("q=100;w=60", "r=%d;t=20", left)
		}), "let t go down with the clock: it is always 20"},
		{"t is always the same, or absent", 1, func(i int, _ float64) string {
			if i%9 == 0 {
				return say("q=100;w=60", "r=%d", 99-i)
			}
			return say("q=100;w=60", "r=%d;t=20", 99-i)
		}, "let t go down with the clock: it is always 20"},
		{"t counts up", 1, window(func(left int, reset float64) string {
			return say("q=100;w=60", "r=%d;t=%.0f", left, 60-reset)
		}), "let t go down with the clock: it seems to be the time that has passed"},
		{"t jumps", 1, func(i int, _ float64) string {
			return say("q=100;w=60", "r=%d;t=%d", 99-i, 10+i*37%50)
		}, "let t go down with the clock: no limiter has these resets"},
		{"r is what is used", 0.5, window(func(left int, reset float64) string {
			return say("q=100;w=60", "r=%d;t=%.0f", 100-left, math.Ceil(reset))
		}), "let r fall by what each request costs: it seems to be what is used (or is this URL free, or cached?)"},
		{"r stays", 0.5, func(_ int, s float64) string {
			return say("q=100;w=60", "r=50;t=%d", 60-int(s))
		}, "let r fall by what each request costs: it stays 50 over 20 requests that were served (or is this URL free, or cached?)"},
		{"r rises by 5", 0.5, func(i int, s float64) string {
			return say("q=100;w=60", "r=%d;t=%d", 99-i+5*min(i/20, 1), 60-int(s))
		}, "let r fall by what each request costs: it is 84 where at most 81 can be left (or is this URL free, or cached?)"},
		{"r jumps", 0.5, func(i int, s float64) string {
			return say("q=100;w=60", "r=%d;t=%d", 50-i*37%50, 60-int(s))
		}, "let q and w be the quota and window that are applied: r is 2, but must be at least 25 by now"},
		{"the window is half as long", 0.5, windows(100, 30, func(left int, reset float64) string {
			return say("q=100;w=60", "r=%d;t=%.0f", left, math.Ceil(reset))
		}), ""},
		{"the window is twice as long", 0.5, windows(100, 120, func(left int, reset float64) string {
			return say("q=100;w=60", "r=%d;t=%.0f", left, math.Ceil(reset))
		}), "let w be the window that is applied: it seems to be 120 s, not 60 s"},
		{"the window is in milliseconds", 0.5, windows(5, 3, func(left int, reset float64) string {
			return say("q=5;w=3000", "r=%d;t=%.0f", left, math.Ceil(reset))
		}), "let w be the window that is applied: it seems to be 3 s, not 3000 s"},
		{"a quarter of the quota", 0.5, windows(5, 5, func(left int, reset float64) string {
			return say("q=50;w=5", "r=%d;t=%.0f", left, math.Ceil(reset))
		}), "let q be the quota that is applied: it is 50, but r is never more than 4"},
		{"r is one too high", 1, windows(15, 10, func(left int, reset float64) string {
			return say("q=15;w=10", "r=%d;t=%.0f", left+1, math.Ceil(reset))
		}), "let q be the quota that is applied: it is 15, but r is never more than 15"},
		{"r is more than the quota at first", 0.5, func(i int, s float64) string {
			return say("q=100;w=60", "r=%d;t=%d", 110-i, 60-int(s))
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := faulty{every: tc.every, n: 100, serve: tc.serve}
			var words []string
			for _, found := range f.ask(&Sequence{Alone: true}) {
				if found.Level > LevelNote {
					words = append(words, found.Message)
				}
			}
			if tc.want == "" {
				require.Empty(t, words)
				return
			}
			require.Equal(t, []string{tc.want}, words)
		})
	}
}

// For each rule of a Sequence the table has a server that breaks it, and CONFORMANCE.md has a row.
func TestSequenceRules(t *testing.T) {
	var rows strings.Builder
	all := faults()
	rows.WriteString("| Rule | Level, alone | otherwise | What to do |\n|---|---|---|---|\n")
	for _, r := range sequenceRules {
		at := slices.IndexFunc(all, func(f faulty) bool { return f.rule == r })
		require.GreaterOrEqual(t, at, 0, "nothing breaks %q", r.message)
		require.Equal(t, r.level, all[at].alone, r.message)
		other := all[at].other.String()
		if all[at].other == none {
			other = "–"
		}
		fmt.Fprintf(&rows, "| %s | %v | %s | %s |\n", r.id, r.level, other, r.message)
	}
	trial.CheckSection(t, "../CONFORMANCE.md", "sequence", rows.String())
}

// TestSequenceCapped: a server that lowers what remains as Limit.Cap does is honest, although the
// client is alone. A request of the client comes each fifth of a second, or each second.
func TestSequenceCapped(t *testing.T) {
	for _, burst := range []float64{1, 1.5, 2, 3} {
		for _, every := range []time.Duration{200 * time.Millisecond, time.Second} {
			for phase := range 20 {
				w := &laws.Fixed{Name: "a", Quota: 100, Window: time.Minute, Aligned: true}
				s, start := &Sequence{Alone: true}, trial.Arrival.Add(time.Duration(3*phase)*time.Second)
				for i := range 200 {
					now := start.Add(time.Duration(i) * every)
					f, ok := w.Left(now)
					if ok {
						w.Take(now)
						f, _ = w.Left(now)
					}
					f.Limits[0] = f.Limits[0].Cap(f.Policies[0], burst)
					resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
					if !ok {
						resp.StatusCode = http.StatusTooManyRequests
					}
					require.NoError(t, f.Set(resp.Header))
					for _, finding := range s.Add(resp, now, now) {
						require.LessOrEqual(t, finding.Level, LevelNote, "burst %v, %v, phase %d, response %d: %v", burst, every, phase, i, finding)
					}
				}
			}
		}
	}
}

// TestSequenceChecks: Add returns the findings of Check once.
func TestSequenceChecks(t *testing.T) {
	s := &Sequence{}
	older := say("q=10;w=60", "r=9;t=60") + "X-RateLimit-Remaining: 5\nX-RateLimit-Limit: 10\n"
	require.Equal(t, Check(trial.ResponseOf(older)), s.Add(trial.ResponseOf(older), trial.Arrival, trial.Arrival))
	require.NotEmpty(t, Check(trial.ResponseOf(older)))
	require.Empty(t, s.Add(trial.ResponseOf(older), trial.Arrival, trial.Arrival))
}

// TestSequenceRounding: a Retry-After one second before the reset may be rounding. Two seconds
// before it is a fault.
func TestSequenceRounding(t *testing.T) {
	for wait, want := range map[int]Level{59: LevelNote, 58: LevelShould} {
		s := &Sequence{Alone: true}
		found := s.Add(trial.ResponseOf(status429+fmt.Sprintf("Retry-After: %d\n", wait)+say("q=10;w=60", "r=0;t=60")), trial.Arrival, trial.Arrival)
		require.Len(t, found, 1)
		require.Equal(t, []any{"S3", want}, []any{found[0].Rule, found[0].Level})
	}
}

// What an honest server may do is a note at most. It may write the form of an older draft, by
// the rules of that draft. It may send a response from a cache, whose limits are old. It may
// refuse a request after a failed request, which may have been counted.
func TestSequenceQuiet(t *testing.T) {
	const (
		older = "RateLimit-Policy: 10;w=60\n"
		again = "Retry-After: 4\n"
		reset = "X-RateLimit-Limit: 3\nX-RateLimit-Remaining: 2\nX-RateLimit-Reset: "
	)
	first, second, third := say("q=3;w=19", "r=2;t=19"), say("q=3;w=19", "r=1;t=14"), say("q=3;w=19", "r=0;t=9")
	seven, full := say("q=10;w=60", "r=7;t=60"), say("q=100;w=60", "r=99;t=60")
	later := slices.Repeat([]string{say("q=100;w=60", "r=99")}, 11)
	policy := func(quota int) string { return fmt.Sprintf("RateLimit-Policy: \"a\";q=%d;w=60\n", quota) }
	for _, tc := range []struct {
		name    string
		highest Level // of the findings
		n       int   // requests, one every five seconds
		answers []string
	}{
		{"draft-06", LevelNote, 1, []string{older + "RateLimit-Limit: 10\nRateLimit-Remaining: 9\nRateLimit-Reset: 60\n"}},
		{"draft-06, a Unix time", LevelNote, 1, []string{older + fmt.Sprintf("RateLimit-Limit: 10\nRateLimit-Remaining: 9\nRateLimit-Reset: %d\n", trial.Arrival.Unix()+60)}},
		{"draft-07", LevelNote, 1, []string{older + "RateLimit: limit=10, remaining=9, reset=60\n"}},
		{"draft-07, from a cache", LevelNote, 1, []string{older + "RateLimit: limit=10, remaining=9, reset=60\nAge: 5\n"}},
		{"from a cache, and a refusal too", LevelNote, 40, []string{"Age: 5\n" + seven, status429 + "Age: 5\n"}},
		{"a refusal from a cache, which is bare by right", none, 40, []string{status429 + "Age: 5\n"}},
		{"a failure took what came back", none, 40, []string{status500, status429 + again}},
		{"a failure took the last one", none, 40, []string{first, second, status500, status429 + again}},
		{"the same, and it says so", none, 40, []string{first, second, status500 + third, status429 + again}},
		{"a point without digits behind it", none, 1, []string{reset + "60.\n"}},
		{"a point without digits before it", none, 1, []string{reset + ".5\n"}},
		{"what took it was served by a cache", none, 40, []string{"Age: 1\n", status429 + again}},
		{"a policy that holds for a time", none, 40, []string{policy(9), status503 + policy(5) + again}},
		{"an older reset with its unit", none, 1, []string{fmt.Sprintf(reset+"%ds\n", trial.Arrival.Unix())}},
		{"a refusal is the second answer", none, 2, []string{seven, status429 + again}},
		{"the policy of draft-06 next to a current limit", LevelMust, 1, []string{older + "RateLimit: \"a\";r=5;t=9"}},
		{"a limit without a policy", none, 12, []string{"RateLimit: \"a\";r=5;t=9"}},
		{"an older limit without what remains", none, 12, []string{"X-RateLimit-Limit: 10\nX-RateLimit-Reset: 9"}},
		{"only the first answer has a reset", none, 12, append([]string{full}, later...)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, highest := &Sequence{Alone: true}, none
			for i := range tc.n {
				at := trial.Arrival.Add(time.Duration(i) * 5 * time.Second)
				for _, f := range s.Add(trial.ResponseOf(tc.answers[i%len(tc.answers)]), at, at) {
					t.Log(i, f)
					highest = max(highest, f.Level)
				}
			}
			require.Equal(t, tc.highest, highest)
		})
	}
}

// TestSequenceNumbers: the numbers of an honest limiter have no finding above a note. One client
// sends one request after the other.
func TestSequenceNumbers(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  string
		numbers string // the second of the request, what remains, and the reset; or the second alone. One response may be lost
	}{
		"a bucket that was used before rises by several units at a time": {"q=95;w=6",
			"0:67:2 0.2:70:2 0.7:77:2 1.2:85:1 1.7:90:1 2.2:94:1 2.6:94:1 3.0:94:1 3.4:94:1 3.8:94:1"},
		"a log whose first requests got no limits": {"q=30;w=27",
			"0 1 3.4:27:24 4 6 7:24:20 8 10 12:21:15 12.1 13 15:18:12 16 17 18:15:9 18.1 19 20:12:7 21 22 23.2:9:4 25 27 28.5:8:2 30 31 32.5:7:1"},
		"jitter that rounding hides, until a window begins earlier": {"q=63;w=27",
			"0:62:7 0.5:61:6 1.5:60:6 2:59:5 3:58:4 3.9:57:2 4.4:56:3 5:61:29 5.5:60:27 6:59:28"},
		"a sliding window counter that announces how long nothing remains, and a pause": {"q=2;w=10",
			"0.5:1:10 1:0:14 15.5:0:5 20.5:0:10 30.5:0:10 40.5:0:10 140.5:1:10 145.5:0:10 155.5:0:5"},
		"a month of 31 days": {"q=9;w=2592000",
			"0:8:86400 10:7:86390 20:6:86380 30:5:86370 86400:7:2678400 86410:6:2678390"},
		"90 days": {"q=9;w=7776000",
			"0:8:7776000 10:7:7775990 20:6:7775980 2700000:5:5076000 5400000:4:2376000 7776010:8:7776000 7776020:7:7775990"},
		"a month of 28 days": {"q=9;w=2592000",
			"0:8:86400 10:7:86390 20:6:86380 30:5:86370 86400:7:2419200 86410:6:2419190"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Sequence{Alone: true}
			for answer := range strings.FieldsSeq(tc.numbers) {
				numbers := strings.Split(answer, ":")
				second, err := strconv.ParseFloat(numbers[0], 64)
				require.NoError(t, err)
				text := ""
				if len(numbers) == 3 {
					text = say(tc.policy, "r=%s;t=%s", numbers[1], numbers[2])
				}
				at := trial.Arrival.Add(time.Duration(second * float64(time.Second)))
				for _, f := range s.Add(trial.ResponseOf(text), at, at) {
					require.Equal(t, LevelNote, f.Level, "%s: %v", answer, f)
				}
			}
			require.NotContains(t, s.Models()[0], "no known kind", "%v", s.Models())
		})
	}
}

// TestSequenceModels: Models returns a sentence for each limit, also if no model explains it.
func TestSequenceModels(t *testing.T) {
	explains := func(answer func(i int) string, responses int) []string {
		s := &Sequence{}
		for i := range responses {
			at := trial.Arrival.Add(time.Duration(i) * time.Second)
			s.Add(trial.ResponseOf(answer(i)), at, at)
		}
		return s.Models()
	}
	require.Equal(t, []string{`"a" behaves like a fixed window of 60 s with quota 9, as announced (5 responses; a sliding log or a sliding window counter would look the same so far)`},
		explains(func(i int) string { return say("q=9;w=60", "r=%d;t=%d", 8-i, 60-i) }, 5))
	require.Equal(t, []string{`"a" behaves like no known kind of limiter (5 responses)`},
		explains(func(int) string { return say("q=9;w=60", "r=5") }, 5))
	require.Contains(t, explains(func(int) string { return say("q=9;w=60", "r=5") }, 1)[0], "(1 response; ")
	require.Equal(t, []string{`"a" behaves like a fixed window with quota 9, as announced (4 responses; a sliding log, a token bucket or a sliding window counter would look the same so far)`},
		explains(func(i int) string { return say("q=9", "r=%d", 8-i) }, 4), "no window")
	require.Equal(t, []string{`"a" behaves like a fixed window of 60 s with quota 9, as announced, with 2 counters: servers that do not share their counts (8 responses; a sliding log or a sliding window counter would look the same so far)`},
		explains(func(i int) string { return say("q=9;w=60", "r=%d;t=%d", 8-i/2, 60-i) }, 8))
	require.Equal(t, []string{`"a" behaves like a fixed window of 3 s with quota 3, as announced (9 responses; a token bucket, a sliding window counter or a sliding log would look the same so far)`},
		explains(func(i int) string { return say("q=3;w=3", "r=%d;t=%d", 2-i%3, 3-i%3) }, 9), "a log needs the most counters")
	require.Equal(t, []string{`"a" behaves like a sliding log of 5 s with quota 10, as announced (30 responses)`},
		explains(func(i int) string { return say("q=10;w=5", "r=%d;t=5", max(9-i, 5)) }, 30))
	require.Empty(t, explains(func(int) string { return `RateLimit-Policy: "a";q=9;w=60` }, 5), "no limit")
	require.Empty(t, explains(func(int) string { return "" }, 5))
}

// TestSequenceTimes: a time that is zero is the time of the call.
func TestSequenceTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s, timed Sequence
		var got, want []Finding
		for range 30 {
			resp := trial.ResponseOf(status429 + "Retry-After: 2")
			got = append(got, s.Add(resp, time.Time{}, time.Time{})...)
			want = append(want, timed.Add(resp, time.Now(), time.Now())...)
			time.Sleep(3 * time.Second)
		}
		require.NotEmpty(t, want)
		require.Equal(t, want, got)
		require.Empty(t, s.Add(nil, time.Time{}, time.Time{}))
	})
	in1970 := time.Unix(5, 0)
	found := new(Sequence).Add(trial.ResponseOf(say("q=10;w=60", "r=9")), in1970, in1970)
	require.Empty(t, found, "no reset is no point in time")
}

// TestSequenceBounds: the memory and the number of findings are bounded.
func TestSequenceBounds(t *testing.T) {
	s := &Sequence{}
	for i := range 1000 {
		at := trial.Arrival.Add(time.Duration(i) * time.Second)
		s.Add(trial.ResponseOf(fmt.Sprintf("RateLimit-Policy: \"%d\";q=1;w=60\nRateLimit: \"%d\";r=0;t=60\nX-RateLimit-Limit-%d: -%d", i, i, i, i)), at, at)
		s.Add(trial.ResponseOf(fmt.Sprintf("RateLimit: %s$", strings.Repeat(" ", i))), at, at)
		for _, name := range []int{0, i} {
			s.Add(trial.ResponseOf(fmt.Sprintf("RateLimit: \"%d\";r=1;pk=:%s:", name, base64.StdEncoding.EncodeToString(fmt.Append(nil, i)))), at, at)
		}
	}
	require.Len(t, s.runs, maxRuns)
	require.Len(t, s.keys, maxRuns)
	for _, k := range s.keys {
		require.LessOrEqual(t, len(k.seen), 4*maxRuns)
	}
	require.Len(t, s.found, maxFound)
}

// 64 limits of busy servers take at most 4 MiB.
func TestSequenceMemory(t *testing.T) {
	s := &Sequence{Alone: true}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 300 * maxRuns {
		name, n := i%maxRuns, i/maxRuns
		at := trial.Arrival.Add(time.Duration(i) * time.Millisecond)
		s.Add(trial.ResponseOf(fmt.Sprintf("RateLimit-Policy: \"%d\";q=1000;w=60\nRateLimit: \"%d\";r=%d", name, name, 999-n)), at, at)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Len(t, s.runs, maxRuns)
	require.Len(t, s.Models(), maxRuns)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(4<<20))
	runtime.KeepAlive(s)

	s = &Sequence{Alone: true} // one limit of many responses
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 20_000 {
		at := trial.Arrival.Add(time.Duration(i) * time.Millisecond)
		s.Add(trial.ResponseOf(say("q=100000;w=86400", "r=%d", 99_999-i)), at, at)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(256<<10))
	runtime.KeepAlive(s)
}

// BenchmarkSequence adds one response with one limit.
func BenchmarkSequence(b *testing.B) {
	w := &laws.Fixed{Name: "a", Quota: 100, Window: 20 * time.Second, Aligned: true}
	var list []*http.Response
	for i := range 1000 {
		now := trial.Arrival.Add(time.Duration(i) * 250 * time.Millisecond)
		_, _ = w.Left(now) // a window may begin
		w.Take(now)
		f, _ := w.Left(now)
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
		require.NoError(b, f.Set(resp.Header))
		list = append(list, resp)
	}
	b.ReportAllocs()
	s, i, findings := &Sequence{Alone: true}, 0, 0
	for b.Loop() {
		if i == len(list) {
			s, i = &Sequence{Alone: true}, 0
		}
		at := trial.Arrival.Add(time.Duration(i) * 250 * time.Millisecond)
		findings += len(s.Add(list[i], at, at))
		i++
	}
	require.Zero(b, findings)
}

// Two requests overlap, and their responses change places: the second one arrives first, and
// what remains falls by two and rises by one. Each request costs one all the same.
func TestSequenceChangedPlaces(t *testing.T) {
	s := &Sequence{Alone: true}
	at := trial.Arrival
	for left := 98; left > 40; left -= 2 {
		sent := at
		for _, remaining := range []int{left, left + 1} {
			at = at.Add(10 * time.Millisecond)
			require.Empty(t, s.Add(trial.ResponseOf(say("q=100;w=60", "r=%d;t=60", remaining)), sent, at))
		}
	}
}

// If more requests overlap than a Sequence remembers, their numbers are not judged.
func TestSequenceOverlaps(t *testing.T) {
	for name, left := range map[string]func(i int) int{
		"random":  func(i int) int { return 999 - rand.IntN(i+1) },
		"reverse": func(i int) int { return 500 + i },
	} {
		s := &Sequence{Alone: true}
		for i := range 500 {
			resp := trial.ResponseOf(say("q=1000;w=60", "r=%d;t=60", left(i)))
			for _, f := range s.Add(resp, trial.Arrival, trial.Arrival.Add(time.Duration(i)*time.Millisecond)) {
				require.Equal(t, LevelNote, f.Level, "%s: %v", name, f)
			}
		}
	}
}

// FuzzSequence checks the form of all findings for any responses, and the bounds of what a
// Sequence remembers.
func FuzzSequence(f *testing.F) {
	for _, s := range faults() {
		f.Add(s.serve(0, 0)+"\n"+s.serve(0, 0), int64(time.Second), true)
	}
	f.Add("HTTP/1.1 503 Service Unavailable\nRetry-After: 999999999999999\nRateLimit: \"a\";r=0;t=999999999999999\n", int64(-1), false)
	f.Fuzz(func(t *testing.T, texts string, step int64, alone bool) {
		s := &Sequence{Alone: alone}
		at := trial.Arrival
		for i, text := range strings.Split(texts, "\n\n") {
			for range 3 {
				resp, _ := trial.AnyResponse(text)
				if i%7 == 6 {
					resp = nil
				}
				for _, finding := range s.Add(resp, at, at.Add(time.Duration(step/2))) {
					lawFinding(t, finding)
				}
				at = at.Add(time.Duration(step))
			}
		}
		require.LessOrEqual(t, len(s.runs), maxRuns)
		require.LessOrEqual(t, len(s.found), maxFound)
	})
}

// TestSequenceThresholds: each fault becomes certain at the expected response, and not before.
func TestSequenceThresholds(t *testing.T) {
	for name, want := range map[string]int{
		"nothing is ever spent, and no time passes":     5,  // responses
		"requests are served at nothing remaining":      4,  // responses
		"every request costs two":                       7,  // the sixth fall
		"nothing comes back after Retry-After":          4,  // the third broken promise
		"the partition key is new each time":            12, // partition keys
		"many remained before refusals that are silent": 12, // with the third refusal
	} {
		all := faults()
		f := all[slices.IndexFunc(all, func(f faulty) bool { return f.name == name })]
		certain := func(n int) bool {
			f.n = n
			return slices.ContainsFunc(f.ask(&Sequence{Alone: true}), func(f Finding) bool { return f.Level > LevelNote })
		}
		require.False(t, certain(want-1), name)
		require.True(t, certain(want), name)
	}
}

// TestSequenceRows: the findings of testdata/sequences.txt.
func TestSequenceRows(t *testing.T) {
	count := regexp.MustCompile(`\{(\d+)(?:,(\d+))?\}`)
	second := func(text string) time.Time {
		s, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err, text)
		return trial.Arrival.Add(time.Duration(s * float64(time.Second)))
	}
	for _, b := range trial.BlocksOf("testdata/sequences.txt") {
		t.Run(b.Name, func(t *testing.T) {
			s, n := &Sequence{Alone: true}, 0
			var got, want, models []string
			for line := range strings.Lines(b.Text) {
				times, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
				switch times {
				case "=":
					want = append(want, answer)
					continue
				case ":":
					models = append(models, answer)
					continue
				}
				for i, at := range strings.Split(times, ",") {
					sent, received, ok := strings.Cut(at, "~")
					if !ok {
						received = sent
					}
					var resp *http.Response
					if answer != "-" {
						resp = trial.ResponseOf(trial.WrittenOut(count.ReplaceAllStringFunc(answer, func(text string) string {
							m := count.FindStringSubmatch(text)
							from, err := strconv.Atoi(m[1])
							require.NoError(t, err)
							step, err := strconv.Atoi(cmp.Or(m[2], "1"))
							require.NoError(t, err)
							return strconv.Itoa(from - step*i)
						})))
					}
					for _, f := range s.Add(resp, second(sent), second(received)) {
						got = append(got, fmt.Sprintf("%s %v %d %s", f.Rule, f.Level, n, f.Field))
						t.Log(n, f)
					}
					n++
				}
			}
			require.Equal(t, want, got)
			for i, model := range models {
				about, _, _ := strings.Cut(s.Models()[i], " (")
				require.Equal(t, model, about)
			}
		})
	}
}

// TestSequenceStands: r stays the same while requests are served, in each form, wherever a window of
// a minute begins. The eighth response shows it. If t stays the same meanwhile, or the window ends,
// it takes a few more. Older fields without a window may have been lowered, so few remain by right.
func TestSequenceStands(t *testing.T) {
	for _, tc := range []struct {
		name     string
		left     int           // remains of the quota, at first
		quota    int64         // per minute
		falls    int           // requests that lower it
		every    time.Duration // between requests
		byEighth int           // phases of 120 in which the eighth response shows the fault
		window   bool          // only forms with a window
	}{
		{"one is missing", 99, 100, 0, 100 * time.Millisecond, 118, false},
		{"all remains", 100, 100, 0, 100 * time.Millisecond, 120, false},
		{"half is missing", 50, 100, 0, 100 * time.Millisecond, 90, true},
		{"one remains", 1, 100, 0, 100 * time.Millisecond, 119, true},
		{"nothing remains", 0, 100, 0, 100 * time.Millisecond, 119, true},
		{"one is missing, slower", 99, 100, 0, 250 * time.Millisecond, 117, false},
		{"half is missing, slower", 50, 100, 0, 250 * time.Millisecond, 119, true},
		{"four are counted of many", 4, 5, 4, 100 * time.Millisecond, 117, false},
	} {
		for _, form := range laws.Forms {
			if tc.window && strings.HasPrefix(form, "x-ratelimit") {
				continue
			}
			byEighth := 0
			for phase := range 120 {
				w := &laws.Fixed{Name: "a", Quota: tc.quota, Window: time.Minute, Aligned: true}
				s, at := &Sequence{Alone: true}, trial.Arrival.Add(time.Duration(phase)*500*time.Millisecond)
				found := 0
				for n := 1; found == 0; n++ {
					require.LessOrEqual(t, n, 32, "%s, %s, %d half seconds: %v", form, tc.name, phase, s.Models())
					f, _ := w.Left(at)
					f.Limits[0].Remaining = int64(tc.left - min(n-1, tc.falls))
					resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}
					(&laws.Host{Form: form}).Write(resp.Header, f, at)
					for _, finding := range s.Add(resp, at, at.Add(10*time.Millisecond)) {
						if finding.Rule == modelRules[limiters.Spent].id && finding.Level == LevelShould {
							found = n
						}
					}
					at = at.Add(tc.every)
				}
				if found <= 8 {
					byEighth++
				}
			}
			require.GreaterOrEqual(t, byEighth, tc.byEighth, "%s, %s", form, tc.name)
		}
	}
}
