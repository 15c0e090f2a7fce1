package ratelimit

import (
	"encoding/json"
	"testing"
)

func FuzzProblem(f *testing.F) {
	for _, tc := range problemCases {
		f.Add([]byte(tc.json), tc.problem.Detail, tc.problem.Status)
	}
	for _, tc := range problemReadCases {
		f.Add([]byte(tc.json), "\xff", -1)
	}
	for _, s := range problemSyntaxErrors {
		f.Add([]byte(s[:min(len(s), 100)]), s[:min(len(s), 100)], 429)
	}
	f.Fuzz(func(t *testing.T, b []byte, s string, status int) {
		lawProblemRead(t, b)
		lawProblem(t, Problem{s, s, status, s, s, []string{s}, map[string]json.RawMessage{s: b}})
		lawProblem(t, *NewProblem(s))
	})
}
