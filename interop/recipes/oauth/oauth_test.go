package oauth

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/httpfields/ratelimit/interop/recipes/internal/fake"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
)

// An issuer makes tokens that live for 30 seconds.
type issuer struct{ issued int }

func (i *issuer) Token() (*oauth2.Token, error) {
	i.issued++
	return &oauth2.Token{AccessToken: fmt.Sprint(i.issued), Expiry: time.Now().Add(30 * time.Second)}, nil
}

func TestOAuth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		api := fake.Spent()
		api.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen = append(seen, r.Header.Get("Authorization"))
		})
		client := NewClient(&issuer{}, api.RoundTripper())
		for range 2 { // a minute apart
			_, err := client.Get("http://api.example")
			require.NoError(t, err)
		}
		require.Equal(t, []string{"Bearer 1", "Bearer 2"}, seen)
		require.Zero(t, api.Counts().Refused)
	})
}
