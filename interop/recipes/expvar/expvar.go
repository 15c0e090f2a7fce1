// Package expvar shows at /debug/vars why requests wait.
package expvar

import (
	"expvar"

	"github.com/httpfields/ratelimit/obey"
)

// Publish shows the state of each key of a Gate under a name.
func Publish(name string, gate *obey.Gate) {
	expvar.Publish(name, expvar.Func(func() any {
		keys := map[string]any{}
		for key := range gate.Keys() {
			if w, ok := gate.State(key); ok {
				keys[key] = map[string]any{
					"reason": w.Reason, "until": w.Until, "queued": w.Queued, "under_way": w.UnderWay, "advice": w.Advice.String(),
				}
			}
		}
		return keys
	}))
}
