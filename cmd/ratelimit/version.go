package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
)

const versionHelp = `usage: ratelimit version

Prints the version of this program, and how it was built.

Example:

  ratelimit version
`

func version(_ context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) (int, error) {
	flags := newFlags("version")
	if err := parse(flags, versionHelp, args, stdout); err != nil {
		return 0, err
	}
	if flags.NArg() > 0 {
		return 0, usageError{errors.New("there are arguments: leave them out")}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		fmt.Fprintf(stdout, "ratelimit %s\n%s", info.Main.Version, info)
	}
	return exitFine, nil
}
