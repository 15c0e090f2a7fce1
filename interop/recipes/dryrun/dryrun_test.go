package dryrun

import (
	"bytes"
	"log"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/httpfields/ratelimit/announce"
	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
)

func TestDryRun(t *testing.T) {
	var b bytes.Buffer
	log.SetOutput(&b)
	defer log.SetOutput(os.Stderr)
	take, _ := fake.Take()
	handler := (&announce.Middleware{Take: DryRun(take)}).Handler(fake.JSON("hello"))
	for range 3 {
		w := fake.Get(handler, "/a")
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, w.Header().Get("RateLimit"))
	}
	require.Equal(t, 2, strings.Count(b.String(), "would be refused policies=[window] path=/a"))
}
