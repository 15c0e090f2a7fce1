package ratelimittest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/trial"
)

var _ fmt.Stringer = LevelMust

// A lintCase is a response and what is found in it, as "rule level field item".
type lintCase struct {
	name string
	wire string
	want []string
}

// The tables of testdata have responses and their findings, and examples of the drafts and
// their findings. The drafts show the last three examples as mistakes, or were mended since.
var (
	lintCases     = readFindings("findings")
	draftExamples = readFindings("drafts")
)

// repetition matches a number and a text that is repeated this number of times.
var repetition = regexp.MustCompile(`\{(\d+)×(.*?)\}`)

// readFindings reads a table: fields, and each finding behind an equals sign.
func readFindings(table string) (cases []lintCase) {
	for _, b := range trial.BlocksOf("testdata/" + table + ".txt") {
		tc := lintCase{name: b.Name}
		for line := range strings.Lines(b.Text) {
			if finding, ok := strings.CutPrefix(line, "= "); ok {
				tc.want = append(tc.want, strings.TrimSpace(finding))
			} else {
				tc.wire += line
			}
		}
		tc.wire = repetition.ReplaceAllStringFunc(strings.TrimSuffix(tc.wire, "\n"), func(s string) string {
			m := repetition.FindStringSubmatch(s)
			n, _ := strconv.Atoi(m[1])
			return strings.Repeat(m[2], n)
		})
		cases = append(cases, tc)
	}
	return cases
}

// clean is a response that breaks no rule.
const clean = "RateLimit-Policy: \"default\";q=100;w=60\nRateLimit: \"default\";r=50;t=30"

// summary returns a finding without its message.
func (f Finding) summary() string {
	return fmt.Sprintf("%s %v %s %d", f.Rule, f.Level, f.Field, f.Item)
}

func summaries(findings []Finding) (list []string) {
	for _, f := range findings {
		list = append(list, f.summary())
	}
	return list
}

// lawFinding checks the form that all findings have.
func lawFinding(t testing.TB, f Finding) {
	t.Helper()
	require.Regexp(t, `^([PLSKD][0-9]+|6-5|6-8|6-9|9110-10.2.3|6585-4)$`, f.Rule)
	require.Contains(t, []Level{LevelMust, LevelShould, LevelNote}, f.Level)
	require.NotEmpty(t, f.Field, f.Rule)
	require.GreaterOrEqual(t, f.Item, -1)
	require.LessOrEqual(t, f.Item, 1024)
	require.Regexp(t, regexp.MustCompile(`^[a-z][^\n]{20,}$`), f.Message)
	require.NotContains(t, f.Message, "  ")
	require.GreaterOrEqual(t, f.Line, -1)
	require.GreaterOrEqual(t, f.Offset, -1)
	require.Equal(t, f.Line < 0, f.Offset < 0, "a byte is in a line")
}

func TestCheck(t *testing.T) {
	for _, tc := range lintCases {
		t.Run(tc.name, func(t *testing.T) {
			findings := Check(trial.ResponseOf(tc.wire))
			require.Equal(t, tc.want, summaries(findings))
			for _, f := range findings {
				lawFinding(t, f)
			}
			if tc.want != nil {
				rule, _, _ := strings.Cut(tc.name, ",")
				require.Contains(t, strings.Join(tc.want, "\n")+"\n", rule+" ")
			}
		})
	}
}

// A vendorCase is a response of a vendor.
type vendorCase struct {
	Vendor, Case string
	Headers      []string
}

func vendorCases(t *testing.T) (all []vendorCase) {
	files, err := filepath.Glob("../testdata/vendors/*.json")
	require.NoError(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var cases []vendorCase
		require.NoError(t, json.Unmarshal(b, &cases))
		all = append(all, cases...)
	}
	return all
}

// TestCheckOlderFields: a finding about older fields names one of the fields of the vendor.
func TestCheckOlderFields(t *testing.T) {
	named := 0
	for _, tt := range vendorCases(t) {
		h := trial.Wire(strings.Join(tt.Headers, "\n"))
		keys := slices.Collect(maps.Keys(h))
		h[draft.PolicyKey], h[draft.LimitKey] = []string{`"of no vendor";q=123456789;w=60`}, []string{`"of no vendor";r=123456789`}
		for _, f := range Check(&http.Response{Header: h}) {
			if f.Rule == "6-5" {
				require.Contains(t, keys, f.Field, "%s, %s", tt.Vendor, tt.Case)
				named++
			}
		}
	}
	require.Greater(t, named, 200)
}

func TestCheckTrailers(t *testing.T) {
	resp := trial.ResponseOf(clean)
	resp.Trailer = http.Header{"Ratelimit": nil, "ratelimit-policy": {"x"}, "Expires": nil}
	require.Equal(t, []string{"P12 must RateLimit-Policy -1", "L4 must RateLimit -1"}, summaries(Check(resp)))
	require.Nil(t, resp.Trailer["Ratelimit"])
}

func TestCheckHandMade(t *testing.T) {
	require.Nil(t, Check(nil))
	require.Nil(t, Check(&http.Response{}))
	require.Nil(t, Check(&http.Response{Header: http.Header{"Ratelimit": nil}}))
	require.Nil(t, Check(&http.Response{Header: http.Header{"RateLimit": {"malformed"}}}), "a key that is not canonical")
	long := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 249) + "@b.cd"))
	require.Len(t, Check(trial.ResponseOf(`RateLimit: "a";r=1;pk=:`+long+`:`)), 1, "the longest address")
	long = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 250) + "@b.cd"))
	require.Empty(t, Check(trial.ResponseOf(`RateLimit: "a";r=1;pk=:`+long+`:`)), "longer than an address")
	posted := trial.ResponseOf("Cache-Control: max-age=60\n" + clean)
	posted.Request = &http.Request{Method: http.MethodPost}
	require.Nil(t, Check(posted), "the answer to a POST is seldom stored")
	for _, method := range []string{"", http.MethodGet, http.MethodHead} {
		posted.Request.Method = method
		require.Len(t, Check(posted), 2, method)
	}
}

// withSecret returns a response with a partition key that is also in the credentials of its
// request.
func withSecret(credentials string) *http.Response {
	resp := trial.ResponseOf("RateLimit: \"default\";r=1;pk=:MDEyMzQ1Njc4OQ==:")
	resp.Request = &http.Request{Header: http.Header{"Authorization": {credentials}}}
	return resp
}

func TestCheckSecret(t *testing.T) {
	for credentials, want := range map[string][]string{
		"Bearer 0123456789":    {"S9 should RateLimit 0"},
		"Bearer 012345678":     nil,
		"Basic MDEyMzQ1Njc4OQ": nil,
	} {
		require.Equal(t, want, summaries(Check(withSecret(credentials))), credentials)
	}
	require.Nil(t, Check(trial.ResponseOf("RateLimit: \"default\";r=1;pk=:MDEyMzQ1Njc4OQ==:")), "without its request")
}

func TestPersonal(t *testing.T) {
	long := strings.Repeat("a", 250) + "@b.c"
	for key, want := range map[string]bool{
		"": false, "user 1": false, "192.0.2.1": true, "192.0.2.1:80": true, "192.0.2.0/24": true, "2001:db8::1": true, "[2001:db8::1]:80": true,
		"192.0.2": false, "me@mail.example": true, "@mail.example": false, "me@mail": false, "me@.example": false, "me": false, "m e@mail.example": false, " me@mail.example": false,
		"me@mail.example\n": false, "m\x7f@mail.example": false, "mé@mail.example": false, long: true, "a" + long: false, "~@mail.example": true,
	} {
		require.Equal(t, want, personal([]byte(key)), "%q", key)
	}
	require.False(t, personal(nil))
	for key, want := range map[string]bool{"a-b": true, "a_b": true, "a.b": true, "ab": false, "-a": false} {
		require.Equal(t, want, prefixed(key), key)
	}
}

// TestCheckMessages: messages contain the place of a fault, and no content of a field.
func TestCheckMessages(t *testing.T) {
	for wire, want := range map[string]string{
		`RateLimit-Policy: "secret";q=1` + "\n" + `RateLimit-Policy: secret;q=1`: "P2 (must) member 2 of RateLimit-Policy, line 2, byte 1: write the name in double quotes, or strict clients ignore the whole field",
		`RateLimit-Policy: "secret";w=1`:                                         "P6 (must) member 1 of RateLimit-Policy, line 1, byte 1: add the parameter q, without which strict clients ignore the whole field",
		`RateLimit: "secret";r="secret"`:                                         "L5 (must) member 1 of RateLimit, line 1, byte 12: write the parameter r as an Integer from 0 to 999999999999999, or strict clients ignore the whole field",
		`RateLimit: limit=2, remaining=1, reset=60`:                              "L1 (must) member 1 of RateLimit, line 1, byte 6: this is the form of draft-07: write an item for each policy, its name in double quotes, and what remains as r",
		`RateLimit-Policy: limit=2, w=60`:                                        "P1 (must) member 1 of RateLimit-Policy, line 1, byte 6: write what RFC 9651 allows here, or strict clients ignore the whole field",
		`RateLimit: secret secret`:                                               "L1 (must) member 1 of RateLimit, line 1, byte 8: write what RFC 9651 allows here, or strict clients ignore the whole field",
		`RateLimit: 100`:                                                         "L1 (must) member 1 of RateLimit, line 1, byte 1: write the name in double quotes, or strict clients ignore the whole field",
		`RateLimit-Policy: 2;w=60`:                                               "P2 (must) member 1 of RateLimit-Policy, line 1, byte 1: this is the form of drafts 04 to 07: write a name in double quotes, and the quota as q",
		`RateLimit-Policy: "a";q=1, 2;w=60`:                                      "P2 (must) member 2 of RateLimit-Policy, line 1, byte 10: this is the form of drafts 04 to 07: write a name in double quotes, and the quota as q",
		`RateLimit: "secret";r=1;w=2`:                                            "P11 (note) member 1 of RateLimit: w belongs to RateLimit-Policy, and clients ignore it here",
		`RateLimit-Policy: "secret";q=1;t=2`:                                     "P11 (note) member 1 of RateLimit-Policy: t belongs to RateLimit, and clients ignore it here",
		`RateLimit: "secret";r=1;secret=secret=`:                                 "L1 (must) member 1 of RateLimit, line 1, byte 27: write what RFC 9651 allows here, or strict clients ignore the whole field",
	} {
		findings := Check(trial.ResponseOf(wire))
		require.NotEmpty(t, findings)
		require.Equal(t, want, findings[0].String(), wire)
	}
	for _, tc := range lintCases {
		for _, f := range Check(trial.ResponseOf(strings.ReplaceAll(tc.wire, "default", "secret"))) {
			require.NotContains(t, f.String(), "secret")
		}
	}
}

// checkRules are the rules of Check, and sequenceRules are the rules of a Sequence, in the order of
// CONFORMANCE.md.
var (
	checkRules = []*rule{
		ruleNext, ruleMissing, {"", "", LevelMust, paramMessage}, ruleToken, ruleDraft06, ruleDraft07, ruleMany,
		ruleMalformed, ruleEmpty, ruleParamTwice, ruleTwice, ruleNameless, rulePrefix, ruleForeign,
		ruleAlias, ruleUsedUnit, ruleUnit, ruleEmptyUnit, rulePersonal, ruleSecret, ruleOrphan,
		ruleQuota, ruleReset, ruleMoment, ruleRatio, ruleSlow, ruleTrailer, ruleRedirection, ruleCached,
		ruleStorable, ruleStored, ruleRefused, ruleRetryForm, ruleRetryEarly, ruleRetryZero, ruleRetryLate,
		ruleRetryMilli, ruleRetryIgnored, ruleOlder,
	}
	sequenceRules = append(modelRules[:],
		ruleUnixTime, ruleNoMore, ruleTooSoon, ruleBefore, ruleEarly, ruleChanged, ruleNewKeys,
		ruleBare, ruleNegative, ruleFraction)
)

// TestRules: the lists above have all rules.
func TestRules(t *testing.T) {
	source, err := os.ReadFile("rules.go")
	require.NoError(t, err)
	written := regexp.MustCompile(`(?m)^\trule\w+ += &rule\{`).FindAll(source, -1)
	require.Len(t, written, len(checkRules)-1+len(sequenceRules)-len(modelRules), "all but the rules of parameters, which have one message")
}

// TestCheckRules: a response breaks each rule, and the rows of CONFORMANCE.md are the rules.
func TestCheckRules(t *testing.T) {
	type broken struct {
		id      string
		level   Level
		message string
	}
	shown := map[broken]bool{}
	note := func(findings []Finding) {
		for _, f := range findings {
			shown[broken{f.Rule, f.Level, f.Message}] = true
		}
	}
	for _, tc := range lintCases {
		note(Check(trial.ResponseOf(tc.wire)))
	}
	resp := trial.ResponseOf(clean)
	resp.Trailer = http.Header{draft.PolicyKey: nil, draft.LimitKey: nil}
	note(Check(resp))
	note(Check(withSecret("Bearer 0123456789")))

	var want []string
	for _, r := range checkRules {
		ids := map[string]bool{}
		form := strings.ReplaceAll(regexp.QuoteMeta(r.message), "%s", ".*")
		for s := range shown {
			if s.level == r.level && regexp.MustCompile("^"+form+"$").MatchString(s.message) {
				ids[s.id] = true
			}
		}
		require.NotEmpty(t, ids, "nothing breaks %q", r.message)
		list := slices.SortedFunc(maps.Keys(ids), func(a, b string) int {
			return cmp.Or(cmp.Compare(b[0], a[0]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
		})
		id := strings.Join(list, ", ")
		ours := strings.TrimSuffix(r.id+", "+r.ofLimit, ", ")
		require.True(t, ours == "" || ours == id, "%s: the rule of %q is %s", ours, r.message, id)
		want = append(want, fmt.Sprintf("| %s | %v | %s |", id, r.level, strings.ReplaceAll(r.message, "%s", "…")))
	}
	trial.CheckSection(t, "../CONFORMANCE.md", "rules", "| Rules | Level | What to do |\n|---|---|---|\n"+strings.Join(want, "\n")+"\n")
}

// TestCheckWire: captured responses have no finding above LevelNote, except the faults in the
// table.
func TestCheckWire(t *testing.T) {
	faults := map[string]string{ // the reasons, by the beginning of the file's name
		"express-draft-8-unescaped": "it does not escape the name of a policy",
		"hono-draft-6":              "Integer policies of draft-06",
		"hono-draft-7":              "Integer policies of draft-06, and the Dictionary of draft-07",
		"hono-draft-8":              "asked for draft-08, it sends draft-06",
	}
	files, err := filepath.Glob("../testdata/wire/*.http")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".http")
		t.Run(name, func(t *testing.T) {
			findings := Check(trial.ReadCapture(t, file))
			for _, f := range findings {
				lawFinding(t, f)
			}
			serious := slices.ContainsFunc(findings, func(f Finding) bool { return f.Level > LevelNote })
			require.Equal(t, faults[name[:strings.LastIndex(name, "-")]] != "", serious, "%v", findings)
		})
	}
}

func TestLevelString(t *testing.T) {
	require.True(t, LevelNote < LevelShould && LevelShould < LevelMust, "levels rise")
	for level, want := range map[Level]string{LevelMust: "must", LevelShould: "should", LevelNote: "note", 9: "note"} {
		require.Equal(t, want, level.String())
	}
}

func TestCheckDrafts(t *testing.T) {
	for _, tc := range draftExamples {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, summaries(Check(trial.ResponseOf(tc.wire)))) })
	}
}

// shownFields matches a line of a document, of a comment, or of an http.Header in
// Go, that shows a field. Its groups are the name and the value.
var shownFields = regexp.MustCompile(`^\s*(?://\s*)?"?(Rate[Ll]imit-Policy|Rate[Ll]imit|Retry-After)"?: *(.*)$`)

// shownResponses returns the responses that a document shows: the fields on lines
// that follow each other.
func shownResponses(t testing.TB, file string) (responses []string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var block []string
	for l := range strings.Lines(string(text) + "\n\n") {
		m := shownFields.FindStringSubmatch(strings.TrimRight(l, "\n"))
		if m == nil {
			if len(block) > 0 {
				responses = append(responses, strings.Join(block, "\n"))
			}
			block = nil
			continue
		}
		value := []string{m[2]}
		if strings.HasPrefix(m[2], "{") { // Go
			value = nil
			for _, quoted := range regexp.MustCompile("`[^`]*`|\"[^\"]*\"").FindAllString(m[2], -1) {
				value = append(value, quoted[1:len(quoted)-1])
			}
		}
		for _, v := range value {
			block = append(block, m[1]+": "+v)
		}
	}
	return responses
}

// TestCheckDocuments: the fields in documents and examples break no rule, except for examples of
// a fault.
func TestCheckDocuments(t *testing.T) {
	meant := map[string]string{
		"example_test.go: P2 must RateLimit-Policy 0":             "the form of draft-06, which Parse refuses",
		"ratelimittest/example_test.go: S3 should Retry-After -1": "a Retry-After that is too early, which Check finds",
	}
	least := map[string]int{"README.md": 1, "doc.go": 1, "examples/server/README.md": 1, "examples/gateway/README.md": 1}
	var files []string
	for _, pattern := range []string{"README.md", "doc.go", "example*_test.go", "*/example*_test.go", "examples/*/README.md"} {
		more, err := fs.Glob(os.DirFS(".."), pattern)
		require.NoError(t, err)
		files = append(files, more...)
	}
	shown, seen := 0, map[string]bool{}
	for _, file := range files {
		responses := shownResponses(t, "../"+file)
		require.GreaterOrEqual(t, len(responses), least[file], file)
		for _, r := range responses {
			shown++
			for _, found := range summaries(Check(trial.ResponseOf(r))) {
				found = file + ": " + found
				require.NotEmpty(t, meant[found], "%s\n%s", found, r)
				seen[found] = true
			}
		}
	}
	require.Len(t, seen, len(meant), "no longer shown: %v", seen)
	require.Greater(t, shown, 10)
}
