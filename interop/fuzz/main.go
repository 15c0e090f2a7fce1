// Fuzz is a parser for "ratelimit fuzz": httpsfv, and the types of the draft.
package main

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit"
)

type object = map[string]any

// defined are the parameters of each field, with their names in JSON.
var defined = map[string]map[string]string{
	"RateLimit-Policy": {"q": "quota", "qu": "unit", "w": "window", "pk": "partition_key"},
	"RateLimit":        {"r": "remaining", "t": "reset", "pk": "partition_key"},
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var c struct {
		ID    int
		Field string
		Lines []string
	}
	for in.Decode(&c) == nil {
		members, ok := read(c.Field, c.Lines)
		_ = out.Encode(object{"id": c.ID, "ok": ok, "members": members})
	}
}

func read(field string, lines []string) (members []object, ok bool) {
	for i, line := range lines { // a character is a byte
		var b strings.Builder
		for _, r := range line {
			b.WriteByte(byte(r))
		}
		lines[i] = b.String()
	}
	list, err := httpsfv.UnmarshalList(lines)
	members = []object{}
	for _, m := range list {
		item, isItem := m.(httpsfv.Item)
		name, isString := item.Value.(string)
		if !isItem || !isString {
			return nil, false
		}
		member, params := object{"name": name}, []ratelimit.Param{}
		for _, key := range item.Params.Names() {
			v, _ := item.Params.Get(key)
			to := defined[field][key]
			switch v := v.(type) {
			case int64:
				ok = (to == "quota" || to == "remaining" || to == "reset" || to == "window" && v > 0) && v >= 0
			case string:
				ok = to == "unit"
			case []byte:
				ok = to == "partition_key"
			default:
				ok = false
			}
			switch {
			case to == "":
				params = append(params, ratelimit.Param{Key: key, Value: v}) // for its JSON
			case !ok:
				return nil, false
			case v != "": // qu="" is absent
				member[to] = v
			}
		}
		if len(params) > 0 {
			member["params"] = params
		}
		if members = append(members, member); member["quota"] == nil && member["remaining"] == nil {
			return nil, false
		}
	}
	return members, err == nil
}
