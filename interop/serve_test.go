package interop

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Clients in three languages use up the quota of ratelimit serve. They read what remains and how
// long to wait from the fields of two vendors: GitHub's reset is a Unix time, express-rate-limit's
// refusal has Retry-After. Each client has a credential, and so a quota of its own.
func TestServe(t *testing.T) {
	clients := [][]string{{"sh", "serve/client.sh"}, {"node", "serve/client.mjs"}, {"python3", "serve/client.py"}}
	for _, name := range []string{"curl", "sh", "node", "python3"} {
		needProgram(t, name)
	}
	for _, vendor := range []struct{ name, limit, want string }{
		{"github", `"core";q=3;w=60`, `^200 2\n200 1\n200 0\n403 0 (5\d|6[01])\n$`},
		{"express", `"3-in-1min";q=3;w=60`, `^200 2\n200 1\n200 0\n429 0 (5\d|60)\n$`},
	} {
		t.Run(vendor.name, func(t *testing.T) {
			serve, address, lines := startCommand(t, "serve", "-like", vendor.name, "-limit", vendor.limit, "-key", "Authorization", "-addr", "127.0.0.1:0")
			for _, client := range clients {
				t.Run(client[0], func(t *testing.T) {
					got := command(t, ".", nil, client[0], client[1], address)
					require.Regexp(t, vendor.want, got)
				})
			}
			require.NoError(t, serve.Process.Signal(os.Interrupt))
			rest, err := io.ReadAll(lines)
			require.NoError(t, err)
			require.NoError(t, serve.Wait())
			require.Contains(t, string(rest), "\n9 served, 3 refused, 0 early\n")
		})
	}
}
