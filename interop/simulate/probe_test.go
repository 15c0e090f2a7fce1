package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestProbe(t *testing.T) {
	groups := map[string][]scenario{"tokens": inTokens, "terse": terse, "worst": worst, "short": shortAnswers, "slow": slowAnswers, "first": firstRequests}
	seeds, _ := strconv.Atoi(os.Getenv("SEEDS"))
	for _, g := range strings.Split(os.Getenv("ROWS"), ",") {
		rows := groups[g]
		for i := range rows {
			sc := &rows[i]
			if m := os.Getenv("MATCH"); m != "" && !strings.Contains(sc.name, m) {
				continue
			}
			begin := time.Now()
			if os.Getenv("EACH") != "" {
				for s := range seeds {
					r := run(t, sc.load, ours, sc.server, uint64(s+1))
					fmt.Println(sc.name, s+1, r.time, r.refused)
				}
			}
			f := measure(t, sc, ours, max(seeds, 1))
			mark := ""
			if len(f.misses(sc.wanted)) > 0 {
				mark = "  <-- MISSED"
			}
			fmt.Printf("%-75s wanted %7v /%5v  before %-12s got %8.1f / %6.1f again %.0f (%.1fs)%s\n", sc.name, sc.wanted.seconds, sc.wanted.refused, sc.before, f.seconds, f.refused, f.again, time.Since(begin).Seconds(), mark)
		}
	}
}

func TestTrace(t *testing.T) {
	groups := map[string][]scenario{"tokens": inTokens, "terse": terse, "worst": worst, "short": shortAnswers, "slow": slowAnswers, "first": firstRequests}
	rows := groups[os.Getenv("ROWS")]
	for i := range rows {
		sc := &rows[i]
		if !strings.Contains(sc.name, os.Getenv("MATCH")) {
			continue
		}
		r := run(t, sc.load, ours, func() *server {
			s := sc.server()
			say := s.say
			s.say = func(h http.Header, v *visit) {
				say(h, v)
				fmt.Printf("%8.3f served=%v %v wait=%v\n", v.now.Sub(epoch).Seconds(), v.served, v.states, v.wait)
			}
			return s
		}, func() uint64 { n, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64); return n }())
		fmt.Println(r.time, r.refused)
	}
}
