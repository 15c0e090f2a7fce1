package main

import (
	"context"
	"io"

	"github.com/httpfields/ratelimit/internal/proxy"
)

const proxyHelp = `usage: ratelimit proxy -to URL [flags]

Forwards requests to one server, and holds each back until the limits that the
server announces let it pass. Programs in any language, and any number of processes,
share a quota through it: they send their requests to the proxy instead of the server.

A request waits for its turn up to -max-wait. If it would wait longer, or if -queue
requests wait already, it is answered at once with 429, Retry-After and a problem
document. The proxy passes on the responses of the server, refusals too, and sends no
request twice. It rewrites references to the server in Location, Content-Location,
Link and Refresh to its own address, but not those in bodies. Requests with the same
values in the fields of -key share their limits. Requests without these fields share
limits too.

It listens on the loopback interface unless -listen has another address. Every client
that can connect can send requests to the server from this machine's address: the
proxy adds no credentials, and requires none. The address of -admin serves how much
is used, with keys as hashes, never with credentials. Both addresses answer requests
for names other than the server's, localhost and IP addresses with 421, so that a page
in a browser cannot read through them; -host adds names.

After an interrupt it stops listening, answers waiting requests with 503 and
Retry-After, and gives requests under way 30 seconds. A second interrupt ends it at
once.

The exit status is 0 after an interrupt, and 2 if the command line is wrong or it
cannot listen.

Examples:

  ratelimit proxy -to https://api.github.com
  GITHUB_API_URL=http://127.0.0.1:8700 gh-script

  ratelimit proxy -to https://api.openai.com -cost-header X-Request-Tokens -admin 127.0.0.1:8701
  OPENAI_BASE_URL=http://127.0.0.1:8700/v1 python batch.py
  curl http://127.0.0.1:8701/metrics

  ratelimit proxy -to https://api.github.com -listen unix:$HOME/.github.sock
  gh config set http_unix_socket $HOME/.github.sock
`

func runProxy(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) (int, error) {
	flags := newFlags("proxy")
	command := proxy.NewCommand("ratelimit proxy", flags)
	if err := parse(flags, proxyHelp, args, stdout); err != nil {
		return 0, err
	}
	if err := command.Complete(); err != nil {
		return 0, usageError{err}
	}
	return exitFine, command.Run(ctx, stdout, stderr)
}
