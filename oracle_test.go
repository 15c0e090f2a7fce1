package ratelimit

import (
	"errors"
	"slices"

	"github.com/dunglas/httpsfv"
)

// The oracle of law 5 does the same work with httpsfv: it parses, and then checks the
// types.

var errOracle = errors.New("oracle: refused")

func oraclePolicies(lines ...string) ([]Policy, error) {
	return oracleItems(lines, func(i *oracleItem) Policy {
		return Policy{
			i.name(), i.required("q"), Unit(oracleParam[string](i, "qu")), i.integer("w", 1),
			oracleParam[[]byte](i, "pk"), i.rest("q", "qu", "w", "pk"),
		}
	})
}

func oracleLimits(lines ...string) ([]Limit, error) {
	return oracleItems(lines, func(i *oracleItem) Limit {
		return Limit{i.name(), i.required("r"), i.integer("t", 0), oracleParam[[]byte](i, "pk"), i.rest("r", "t", "pk")}
	})
}

// An oracleItem is a member that httpsfv has read, and whether the draft refuses it.
type oracleItem struct {
	httpsfv.Item
	refused bool
}

func oracleItems[T any](lines []string, read func(*oracleItem) T) (list []T, err error) {
	members, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		item, ok := m.(httpsfv.Item)
		if !ok {
			return nil, errOracle
		}
		i := oracleItem{Item: item}
		list = append(list, read(&i))
		if i.refused {
			return nil, errOracle
		}
	}
	return list, nil
}

func (i *oracleItem) name() string {
	name, ok := i.Value.(string)
	i.refused = i.refused || !ok
	return name
}

// oracleParam returns a defined parameter of type T, or zero if it is absent.
func oracleParam[T any](i *oracleItem, key string) (v T) {
	if got, present := i.Params.Get(key); present {
		var ok bool
		v, ok = got.(T)
		i.refused = i.refused || !ok
	}
	return v
}

func (i *oracleItem) integer(key string, least int64) Seconds {
	if _, present := i.Params.Get(key); !present {
		return Seconds{}
	}
	n := oracleParam[int64](i, key)
	i.refused = i.refused || n < least
	return SecondsOf(n)
}

func (i *oracleItem) required(key string) int64 {
	n := i.integer(key, 0)
	i.refused = i.refused || !n.ok
	return n.n
}

func (i *oracleItem) rest(defined ...string) (ps Params) {
	for _, key := range i.Params.Names() {
		if !slices.Contains(defined, key) {
			v, _ := i.Params.Get(key)
			ps = append(ps, Param{key, v})
		}
	}
	return ps
}
