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

func (p palette) red(text string) string    { return p.paint("31", text) }
func (p palette) green(text string) string  { return p.paint("32", text) }
func (p palette) yellow(text string) string { return p.paint("33", text) }
func (p palette) bold(text string) string   { return p.paint("1", text) }
func (p palette) faint(text string) string  { return p.paint("2", text) }

func (p palette) paint(code, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
