package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit/internal/trial"
	"github.com/stretchr/testify/require"
)

// running runs the program with a standard input.
func running(stdin string, args ...string) (status int, stdout, stderr string) {
	var out, problems strings.Builder
	status = run(context.Background(), args, strings.NewReader(stdin), &out, &problems)
	return status, out.String(), problems.String()
}

// The help of the program and of each verb can be had in several ways, and exits with 0.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"-help"}, {"--help"}, {"help"}, {"help", "help"}} {
		status, stdout, stderr := running("", args...)
		require.Equal(t, exitFine, status)
		require.Empty(t, stderr)
		require.Equal(t, help, stdout)
	}
	all := help
	for _, v := range verbs {
		_, helped, _ := running("", "help", v.name)
		all += "\n" + strings.Repeat("=", 80) + "\n" + helped
		require.True(t, strings.HasPrefix(helped, "usage: ratelimit "+v.name), helped)
		for _, flag := range []string{"-h", "-help", "--help"} {
			status, stdout, stderr := running("", v.name, flag)
			require.Equal(t, exitFine, status, v.name)
			require.Empty(t, stderr)
			require.Equal(t, helped, stdout)
		}
	}
	trial.RequireGolden(t, "testdata/help.txt", all)
	for line := range strings.Lines(all) {
		require.LessOrEqual(t, len(line), 101, line)
	}
}

// The flags that print the version in other programs work too.
func TestVersion(t *testing.T) {
	for _, word := range []string{"version", "--version", "-version", "-v"} {
		status, stdout, stderr := running("", word)
		require.Equal(t, exitFine, status)
		require.Empty(t, stderr)
		require.Contains(t, stdout, "\nmod\tgithub.com/httpfields/ratelimit\t")
	}
}

// A wrong command line exits with 2, and refers to the help.
func TestCommandLine(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nothing":       {nil, help},
		"no such verb":  {[]string{"inspekt"}, "ratelimit: unknown verb \"inspekt\": use one of inspect, probe, serve, proxy, fuzz, version\nFor help: ratelimit -h\n"},
		"hostile":       {[]string{"\x1b[2J"}, "ratelimit: unknown verb \"\\x1b[2J\": use one of inspect, probe, serve, proxy, fuzz, version\nFor help: ratelimit -h\n"},
		"help of none":  {[]string{"help", "prob"}, "ratelimit: unknown verb \"prob\": use one of inspect, probe, serve, proxy, fuzz, version\nFor help: ratelimit -h\n"},
		"flag of none":  {[]string{"-json"}, "ratelimit: unknown verb \"-json\": use one of inspect, probe, serve, proxy, fuzz, version\nFor help: ratelimit -h\n"},
		"no such flag":  {[]string{"inspect", "-yaml"}, "ratelimit inspect: flag provided but not defined: -yaml\nFor help: ratelimit inspect -h\n"},
		"no such -h":    {[]string{"version", "-lint"}, "ratelimit version: flag provided but not defined: -lint\nFor help: ratelimit version -h\n"},
		"arguments":     {[]string{"version", "x"}, "ratelimit version: there are arguments: leave them out\nFor help: ratelimit version -h\n"},
		"no value":      {[]string{"inspect", "http://a.example/", "-H"}, "ratelimit inspect: flag needs an argument: -H\nFor help: ratelimit inspect -h\n"},
		"no number":     {[]string{"probe", "http://a.example/?key=s3cret", "-n"}, "ratelimit probe: flag needs an argument: -n\nFor help: ratelimit probe -h\n"},
		"a word":        {[]string{"probe", "http://a.example/", "-n", "s3cret"}, "ratelimit probe: -n is malformed: give a number such as 30\nFor help: ratelimit probe -h\n"},
		"a fraction":    {[]string{"fuzz", "-n=1.5"}, "ratelimit fuzz: -n is malformed: give a number such as 10000\nFor help: ratelimit fuzz -h\n"},
		"too large":     {[]string{"fuzz", "-seed", "99999999999999999999"}, "ratelimit fuzz: -seed is malformed: give a number such as 1\nFor help: ratelimit fuzz -h\n"},
		"no unit":       {[]string{"fuzz", "-time", "30"}, "ratelimit fuzz: -time is malformed: give a time such as 1m30s\nFor help: ratelimit fuzz -h\n"},
		"no boolean":    {[]string{"inspect", "-json=x y\" for -z: parse error"}, "ratelimit inspect: -json is malformed: leave its value out\nFor help: ratelimit inspect -h\n"},
		"hostile flag":  {[]string{"inspect", "-x value \"y\" for -z: w"}, "ratelimit inspect: flag provided but not defined: -x value \"y\" for -z: w\nFor help: ratelimit inspect -h\n"},
		"no field":      {[]string{"inspect", "-H", "Name"}, "ratelimit inspect: -H is not a header field: write 'Name: value'\nFor help: ratelimit inspect -h\n"},
		"no name":       {[]string{"inspect", "-H", "a b: c"}, "ratelimit inspect: -H is not a header field: write 'Name: value'\nFor help: ratelimit inspect -h\n"},
		"a second line": {[]string{"inspect", "-H", "a: b\nc: d"}, "ratelimit inspect: -H is not a header field: write 'Name: value'\nFor help: ratelimit inspect -h\n"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := running("", test.args...)
			require.Equal(t, exitFailed, status)
			require.Empty(t, stdout)
			require.Equal(t, test.want, stderr)
		})
	}
}

// Flags stand before, between and after arguments, but not after "--". They print nothing.
func TestFlagsAnywhere(t *testing.T) {
	for args, want := range map[string][]string{
		"-json a -lint b": {"a", "b"}, "a -json -- -lint": {"a", "-lint"}, "-- a -json": {"a", "-json"}, "-json -lint": nil, "--": nil,
	} {
		flags := newFlags("inspect")
		flags.Bool("json", false, "")
		flags.Bool("lint", false, "")
		require.NoError(t, parseAnywhere(flags, strings.Fields(args)))
		require.ElementsMatch(t, want, flags.Args(), args)
		require.Equal(t, io.Discard, flags.Output())
	}
}
