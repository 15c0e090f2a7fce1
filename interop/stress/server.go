package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// A server answers at random.
type server struct{ served atomic.Int64 }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.served.Add(1)
	time.Sleep(rand.N(2 * time.Millisecond))
	switch rand.IntN(40) {
	case 0:
		panic(http.ErrAbortHandler)
	case 1:
		w.WriteHeader(http.StatusTooManyRequests)
	case 2:
		w.Header().Set("Retry-After", strconv.Itoa(rand.IntN(2)))
		w.WriteHeader(http.StatusServiceUnavailable)
	case 3:
		w.Header().Set("RateLimit", fmt.Sprintf(`"a";r=0;t=%d`, rand.IntN(3)))
		w.WriteHeader(http.StatusTooManyRequests)
	case 4, 5, 6:
		w.Header().Set("RateLimit", fmt.Sprintf(`"a";r=%d;t=%d, "b";r=%d`, rand.IntN(50), rand.IntN(3), 1+rand.IntN(50)))
	case 7:
		w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(rand.IntN(20)))
		w.Header().Set("X-RateLimit-Reset", strconv.FormatInt(time.Now().Unix()+rand.Int64N(3)-1, 10))
	case 8:
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	case 9:
		slowBody(w, r)
	case 10, 11, 12:
		w.Header().Set("RateLimit-Policy", `"t";q=1000;w=1;qu="tokens"`)
		w.Header().Set("RateLimit", fmt.Sprintf(`"t";r=%d;t=1`, rand.IntN(1000)))
	case 13:
		w.Header().Set("RateLimit-Policy", `"t";q=1000;qu="tokens", "c";q=10;qu="concurrent-requests"`)
		w.Header().Set("RateLimit", fmt.Sprintf(`"t";r=%d;t=1, "c";r=%d`, rand.IntN(100), rand.IntN(10)))
		if rand.IntN(2) == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}
}

// slowBody writes until the client stops reading.
func slowBody(w http.ResponseWriter, r *http.Request) {
	for range 20 {
		if _, err := w.Write(make([]byte, 512)); err != nil || r.Context().Err() != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Millisecond)
	}
}
