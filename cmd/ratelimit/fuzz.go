package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/cmd/ratelimit/internal/fuzz"
)

func runFuzz(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) (int, error) {
	var o fuzz.Options
	flags := newFlags("fuzz")
	flags.IntVar(&o.N, "n", 10_000, "send this many cases; 0 is as many as -time allows")
	flags.Uint64Var(&o.Seed, "seed", 1, "make other cases; the same seed makes the same cases")
	flags.DurationVar(&o.Time, "time", 0, "stop after this time; 0 is never")
	flags.BoolVar(&o.NoParams, "no-params", false, "do not compare extension parameters, which a parser may drop")
	field := flags.String("field", "", "send cases of one field alone: policy or limit")
	write := flags.Bool("print", false, "write the cases with the expected answers, and start no program")
	if err := parse(flags, args, stdout); err != nil {
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
		return fmt.Errorf("-field %s is unknown: use policy or limit", field)
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
		return 0, fmt.Errorf("%w: give a program that can be started", err)
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
	case r.Cases == 0:
		return 0, fmt.Errorf("nothing was tested: the program answered no case within %v: let it flush each line, or give a longer -time", o.Time)
	}
	return status, errors.Join(err, r.Write(stdout, command[0]))
}
