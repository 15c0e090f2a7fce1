package readme

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommands(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []Command
		wantErr    string
	}{
		{name: "none", text: "# a\n\ngo run .\n\n```\n200 OK\ngopher\n```\n\n```go\ngo f()\n```\n"},
		{name: "a block", text: "```sh\ncurl -i b\ngo run ./c\n```\n", want: []Command{{2, Run, "curl -i b\ngo run ./c"}}},
		{name: "a server", text: "a\n```sh server\nredis-server\n```\n```sh\ncurl b\n```", want: []Command{{3, Server, "redis-server"}, {6, Run, "curl b"}}},
		{name: "elsewhere", text: "```sh elsewhere\ngo get a\n```\n", want: []Command{{2, Elsewhere, "go get a"}}},
		{name: "spans", text: "run `go test .` and `go vet ./...`, not `go`, `x test .` or `curl -i`\nor `A=b go run .`",
			want: []Command{{1, Run, "go test ."}, {1, Run, "go vet ./..."}, {2, Run, "A=b go run ."}}},
		{name: "spans with addresses", text: "`curl https://a.example/`, `go run . https://a.example/`, `go run a/b@latest c`",
			want: []Command{{1, Elsewhere, "go run . https://a.example/"}, {1, Elsewhere, "go run a/b@latest c"}}},

		{name: "no language", text: "a\n```\ngo test ./...\n```\n", wantErr: "line 3: a command in a block that does not begin with ```sh"},
		{name: "no such kind", text: "```sh network\ncurl a\n```\n", wantErr: "line 1: a block of commands is sh, sh server or sh elsewhere"},
		{name: "no end", text: "a\n```sh\ncurl a\n", wantErr: "line 2: a block without an end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Commands(tc.text)
			if tc.wantErr != "" {
				require.EqualError(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}
