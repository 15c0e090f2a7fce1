package main

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Limits of a model: 500 requests and 30,000 tokens a minute.
const (
	tokensPerMinute = 30_000
	allTokens       = 340_850 // of 300 jobs; the tokens that the full bucket lacks flow in within 621.7 s
	answerTime      = 2 * time.Second
)

// bills has the costs of 300 jobs, by seed.
var bills sync.Map

// tokensOf returns the cost of a job: from 200 to 6,000 tokens, small costs more often. The sum is
// the same for every seed.
func tokensOf(seed uint64, job int) int64 {
	list, ok := bills.Load(seed)
	if !ok {
		list, _ = bills.LoadOrStore(seed, newBill(seed))
	}
	return list.([]int64)[job%300]
}

func newBill(seed uint64) []int64 {
	rnd := rand.New(rand.NewPCG(seed, 1))
	list, sum := make([]int64, 300), int64(0)
	for i := range list {
		list[i] = 200 + min(int64(936*rnd.ExpFloat64()), 5800)
		sum += list[i]
	}
	for sum != allTokens { // some jobs cost a little more or less
		i, step := rnd.IntN(300), max(min(allTokens-sum, 100), -100)
		if n := list[i] + step; n >= 200 && n <= 6000 {
			list[i], sum = n, sum+step
		}
	}
	return list
}

func honest(seed uint64, job int) []cost {
	n := tokensOf(seed, job)
	return []cost{{costField, n, n}}
}

// apart splits the tokens into input and output, three to one.
func apart(seed uint64, job int) []cost {
	n := tokensOf(seed, job)
	return []cost{{inputField, n * 3 / 4, n * 3 / 4}, {outputField, n - n*3/4, n - n*3/4}}
}

// estimated returns an estimate that is up to 30 % too high or too low.
func estimated(seed uint64, job int) []cost {
	n := tokensOf(seed, job)
	off := 0.7 + 0.6*rand.New(rand.NewPCG(seed, uint64(job)+1<<32)).Float64()
	return []cost{{costField, int64(float64(n) * off), n}}
}

// model returns a server of a model: requests have a bucket, and tokens have limits of their own. If
// untilFull, the reset of the requests is when the bucket is full.
func model(say func(http.Header, *visit), untilFull bool, limits ...func() limiter) func() *server {
	return func() *server {
		all := several{&bucket{perSecond: 500.0 / 60, burst: 500, untilFull: untilFull}}
		for _, limit := range limits {
			all = append(all, limit())
		}
		return &server{limit: all, say: say, refuse: refusal{http.StatusTooManyRequests, untilServed}, work: lasts(answerTime)}
	}
}

func tokenBucket(name, field string, perMinute float64, untilFull bool) func() limiter {
	return func() limiter {
		return &bucket{perSecond: perMinute / 60, burst: perMinute, untilFull: untilFull, meter: meter{name, field}}
	}
}

var (
	untilNext     = tokenBucket("tokens", costField, tokensPerMinute, false)
	openAI        = model(likeOpenAI, true, tokenBucket("tokens", costField, tokensPerMinute, true))
	currentTokens = model(current, false, untilNext)
	anthropic     = model(func(h http.Header, v *visit) {
		likeAnthropic(h, v)
		h.Set("Date", v.now.UTC().Format(http.TimeFormat))
	}, true, tokenBucket("input-tokens", inputField, tokensPerMinute*3/4, true), tokenBucket("output-tokens", outputField, tokensPerMinute/4, true))
	othersTake = model(current, false, func() limiter {
		return withOthers(untilNext(), time.Second, 1, []cost{{costField, 150, 150}})
	})
	tokenWindow = model(current, false, func() limiter {
		return &fixedWindow{quota: tokensPerMinute, window: time.Minute, meter: meter{"tokens", costField}}
	})
)

func tokenLoad(workers int, costs func(uint64, int) []cost) load {
	return load{workers: workers, jobs: 300, costs: costs}
}

// inTokens are servers that also count tokens.
var inTokens = []scenario{
	{name: "OpenAI's fields; 10 workers", ideal: 621.7, load: tokenLoad(10, honest), server: openAI, wanted: wanted{seconds: 628}},
	{name: "OpenAI's fields; 40 workers", ideal: 621.7, load: tokenLoad(40, honest), server: openAI, wanted: wanted{seconds: 628}},
	{name: "the same, where the reset is the next unit; 10 workers", ideal: 621.7, load: tokenLoad(10, honest), server: model(likeOpenAI, false, untilNext), wanted: wanted{seconds: 628, refused: 1}},
	{name: `current fields, qu="tokens"; 10 workers`, ideal: 621.7, load: tokenLoad(10, honest), server: currentTokens, wanted: wanted{seconds: 628}},
	{name: `current fields, qu="tokens"; 40 workers`, ideal: 621.7, load: tokenLoad(40, honest), server: currentTokens, wanted: wanted{seconds: 628}},
	{name: "Anthropic's, input and output apart; 10 workers", ideal: 621.7, load: tokenLoad(10, apart), server: anthropic, wanted: wanted{seconds: 632}},
	{name: "Anthropic's, input and output apart; 40 workers", ideal: 621.7, load: tokenLoad(40, apart), server: anthropic, wanted: wanted{seconds: 632}},
	{name: "estimates off by up to 30 %; 10 workers", ideal: 621.7, load: tokenLoad(10, estimated), server: currentTokens, wanted: wanted{seconds: 640, refused: 2}},
	{name: "estimates off by up to 30 %; 200 jobs of 10 workers", ideal: 394, load: load{workers: 10, jobs: 200, costs: estimated}, server: currentTokens, wanted: wanted{seconds: 420, refused: 4}},
	{name: "others take 150 tokens a second; 10 workers", ideal: 888, load: tokenLoad(10, honest), server: othersTake, wanted: wanted{seconds: 900, refused: 52}},
	{name: "a fixed window of a minute; 10 workers", ideal: 661, load: tokenLoad(10, honest), server: tokenWindow, wanted: wanted{seconds: 675, refused: 11}},
}
