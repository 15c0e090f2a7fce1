package ratelimit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// draftSwaps make draft.go that of the next draft: the keys of RateLimit change places,
// names may be Tokens, and they are compared without case.
var draftSwaps = map[string]string{
	`(?m)^\tremainingKey( *)= "r"$`:         "\tremainingKey$1= \"a\"",
	`(?m)^\tresetKey( *)= "t"$`:             "\tresetKey$1= \"w\"",
	`(?m)^\tnextRemainingKey( *)= "a"$`:     "\tnextRemainingKey$1= \"r\"",
	`(?m)^\tnextResetKey( *)= "w"( //.*)?$`: "\tnextResetKey$1= \"t\"",
	`(?m)^const tokenNames = false$`:        "const tokenNames = true",
	`(?m)^(func nameID.*) return name }$`:   "$1 return nextNameID(name) }",
}

// allMessages is a file of the package that tells the messages of its rules.
const allMessages = `package ratelimit

func AllMessages() (all []string) {
	for _, r := range append(rules[:], sequenceRules[:]...) {
		all = append(all, r.message)
	}
	return all
}
`

// moved is a program that says what the package with these changes does.
const moved = `package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/httpfields/ratelimit"
)

func header(policies, limits string) http.Header {
	h := http.Header{}
	h.Set("RateLimit-Policy", policies)
	h.Set("RateLimit", limits)
	return h
}

func main() {
	h := header("day;q=100;w=60", "\"Day\";a=0;w=30;c=5")
	f, err := ratelimit.Parse(h)
	fmt.Println(f, err)
	p, ok := f.PolicyOf(f.Limits[0])
	fmt.Println(p, ok)
	fmt.Println(ratelimit.Advisor{}.Advise(&http.Response{StatusCode: 200, Header: h}, time.Now()))
	fmt.Println(f.Set(h), h)
	b, err := json.Marshal(f.Limits)
	fmt.Println(string(b), err)
	fmt.Println(ratelimit.Restrict(f, ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "DAY", Reset: ratelimit.SecondsOf(40)}}}))
	fmt.Println(ratelimit.Fields{Policies: []ratelimit.Policy{{Name: "a"}, {Name: "A"}}}.Validate())
	fmt.Println(ratelimit.Limit{Params: ratelimit.Params{{Key: "a", Value: int64(1)}}}.Validate())
	fmt.Println(ratelimit.Check(&http.Response{Header: header("\"d\";q=1;w=1", "\"d\";a=1;w=1")}))
	for _, limit := range []string{"a=x", "a=1;w=x", "w=1", "a=1;w=100000000"} {
		fmt.Println(ratelimit.Check(&http.Response{Header: header("\"d\";q=1;w=1", "\"d\";"+limit)}))
	}

	old := header("\"d\";q=100;w=60", "\"d\";r=50;t=30")
	fmt.Println(ratelimit.Parse(old))
	fmt.Println(ratelimit.ParseAny(old, ratelimit.LegacyOptions{}))
	old = http.Header{}
	f = ratelimit.Fields{Policies: []ratelimit.Policy{{Name: "d", Quota: 100, Window: ratelimit.SecondsOf(60)}}, Limits: []ratelimit.Limit{{Name: "d", Remaining: 5}}}
	fmt.Println(regexp.MustCompile("\\b[rt]\\b").FindAllString(fmt.Sprint(ratelimit.AllMessages()), -1))
	fmt.Println(ratelimit.Draft06.Set(old, f, time.Now()), old)
	fmt.Println(ratelimit.ParseAny(old, ratelimit.LegacyOptions{Name: "d"}))
}
`

// whatMovedSays is what that program prints.
const whatMovedSays = `policies "day";q=100;w=60; limits "Day";a=0;w=30;c=5; dialect ratelimit <nil>
"day";q=100;w=60 true
wait 30s (limit "Day";a=0;w=30)
<nil> map[Ratelimit:["Day";a=0;w=30;c=5] Ratelimit-Policy:["day";q=100;w=60]]
[{"name":"Day","remaining":0,"reset":30,"params":[["c",5]]}] <nil>
policies "day";q=100;w=60; limits "Day";a=0;w=40;c=5; dialect ratelimit <nil>
ratelimit: member 2 of RateLimit-Policy: duplicate
ratelimit: member 1 of RateLimit: parameter a: duplicate
[]
[{L5 must RateLimit 0 line 1, byte 7: write the parameter a as an Integer from 0, or strict clients ignore the whole field}]
[{L7 must RateLimit 0 line 1, byte 11: write the parameter w as an Integer from 0, or strict clients ignore the whole field}]
[{L2 must RateLimit 0 line 1, byte 1: add the parameter a, without which strict clients ignore the whole field}]
[{L7 note RateLimit 0 let w be about the w of the policy at most, because no window lasts that much longer}]
policies "d";q=100;w=60; dialect ratelimit ratelimit: member 1 of RateLimit, line 1, byte 1: parameter a: missing
policies "d";q=100;w=60; limits "d";a=50;w=30; dialect draft-next <nil>
[]
<nil> map[Ratelimit-Limit:[100] Ratelimit-Policy:[100;w=60] Ratelimit-Remaining:[5]]
policies "d";q=100;w=60; limits "d";a=5; dialect draft-06 <nil>
`

// TestDraftMoves: what the next draft renames is changed in draft.go alone, as
// CONTRIBUTING.md says, and then the package reads and writes that draft, checks by it,
// and reads the one before. The older forms, which have w too, are as they were.
func TestDraftMoves(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("draft.go")
	require.NoError(t, err)
	for pattern, swap := range draftSwaps {
		re := regexp.MustCompile(pattern)
		require.Len(t, re.FindAll(b, -1), 1, pattern)
		b = re.ReplaceAll(b, []byte(swap))
	}
	dir := buildPrograms(t, map[string]string{"moved": moved}, map[string]string{"draft.go": string(b), "messages.go": allMessages})
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "moved")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, whatMovedSays, string(out))
}
