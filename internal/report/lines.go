package report

import (
	"bytes"
	"net/http"
	"reflect"
	"slices"

	"github.com/httpfields/ratelimit"
)

// The bounds of Lines, which reads the response once more for each line.
const (
	maxLines  = 64
	maxLimits = 64
	maxSize   = 32 << 10 // bytes of names and values
)

// Lines returns for each limit the numbers of its lines in the text, from 1. Without such a line the
// limit would differ, or the line alone contains a part of the limit.
func (r *Report) Lines() [][]int {
	found := make([][]int, len(r.Limits))
	total := 0
	for _, numbers := range r.response.lines {
		total += len(numbers)
	}
	if total > maxLines || len(r.Limits) > maxLimits || r.response.size > maxSize {
		return found
	}
	for key, numbers := range r.response.lines {
		for i, number := range numbers {
			if number == 0 { // a HAR file has no lines
				continue
			}
			without := r.response.Header.Clone()
			without[key] = slices.Delete(without[key], i, i+1)
			alone := http.Header{key: r.response.Header[key][i : i+1]}
			rest, parts := r.limitsIn(without), r.limitsIn(alone)
			for j, l := range r.Limits {
				if !slices.ContainsFunc(rest, func(m Limit) bool { return reflect.DeepEqual(l, m) }) || slices.ContainsFunc(parts, l.has) {
					found[j] = append(found[j], number)
				}
			}
		}
	}
	for _, numbers := range found {
		slices.Sort(numbers)
	}
	return found
}

func (r *Report) limitsIn(h http.Header) []Limit {
	fields, _ := ratelimit.ParseAny(h, ratelimit.LegacyOptions{Now: r.Arrived})
	return LimitsOf(fields)
}

// has reports whether all that another limit contains is in this one.
func (l Limit) has(part Limit) bool {
	agrees := func(a, b *int64) bool { return b == nil || a != nil && *a == *b }
	return l.Name == part.Name && bytes.Equal(l.PartitionKey, part.PartitionKey) &&
		agrees(l.Remaining, part.Remaining) && agrees(l.Quota, part.Quota) && agrees(l.Window, part.Window) && agrees(l.Reset, part.Reset)
}
