package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

var errNoHAR = errors.New("this begins like a HAR file, and is none")

// A harFile is a HAR file, or a part of one that holds a response: one of its entries,
// the response of that, or its headers alone.
type harFile struct {
	Log *struct{ Entries harEntries }
	harEntry
}

type harEntry struct {
	Response *harResponse
	harResponse
}

type harResponse struct {
	Status     int
	StatusText string
	Headers    harHeaders
}

// harEntries are the last entries. What is not looked at is not kept: a file may have
// many of them.
type harEntries struct {
	kept    []harEntry
	dropped int
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *harEntries) UnmarshalJSON(b []byte) error {
	return eachElement(b, func(entry harEntry) {
		e.kept = append(e.kept, entry)
		if len(e.kept) > 2*maxResponses {
			e.kept = slices.Delete(e.kept, 0, maxResponses)
			e.dropped += maxResponses
		}
	})
}

// harHeaders are the fields of a response, as far as they are not too long.
type harHeaders struct {
	list []harHeader
	size int // bytes of names and values
}

type harHeader struct{ Name, Value string }

// UnmarshalJSON implements json.Unmarshaler.
func (h *harHeaders) UnmarshalJSON(b []byte) error {
	return eachElement(b, func(field harHeader) {
		if h.size > maxHeader || !IsToken(field.Name) {
			return
		}
		h.list = append(h.list, field)
		h.size += len(field.Name) + len(field.Value)
	})
}

// eachElement calls a function for each element of an array, one after the other.
func eachElement[T any](b []byte, f func(T)) error {
	d := json.NewDecoder(bytes.NewReader(b))
	switch start, err := d.Token(); {
	case err != nil:
		return err
	case start == nil: // null, which is as good as none
		return nil
	case start != json.Delim('['):
		return errNoHAR
	}
	for d.More() {
		var element T
		if err := d.Decode(&element); err != nil {
			return err
		}
		f(element)
	}
	return nil
}

func (h *history) readHAR(text string) error {
	var file harFile
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return fmt.Errorf("%w: %s", errNoHAR, Printable(syntax.Error()))
		}
		return errNoHAR // what else there is to say names types of Go
	}
	if file.Log == nil {
		h.addEntry(file.harEntry)
		return nil
	}
	h.dropped = file.Log.Entries.dropped
	for _, entry := range file.Log.Entries.kept {
		h.addEntry(entry)
	}
	return nil
}

func (h *history) addEntry(e harEntry) {
	r := e.harResponse
	if e.Response != nil {
		r = *e.Response
	}
	p := newResponse("")
	if r.Status > 0 {
		p.setStatus(fmt.Sprint(r.Status, " ", r.StatusText))
	}
	for _, field := range r.Headers.list {
		p.add(field.Name, field.Value, 0)
	}
	h.add(p)
}
