package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/httpfields/ratelimit"
)

// A report is what a response says about rate limits. All of its text is
// printable ASCII, so that no terminal obeys what a server sent.
type report struct {
	Source    string      `json:"source"`
	Status    string      `json:"status"`
	Dialect   string      `json:"dialect,omitzero"` // how the limits were spelled
	Guessed   bool        `json:"guessed,omitzero"` // the unit of a reset
	Limits    []limit     `json:"limits"`
	Malformed []malformed `json:"malformed"`
	Advice    advice      `json:"advice"`
	Findings  []finding   `json:"findings,omitzero"` // nil if not asked for
}

// A limit is a limit joined with its policy, or either alone. nil and "" are
// absent, but in Name.
type limit struct {
	Name         string `json:"name"`
	PartitionKey []byte `json:"partition_key,omitzero"`
	Remaining    *int64 `json:"remaining,omitzero"`
	Quota        *int64 `json:"quota,omitzero"`
	Unit         string `json:"unit,omitzero"`
	Window       *int64 `json:"window,omitzero"` // in seconds, as Reset
	Reset        *int64 `json:"reset,omitzero"`
}

// A malformed is a field that had to be ignored.
type malformed struct {
	Field  string `json:"field"`
	Line   int    `json:"line"`
	Offset int    `json:"offset"` // counts bytes, each of which is one character of Value
	Item   *int   `json:"item,omitzero"`
	Param  string `json:"param,omitzero"`
	Error  string `json:"error"`
	Value  string `json:"value"`
}

func newReport(source string, resp *http.Response) *report {
	fields, err := ratelimit.ParseAny(resp.Header, ratelimit.LegacyOptions{})
	return &report{
		Source:    printable(source),
		Status:    printable(strings.TrimSpace(resp.Status)),
		Dialect:   fields.Dialect,
		Guessed:   fields.Guessed,
		Limits:    limitsOf(fields),
		Malformed: malformedOf(resp.Header, err),
		Advice:    adviceOf(resp, time.Now()),
	}
}

func (r *report) exitStatus() int {
	broken := slices.ContainsFunc(r.Findings, func(f finding) bool { return f.Level == ratelimit.LevelMust.String() })
	if len(r.Limits) == 0 || len(r.Malformed) > 0 || broken {
		return exitDoubtful
	}
	return exitFound
}

// An identity is what a limit and its policy have in common.
type identity struct {
	name, key string
	keyed     bool
}

func identityOf(p ratelimit.Policy) identity {
	return identity{p.Name, string(p.PartitionKey), p.PartitionKey != nil}
}

// limitsOf joins each limit with its policy, and puts the policies to which no
// limit belongs at the end.
func limitsOf(f ratelimit.Fields) []limit {
	list := []limit{} // null would be no array in JSON
	joined := map[identity]bool{}
	for _, l := range f.Limits {
		p, ok := f.PolicyOf(l)
		if !ok {
			list = append(list, limitOf(l))
			continue
		}
		list = append(list, limitOf(l).with(p))
		joined[identityOf(p)] = true
	}
	for _, p := range f.Policies {
		id := identityOf(p)
		if !joined[id] {
			list = append(list, limit{Name: p.Name}.with(p))
		}
		// Limits belong to the first of an identity; a repeated one is on its own.
		delete(joined, id)
	}
	return list
}

func limitOf(l ratelimit.Limit) limit {
	out := limit{Name: l.Name, PartitionKey: l.PartitionKey, Reset: secondsOf(l.Reset)}
	if l.Remaining != ratelimit.Unknown {
		out.Remaining = &l.Remaining
	}
	return out
}

func (l limit) with(p ratelimit.Policy) limit {
	if l.PartitionKey == nil {
		l.PartitionKey = p.PartitionKey
	}
	l.Quota = &p.Quota
	l.Unit = string(p.Unit)
	l.Window = secondsOf(p.Window)
	return l
}

func secondsOf(s ratelimit.Seconds) *int64 {
	n, ok := s.Value()
	if !ok {
		return nil
	}
	return &n
}

func malformedOf(h http.Header, err error) []malformed {
	list := []malformed{}
	for _, e := range fieldErrors(err) {
		m := malformed{
			Field:  e.Field,
			Line:   e.Line,
			Offset: e.Offset,
			Param:  e.Param,
			Error:  e.Error(),
			Value:  printable(h.Values(e.Field)[e.Line]),
		}
		if e.Item >= 0 {
			m.Item = &e.Item
		}
		list = append(list, m)
	}
	return list
}

// fieldErrors returns the errors that err joins.
func fieldErrors(err error) []*ratelimit.FieldError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var list []*ratelimit.FieldError
		for _, err := range joined.Unwrap() {
			list = append(list, fieldErrors(err)...)
		}
		return list
	}
	var e *ratelimit.FieldError
	if errors.As(err, &e) {
		return []*ratelimit.FieldError{e}
	}
	return nil
}

// printable replaces every byte that is not printable ASCII. It goes by bytes,
// not by characters, to keep offsets.
func printable(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

func printJSON(w io.Writer, reports []*report) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	for _, r := range reports {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
