package ratelimittest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit/ratelimittest"
)

// The test of this file contains code of README.md word for word, which TestReadmeCode checks.

func TestReadmeCheck(testing *testing.T) {
	t := &failures{}
	resp := &http.Response{Header: http.Header{"Ratelimit": {`burst;r=37`}}}
	for _, f := range ratelimittest.Check(resp) {
		if f.Level > ratelimittest.LevelNote {
			t.Error(f)
		}
	}
	require.Len(testing, t.all, 1)
}

// failures takes the place of a [testing.T].
type failures struct{ all []any }

func (f *failures) Error(args ...any) { f.all = append(f.all, args...) }
