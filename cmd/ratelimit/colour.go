package main

import (
	"io"
	"os"
	"runtime"
)

// A palette colours text if it is true.
type palette bool

// paletteOf returns the palette for an output. Only terminals get colours, and none if NO_COLOR is
// set (https://no-color.org).
func paletteOf(w io.Writer, getenv func(string) string) palette {
	f, ok := w.(*os.File)
	if !ok || getenv("NO_COLOR") != "" || getenv("TERM") == "dumb" {
		return false
	}
	if runtime.GOOS == "windows" && getenv("WT_SESSION") == "" && getenv("TERM") == "" {
		return false // the old console prints the escape sequences
	}
	return palette(isTerminal(f))
}

// isTerminal reports whether a file is a character device other than the null device.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// Colours and styles of a terminal.
const (
	bold   = "1"
	faint  = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// paint returns a text in a colour, which may be "".
func (p palette) paint(colour, text string) string {
	if !p || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
