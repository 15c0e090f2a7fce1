package giveback

import (
	"net/http"
	"testing"
	"time"

	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestGiveBack(t *testing.T) {
	used := map[string]int64{}
	limiter := &announce.Middleware{Take: func(r *http.Request) (d announce.Decision, err error) {
		user := r.URL.Query().Get("user")
		if used[user] == 2 {
			d.Violated = []string{"hour"}
		} else {
			used[user]++
		}
		d.Fields = announce.FixedWindow{Name: "hour", Quota: 2, Used: used[user], Window: time.Hour, Left: time.Hour}.Fields()
		d.Fields.Policies[0].PartitionKey, d.Fields.Limits[0].PartitionKey = []byte(user), []byte(user)
		return d, nil
	}}
	handler := limiter.Handler(GiveBack(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			http.Error(w, "no database", http.StatusInternalServerError)
		}
	}), func(_ *http.Request, d *announce.Decision) { used[string(d.Fields.Limits[0].PartitionKey)]-- }))
	for _, tc := range []struct {
		path string
		code int
		used int64
	}{
		{"/broken", http.StatusInternalServerError, 0},
		{"/", http.StatusOK, 1},
		{"/broken", http.StatusInternalServerError, 1},
		{"/", http.StatusOK, 2},
		{"/broken", http.StatusTooManyRequests, 2},
	} {
		w := fake.Get(handler, tc.path+"?user=ada")
		require.Equal(t, tc.code, w.Code)
		require.Equal(t, tc.used, used["ada"])
	}
}
