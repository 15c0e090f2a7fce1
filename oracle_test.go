package ratelimit

import (
	"errors"
	"slices"

	"github.com/dunglas/httpsfv"
)

// The oracle of law 5 does the same work with httpsfv: it parses, and then checks the
// types.

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
	for _, key := range params.Names() {
		if !slices.Contains(defined, key) {
			v, _ := params.Get(key)
			ps = append(ps, Param{key, v})
		}
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
