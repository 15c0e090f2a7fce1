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

func version(_ context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := newFlags("version")
	if status, done := parse(flags, versionHelp, args, stdout, stderr); done {
		return status
	}
	if flags.NArg() > 0 {
		return wrong(stderr, "version", errors.New("there are arguments: leave them out"))
	}
	info, ok := debug.ReadBuildInfo()
	if !ok { // built without modules
		info = &debug.BuildInfo{}
	}
	fmt.Fprint(stdout, describe(info))
	return exitFine
}

// describe returns the version of a program on a line, and then all that the build recorded.
func describe(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version == "" {
		version = "(unknown version)"
	}
	return fmt.Sprintf("ratelimit %s\n%s", version, info)
}
