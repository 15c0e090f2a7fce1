package main

import (
	"context"
	"io"

	"github.com/httpfields/ratelimit/internal/proxy"
)

func runProxy(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) (int, error) {
	flags := newFlags("proxy")
	command := proxy.NewCommand("ratelimit proxy", flags)
	if err := parse(flags, args, stdout); err != nil {
		return 0, err
	}
	if err := command.Complete(); err != nil {
		return 0, usageError{err}
	}
	return exitFine, command.Run(ctx, stdout, stderr)
}
