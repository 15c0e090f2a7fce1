package ratelimit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	benchLimit    = `"default";r=50;t=30`
	benchPolicies = `"burst";q=100;w=60, "daily";q=1000;w=86400`
	benchFull     = `"burst";q=100;qu="requests";w=60;pk=:dHJpYWwxMjEzMjM=:;acme-burst=1000`
)

// BenchmarkHostile reads field values of a size, all of a shape that costs a
// careless parser more than linear time.
func BenchmarkHostile(b *testing.B) {
	for _, shape := range hostileShapes {
		for _, size := range []int{100 << 10, 1 << 20} {
			value := shape.value(size)
			b.Run(fmt.Sprintf("%s/%dKiB", shape.name, size>>10), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(value)))
				var err error
				for b.Loop() {
					_, err = ParseLimits(value)
				}
				require.ErrorIs(b, err, shape.err)
			})
		}
	}
}
