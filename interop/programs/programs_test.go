package programs

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The programs stay short.
func TestLines(t *testing.T) {
	for _, tc := range []struct {
		file  string
		below int
	}{
		{"sdk/sdk.go", 70},
		{"api/api.go", 60},
		{"gateway/gateway.go", 40},
		{"rpc/rpc.go", 50},
	} {
		text, err := os.ReadFile(tc.file)
		require.NoError(t, err)
		require.Less(t, bytes.Count(text, []byte("\n")), tc.below, tc.file)
	}
}
