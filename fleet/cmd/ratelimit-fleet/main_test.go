package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want int
		text string // a part of the output
	}{
		{"help", []string{"-h"}, 0, "no credential"},
		{"no Redis", []string{"-to", "http://a/"}, 2, "-redis is missing"},
		{"a wrong address of Redis", []string{"-to", "http://a/", "-redis", "http://u:s3cret@a/"}, 2, "-redis is no address"},
		{"no server", []string{"-redis", "redis://127.0.0.1:1"}, 2, "-to is missing"},
		{"an unknown flag", []string{"-x"}, 2, "-x"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, tc.want, run(t.Context(), tc.args, &stdout, &stderr))
			require.Contains(t, stdout.String()+stderr.String(), tc.text)
			require.NotContains(t, stderr.String(), "s3cret")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(ctx, []string{"-redis", "redis://127.0.0.1:1", "-to", "http://a/", "-listen", "127.0.0.1:0"}, &stdout, &stderr))
	require.Empty(t, stderr.String())
}
