package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/require"
)

// The baseline does the same work with httpsfv: it parses and then checks the
// types, or makes a List and then serializes it.

var errBaseline = errors.New("baseline: refused")

func httpsfvItems(lines []string) ([]httpsfv.Item, error) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil, err
	}
	items := make([]httpsfv.Item, 0, len(list))
	for _, m := range list {
		item, ok := m.(httpsfv.Item)
		if !ok {
			return nil, errBaseline
		}
		if _, ok := item.Value.(string); !ok {
			return nil, errBaseline
		}
		items = append(items, item)
	}
	return items, nil
}

// httpsfvParam reads a defined parameter of type T; present says whether it is
// there.
func httpsfvParam[T any](params *httpsfv.Params, key string) (v T, present bool, err error) {
	got, present := params.Get(key)
	if !present {
		return v, false, nil
	}
	v, ok := got.(T)
	if !ok {
		return v, true, errBaseline
	}
	return v, true, nil
}

func httpsfvInteger(params *httpsfv.Params, key string, least int64) (Seconds, error) {
	n, present, err := httpsfvParam[int64](params, key)
	if err != nil || !present {
		return Seconds{}, err
	}
	if n < least {
		return Seconds{}, errBaseline
	}
	return SecondsOf(n), nil
}

func httpsfvExtensions(params *httpsfv.Params, defined ...string) Params {
	var ps Params
next:
	for _, key := range params.Names() {
		for _, d := range defined {
			if key == d {
				continue next
			}
		}
		v, _ := params.Get(key)
		ps = append(ps, Param{key, v})
	}
	return ps
}

func httpsfvParsePolicies(lines ...string) ([]Policy, error) {
	items, err := httpsfvItems(lines)
	if err != nil {
		return nil, err
	}
	var policies []Policy
	for _, item := range items {
		p := Policy{Name: item.Value.(string)}
		q, err := httpsfvInteger(item.Params, "q", 0)
		if err != nil || !q.ok {
			return nil, errBaseline
		}
		p.Quota = q.n
		if p.Window, err = httpsfvInteger(item.Params, "w", 1); err != nil {
			return nil, err
		}
		unit, _, err := httpsfvParam[string](item.Params, "qu")
		if err != nil {
			return nil, err
		}
		p.Unit = Unit(unit)
		if p.PartitionKey, _, err = httpsfvParam[[]byte](item.Params, "pk"); err != nil {
			return nil, err
		}
		p.Params = httpsfvExtensions(item.Params, "q", "qu", "w", "pk")
		policies = append(policies, p)
	}
	return policies, nil
}

func httpsfvParseLimits(lines ...string) ([]Limit, error) {
	items, err := httpsfvItems(lines)
	if err != nil {
		return nil, err
	}
	var limits []Limit
	for _, item := range items {
		l := Limit{Name: item.Value.(string)}
		r, err := httpsfvInteger(item.Params, "r", 0)
		if err != nil || !r.ok {
			return nil, errBaseline
		}
		l.Remaining = r.n
		if l.Reset, err = httpsfvInteger(item.Params, "t", 0); err != nil {
			return nil, err
		}
		if l.PartitionKey, _, err = httpsfvParam[[]byte](item.Params, "pk"); err != nil {
			return nil, err
		}
		l.Params = httpsfvExtensions(item.Params, "r", "t", "pk")
		limits = append(limits, l)
	}
	return limits, nil
}

func httpsfvFormatPolicies(policies ...Policy) (string, error) {
	var list httpsfv.List
	for _, p := range policies {
		item := httpsfv.NewItem(p.Name)
		item.Params.Add("q", p.Quota)
		if p.Unit != "" {
			item.Params.Add("qu", string(p.Unit))
		}
		if p.Window.ok {
			item.Params.Add("w", p.Window.n)
		}
		if p.PartitionKey != nil {
			item.Params.Add("pk", p.PartitionKey)
		}
		for _, x := range p.Params {
			item.Params.Add(x.Key, x.Value)
		}
		list = append(list, item)
	}
	return httpsfv.Marshal(list)
}

func httpsfvFormatLimits(limits ...Limit) (string, error) {
	var list httpsfv.List
	for _, l := range limits {
		item := httpsfv.NewItem(l.Name)
		item.Params.Add("r", l.Remaining)
		if l.Reset.ok {
			item.Params.Add("t", l.Reset.n)
		}
		if l.PartitionKey != nil {
			item.Params.Add("pk", l.PartitionKey)
		}
		for _, x := range l.Params {
			item.Params.Add(x.Key, x.Value)
		}
		list = append(list, item)
	}
	return httpsfv.Marshal(list)
}

const (
	benchLimit    = `"default";r=50;t=30`
	benchPolicies = `"burst";q=100;w=60, "daily";q=1000;w=86400`
	benchFull     = `"burst";q=100;qu="requests";w=60;pk=:dHJpYWwxMjEzMjM=:;acme-burst=1000`
)

// benchParse times both parsers on the same line and checks what the last round
// returned.
func benchParse[T memberType[T]](b *testing.B, ours, baseline func() ([]T, error)) {
	want, err := ours()
	require.NoError(b, err)
	for _, c := range []struct {
		name  string
		parse func() ([]T, error)
	}{{"ratelimit", ours}, {"httpsfv", baseline}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var got []T
			for b.Loop() {
				got, err = c.parse()
			}
			require.NoError(b, err)
			requireEqual(b, want, got)
		})
	}
}

func BenchmarkParseLimits(b *testing.B) {
	benchParse(b,
		func() ([]Limit, error) { return ParseLimits(benchLimit) },
		func() ([]Limit, error) { return httpsfvParseLimits(benchLimit) })
}

func BenchmarkParsePolicies(b *testing.B) {
	benchParse(b,
		func() ([]Policy, error) { return ParsePolicies(benchPolicies) },
		func() ([]Policy, error) { return httpsfvParsePolicies(benchPolicies) })
}

func BenchmarkParsePoliciesFull(b *testing.B) {
	benchParse(b,
		func() ([]Policy, error) { return ParsePolicies(benchFull) },
		func() ([]Policy, error) { return httpsfvParsePolicies(benchFull) })
}

func BenchmarkAppendLimits(b *testing.B) {
	limits, err := ParseLimits(benchLimit)
	require.NoError(b, err)
	benchFormat(b, benchLimit, limits, AppendLimits, httpsfvFormatLimits)
}

func BenchmarkAppendPolicies(b *testing.B) {
	policies, err := ParsePolicies(benchPolicies)
	require.NoError(b, err)
	benchFormat(b, benchPolicies, policies, AppendPolicies, httpsfvFormatPolicies)
}

func benchFormat[T any](b *testing.B, want string, list []T, ours func([]byte, ...T) ([]byte, error), baseline func(...T) (string, error)) {
	b.Run("ratelimit", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 256)
		var got []byte
		var err error
		for b.Loop() {
			got, err = ours(buf, list...)
		}
		require.NoError(b, err)
		require.Equal(b, want, string(got))
	})
	b.Run("httpsfv", func(b *testing.B) {
		b.ReportAllocs()
		var got string
		var err error
		for b.Loop() {
			got, err = baseline(list...)
		}
		require.NoError(b, err)
		require.Equal(b, want, got)
	})
}

func BenchmarkParseUnrelated(b *testing.B) {
	h := wire(unrelated)
	b.ReportAllocs()
	var got Fields
	var err error
	for b.Loop() {
		got, err = Parse(h)
	}
	require.NoError(b, err)
	require.Equal(b, Fields{}, got)
}

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

// BenchmarkAnswers times what a server does for each response.
func BenchmarkAnswers(b *testing.B) {
	p := NewProblem(QuotaExceeded, "default")
	refused := Fields{Policies: benchFields.Policies, Limits: []Limit{{Name: "default", Reset: SecondsOf(30)}}}
	w, r := &discardWriter{h: wire(unrelated)}, &http.Request{Method: http.MethodGet}
	h := http.Header{}
	for _, bc := range []struct {
		name string
		work func() error
	}{
		{"Fields.Set", func() error { return benchFields.Set(h) }},
		{"Problem.MarshalJSON", func() error { _, err := p.MarshalJSON(); return err }},
		{"Refuse", func() error { return Refuse(w, r, refused, p) }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			var err error
			for b.Loop() {
				err = bc.work()
			}
			require.NoError(b, err)
		})
	}
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

// BenchmarkRatios has the rows of docs/speed.md: go test -run '^$' -bench Ratios .
func BenchmarkRatios(b *testing.B) {
	limits, err := ParseLimits(benchLimit)
	require.NoError(b, err)
	policies, err := ParsePolicies(benchPolicies)
	require.NoError(b, err)
	buf := make([]byte, 0, 256)
	for _, tc := range []struct {
		name           string
		ours, baseline func()
	}{
		{"ParseLimits", func() { _, _ = ParseLimits(benchLimit) }, func() { _, _ = httpsfvParseLimits(benchLimit) }},
		{"ParsePolicies", func() { _, _ = ParsePolicies(benchPolicies) }, func() { _, _ = httpsfvParsePolicies(benchPolicies) }},
		{"ParsePoliciesFull", func() { _, _ = ParsePolicies(benchFull) }, func() { _, _ = httpsfvParsePolicies(benchFull) }},
		{"AppendLimits", func() { _, _ = AppendLimits(buf, limits...) }, func() { _, _ = httpsfvFormatLimits(limits...) }},
		{"AppendPolicies", func() { _, _ = AppendPolicies(buf, policies...) }, func() { _, _ = httpsfvFormatPolicies(policies...) }},
	} {
		b.Run(tc.name, func(b *testing.B) { benchRatio(b, tc.ours, tc.baseline) })
	}
}
