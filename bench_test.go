package ratelimit

import (
	"fmt"
	"math"
	"testing"
	"time"

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

// BenchmarkParams reports how many times as long ten times the parameters of a
// member take.
func BenchmarkParams(b *testing.B) {
	few, many := Limit{Params: extensions(25)}, Limit{Params: extensions(250)}
	buf := make([]byte, 0, 8<<10)
	b.Run("AppendLimits", func(b *testing.B) {
		benchRatio(b, func() { _, _ = AppendLimits(buf, many) }, func() { _, _ = AppendLimits(buf, few) })
	})
	fewLine, manyLine := few.String(), many.String()
	b.Run("ParseLimits", func(b *testing.B) {
		benchRatio(b, func() { _, _ = ParseLimits(manyLine) }, func() { _, _ = ParseLimits(fewLine) })
	})
}

// A side is one of two ways to do the same work.
type side struct {
	work  func()
	calls int           // of a round
	best  time.Duration // of the fastest round
}

// newSide finds out how many calls take about a millisecond.
func newSide(work func()) *side {
	s := &side{work: work, calls: 1}
	for {
		s.best = math.MaxInt64
		if s.round(); s.best >= time.Millisecond {
			return s
		}
		s.calls *= 2
	}
}

func (s *side) round() {
	start := time.Now()
	for range s.calls {
		s.work()
	}
	s.best = min(s.best, time.Since(start))
}

// each returns the nanoseconds of one call in the fastest round.
func (s *side) each() float64 { return float64(s.best) / float64(s.calls) }

// benchRatio reports the time of ours as a part of that of the baseline: of each
// the fastest of interleaved rounds, so that both see the same machine.
func benchRatio(b *testing.B, ours, baseline func()) {
	o, base := newSide(ours), newSide(baseline)
	for b.Loop() {
		o.round()
		base.round()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(o.each(), "ours-ns")
	b.ReportMetric(base.each(), "baseline-ns")
	b.ReportMetric(o.each()/base.each(), "ratio")
}
