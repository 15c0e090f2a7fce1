package text

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each class contains exactly the bytes of its grammar.
func TestClasses(t *testing.T) {
	const (
		digits  = "0123456789"
		lower   = "abcdefghijklmnopqrstuvwxyz"
		letters = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		plain   = " !#$%&'()*+,-./:;<=>?@[]^_`{|}~" + digits + letters
	)
	for c, want := range map[Class]string{
		Digit: digits, Alpha: letters, keyStart: "*" + lower, keyByte: "_-.*" + lower + digits,
		TokenByte: "!#$%&'*+-.^_`|~:/" + digits + letters, nameByte: "!#$%&'*+-.^_`|~" + digits + letters,
		Plain: plain, printable: plain + `"\`, Space: " ", OWS: " \t",
	} {
		got := map[byte]bool{}
		for i := range 256 {
			if Is(byte(i), c) {
				got[byte(i)] = true
			}
		}
		require.Len(t, got, len(want), "%q", want)
		for _, b := range []byte(want) {
			require.True(t, got[b], "%q in %q", b, want)
		}
	}
}

// All names of a unit of time have its length.
func TestUnits(t *testing.T) {
	for length, names := range map[int64]string{
		1: "ns", 1e3: "us µs μs", 1e6: "ms", Billion: "s sec second seconds", 60 * Billion: "m min minute minutes",
		3600 * Billion: "h hour hours", 86400 * Billion: "d day days", 604800 * Billion: "w week weeks", 0: "y S",
	} {
		for name := range strings.FieldsSeq(names) {
			require.Equal(t, length, units[name], name)
		}
	}
	_, ok := ParseSpan("00:+1:00")
	require.False(t, ok, "a sign")
	require.False(t, IsToken(""), "RFC 9110 Section 5.6.2")
}
