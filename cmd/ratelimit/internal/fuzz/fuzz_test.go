package fuzz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
)

func newCase(id int, field, text string) Case { return Case{ID: id, Field: field}.with(text) }

var both = []string{ratelimit.PolicyField, ratelimit.LimitField}

// At least a fifth of the cases is well-formed, and a fifth is not, for each field and seed. The
// cases need nearly every section, on both sides.
func TestCases(t *testing.T) {
	for _, field := range both {
		for seed := range uint64(3) {
			const n = 1500
			g := Generator{Seed: seed, Fields: []string{field}}
			ok, broken, needed := 0, map[string]bool{}, map[string]bool{}
			for id := range n {
				c := g.Case(id)
				require.Equal(t, field, c.Field)
				if v, section := Judge(c); v.OK {
					ok++
					needed[needs(c)] = true
				} else {
					broken[section] = true
				}
			}
			require.Greater(t, ok, n/5)
			require.Greater(t, n-ok, n/5)
			require.Greater(t, len(broken), 14, broken)
			require.Greater(t, len(needed), 10, needed)
		}
	}
}

// A case depends on its number and the seed alone.
func TestCasesAgain(t *testing.T) {
	g, other := Generator{Seed: 5, Fields: both}, Generator{Seed: 6, Fields: both}
	differ := 0
	for id := range 100 {
		first := g.Case(id)
		require.Equal(t, first, (&Generator{Seed: 5, Fields: both}).Case(id))
		if first.text() != other.Case(id).text() {
			differ++
		}
	}
	require.Greater(t, differ, 80)
}

// A line has the bytes of a case as characters, and the expected answer.
func TestLine(t *testing.T) {
	for name, test := range map[string]struct{ field, text, want string }{
		"well-formed": {ratelimit.LimitField, "\"a\";r=1\n\"b\";r=2;x=%\"%f0%9f%98%80\"", `{"id":7,"field":"RateLimit","lines":["\"a\";r=1","\"b\";r=2;x=%\"%f0%9f%98%80\""],"ok":true,"members":[{"name":"a","remaining":1},{"name":"b","remaining":2,"params":[["x",{"__type":"displaystring","value":"\ud83d\ude00"}]]}]}`},
		"absent":      {ratelimit.PolicyField, "", `{"id":7,"field":"RateLimit-Policy","lines":[""],"ok":true,"members":[]}`},
		"bytes":       {ratelimit.LimitField, "<\x00\x7f\xc3\xff", `{"id":7,"field":"RateLimit","lines":["<\u0000\u007f\u00c3\u00ff"],"ok":false,"section":"RFC 9651 Section 4.2.3.1 (Bare Items)"}`},
	} {
		c := newCase(7, test.field, test.text)
		require.Equal(t, test.text, c.text(), name)
		require.Equal(t, test.want+"\n", string(Line(c)), name)
		var read Case
		require.NoError(t, json.Unmarshal(Line(c), &read), name)
		require.Equal(t, c, read, name)
	}
}

// The section of what is malformed is the one that it breaks.
func TestSections(t *testing.T) {
	for text, want := range map[string]string{
		`"a"`: "draft-11 Section 4.1", `"a";r="5"`: "draft-11 Section 4.1.1", `"a";r=1;t=-1`: "draft-11 Section 4.1.2", `"a";r=1;pk="x"`: "draft-11 Section 4.1.3",
		`a;r=1`: "draft-11 Section 4", `("a");r=1`: "draft-11 Section 4",
		`"a";r=1,`: listSection, `"a" "b"`: listSection, `"a";r=1 ;t=1`: listSection, `, "a"`: listSection,
		`"a";R=1`: "RFC 9651 Section 4.2.3.3 (Keys)", `"a";r=1;`: "RFC 9651 Section 4.2.3.3 (Keys)",
		`"a";r=`: "RFC 9651 Section 4.2.3.1 (Bare Items)", `"a";r= 1`: "RFC 9651 Section 4.2.3.1 (Bare Items)", `"a`: "RFC 9651 Section 4.2.5 (Strings)",
		`"a";r=1.`: "RFC 9651 Section 4.2.4 (Integers and Decimals)", `"a";r=1;x=:A`: "RFC 9651 Section 4.2.7 (Byte Sequences)",
		`"a";r=1;x=?`: "RFC 9651 Section 4.2.8 (Booleans)", `"a";r=1;x=@`: "RFC 9651 Section 4.2.9 (Dates)", `"a";r=1;x=%`: "RFC 9651 Section 4.2.10 (Display Strings)",
	} {
		_, section := Judge(newCase(1, ratelimit.LimitField, text))
		require.Equal(t, want, section, text)
	}
	_, section := Judge(newCase(1, ratelimit.PolicyField, `"a";q=1;w=0`))
	require.Equal(t, "draft-11 Section 3.1.3", section)
}

// Cases that RFC 9651 leaves to the parser are not made.
func TestDecided(t *testing.T) {
	for text, want := range map[string]bool{
		`"a";pk=:AQ==:`: true, `"a";pk=:AQ:`: false, `"a";pk=:AR==:`: false, `"a";pk=:A=B=:`: true, `:x`: false,
		`"a";x=@-62135596800`: true, `"a";x=@253402214400`: true, `"a";x=@253402214401`: false, `"a";x=@-62135596801`: false, `"a";x=@99999999999999999999`: true,
	} {
		require.Equal(t, want, decided(text), text)
	}
}

// reader returns a program that differs from this module where change returns true.
func reader(change func(text string, v *Verdict) bool) Ask {
	return func(_ context.Context, c Case) (Verdict, error) {
		v, _ := Judge(c)
		change(c.text(), &v)
		return v, nil
	}
}

// What a parser gets wrong is found, and made small.
func TestRun(t *testing.T) {
	rejects := func(v *Verdict) bool { *v = Verdict{}; return true }
	for name, test := range map[string]struct {
		change func(text string, v *Verdict) bool
		want   []string // the cases, sorted by their kinds
	}{
		"right":             {func(string, *Verdict) bool { return false }, nil},
		"refuses Dates":     {func(text string, v *Verdict) bool { return v.OK && strings.Contains(text, "=@") && rejects(v) }, []string{`program rejects well-formed lines, RFC 9651 Section 4.2.9 (Dates): "";r=0;a=@0`}},
		"reads no reset":    {func(_ string, v *Verdict) bool { return replace(v, `"reset":`, `"x":`) }, []string{`program reads other values, draft-11 Section 4.1.2: "";r=0;t=0`}},
		"reads no name":     {func(_ string, v *Verdict) bool { return replace(v, `"name":"burst"`, `"name":""`) }, []string{`program reads other values, draft-11 Section 4.1: "burst";r=0`}},
		"forgets a member":  {func(_ string, v *Verdict) bool { return replace(v, `},{`, `,"x":1,`) }, []string{`program reads other values, RFC 9651 Section 4.2.1 (Lists): "";r=0,"";r=0`}},
		"one line alone":    {func(text string, v *Verdict) bool { return v.OK && strings.Contains(text, newLine) && rejects(v) }, []string{"program rejects well-formed lines, RFC 9651 Section 4.2 (lines are joined): \"\";r=0\n\"\";r=0"}},
		"a key occurs once": {func(text string, v *Verdict) bool { return v.OK && twice(text) && rejects(v) }, []string{`program rejects well-formed lines, RFC 9651 Section 4.2.3.2 (Parameters): "";r;r=0`}},
		"takes any r": {func(text string, v *Verdict) bool {
			_, section := Judge(newCase(1, ratelimit.LimitField, text))
			return section == "draft-11 Section 4.1.1" && accept(v)
		}, []string{`program accepts malformed lines, draft-11 Section 4.1.1: "";r`}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Run(t.Context(), Options{Generator: Generator{Seed: 1, Fields: []string{ratelimit.LimitField}}, N: 1500}, reader(test.change))
			require.NoError(t, err)
			require.Equal(t, 1500, r.Cases)
			var got []string
			for _, d := range r.Differences {
				got = append(got, fmt.Sprintf("%s, %s: %s", strings.TrimPrefix(d.how, "the "), d.section, d.Case.text()))
			}
			require.Equal(t, test.want, got)
		})
	}
}

// Programs that drop extension parameters differ only if the parameters are compared. Their other
// faults are found in both cases.
func TestRunNoParams(t *testing.T) {
	drops := func(_ string, v *Verdict) bool {
		var list []map[string]any
		require.True(t, !v.OK || json.Unmarshal(v.Members, &list) == nil)
		for _, m := range list {
			delete(m, "params")
		}
		if v.OK {
			v.Members = encode(append([]map[string]any{}, list...))
		}
		return v.OK
	}
	keeps := func(string, *Verdict) bool { return false }
	noReset := func(text string, v *Verdict) bool {
		return drops(text, v) && replace(v, `"reset":`, `"x":`)
	}
	refusesDates := func(text string, v *Verdict) bool {
		if v.OK && strings.Contains(text, "=@") {
			*v = Verdict{}
		}
		return drops(text, v)
	}
	for name, test := range map[string]struct {
		change   func(text string, v *Verdict) bool
		noParams bool
		want     []string // sections
	}{
		"keeps, not compared": {keeps, true, nil},
		"drops, not compared": {drops, true, nil},
		"no reset":            {noReset, true, []string{"draft-11 Section 4.1.2"}},
		"refuses Dates":       {refusesDates, true, []string{"RFC 9651 Section 4.2.9 (Dates)"}},
		"drops, compared":     {drops, false, []string{paramSection}},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Generator: Generator{Seed: 1, Fields: both, NoParams: test.noParams}, N: 1500}
			r, err := Run(t.Context(), o, reader(test.change))
			require.NoError(t, err)
			require.Equal(t, len(test.want) > 0, r.Different > 0)
			var got []string
			for _, d := range r.Differences {
				got = append(got, d.section)
			}
			slices.Sort(got)
			require.Equal(t, test.want, got)
		})
	}
}

// A slow program does not make a run longer than its time, not even while a case is made smaller.
func TestRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, c Case) (Verdict, error) {
			select {
			case <-time.After(700 * time.Millisecond):
			case <-ctx.Done():
				return Verdict{}, ctx.Err()
			}
			ours, _ := Judge(c)
			return Verdict{OK: !ours.OK, Members: json.RawMessage("[]")}, nil
		}
		for limit := time.Second; limit < time.Minute; limit += time.Second {
			start := time.Now()
			r, err := Run(t.Context(), Options{Generator: Generator{Seed: 1, Fields: []string{ratelimit.LimitField}}, Time: limit}, slow)
			require.NoError(t, err)
			require.Equal(t, limit, time.Since(start))
			require.NotEmpty(t, r.Differences)
		}
	})
}

// A difference counts even if the program ends while the case is made smaller.
func TestRunEnds(t *testing.T) {
	dead, asked := errors.New("dead"), 0
	ask := func(_ context.Context, c Case) (Verdict, error) {
		if asked++; asked > 1 {
			return Verdict{}, dead
		}
		ours, _ := Judge(c)
		return Verdict{OK: !ours.OK, Members: json.RawMessage("[]")}, nil
	}
	r, err := Run(t.Context(), Options{Generator: Generator{Seed: 1, Fields: []string{ratelimit.LimitField}}, N: 9}, ask)
	require.ErrorIs(t, err, dead)
	require.Equal(t, []int{1, 1, 1}, []int{r.Cases, r.Different, len(r.Differences)})
}

// A case is made smaller only with a bounded number of questions, until the run ends, and only for
// its section.
func TestShrink(t *testing.T) {
	long := `"` + strings.Repeat("a", 300) + `";r=1`
	asked, last := 0, 0
	ctx, cancel := context.WithCancel(t.Context())
	ask := func(_ context.Context, c Case) (Verdict, error) {
		if asked++; asked == last {
			cancel()
		}
		v, _ := Judge(c)
		if v.OK = v.OK && c.text() != long; !v.OK {
			v.Members = nil
		}
		return v, nil
	}
	r := &Result{seen: map[kind]int{}}
	require.NoError(t, r.try(t.Context(), newCase(1, ratelimit.LimitField, long), ask))
	require.Equal(t, mostQuestions+2, asked)
	require.Equal(t, long, r.Differences[0].Case.text())

	asked, last = 0, 10
	require.NoError(t, r.try(ctx, newCase(1, ratelimit.LimitField, long), ask))
	require.Equal(t, last, asked)

	accepts := func(context.Context, Case) (v Verdict, err error) { accept(&v); return v, nil }
	r = &Result{seen: map[kind]int{}}
	require.NoError(t, r.try(t.Context(), newCase(1, ratelimit.LimitField, `"abc";r=12;t="x"`), accepts))
	require.Equal(t, `"";r=0;t`, r.Differences[0].Case.text(), "a smaller one breaks other sections")
}

func accept(v *Verdict) bool { *v = Verdict{true, json.RawMessage("[]")}; return true }

func replace(v *Verdict, old, new string) bool {
	v.Members = json.RawMessage(strings.ReplaceAll(string(v.Members), old, new))
	return true
}

// talking returns a Program whose answers f writes, for each line that it reads. It ends when f
// returns false, or by the function that is returned.
func talking(f func(line string, w io.Writer) bool) (*Program, func()) {
	in, cases := io.Pipe()
	out, answers := io.Pipe()
	go func() {
		defer answers.Close()
		defer in.Close()
		b := make([]byte, 1<<16)
		for {
			n, err := in.Read(b)
			if err != nil || !f(string(b[:n]), answers) {
				return
			}
		}
	}()
	return newProgram(cases, out, func() error { return errors.New("exit status 3") }), func() {
		cases.Close()
		out.Close()
	}
}

// A program that fails is reported with the case.
func TestProgramFails(t *testing.T) {
	writes := func(text string) func(string, io.Writer) bool {
		return func(_ string, w io.Writer) bool { _, err := io.WriteString(w, text); return err == nil }
	}
	for name, test := range map[string]struct {
		program func(string, io.Writer) bool
		want    string
	}{
		"dead":           {func(string, io.Writer) bool { return false }, "the program ended without an answer (exit status 3): it must answer until its input ends"},
		"dead in a line": {func(_ string, w io.Writer) bool { _, _ = io.WriteString(w, `{"id":1,`); return false }, `the answer cannot be read, because it is not an object with "id" and "ok": it was "{\"id\":1,"`},
		"silent":         {func(string, io.Writer) bool { return true }, "the program did not answer within 10s: it must write a line for each line that it reads, and flush it"},
		"slow":           {func(string, io.Writer) bool { time.Sleep(time.Hour); return false }, "the program did not answer within 10s: it must write a line for each line that it reads, and flush it"},
		"garbage":        {writes("\x1b[2J hello\n"), `the answer cannot be read, because it is not an object with "id" and "ok": it was "\x1b[2J hello"`},
		"an old answer":  {writes("{\"id\":0,\"ok\":false}\n"), `the answer cannot be read, because its "id" is 0: it was "{\"id\":0,\"ok\":false}"`},
		"no members":     {writes("{\"id\":1,\"ok\":true}\n"), `the answer cannot be read, because its "members" are not an array: it was "{\"id\":1,\"ok\":true}"`},
		"without an end": {writes(strings.Repeat("x", longest+1)), "the program wrote a line of more than 1 MiB: it must write one answer in a line"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, end := talking(test.program)
				defer time.Sleep(2 * time.Hour) // longer than a slow program
				defer end()
				_, err := p.Ask(t.Context(), newCase(1, ratelimit.LimitField, `"a";r=1`))
				require.EqualError(t, err, test.want+`; the case was {"id":1,"field":"RateLimit","lines":["\"a\";r=1"]}`)
			})
		})
	}
}

// An interrupt at a terminal ends the program too, perhaps before it ends the context.
func TestProgramInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, end := talking(func(string, io.Writer) bool { return false })
		defer end()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		_, err := p.Ask(ctx, newCase(1, ratelimit.LimitField, `"a";r=1`))
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(time.Second)
	})
}

// A verdict that differs has a way and a section.
func TestCompare(t *testing.T) {
	members := func(text string) Verdict { return Verdict{true, json.RawMessage(text)} }
	for name, test := range map[string]struct {
		text   string
		theirs Verdict
		want   kind
	}{
		"equal":                     {`"a";r=1`, members(`[ {"remaining":1.0, "name":"a"} ]`), kind{}},
		"both reject":               {`"a"`, Verdict{}, kind{}},
		"another number":            {`"a";r=1`, members(`[{"name":"a","remaining":2}]`), kind{misread, "draft-11 Section 4.1.1"}},
		"the first of two":          {`"a";r=2;r=1`, members(`[{"name":"a","remaining":2}]`), kind{misread, paramSection}},
		"two around a String":       {`"a";r=2;x=";,";r=1`, members(`[{"name":"a","remaining":2}]`), kind{misread, "draft-11 Section 4.1.1"}},
		"a key in another member":   {`"a";r=2,"b";r=1`, members(`[]`), kind{misread, listSection}},
		"an extension":              {`"a";r=1;x=?0`, members(`[{"name":"a","remaining":1,"params":[["x",true]]}]`), kind{misread, "RFC 9651 Section 4.2.8 (Booleans)"}},
		"an extension, dropped":     {`"a";r=1;x=?0`, members(`[{"name":"a","remaining":1}]`), kind{misread, "RFC 9651 Section 4.2.8 (Booleans)"}},
		"null":                      {``, members(`null`), kind{misread, "RFC 9651 Section 4.2 (an empty List, and spaces around one)"}},
		"a member that is a String": {`"a";r=1`, members(`["a"]`), kind{misread, "draft-11 Section 4.1.1"}},
	} {
		require.Equal(t, test.want, compare(newCase(1, ratelimit.LimitField, test.text), test.theirs), name)
	}
	require.True(t, twice(`"a";r=2;x="s";r=1`))
	require.False(t, twice(`"a;r;r";r=1`))
	require.False(t, twice("\"a\";r=1\n\"b\";r=1"))
}
