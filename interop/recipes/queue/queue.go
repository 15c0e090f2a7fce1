// Package queue puts jobs back until their servers allow them.
package queue

import (
	"net/http"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/obey"
)

// A Worker runs the jobs of a queue. Its Client must not have a Transport that waits.
type Worker struct {
	Client *http.Client
	Gate   obey.Gate
	Done   func(job *http.Request, resp *http.Response, err error)
	Later  func(job *http.Request, at time.Time) // puts a job back, for example by run_at in a database
}

// Work runs a job or puts it back. It never waits for a limit.
func (w *Worker) Work(job *http.Request) {
	pass, until := w.Gate.TryEnter(job.URL.Host)
	if pass == nil {
		w.Later(job, until)
		return
	}
	defer pass.Failed() // does nothing if it was answered
	resp, err := w.Client.Do(job)
	if err != nil {
		w.Done(job, nil, err)
		return
	}
	defer resp.Body.Close()
	received := time.Now()
	advice := ratelimit.Advise(resp, received)
	pass.Answered(advice, received)
	if advice.Refused {
		w.Later(job, received.Add(max(advice.Asked, time.Second)))
		return
	}
	w.Done(job, resp, nil)
}
