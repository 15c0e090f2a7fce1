package main

import (
	"errors"
	"net/http"

	"github.com/dunglas/httpsfv"
	"github.com/httpfields/ratelimit"
)

// With httpsfv a program parses a list, and then checks every member against the draft: a
// String, with parameters that are Integers in a range.

var errRefused = errors.New("refused")

func sfvItems(lines ...string) ([]httpsfv.Item, error) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil, err
	}
	items := make([]httpsfv.Item, len(list))
	for i, member := range list {
		var ok bool
		if items[i], ok = member.(httpsfv.Item); !ok {
			return nil, errRefused
		}
	}
	return items, nil
}

// sfvNumber reads an optional Integer.
func sfvNumber(params *httpsfv.Params, key string, least int64) (n int64, there bool, err error) {
	value, there := params.Get(key)
	if !there {
		return 0, false, nil
	}
	n, ok := value.(int64)
	if !ok || n < least {
		return 0, true, errRefused
	}
	return n, true, nil
}

// sfvRest reads the partition key, and returns the undefined parameters.
func sfvRest(params *httpsfv.Params, defined map[string]bool) (key []byte, rest ratelimit.Params, err error) {
	for _, name := range params.Names() {
		value, _ := params.Get(name)
		switch {
		case name == "pk":
			var ok bool
			if key, ok = value.([]byte); !ok {
				return nil, nil, errRefused
			}
		case !defined[name]:
			rest = append(rest, ratelimit.Param{Key: name, Value: value})
		}
	}
	return key, rest, nil
}

var (
	ofPolicies = map[string]bool{"q": true, "qu": true, "w": true}
	ofLimits   = map[string]bool{"r": true, "t": true}
)

func sfvPolicies(lines ...string) ([]ratelimit.Policy, error) { return sfvMembers(lines, sfvPolicy) }

func sfvLimits(lines ...string) ([]ratelimit.Limit, error) { return sfvMembers(lines, sfvLimit) }

func sfvMembers[T any](lines []string, read func(httpsfv.Item) (T, error)) ([]T, error) {
	items, err := sfvItems(lines...)
	if err != nil {
		return nil, err
	}
	members := make([]T, len(items))
	for i, item := range items {
		if members[i], err = read(item); err != nil {
			return nil, err
		}
	}
	return members, nil
}

func sfvPolicy(item httpsfv.Item) (p ratelimit.Policy, err error) {
	var ok bool
	if p.Name, ok = item.Value.(string); !ok {
		return p, errRefused
	}
	quota, there, err := sfvNumber(item.Params, "q", 0)
	if err != nil || !there {
		return p, errRefused
	}
	p.Quota = quota
	window, there, err := sfvNumber(item.Params, "w", 1)
	if err != nil {
		return p, err
	}
	if there {
		p.Window = ratelimit.SecondsOf(window)
	}
	if unit, there := item.Params.Get("qu"); there {
		text, ok := unit.(string)
		if !ok {
			return p, errRefused
		}
		p.Unit = ratelimit.Unit(text)
	}
	p.PartitionKey, p.Params, err = sfvRest(item.Params, ofPolicies)
	return p, err
}

func sfvLimit(item httpsfv.Item) (l ratelimit.Limit, err error) {
	var ok bool
	if l.Name, ok = item.Value.(string); !ok {
		return l, errRefused
	}
	remaining, there, err := sfvNumber(item.Params, "r", 0)
	if err != nil || !there {
		return l, errRefused
	}
	l.Remaining = remaining
	reset, there, err := sfvNumber(item.Params, "t", 0)
	if err != nil {
		return l, err
	}
	if there {
		l.Reset = ratelimit.SecondsOf(reset)
	}
	l.PartitionKey, l.Params, err = sfvRest(item.Params, ofLimits)
	return l, err
}

func sfvFormatPolicies(policies []ratelimit.Policy) (string, error) {
	list := make(httpsfv.List, len(policies))
	for i, p := range policies {
		item := httpsfv.NewItem(p.Name)
		item.Params.Add("q", p.Quota)
		if w, ok := p.Window.Value(); ok {
			item.Params.Add("w", w)
		}
		list[i] = item
	}
	return httpsfv.Marshal(list)
}

func sfvFormatLimits(limits []ratelimit.Limit) (string, error) {
	list := make(httpsfv.List, len(limits))
	for i, l := range limits {
		item := httpsfv.NewItem(l.Name)
		item.Params.Add("r", l.Remaining)
		if t, ok := l.Reset.Value(); ok {
			item.Params.Add("t", t)
		}
		list[i] = item
	}
	return httpsfv.Marshal(list)
}

func sfvCurrent(h http.Header) (f ratelimit.Fields, err error) {
	if f.Policies, err = sfvPolicies(h.Values(ratelimit.PolicyField)...); err != nil {
		return f, err
	}
	f.Limits, err = sfvLimits(h.Values(ratelimit.LimitField)...)
	return f, err
}

// sfvDraft07 reads the dictionary of draft-07 Section 3, and the window of its
// policy.
func sfvDraft07(h http.Header) (f ratelimit.Fields, err error) {
	const name = "default"
	dict, err := httpsfv.UnmarshalDictionary(h.Values(ratelimit.LimitField))
	if err != nil {
		return f, err
	}
	number := func(key string) int64 {
		member, _ := dict.Get(key)
		item, _ := member.(httpsfv.Item)
		n, ok := item.Value.(int64)
		if !ok || n < 0 {
			err = errRefused
		}
		return n
	}
	p := ratelimit.Policy{Name: name, Quota: number("limit")}
	l := ratelimit.Limit{Name: name, Remaining: number("remaining"), Reset: ratelimit.SecondsOf(number("reset"))}
	if err != nil {
		return f, err
	}
	items, err := sfvItems(h.Values(ratelimit.PolicyField)...)
	if err != nil {
		return f, err
	}
	for _, item := range items {
		window, there, err := sfvNumber(item.Params, "w", 1)
		if err != nil {
			return f, err
		}
		if there && item.Value == p.Quota {
			p.Window = ratelimit.SecondsOf(window)
		}
	}
	return ratelimit.Fields{Policies: []ratelimit.Policy{p}, Limits: []ratelimit.Limit{l}}, nil
}
