package ratelimit

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every transition of the machine, alone, in a Gate and in a Transport.
func TestMachine(t *testing.T) {
	var many strings.Builder
	for i := range maxBudgets + 1 {
		fmt.Fprintf(&many, `m%d r=0;t=60 of q=60;qu="tokens"; `, i)
	}
	for _, tc := range []struct{ name, score string }{
		// unknown
		{"unknown, ten go, the others wait half a second", `
			0 is unknown | send 10 | shut 500 polite
			499 shut 500 polite
			500 is counting | open`},
		{"unknown, half a second after the first of them", `
			0 send
			400 send 9 | shut 500 polite
			500 open`},
		{"unknown to counting, an answer", `
			0 send 10
			100 answer 3 | is counting | open`},
		{"unknown, another goes in place of one that fails", `
			0 send 10
			100 fail 3 | is unknown | send 1 | shut 500 polite`},
		{"unknown to waiting", `
			0 send 10
			100 answer 1 Retry-After: 7 | is waiting | shut 7100 certain`},
		{"unknown, a share of ten", `with share=0.25: 0 send 2 | shut 500 polite`},
		{"unknown, a share of less than one", `with share=0.001: 0 send 1 | shut 500 polite`},

		// counting
		{"counting, silence", `0 told | send 100 | is counting`},
		{"counting, as many as remain", `0 told a r=2;t=30 | send 2 | shut 30000`},
		{"counting, certain where nothing is under way", `
			0 told a r=1;t=30 | send
			100 fail 2 | shut 30000 certain`},
		{"counting, of two limits the tighter", `0 told a r=3;t=10; b r=2;t=30 | send 2 | shut 30000`},
		{"counting, those under way are taken off", `
			0 send 3
			100 answer 1 a r=3;t=30 | send 1 | shut 30100`},
		{"counting, those under way for longer than the window are in it", `
			0 send 3
			2000 answer 1 a r=3;t=1 | send 3 | shut 3000`},
		{"counting, those under way are taken off where no window is known", `
			0 send 3
			2000 answer 1 a r=3 | send 1 | shut 3000`},
		{"counting, an answer gives back what was taken off for it", `
			0 send 3
			100 answer 1 a r=1;t=30 | shut 30100 | answer 2 a r=2;t=30 | answer 3 a r=3;t=30 | send 1 | shut 30100`},
		{"counting, silence gives nothing back", `
			0 send 3
			100 answer 1 a r=2;t=30 | answer 2 | fail 3 | shut 30100 certain`},
		{"counting, silence before counts", `
			0 send 3
			100 answer 1 | fail 2 | answer 3 a r=3;t=30 | send 1 | shut 30100`},
		{"counting, a newer answer replaces", `
			0 told a r=1;t=30 | send
			100 answer 2 a r=5;t=40 | send 5 | shut 40100`},
		{"counting, an older answer makes stricter only", `
			0 send 2
			100 answer 2 a r=5;t=30 | answer 1 a r=1;t=30 | send 1 | shut 30100`},
		{"counting, an older answer that is looser changes nothing", `
			0 send 2
			100 answer 2 a r=1;t=30 | answer 1 a r=9;t=30 | send 1 | shut 30100`},
		{"counting, an answer gives back nothing that was not taken off for it", `
			0 send 3
			2000 answer 1 a r=3;t=1 | send | answer 2 a r=9;t=1 | send 2 | shut 3000`},
		{"counting, an answer gives back what it took of a budget that is older", `
			0 send 2 | answer 2 a r=5;t=60
			100 send 3 | answer 1 b r=4;t=30 | answer 3 c r=50;t=90 | answer 4 c r=50;t=90 | send 3 | shut 30100`},
		{"counting, an answer gives back a whole one of a share that was learnt before", `
			with share=0.5: 0 send 2 | answer 2 a r=10;t=60
			100 send | answer 1 b r=8;t=30 | answer 3 c r=50;t=90 | send 4 | shut 30100
			30100 is probing | open`},
		{"counting, the last of those in it gives back nothing", `
			0 send 3
			2000 answer 1 a r=3;t=1 | answer 3 a r=9;t=1 | send 3 | shut 3000`},
		{"counting, an older answer that leaves all to Retry-After: 0 is no silence", `
			0 send 3
			100 answer 2 a r=50;t=30 | answer 1 Retry-After: 0; a r=0;t=30 | answer 3 a r=5;t=30 | send 5 | shut 30100`},
		{"counting, r without t", `
			0 told a r=1 | send | shut 1000
			1000 is probing`},
		{"counting, r without t, nothing under way", `0 told a r=0 | is probing | send`},
		{"counting, r without t beside a window that is known, which is kept", `
			0 send 3 | answer 2 a r=0 | answer 3 a r=1;t=30 | fail 1 | shut 30000 certain`},
		{"counting, t of 0 is within a second", `
			0 told a r=2;t=0 | send
			500 send | shut 1000`},
		{"counting, other units are not counted", `0 told a r=1;t=30 of q=9;qu="content-bytes" | send 5`},
		{"counting, the window of the policy", `0 told a r=1 of q=9;w=60 | send | shut 60000`},
		{"counting, malformed fields", `0 told RateLimit: "a";r= | is counting | send 5`},
		{"counting, fields from a cache", `0 told Age: 5; a r=0;t=30 | is counting | send 5`},
		{"counting, what remains is not said", `0 told X-RateLimit-Limit: 9; X-RateLimit-Reset: 30 | is counting | send 5`},
		{"counting, Retry-After: 0 takes back that nothing remains", `0 told Retry-After: 0; a r=0;t=30 | is counting | send 5`},
		{"counting, a share", `with share=0.5: 0 told a r=5;t=30 | send 2 | shut 30000`},
		{"counting, less than one whole request waits for the end", `
			with share=0.1: 0 told a r=5;t=30 | shut 30000 certain
			30000 is counting | send | shut 31000`},
		{"counting to probing, the window ends with nothing left", `
			0 told a r=1;t=30 | send
			29999 is counting
			30000 is probing`},
		{"counting, the window ends with something left", `
			0 told a r=2;t=30 | send
			30000 is counting | send 1`},
		{"counting to waiting", `
			0 told a r=5;t=30 | send
			100 answer 2 a r=0;t=7 | is waiting | shut 7100 certain`},
		{"counting, no longer than MaxWait after the last request", `
			with maxwait=60000: 0 told a r=1;t=3600 | send | shut 60000
			60000 is probing`},

		// late answers, to three that were sent at the same time
		{"late answers, in order", `
			0 told a r=100;t=60 | send 3 | answer 2 a r=9;t=60 | answer 3 a r=8;t=60 | answer 4 a r=1;t=60 | send | shut 60000`},
		{"late answers, the last is first", `
			0 told a r=100;t=60 | send 3 | answer 2 a r=1;t=60 | answer 3 a r=8;t=60 | answer 4 a r=9;t=60 | send | shut 60000`},
		{"late answers, the wait is first", `
			0 told a r=100;t=60 | send 3 | answer 2 a r=0;t=30 | answer 3 a r=8;t=60 | answer 4 a r=9;t=60 | shut 30000 certain`},
		{"late answers, the wait is last", `
			0 told a r=100;t=60 | send 3 | answer 2 a r=8;t=60 | answer 3 a r=9;t=60 | answer 4 a r=0;t=30 | shut 30000 certain`},
		{"late answers, the longer wait is first", `
			0 told a r=100;t=60 | send 3 | answer 2 a r=0;t=30 | answer 3 a r=0;t=10 | answer 4 a r=9;t=60 | shut 30000 certain`},
		{"late answers, the longer wait is last", `
			0 told a r=100;t=60 | send 3 | answer 2 a r=0;t=10 | answer 3 a r=5;t=60 | answer 4 a r=0;t=30 | shut 30000 certain`},
		{"late answers, silence counts", `
			0 told a r=100;t=60 | send 3 | answer 2 a r=3;t=60 | answer 3 | answer 4 | send | shut 60000`},
		{"late answers, silence first counts too", `
			0 told a r=100;t=60 | send 3 | answer 2 | answer 3 | answer 4 a r=3;t=60 | send | shut 60000`},
		{"late answers, one that makes what is known stricter is the newest from then on", `
			0 told a r=100;t=60 | send 2 | answer 2 a r=50;t=60 | send | answer 3 a r=1;t=60 | answer 4 a r=40;t=60 | send | shut 60000`},

		// waiting
		{"waiting to probing, nothing was left", `
			0 told a r=0;t=7
			6999 is waiting
			7000 is probing`},
		{"waiting to probing, refused", `
			0 told 429; Retry-After: 7
			7000 is probing`},
		{"waiting to counting, a Retry-After that refused nothing", `
			0 told Retry-After: 7
			7000 is counting | send 5`},
		{"waiting to counting, then what remains", `
			0 told Retry-After: 7; a r=2;t=30
			7000 send 2 | shut 30000`},
		{"waiting, Retry-After in place of the window", `
			0 told Retry-After: 7; a r=0;t=30 | shut 7000 certain
			7000 is probing | send`},
		{"waiting, a longer wait", `
			0 send 2 | answer 1 Retry-After: 7
			100 answer 2 Retry-After: 9 | shut 9100 certain`},
		{"waiting, an older answer cannot shorten it", `
			0 send 2 | answer 2 Retry-After: 7
			100 answer 1 Retry-After: 1 | shut 7000 certain`},
		{"waiting, an older answer cannot end it", `
			0 send 2 | answer 2 Retry-After: 7
			100 answer 1 a r=50;t=60 | shut 7000 certain`},
		{"waiting, the answer to a request that was sent before it was learnt cannot end it", `
			0 send 2 | answer 2 a r=50;t=60
			100 send | answer 1 Retry-After: 7 | answer 3 a r=40;t=60 | shut 7100 certain`},
		{"waiting, a longer wait that refused nothing: still a probe", `
			0 send 2 | answer 2 429; Retry-After: 2
			100 answer 1 Retry-After: 5 | shut 5100 certain
			5100 is probing`},
		{"waiting, a shorter wait that refused: a probe", `
			0 send 2 | answer 2 Retry-After: 5
			100 answer 1 429; Retry-After: 2 | shut 5000 certain
			5000 is probing`},
		{"waiting, silence cannot end it", `
			0 send 2 | answer 1 Retry-After: 7
			100 answer 2 | shut 7000 certain`},
		{"waiting, no longer than MaxWait", `
			with maxwait=1000: 0 told Retry-After: 7 | shut 1000 certain
			1000 is counting`},
		{"waiting, ten minutes at the most", `
			0 told a r=0;t=999999999999999 | shut 600000 certain
			600000 told a r=9;t=0 | is counting | send 5`},
		{"waiting, part of a second", `
			0 told X-RateLimit-Limit-Requests: 9; X-RateLimit-Remaining-Requests: 0; X-RateLimit-Reset-Requests: 120ms | shut 120 certain`},
		{"waiting, nothing remains of bytes", `0 told a r=0;t=30 of q=9;qu="content-bytes" | shut 30000 certain`},

		// probing
		{"probing, one, two, four", `
			0 told a r=0;t=7
			7000 send 1 | shut 8000
			8000 send 2 | shut 9000
			9000 send 4 | shut 10000`},
		{"probing, waves that nobody used do not count", `
			0 told a r=0;t=7
			7000 send 1
			10000 send 2 | shut 11000`},
		{"probing, one at a time while answers could not be there yet", `
			0 send
			3000 answer 1 a r=0;t=7
			10000 send 1 | shut 11000
			11000 send 1 | shut 12000
			12000 send 1
			13000 send 1
			14000 send 1
			15000 send 1
			16000 send 1
			17000 send 2 | shut 18000
			18000 send 4 | shut 19000`},
		{"probing, another goes in place of one that fails", `
			0 told a r=0;t=7
			7000 send 1
			7300 fail 2 | send 1 | shut 8000
			8000 send 2 | shut 9000`},
		{"probing, a window that ends with nothing left begins it anew", `
			0 told a r=0;t=1; b r=1;t=5
			1000 send 1
			1500 fail 2 | shut 5000 certain
			5000 send 1 | shut 6000`},
		{"probing, the failure of an earlier request brings none", `
			0 send 2 | answer 1 a r=0;t=7
			7000 send 1
			7300 fail 2 | shut 8000`},
		{"probing, the failure of an earlier wave brings none", `
			0 told a r=0;t=7
			7000 send 1
			8000 send 2
			8100 fail 2 | shut 9000`},
		{"probing, the failure of a probe of an earlier time brings none", `
			0 told a r=0;t=1
			1000 send
			2000 told a r=0;t=1
			3000 send
			3100 fail 2 | shut 4000`},
		{"probing, the late refusal of an earlier request does not end it", `
			0 send 2 | answer 2 429; a r=0;t=1
			1000 send
			1100 answer 1 429; Retry-After: 0 | is probing | shut 2000`},
		{"probing to counting, an answer", `
			0 told a r=0;t=7
			7000 send 1
			7100 answer 2 | is counting | send 100`},
		{"probing to counting, the answer to an earlier request", `
			0 send 2 | answer 1 a r=0;t=7
			7000 send 1
			7100 answer 2 | is counting`},
		{"probing to waiting", `
			0 told a r=0;t=7
			7000 send 1
			7100 answer 2 a r=0;t=7 | is waiting | shut 14100 certain`},
		{"probing, an earlier probe is forgotten", `
			0 told a r=0;t=7
			7000 send 1
			8000 send 2
			8100 answer 3 a r=9;t=1 | is counting | send 8 | shut 9100
			9100 is probing | send 1`},

		// refusals
		{"refused without a wait, a tenth of a second, half of it random", `
			0 told 429 | is waiting | shut 50-100 certain
			100 is probing`},
		{"refused without a wait, no longer than MaxWait", `with maxwait=40: 0 told 429 | shut 40 certain`},
		{"refused with Retry-After: 0", `0 told 429; Retry-After: 0 | shut 50-100 certain`},
		{"refused with something remaining", `0 told 429; a r=50;t=10 | shut 50-100 certain`},
		{"refused with r=0;t=0", `0 told 429; a r=0;t=0 | shut 50-100 certain`},
		{"refused with nothing remaining, for nobody knows how long", `0 told 429; a r=0 | shut 50-100 certain`},
		{"refused by a limit that does not say what remains", `
			0 told 429; X-RateLimit-Limit: 10; X-RateLimit-Reset-After: 30 | shut 30000 certain`},
		{"refused again, half as long again", `
			0 told 429
			100 told 429 | shut 175-250 certain
			250 told 429 | shut 362-475 certain`},
		{"refused later, a third of what was enough, and a quarter more each time until then", `
			0 told 429
			100 told 429
			250 told 429
			475 told 429
			813 told | told 429 | shut 869-926 certain
			926 told 429 | shut 996-1067 certain
			1067 told 429
			1243 told 429
			1463 told 429
			1738 told 429 | shut 1909-2082 certain
			2082 told 429 | shut 2339-2598 certain`},
		{"refused later, a third of what was enough, however many answers there were since", `
			0 told 429
			100 told 429
			250 told 429
			475 told 429
			813 told | told | told 429 | shut 869-926 certain`},
		{"refused later, a third of what was enough, whatever waits were asked for since", `
			0 told 429
			100 told 429
			250 told 429
			475 told 429
			813 told | told 429; Retry-After: 1
			1813 told 429 | shut 1869-1926 certain`},
		{"refused, the answers to those under way together count once", `
			0 send 3 | answer 1 429 | answer 2 429 | answer 3 429 | shut 50-100 certain
			100 told 429 | shut 175-250 certain`},
		{"refused, those that were under way are served: no change", `
			0 send 2 | answer 1 429
			50 answer 2
			100 told 429 | shut 175-250 certain`},
		{"refused, served, refused: from the beginning", `
			0 told 429
			100 told 429
			250 told | told 429 | shut 300-350 certain`},
		{"refused with a wait, no more than that", `0 told 429; Retry-After: 7 | shut 7000 certain`},
		{"a wait that is cut grows by half each time, up to what was asked", `
			with maxwait=1000: 0 told 429; Retry-After: 2 | shut 1000 certain
			1000 told 429; Retry-After: 2 | shut 2500 certain
			2500 told 429; Retry-After: 2 | shut 4500 certain
			4500 told | told 429; Retry-After: 2 | shut 5500 certain`},
		{"a wait that is cut, and one that is not", `
			with maxwait=1000: 0 told 429; Retry-After: 3
			1000 told 429; Retry-After: 1
			2000 told 429; Retry-After: 3 | shut 3000 certain`},
		{"served answers do not mention the limit that refuses: half as many are under way", `
			0 send 8 | answer 1 | answer 2 429; a r=0;t=1 | fail 3 | fail 4 | fail 5 | fail 6 | fail 7
			1000 told | send 2 | shut 33000`},
		{"a policy of concurrent requests says how many are under way", `
			0 told c r=2 of q=3;qu="concurrent-requests" | send 3 | shut 32000
			100 answer 2 c r=0 of q=3;qu="concurrent-requests" | send | shut 32100`},
		{"of two policies of concurrent requests the lower counts", `
			0 told RateLimit-Policy: "c";q=3;qu="concurrent-requests", "d";q=2;qu="concurrent-requests", "e";q=9;qu="concurrent-requests"; c r=2
			0 send 2 | shut 32000`},
		{"a share of a policy of concurrent requests, at least one", `
			with share=0.1: 0 told c r=2 of q=3;qu="concurrent-requests" | send | shut 32000`},
		{"more are under way than a policy of concurrent requests allows: half as many", `
			0 told c r=3 of q=4;qu="concurrent-requests" | send 4
			0 answer 2 429; c r=0 of q=4;qu="concurrent-requests" | shut 50-100 certain
			100 shut 32000`},
		{"refused with something remaining, half as many are under way", `
			0 send 8 | answer 1 429; Retry-After: 1 | answer 2 429; Retry-After: 1 | answer 3 429; Retry-After: 1
			0 answer 4 429; Retry-After: 1 | answer 5 | answer 6 | answer 7 | answer 8
			1000 told | send 4 | shut 33000`},
		{"refused with something remaining, another that was under way hangs", `
			0 send 2 | answer 2 429; Retry-After: 1
			1000 is probing | shut 32000
			32000 told | shut 64000`},
		{"refused because nothing remains, as many as before are under way", `
			0 send 8 | answer 1 429; a r=0;t=1
			1000 told a r=50;t=10 | send 20`},

		// what requests cost
		{"costs, one goes, and the others wait for its answer", `
			0 send 1 tokens=10 | shut 32000 tokens=10 | send 9
			600 shut 32000 tokens=10
			900 answer 1 | open tokens=10`},
		{"costs, one goes in place of one that fails", `
			0 send 1 tokens=10
			700 fail 1 | send 1 tokens=10 | shut 32700 tokens=10
			32700 open tokens=10`},
		{"costs, as many as remain, and then what flows in by the window", `
			0 send 1 tokens=10 | answer 1 t r=50;t=1 of q=60;w=60;qu="tokens" | send 5 tokens=10 | shut 10000 tokens=10 | open
			10000 send 1 tokens=10`},
		{"costs, no more than the quota flows in", `
			0 send 1 tokens=10 | answer 1 t r=50;t=1 of q=60;w=60;qu="tokens"
			500000 send 6 tokens=10 | shut 510000 tokens=10`},
		{"costs, the longer wait of two limits", `
			0 send 1 tokens=10 | answer 1 t r=0;t=1 of q=60;w=60;qu="tokens"; u r=0;t=1 of q=600;w=6000;qu="tokens"
			0 shut 100000 tokens=10 certain`},
		{"costs, a policy with a long name", strings.ReplaceAll(`
			0 send 1 NAME:tokens=10 | answer 1 NAME r=0;t=30 of q=60;w=60;qu="tokens" | shut 10000 NAME:tokens=10 certain
			0 open other:tokens=10`, "NAME", strings.Repeat("n", 200))},
		{"costs, more limits than are counted apart", `
			0 send 1 tokens=1 | answer 1 ` + many.String() + ` | shut 60000 m0:tokens=9 certain
			0 shut 60000 m15:tokens=9 certain | open m16:tokens=9`},
		{"costs, of the policy that is named", `
			0 send 1 in:tokens=10 out:tokens=5
			0 answer 1 in r=0;t=1 of q=60;w=60;qu="tokens"; out r=3;t=1 of q=60;w=60;qu="tokens" | shut 10000 in:tokens=10 certain
			0 shut 2000 out:tokens=5 certain | shut 7000 tokens=1 out:tokens=10 certain | open other:tokens=5`},
		{"costs, until the window ends where nothing tells how fast units flow", `
			0 send 1 tokens=10 | answer 1 t r=5;t=30 of q=60;qu="tokens" | shut 30000 tokens=10 certain | open tokens=5
			30000 send 1 tokens=10 | shut 62000 tokens=10
			31000 answer 2 t r=50;t=29 of q=60;qu="tokens" | send 5 tokens=10`},
		{"costs, no end is known", `
			0 send 1 tokens=10 | answer 1 t r=5 of q=60;qu="tokens" | send 1 tokens=10 | shut 32000 tokens=10
			32000 open tokens=10`},
		{"costs, more than the quota goes when all is there", `
			0 send 1 tokens=10 | answer 1 t r=50;t=1 of q=60;w=60;qu="tokens" | shut 10000 tokens=1000 certain
			10000 send 1 tokens=1000 | shut 11000 tokens=1 | shut 70000 tokens=1000`},
		{"costs, an answer settles its own reservation alone", `
			0 send 1 tokens=10 | answer 1 t r=50;t=1 of q=60;w=60;qu="tokens"
			1000 send 1 tokens=20
			2000 send 1 tokens=20
			3000 answer 2 t r=31;t=1 of q=60;w=60;qu="tokens" | shut 5000 tokens=13
			3000 answer 3 t r=12;t=1 of q=60;w=60;qu="tokens" | open tokens=12 | shut 4000 tokens=13 certain`},
		{"costs, a refused request has taken nothing", `
			0 send 1 tokens=10 | answer 1 t r=50;t=1 of q=60;w=60;qu="tokens" | send 1 tokens=20 | send 1 tokens=20
			0 answer 3 429; Retry-After: 1; t r=15;t=1 of q=60;w=60;qu="tokens"
			0 answer 2 t r=30;t=1 of q=60;w=60;qu="tokens"
			1000 shut 5000 tokens=20 certain | open tokens=16`},
		{"costs, nothing remains: those that cost nothing of it go", `
			0 send 1 tokens=10 | answer 1 t r=0;t=1 of q=60;w=60;qu="tokens" | is counting | send 5 | shut 10000 tokens=10`},
		{"costs of requests", `
			0 send 1 requests=3 | answer 1 a r=7;t=30 | send 2 requests=3 | send 5 requests=0 | shut 30000 requests=3 | send 1 requests=1 | shut 30000`},
		{"costs of one that is under way", `
			0 send | send requests=3
			100 answer 1 a r=5;t=30 | send 2 | shut 30100`},
		{"costs of more requests than are left, where no end is known: a probe", `
			0 send 1 requests=3 | answer 1 a r=1 | send 1 requests=3 | shut 1000 requests=3`},
		{"costs, a share", `
			with share=0.5: 0 send 1 tokens=10 | answer 1 t r=50;t=1 of q=60;w=60;qu="tokens" | send 2 tokens=10 | shut 10000 tokens=10`},
		{"costs, less than nothing is nothing", `
			0 send tokens=9 | answer 1 t r=5;t=1 of q=60;w=60;qu="tokens" | send 9 tokens=-9 | shut 1000 tokens=6`},
		{"costs, a limit that the server does not announce", `
			0 send 1 points=10 | answer 1 t r=5;t=1 of q=60;w=60;qu="tokens" | send 100 points=10`},

		// the draft that follows
		{"the server moves to the next draft", `0 told RateLimit: "d";r=9;t=30 | told RateLimit: "d";a=1;w=30 | send | shut 30000`},
		{"the server moves to the next draft, whose names are Tokens", `
			0 told RateLimit: "d";r=2;t=30 | told RateLimit-Policy: d;q=100;w=60; RateLimit: d;a=0;w=50 | shut 50000 certain`},
		{"the server moves to the next draft, and its names to another case", `
			0 told RateLimit: "Day";r=5;t=30 | told RateLimit: day;a=1;w=40 | send | shut 40000`},
		{"the server moves to the next draft, and back", `
			0 told RateLimit: "d";r=9;t=30 | told RateLimit: d;a=0;w=20 | shut 20000 certain
			20000 told RateLimit: "d";r=1;t=30 | send | shut 50000`},

		// pace
		{"paced", `
			with pace: 0 told a r=10;t=30 | shut 3000 polite
			3000 send | shut 6000 polite`},
		{"not paced", `0 told a r=10;t=30 | send 10`},
		{"paced, a share", `with pace share=0.5: 0 told a r=10;t=30 | shut 6000 polite`},
		{"not paced where nothing tells, however small the share", `
			with pace share=5e-324: 0 told a r=0;t=0 of q=9; Retry-After: 0 | open`},
		{"paced, no slower than MaxWait", `with pace maxwait=60000: 0 told a r=1;t=999999999999999 | shut 60000 polite`},

		// what an answer says of another limit, or does not say
		{"costs, another limit has something left, and makes nobody wait", `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens", "r";q=9;w=60; t r=0;t=1; r r=5;t=50 | is counting | send 1`},
		{"costs, nothing remains for the window", `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=0 | is counting | send 1`},
		{"costs, more was under way than is left: those that cost nothing of it go", `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=50;t=1 | send 2 tokens=10 | answer 2 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=5;t=1 | open points=1 | send 5 | shut 15000 tokens=10`},
		{"costs of requests, more was under way than is left: those that cost none go", `
			0 send 3 | answer 1 a r=1;t=30 | shut 30000 | open requests=0`},
		{"costs, an older answer does not move the end of the window forwards", `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;qu="tokens"; t r=50;t=60
			0 send 2 tokens=20 | answer 3 RateLimit-Policy: "t";q=60;qu="tokens"; t r=10;t=60 | answer 2 RateLimit-Policy: "t";q=60;qu="tokens"; t r=30;t=10
			0 shut 60000 tokens=20 certain`},
		{"costs, nothing flows in before the window ends, as answers show", `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=50;t=60
			10000 send 1 | send 1 tokens=10 | send 1 | answer 3 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=40;t=50 | answer 2 | answer 4
			20000 send 1 | send 1 tokens=10 | send 1 | answer 6 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=30;t=40 | answer 5 | answer 7
			30000 send 1 | send 1 tokens=10 | send 1 | answer 9 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=20;t=30 | answer 8 | answer 10
			40000 send 1 tokens=10 | send 1 | answer 11 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=10;t=20 | answer 12 | shut 60000 tokens=20 certain`},
		{"an answer that says nothing of concurrent requests leaves their number as it is", `
			0 told RateLimit-Policy: "c";q=2;qu="concurrent-requests"; c r=1 | told | send 2 | shut 32000`},
		{"costs of a policy, in whatever unit it is", `
			0 send 1 in:=10 | answer 1 RateLimit-Policy: "in";q=60;w=60;qu="tokens"; in r=0;t=1 | shut 10000 in:=10 certain | open out:=10`},
		{"costs in no unit and of no policy are requests", `
			0 send 1 =10 | answer 1 RateLimit-Policy: "t";q=60;w=60;qu="tokens"; t r=5;t=1; a r=15;t=30 | send 1 =10 | shut 30000 =10`},
		{"costs, tokens are rounded to thousands, and may be half of one less", `
			0 send 1 tokens=10 | answer 1 RateLimit-Policy: "t";q=6000;w=60;qu="tokens"; t r=1000;t=1 | open tokens=500 | shut 10 tokens=501 certain`},
		{"costs, other units are not rounded", `
			0 send 1 points=10 | answer 1 RateLimit-Policy: "t";q=6000;w=60;qu="points"; t r=1000;t=1 | open points=1000 | shut 10 points=1001 certain`},
		{"paced, an answer that says nothing leaves the pace", `
			with pace: 0 told a r=10;t=30
			3000 told | shut 6000 polite`},
		{"costs, what several answers agree on flows in where no window is known", `
			0 send 1 tokens=1 | answer 1 RateLimit-Policy: "t";q=60;qu="tokens"; t r=50;t=10
			300 send 1 tokens=1 | answer 2 RateLimit-Policy: "t";q=60;qu="tokens"; t r=50;t=10
			600 send 1 tokens=1 | answer 3 RateLimit-Policy: "t";q=60;qu="tokens"; t r=50;t=10 | shut 5600 tokens=55 certain`},
		{"unknown, half a second after one", `
			0 send
			500 is counting`},
		{"one request at a time", `
			0 told RateLimit-Policy: "c";q=1;qu="concurrent-requests"; c r=0 | send | shut 32000`},
	} {
		t.Run(tc.name, func(t *testing.T) { runScore(t, tc.score) })
	}
}

// Waits that nobody has asked for grow by half, to 32 s at the most. Where the first was
// enough, it is the first again.
func TestBackoff(t *testing.T) {
	b := backoff{latest: time.Second}
	b.recovered()
	b.recovered()
	require.Equal(t, time.Second, b.proven, "whatever follows the first answer")
	b = backoff{}
	require.Equal(t, leastBackoff, b.next())
	b.recovered()
	want := leastBackoff
	for range 100 {
		require.Equal(t, want, b.next())
		want = min(want*3/2, mostBackoff)
	}
	require.Equal(t, 32*time.Second, want)
}

// Budgets of which one allows nothing that another does not are one.
func TestBudgets(t *testing.T) {
	b := func(left float64, seconds int) budget {
		if seconds == 0 {
			return budget{left: left}
		}
		return budget{left: left, end: epoch.Add(time.Duration(seconds) * time.Second)}
	}
	m := &machine{}
	require.True(t, m.budgets.add(b(5, 10)))
	require.False(t, m.budgets.add(b(5, 10)), "the same")
	require.False(t, m.budgets.add(b(6, 9)), "looser")
	require.True(t, m.budgets.add(b(6, 11)), "for longer")
	require.True(t, m.budgets.add(b(7, 0)), "nobody knows for how long")
	require.True(t, m.budgets.add(b(7, 100)), "the other may be over before")
	require.False(t, m.budgets.add(b(8, 0)))
	require.True(t, m.budgets.add(b(4, 11)))
	require.Equal(t, budgets{b(7, 0), b(7, 100), b(4, 11)}, m.budgets)
	require.True(t, m.budgets.add(b(3, 0)))
	require.Equal(t, budgets{b(7, 100), b(4, 11), b(3, 0)}, m.budgets)

	m = &machine{}
	for i := range maxBudgets + 5 {
		require.True(t, m.budgets.add(b(float64(100+i), i+1)))
	}
	require.Len(t, m.budgets, maxBudgets)
	require.Equal(t, b(100+maxBudgets-1, maxBudgets+5), m.budgets[maxBudgets-1], "the stricter of both")

	lower := budget{left: 100 + maxBudgets - 1.5, end: epoch.Add(maxBudgets*time.Second - time.Millisecond), from: epoch, number: 7}
	require.True(t, m.budgets.add(lower))
	lower.end = epoch.Add((maxBudgets + 5) * time.Second)
	require.Equal(t, lower, m.budgets[maxBudgets-1], "what is left of one, and the end of the other")
	require.True(t, m.budgets.add(b(1000, 0)))
	require.Equal(t, lower, m.budgets[maxBudgets-1], "an end is not lost")
	require.True(t, m.budgets.add(b(1, 0)))
	require.Equal(t, budget{left: 1, end: lower.end}, m.budgets[maxBudgets-1], "nor what is left")

	m = &machine{}
	for i := range maxBudgets - 1 {
		require.True(t, m.budgets.add(b(float64(100+i), i+1)))
	}
	require.True(t, m.budgets.add(b(50, 0)))
	require.True(t, m.budgets.add(b(200, 100)))
	require.Equal(t, b(50, 100), m.budgets[maxBudgets-1], "one has no end, and gets that of the other")
}

// TestLoss: what would be lost with a machine that was last used at the epoch.
func TestLoss(t *testing.T) {
	const before, at, after = idleTime - time.Second, idleTime, idleTime + time.Second
	r := settings{maxWait: idleTime, share: 1}
	ends := func(left float64, end time.Duration) []budget { return []budget{{left: left, end: epoch.Add(end)}} }
	for _, tc := range []struct {
		name string
		m    machine
		now  time.Duration
		want loss
		idle bool
	}{
		{"nothing is known", machine{}, at, nothingLost, false},
		{"nothing is known, for longer", machine{}, after, nothingLost, true},
		{"a wait", machine{phase: waiting, pause: pause{until: epoch.Add(2 * after)}}, after, waitLost, false},
		{"a wait that has ended", machine{phase: waiting, pause: pause{until: epoch.Add(after)}}, after, nothingLost, true},
		{"as many as may be under way", machine{pool: pool{most: 2}}, at, countLost, false},
		{"one may be under way", machine{pool: pool{most: 1}}, at, countLost, false},
		{"as many as a policy says may be under way", machine{pool: pool{atOnce: 2}}, at, countLost, false},
		{"as many as might be under way", machine{pool: pool{most: 2}}, after, nothingLost, true},
		{"something is left", machine{budgets: ends(5, 2*after)}, after, countLost, false},
		{"something was left", machine{budgets: ends(5, after)}, after, nothingLost, true},
		{"nothing is left", machine{budgets: ends(0, 2*after)}, before, waitLost, false},
		{"nothing is left for longer than is waited", machine{budgets: ends(0, 2*after)}, at, countLost, false},
		{"something is left without an end", machine{budgets: []budget{{left: 5}}}, at, countLost, false},
		{"nothing is left without an end", machine{budgets: []budget{{}}}, before, countLost, false},
		{"something is left without an end, for longer", machine{budgets: []budget{{left: 5}}}, after, nothingLost, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.m.last = epoch
			require.Equal(t, tc.want, tc.m.loss(epoch.Add(tc.now), &r))
			require.Equal(t, tc.idle, tc.m.idle(epoch.Add(tc.now), &r))
		})
	}
}

// Numbers at the end of their range do not wrap around.
func TestMachineExtremes(t *testing.T) {
	r := settings{maxWait: time.Duration(math.MaxInt64), share: 1e-300, pace: true}
	for _, fields := range []string{
		"a r=999999999999999;t=999999999999999", "a r=0;t=999999999999999", "429; Retry-After: 99999999999999999999", "a r=1;t=999999999999999",
	} {
		m, now := &machine{}, epoch
		for range 100 {
			m.tick(now, &r)
			if v := m.ask(now, &r, nil); !v.open {
				require.True(t, v.until.After(now), fields)
			}
			var sent trip
			m.send(&sent, now, &r)
			a := Advisor{MaxWait: r.maxWait}.Advise(shortResponse(fields), now)
			told := reportOf(&a, nil, nil)
			m.answered(&sent, &told, now, &r)
			now = now.Add(time.Hour)
		}
	}
}

// After a refusal of so many under way together half as many go, but at least one.
// Then there is one more after so many answers.
func TestMachineRegrows(t *testing.T) {
	for together, rounds := range map[int][]int{
		1: {calmRounds, 2, 3},
		2: {calmRounds, 2 * calmRounds, 3},
		3: {1, 2 * calmRounds, 3 * calmRounds, 4},
		4: {2, 3 * calmRounds, 4 * calmRounds, 5, 6},
	} {
		m, r := machine{}, settings{maxWait: DefaultMaxWait, share: 1}
		trips := make([]trip, together)
		for i := range trips {
			m.send(&trips[i], epoch, &r)
		}
		m.answered(&trips[0], &report{wait: time.Second, refused: true}, epoch, &r)
		require.Equal(t, max(1, together/2), m.pool.most)
		for _, answers := range rounds {
			most := m.pool.most
			for range answers {
				require.Equal(t, most, m.pool.most)
				var one trip
				m.send(&one, epoch.Add(time.Minute), &r)
				m.answered(&one, &report{}, epoch.Add(time.Minute), &r)
			}
			require.Equal(t, most+1, m.pool.most)
		}
	}
}

// Where it is the same number each time that is refused, it is tried four times as
// seldom each time, and one less goes in between.
func TestMachineRefusedAgain(t *testing.T) {
	var p pool
	p.shrink(6)
	require.Equal(t, 3, p.most)
	for _, rounds := range []int{calmRounds, 4 * calmRounds, 16 * calmRounds, 64 * calmRounds, 64 * calmRounds} {
		for p.most < 5 {
			p.regrow()
		}
		for range 5 * rounds {
			require.Equal(t, 5, p.most)
			p.regrow()
		}
		require.Equal(t, 6, p.most)
		p.shrink(6)
		require.Equal(t, 5, p.most)
	}
	p.shrink(4)
	require.Equal(t, 2, p.most, "another number: from the beginning")
	require.Zero(t, p.again)
}
