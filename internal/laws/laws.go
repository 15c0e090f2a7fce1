// Package laws has the laws, generators and models that the tests of several packages share. It
// uses the public interface alone, so the tests inside of package ratelimit cannot use it.
package laws

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/draft"
	"github.com/httpfields/ratelimit/internal/trial"
)

// FieldsOf makes fields from the values of RateLimit-Policy and RateLimit. r=unknown and q=unknown are
// numbers that are absent, as in older fields. FieldsOf panics if the text has a mistake.
func FieldsOf(policies, limits string) ratelimit.Fields {
	const unknown int64 = 123456789012345
	mark := "=" + strconv.FormatInt(unknown, 10)
	f, err := ratelimit.Parse(http.Header{
		draft.PolicyKey: {strings.ReplaceAll(policies, "=unknown", mark)},
		draft.LimitKey:  {strings.ReplaceAll(limits, "=unknown", mark)},
	})
	if err != nil {
		panic(err)
	}
	for i := range f.Policies {
		if f.Policies[i].Quota == unknown {
			f.Policies[i].Quota = ratelimit.Unknown
		}
	}
	for i := range f.Limits {
		if f.Limits[i].Remaining == unknown {
			f.Limits[i].Remaining = ratelimit.Unknown
		}
	}
	return f
}

// RandomFields returns fields whose members often match members of other random fields. Some members
// have an unknown remaining, or occur twice.
func RandomFields(rnd *rand.Rand) ratelimit.Fields { return FieldsOf(trial.RandomPair(rnd, false)) }

// OwnFields returns random valid fields of a gateway.
func OwnFields(rnd *rand.Rand) ratelimit.Fields { return FieldsOf(trial.RandomPair(rnd, true)) }

// MustDialect returns a dialect with valid fields.
func MustDialect(name string, fields ...ratelimit.DialectField) *ratelimit.Dialect {
	d, err := ratelimit.NewDialect(name, fields...)
	if err != nil {
		panic(err)
	}
	return d
}

// Dialects are all dialects that LookupDialect knows.
var Dialects = dialects("draft-00", "draft-03", "draft-06", "draft-07", "x-ratelimit", "x-ratelimit-unix", "x-ratelimit-date",
	"x-ratelimit-by-name", "twitter", "github", "gitlab", "openai", "anthropic")

func dialects(names ...string) (list []*ratelimit.Dialect) {
	for _, name := range names {
		d, ok := ratelimit.LookupDialect(name)
		if !ok {
			panic("no dialect " + name)
		}
		list = append(list, d)
	}
	return list
}
