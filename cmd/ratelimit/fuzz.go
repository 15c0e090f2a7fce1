package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/fuzz"
)

const fuzzHelp = `usage: ratelimit fuzz [flags] -- PROGRAM [ARGUMENT]...
       ratelimit fuzz -print [flags]

Tests a parser of RateLimit-Policy and RateLimit, in any language. It sends cases to
the program, well-formed, malformed and hostile ones, and compares the answers with
those of this module. It makes each case on which they differ as small as it can, and
prints it with both answers and the section that decides.

The program reads a case from each line of its standard input:

  {"id":1,"field":"RateLimit","lines":["\"burst\";r=50;t=30"]}

and writes its answer as one line. It must flush each line:

  {"id":1,"ok":true,"members":[{"name":"burst","remaining":50,"reset":30}]}
  {"id":1,"ok":false}

testdata/vectors/README.md describes the form of lines and members, and docs/vectors.md
has small programs to start from. Numbers are compared by their values. Two things that
RFC 9651 leaves to the parser are left out: Byte Sequences without padding, and Dates
outside of the years 1 to 9999.

With -print it writes the cases with the expected answers, for tests that run without
this program.

Exit status: 0 if nothing differs, 1 if something does, 2 if the program ends, writes
something else or does not answer a case within ten seconds, or the command line is
wrong, and 130 after an interrupt.

Examples:

  ratelimit fuzz -- python3 interop/python/fuzz.py
  ratelimit fuzz -field limit -seed 7 -n 100000 -- ./parser
  ratelimit fuzz -time 1m -n 0 -- ./parser
  ratelimit fuzz -print -n 1000 >cases.jsonl
`

func runFuzz(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) (int, error) {
	var o fuzz.Options
	flags := newFlags("fuzz")
	flags.IntVar(&o.N, "n", 10_000, "send this many cases; 0 is as many as -time allows")
	flags.Uint64Var(&o.Seed, "seed", 1, "make other cases; the same seed makes the same cases")
	flags.DurationVar(&o.Time, "time", 0, "stop after this time; 0 is never")
	field := flags.String("field", "", "send cases of one field alone: policy or limit")
	write := flags.Bool("print", false, "write the cases with the expected answers, and start no program")
	if err := parse(flags, fuzzHelp, args, stdout); err != nil {
		return 0, err
	}
	if err := checkFuzz(&o, *field, *write, flags); err != nil {
		return 0, usageError{err}
	}
	if *write {
		return exitFine, printCases(stdout, o)
	}
	return fuzzProgram(ctx, o, flags.Args(), stdout, stderr)
}

// checkFuzz completes the options, or returns what is wrong with the command line.
func checkFuzz(o *fuzz.Options, field string, write bool, flags *flag.FlagSet) error {
	o.Fields = map[string][]string{
		"":       {ratelimit.PolicyField, ratelimit.LimitField},
		"policy": {ratelimit.PolicyField},
		"limit":  {ratelimit.LimitField},
	}[field]
	switch {
	case o.Fields == nil:
		return errors.New("-field is unknown: give policy or limit")
	case o.N < 0 || o.Time < 0 || o.N == 0 && (o.Time == 0 || write):
		return errors.New("-n is not a number of cases: give one above 0, or 0 with -time")
	case write && flags.NArg() > 0:
		return errors.New("-print starts no program: leave the program out")
	case !write && flags.NArg() == 0:
		return errors.New("the program is missing: give it after --")
	}
	return nil
}

func printCases(w io.Writer, o fuzz.Options) error {
	b := bufio.NewWriter(w)
	for id := 1; id <= o.N; id++ {
		_, _ = b.Write(fuzz.Line(o.Case(id))) // Flush returns its error
	}
	return b.Flush()
}

func fuzzProgram(ctx context.Context, o fuzz.Options, command []string, stdout, stderr io.Writer) (int, error) {
	started, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	p, err := fuzz.Start(started, stderr, command[0], command[1:]...)
	if err != nil {
		return 0, err
	}
	r, err := fuzz.Run(ctx, o, p.Ask)
	status := exitFine
	switch {
	case r.Interrupted:
		status = exitInterrupted
	case r.Different > 0:
		status = exitDoubtful
	case err != nil:
		return 0, err // without a report of 0 differences
	}
	return status, errors.Join(err, r.Write(stdout, command[0]))
}
