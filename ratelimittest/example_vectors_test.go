package ratelimittest_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// A parser of one member, which has no extension parameters.
func readLimit(line string) (name string, remaining int64, err error) {
	name, params, found := strings.Cut(strings.TrimPrefix(line, `"`), `";r=`)
	if !found {
		return "", 0, errors.New("no parameter r")
	}
	digits, _, _ := strings.Cut(params, ";t=")
	remaining, err = strconv.ParseInt(digits, 10, 64)
	return name, remaining, err
}

// Each line that the parser reads must mean the same to this package. Go runs the function with
// go test -fuzz if it is named FuzzLimit.
func ExampleAddLines() {
	fuzzLimit := func(f *testing.F) {
		ratelimittest.AddLines(f)
		f.Fuzz(func(t *testing.T, line string) {
			name, remaining, err := readLimit(line)
			if err != nil {
				return
			}
			want, err := ratelimit.ParseLimits(line)
			if err != nil || len(want) != 1 || want[0].Name != name || want[0].Remaining != remaining {
				t.Errorf("%q is read as %q and %d, want %v, %v", line, name, remaining, want, err)
			}
		})
	}
	_ = fuzzLimit
}
