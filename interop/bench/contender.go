package main

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/httpfields/ratelimit"
)

// A library is a column of the table.
type library int

const (
	ours library = iota
	sfv
	hand

	libraries // their number
)

var libraryNames = [libraries]string{"ratelimit", "httpsfv and checks", "strconv by hand"}

// A work is a row of the table.
type work struct {
	name string
	// members divides the time of the row; 0 is 1.
	members    int
	contenders [libraries]*contender
}

// A contender does a work with a library.
type contender struct {
	// time repeats the work for at least some time, and returns the nanoseconds of one.
	time   func(atLeast time.Duration) (float64, error)
	answer func() (answer, error)
	allocs float64
	best   float64 // in nanoseconds
}

// turn times the work, and keeps the best time.
func (c *contender) turn(atLeast time.Duration) error {
	took, err := c.time(atLeast)
	if c.best == 0 || took < c.best {
		c.best = took
	}
	return err
}

// An answer is the result of reading or writing by a contender.
type answer struct {
	Rates []rate
	Text  string
}

// A rate is a policy, a limit or both. Absent numbers are zero, which no input contains.
type rate struct {
	Name, Unit, Key                 string
	Quota, Window, Remaining, Reset int64
}

// inGo turns a function into a contender.
func inGo[T any](do func() (T, error)) *contender {
	var got T // an unused result might be optimized away
	var err error
	n := 1
	return &contender{
		time: func(atLeast time.Duration) (float64, error) {
			for ; ; n *= 2 {
				start := time.Now()
				for range n {
					got, err = do()
				}
				if took := time.Since(start); took >= atLeast {
					return float64(took.Nanoseconds()) / float64(n), err
				}
			}
		},
		answer: func() (answer, error) {
			got, err = do()
			return answerOf(got), err
		},
		// ParseAny caches the names of fields during the first calls.
		allocs: testing.AllocsPerRun(200, func() { got, err = do() }),
	}
}

func answerOf(got any) (a answer) {
	switch got := got.(type) {
	case []byte:
		a.Text = string(got)
	case string:
		a.Text = got
	case http.Header:
		a.Text = fmt.Sprint(got)
	case []rate:
		a.Rates = got
	case []ratelimit.Policy:
		for _, p := range got {
			a.Rates = append(a.Rates, rateOf(p, ratelimit.Limit{}))
		}
	case []ratelimit.Limit:
		for _, l := range got {
			a.Rates = append(a.Rates, rateOf(ratelimit.Policy{}, l))
		}
	case ratelimit.Fields:
		for _, l := range got.Limits {
			p, _ := got.PolicyOf(l)
			a.Rates = append(a.Rates, rateOf(p, l))
		}
	}
	return a
}

// rateOf joins a policy and a limit.
func rateOf(p ratelimit.Policy, l ratelimit.Limit) rate {
	window, _ := p.Window.Value()
	reset, _ := l.Reset.Value()
	return rate{
		Name: p.Name + l.Name[min(len(p.Name), len(l.Name)):], Unit: string(p.Unit), Key: string(p.PartitionKey),
		Quota: p.Quota, Window: window, Remaining: l.Remaining, Reset: reset,
	}
}

var errAnswer = errors.New("another answer")

// checkAll compares all answers of a work with those of this package.
func checkAll(works []work) error {
	for _, w := range works {
		want, err := w.contenders[ours].answer()
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		for i, c := range w.contenders {
			if c == nil {
				continue
			}
			got, err := c.answer()
			if err == nil && !reflect.DeepEqual(want, got) {
				err = fmt.Errorf("%w: got %v, want %v", errAnswer, got, want)
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", w.name, libraryNames[i], err)
			}
		}
	}
	return nil
}
