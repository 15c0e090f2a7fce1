package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The program finds no fault in a second.
func TestStress(t *testing.T) {
	report, err := stress(time.Second, 1)
	t.Log(report)
	require.NoError(t, err)
}
