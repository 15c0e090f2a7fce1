package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
)

const versionHelp = `usage: ratelimit version

Prints which version of this program it is, and how it was built.

Example:

  ratelimit version
`

func version(_ context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := newFlags("version")
	if status, done := parse(flags, versionHelp, args, stdout, stderr); done {
		return status
	}
	if flags.NArg() > 0 {
		return wrong(stderr, "version", errors.New("it takes no arguments"))
	}
	info, _ := debug.ReadBuildInfo() // nil if the program was built without modules
	fmt.Fprint(stdout, describe(info))
	return exitFine
}

// describe returns what is known of how a program was built.
func describe(info *debug.BuildInfo) string {
	if info == nil {
		return "ratelimit, of an unknown version\n" + runtime.Version() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "ratelimit %s\n", cmp.Or(info.Main.Version, "(of no version)"))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "  %s\t%s\n", name, value)
		}
	}
	row("module", info.Main.Path)
	row("sum", info.Main.Sum)
	row("go", info.GoVersion)
	for _, d := range info.Deps {
		with := d.Path + " " + d.Version
		if d.Replace != nil {
			with += " => " + strings.TrimSpace(d.Replace.Path+" "+d.Replace.Version)
		}
		row("with", with)
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "vcs.revision", "vcs.time", "vcs.modified":
			row(s.Key, s.Value)
		}
	}
	table.Flush()
	return b.String()
}
