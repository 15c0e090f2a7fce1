package ratelimit_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/announce"
)

// The functions of this file contain the code of README.md and docs/ word for word, which
// TestReadmeCode checks, so that it compiles and runs.

// respond returns the response of a handler.
func respond(h http.Handler) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w.Result()
}

// refusal returns the response to a request that exceeds a limit.
func refusal() *http.Response {
	return respond(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := ratelimit.Fields{
			Policies: []ratelimit.Policy{{Name: "burst", Quota: 100, Window: ratelimit.SecondsOf(60)}},
			Limits:   []ratelimit.Limit{{Name: "burst", Reset: ratelimit.SecondsOf(12)}},
		}
		if err := announce.Refuse(w, r, f, ratelimit.NewProblem(ratelimit.QuotaExceeded, "burst")); err != nil {
			log.Print(err)
		}
	}))
}

// logged returns what is logged until the test ends.
func logged(t *testing.T) *bytes.Buffer {
	var b bytes.Buffer
	flags, writer := log.Flags(), log.Writer()
	log.SetFlags(0)
	log.SetOutput(&b)
	t.Cleanup(func() {
		log.SetFlags(flags)
		log.SetOutput(writer)
	})
	return &b
}

// The error of a refusal contains the time to come back.
func TestReadmeRefused(t *testing.T) {
	lines := logged(t)
	resp := refusal()
	err := ratelimit.Advisor{}.CheckResponse(resp, time.Now())
	var refused *ratelimit.RefusedError
	if errors.As(err, &refused) {
		log.Printf("refused with %d, come back in %v", refused.Status, refused.Advice.Asked) // 0s if the server named no time
	}
	require.Equal(t, "refused with 429, come back in 12s\n", lines.String())
}

// A client reads the limits of a response.
func TestReadmeNumbers(t *testing.T) {
	lines := logged(t)
	resp := refusal()
	f, err := ratelimit.ParseAny(resp.Header, ratelimit.LegacyOptions{})
	if err != nil {
		log.Print(err) // one bad field hides no good one: f has what could be read
	}
	for _, l := range f.Limits {
		if p, ok := f.PolicyOf(l); ok {
			log.Printf("%s: %d of %d left for %v", l.Name, l.Remaining, p.Quota, l.Reset)
		}
	}
	require.Equal(t, "burst: 0 of 100 left for 12s\n", lines.String())
}

// A server that moves to the current fields also writes the older fields that its clients know.
func TestReadmeDialectSet(t *testing.T) {
	f := ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "burst", Remaining: 37, Reset: ratelimit.SecondsOf(12)}}}
	h := http.Header{}
	err := f.Set(h)
	err = errors.Join(err, ratelimit.XRateLimit.Set(h, f, time.Now()))
	require.NoError(t, err)
	require.Equal(t, []string{`"burst";r=37;t=12`, "37", "12"}, []string{h.Get("RateLimit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset")})
}

// readAcme reads fields whose names do not reveal their meaning.
func readAcme(resp *http.Response) error {
	acme, err := ratelimit.NewDialect("acme",
		ratelimit.DialectField{Name: "Acme-*-Credits", Role: ratelimit.RoleRemaining, Unit: "credits"},
		ratelimit.DialectField{Name: "Acme-*-Again", Role: ratelimit.RoleReset, Format: ratelimit.TimeUnixMilli})
	if err != nil {
		return err // a name that is no field name, or is there twice
	}
	f, err := ratelimit.ParseAny(resp.Header, ratelimit.LegacyOptions{Dialects: []*ratelimit.Dialect{acme}})
	fmt.Println(f.Dialect, f.Limits[0].Name, f.Limits[0].Remaining)
	return err
}

func TestReadmeDialect(t *testing.T) {
	require.NoError(t, readAcme(&http.Response{Header: http.Header{
		"Date":                {"Sat, 21 Nov 2026 03:00:00 GMT"},
		"Acme-Search-Credits": {"37"},
		"Acme-Search-Again":   {"1795230012000"},
	}}))
}
