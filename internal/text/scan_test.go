package text

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestClasses: each class holds the bytes that its grammar names, and no other.
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
