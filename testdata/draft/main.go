package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/httpfields/ratelimit"
)

func header(policies, limits string) http.Header {
	h := http.Header{}
	h.Set("RateLimit-Policy", policies)
	h.Set("RateLimit", limits)
	return h
}

func main() {
	h := header("day;q=100;w=60", "\"Day\";a=0;w=30;c=5")
	f, err := ratelimit.Parse(h)
	fmt.Println(f, err)
	p, ok := f.PolicyOf(f.Limits[0])
	fmt.Println(p, ok)
	fmt.Println(ratelimit.Advise(&http.Response{StatusCode: 200, Header: h}, time.Now()))
	fmt.Println(f.Set(h), h)
	b, err := json.Marshal(f.Limits)
	fmt.Println(string(b), err)
	fmt.Println(ratelimit.Restrict(f, ratelimit.Fields{Limits: []ratelimit.Limit{{Name: "DAY", Reset: ratelimit.SecondsOf(40)}}}))
	fmt.Println(ratelimit.Fields{Policies: []ratelimit.Policy{{Name: "a"}, {Name: "A"}}}.Validate())
	fmt.Println(ratelimit.Limit{Params: ratelimit.Params{{Key: "a", Value: int64(1)}}}.Validate())
	fmt.Println(ratelimit.Check(&http.Response{Header: header("\"d\";q=1;w=1", "\"d\";a=1;w=1")}))
	for _, limit := range []string{"a=x", "a=1;w=x", "w=1", "a=1;w=100000000"} {
		fmt.Println(ratelimit.Check(&http.Response{Header: header("\"d\";q=1;w=1", "\"d\";"+limit)}))
	}

	old := header("\"d\";q=100;w=60", "\"d\";r=50;t=30")
	fmt.Println(ratelimit.Parse(old))
	fmt.Println(ratelimit.ParseAny(old, ratelimit.LegacyOptions{}))
	old = http.Header{}
	f = ratelimit.Fields{Policies: []ratelimit.Policy{{Name: "d", Quota: 100, Window: ratelimit.SecondsOf(60)}}, Limits: []ratelimit.Limit{{Name: "d", Remaining: 5}}}
	fmt.Println(regexp.MustCompile("\\b[rt]\\b").FindAllString(fmt.Sprint(ratelimit.AllMessages()), -1))
	fmt.Println(ratelimit.Draft06.Set(old, f, time.Now()), old)
	fmt.Println(ratelimit.ParseAny(old, ratelimit.LegacyOptions{Name: "d"}))
}
