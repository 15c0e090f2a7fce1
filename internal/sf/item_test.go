package sf

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/internal/text"
)

// Each bare item is read as a value. The value is written as in the last column. httpsfv
// reads the same value, except for a Byte Sequence without padding, which it refuses against
// RFC 9651 Section 4.2.7.
func TestItems(t *testing.T) {
	for _, tt := range []struct {
		item string
		want any
		text string
	}{
		{"0", int64(0), "0"},
		{"-007", int64(-7), "-7"},
		{"999999999999999", int64(text.MaxInteger), "999999999999999"},
		{"-999999999999999", int64(-text.MaxInteger), "-999999999999999"},
		{"1.50", 1.5, "1.5"},
		{"-0.0", math.Copysign(0, -1), "0.0"},
		{`""`, "", `""`},
		{`"a \"b\" \\"`, `a "b" \`, `"a \"b\" \\"`},
		{":YQ==:", []byte("a"), ":YQ==:"},
		{":YQ:", []byte("a"), ":YQ==:"},
		{"::", []byte{}, "::"},
		{"*a/b:c", httpsfv.Token("*a/b:c"), "*a/b:c"},
		{"?1", true, "?1"},
		{"?0", false, "?0"},
		{"@-5", time.Unix(-5, 0), "@-5"},
		{`%"f%c3%bc"`, httpsfv.DisplayString("fü"), `%"f%c3%bc"`},
	} {
		s, kind := Scan(tt.item)
		require.NotEqual(t, None, kind, tt.item)
		require.EqualValues(t, tt.want, s.Value(kind), tt.item)
		b, err := AppendValue([]byte("x="), s.Value(kind))
		require.NoError(t, err, tt.item)
		require.Equal(t, "x="+tt.text, string(b))
		if theirs, err := httpsfv.UnmarshalItem([]string{tt.item}); tt.item != ":YQ:" {
			require.NoError(t, err, tt.item)
			require.EqualValues(t, tt.want, theirs.Value, tt.item)
		}
	}
	for _, item := range []string{
		"", "-", "1.", ".5", "1.2345", "1234567890123456", "1234567890123.0", `"`, `"a`, `"\a"`, "\"\x00\"", "\"é\"", ":", ":a:", ":Y Q=:", "?", "?2", "@", "@1.5",
		`"a\"`, `%"`, `%"a`, `%"%zz"`, "%", "é", "(", "a b", "1a", `"a"b`, strings.Repeat("9", 16),
	} {
		_, kind := Scan(item)
		require.Equal(t, None, kind, item)
		_, err := httpsfv.UnmarshalItem([]string{item})
		require.Error(t, err, item)
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  error
	}{
		{int64(text.MaxInteger + 1), ErrRange}, {int64(-text.MaxInteger - 1), ErrRange},
		{1e12, ErrRange}, {math.NaN(), ErrRange}, {math.Inf(1), ErrRange}, {time.Unix(text.MaxInteger+1, 0), ErrRange},
		{"é", ErrSyntax}, {"\n", ErrSyntax}, {httpsfv.Token(""), ErrSyntax}, {httpsfv.Token("1"), ErrSyntax}, {httpsfv.DisplayString("\xff"), ErrSyntax},
		{nil, ErrType}, {1, ErrType}, {float32(1), ErrType}, {struct{}{}, ErrType},
	} {
		b, err := AppendValue([]byte("x="), tt.value)
		require.Equal(t, tt.want, err, "%#v", tt.value)
		require.Nil(t, b)
	}
}
