package fuzz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
)

// Options are the options of a run. N or Time must be positive.
type Options struct {
	Generator
	N    int           // the number of cases; 0 is as many as Time allows
	Time time.Duration // 0 is no limit
}

// Ask returns the verdict of a program on a case.
type Ask func(context.Context, Case) (Verdict, error)

// A Difference is a case on which a program and this module differ.
type Difference struct {
	kind
	Case   Case // the smallest such case that was found
	Theirs Verdict
}

// A Result is the result of a run.
type Result struct {
	Seed        uint64
	Cases, OK   int // OK is the number of well-formed cases
	Different   int // the number of cases on which the two differ
	Differences []Difference
	Interrupted bool

	seen map[kind]int
}

const (
	mostShrunk    = 8       // cases of one kind that are made smaller, because each may become another kind
	mostQuestions = 2000    // to a program, to make one case smaller
	mostTried     = 100_000 // smaller cases; few of them become a question
)

// Run sends cases to a program, and compares the verdicts of the program and of this module. If ctx
// ends or the program fails, it also returns the result of the cases until then.
func Run(ctx context.Context, o Options, ask Ask) (*Result, error) {
	r := &Result{Seed: o.Seed, seen: map[kind]int{}}
	if o.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Time)
		defer cancel()
	}
	for id := 1; o.N == 0 || id <= o.N; id++ {
		if err := r.try(ctx, o.Case(id), ask); ctx.Err() != nil {
			r.Interrupted = errors.Is(ctx.Err(), context.Canceled)
			break
		} else if err != nil {
			return r, err
		}
	}
	return r, nil
}

// try compares the verdicts on one case.
func (r *Result) try(ctx context.Context, c Case, ask Ask) error {
	theirs, err := ask(ctx, c)
	if err != nil {
		return err
	}
	r.Cases++
	if ours, _ := Judge(c); ours.OK {
		r.OK++
	}
	d := Difference{compare(c, theirs), c, theirs}
	if d.kind == (kind{}) {
		return nil
	}
	r.Different++
	if r.seen[d.kind]++; r.seen[d.kind] > mostShrunk {
		return nil
	}
	err = r.shrink(ctx, &d, ask) // even without a smaller case, d is a difference
	i := slices.IndexFunc(r.Differences, func(old Difference) bool { return old.kind == d.kind })
	switch {
	case i < 0:
		r.Differences = append(r.Differences, d)
	case len(encode(d.Case)) < len(encode(r.Differences[i].Case)):
		r.Differences[i] = d
	}
	return err
}

// shrink replaces the case by smaller ones, as long as the program errs in the same way and
// there is time.
func (r *Result) shrink(ctx context.Context, d *Difference, ask Ask) error {
	questions, tried := 0, 0
	for again := true; again; {
		again = false
		for text := range smaller(d.Case.text()) {
			if tried++; tried > mostTried || questions > mostQuestions || ctx.Err() != nil {
				return nil
			}
			c := d.Case.with(text)
			ours, section := Judge(c)
			if ours.OK == (d.how == accepts) || !ours.OK && section != d.section || !decided(text) {
				continue
			}
			questions++
			theirs, err := ask(ctx, c)
			if err != nil {
				return err
			}
			if k := compare(c, theirs); k.how == d.how {
				*d, again = Difference{k, c, theirs}, true
				break
			}
		}
	}
	return nil
}

// smaller returns the texts that are smaller or simpler than a text, the smallest first.
func smaller(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		const fewest = 24 // removed bytes, from which on all lengths are tried
		for n := len(text); n > 0; n = min(n-1, max(n*3/4, fewest)) {
			for i := range len(text) - n + 1 {
				if !yield(text[:i] + text[i+n:]) {
					return
				}
			}
		}
		if joined := strings.Replace(text, newLine, ",", 1); joined != text && !yield(joined) {
			return
		}
		for i := range len(text) {
			for _, class := range []string{"09", "az", "AZ"} {
				if class[0] < text[i] && text[i] <= class[1] && !yield(text[:i]+class[:1]+text[i+1:]) {
					return
				}
			}
		}
	}
}

// Write writes the result for people. name is the name of the program.
func (r *Result) Write(w io.Writer, name string) error {
	var b strings.Builder
	for _, d := range r.Differences {
		ours, _ := Judge(d.Case)
		fmt.Fprintf(&b, "%s: %s\n  case     %s\n  correct  %s\n  program  %s\n\n", d.section, d.how, encode(d.Case), encode(ours), encode(d.Theirs))
	}
	fmt.Fprintf(&b, "%s: %d cases (%d well-formed, %d not) with seed %d; %d differ\n", name, r.Cases, r.OK, r.Cases-r.OK, r.Seed, r.Different)
	_, err := io.WriteString(w, b.String())
	return err
}
