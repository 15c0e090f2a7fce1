package main

import (
	"context"
	"io"

	"github.com/httpfields/ratelimit/internal/proxy"
)

const proxyHelp = `usage: ratelimit proxy -to URL [flags]

Forwards requests to one server, and holds each back until the limits that the
server announces allow it. Programs in any language, and any number of
processes, share a quota through it: they send their requests to the proxy in
place of the server, and change nothing else.

A request waits for its turn for as long as -max-wait. A request that would wait
longer is answered at once with 429, Retry-After and a problem document, and so
is every request that would wait while -queue others do. The answers of the
server are passed on, also refusals, and nothing is sent twice. References to
the server in Location, Content-Location, Link and Refresh are rewritten to the
address of the proxy; references in bodies are not. Requests with the same values
of the fields of -key share their limits, and requests without these fields
share theirs.

It listens on the loopback unless -listen names another address. Everybody who
can connect can send requests to the server through it, from this machine's
address: it adds no credentials, and asks for none. -admin serves how much is
used, with a hash as the name of each key, and no credential. Both answer
requests for other names than the server's, localhost and IP addresses with 421,
so that a page in a browser cannot read through them; -host adds names.

An interrupt ends it: it stops listening, answers waiting requests with 503 and
Retry-After, and gives requests under way 30 seconds. A second interrupt ends it
at once.

The exit status is 0 after an interrupt, and 2 if the command line is wrong or
it cannot listen.

Examples:

  ratelimit proxy -to https://api.github.com
  GITHUB_API_URL=http://127.0.0.1:8700 gh-script

  ratelimit proxy -to https://api.openai.com -cost-header X-Request-Tokens -admin 127.0.0.1:8701
  OPENAI_BASE_URL=http://127.0.0.1:8700/v1 python batch.py
  curl http://127.0.0.1:8701/metrics

  ratelimit proxy -to https://api.github.com -listen unix:$HOME/.github.sock
  gh config set http_unix_socket $HOME/.github.sock
`

func runProxy(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	flags := newFlags("proxy")
	command := proxy.NewCommand("ratelimit proxy", flags)
	if status, done := parse(flags, proxyHelp, args, stdout, stderr); done {
		return status
	}
	if err := command.Complete(); err != nil {
		return wrong(stderr, "proxy", err)
	}
	if err := command.Run(ctx, stdout, stderr); err != nil {
		return failed(stderr, "proxy", err)
	}
	return exitFine
}
