package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

var (
	errNoHAR        = errors.New("the text begins like a HAR file but is not one")
	errEntryTooLong = errors.New("an entry of this HAR file is longer than 32 MiB: save it without the content of responses")
)

// A harEntry is an entry of a HAR file, its response, or the headers of the response.
type harEntry struct {
	Request  struct{ URL string }
	Response *harResponse
	harResponse
}

type harResponse struct {
	Status     int
	StatusText string
	Headers    harHeaders
}

// harHeaders are the fields of a response.
type harHeaders []struct{ Name, Value string }

// UnmarshalJSON implements json.Unmarshaler. It bounds the number of fields, because an empty field
// takes more memory than its two bytes of JSON.
func (h *harHeaders) UnmarshalJSON(b []byte) error {
	const most = 1 << 16
	if bytes.Count(b, []byte("{")) > most {
		return errHeaderTooLong
	}
	return json.Unmarshal(b, (*[]struct{ Name, Value string })(h))
}

const maxEntry = 32 << 20 // bytes

// readHAR reads a HAR file, or a part of one that contains a response. It keeps one entry in memory.
func readHAR(from io.Reader, emit func(*response)) error {
	in := &io.LimitedReader{R: from, N: maxEntry}
	d := json.NewDecoder(in)
	var alone harEntry
	isLog := false
	err := object(d, map[string]func() error{
		"log": func() error {
			isLog = true
			return object(d, map[string]func() error{"entries": func() error {
				return delimited(d, '[', func() error {
					var e harEntry
					err := d.Decode(&e)
					if err == nil {
						e.emit(emit)
						in.N = maxEntry
					}
					return err
				})
			}})
		},
		"response":   func() error { return d.Decode(&alone.Response) },
		"status":     func() error { return d.Decode(&alone.Status) },
		"statustext": func() error { return d.Decode(&alone.StatusText) },
		"headers":    func() error { return d.Decode(&alone.Headers) },
	})
	var syntax *json.SyntaxError
	switch {
	case err != nil && in.N <= 0:
		return errEntryTooLong
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: %s", errNoHAR, Printable(syntax.Error()))
	case errors.Is(err, errHeaderTooLong):
		return err
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: it ends too early", errNoHAR)
	case err != nil:
		return errNoHAR // the text of err has types of Go
	case !isLog:
		alone.emit(emit)
	}
	return nil
}

// object calls a function for each member of an object, and skips members without a function.
func object(d *json.Decoder, members map[string]func() error) error {
	return delimited(d, '{', func() error {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if f := members[strings.ToLower(key.(string))]; f != nil {
			return f()
		}
		var skipped json.RawMessage
		return d.Decode(&skipped)
	})
}

// delimited calls a function for each element of an array, or each member of an object. It reads
// null as an empty one.
func delimited(d *json.Decoder, begin json.Delim, one func() error) error {
	if start, err := d.Token(); err != nil || start == nil {
		return err
	} else if start != begin {
		return errNoHAR
	}
	for d.More() {
		if err := one(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// emit calls a function for the response of an entry.
func (e *harEntry) emit(emit func(*response)) {
	r := cmp.Or(e.Response, &e.harResponse)
	p := newResponse("")
	if r.Status > 0 {
		p.setStatus(fmt.Sprint(r.Status, " ", r.StatusText))
	}
	p.host = hostOf(e.Request.URL)
	for _, field := range r.Headers {
		if text.IsToken(field.Name) {
			p.add(field.Name, field.Value, 0)
		}
	}
	emit(p)
}
