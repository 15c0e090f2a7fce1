package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit/internal/text"
)

// The errors about JSON. In a message the place of the fault precedes them.
var (
	errEntryTooLong = errors.New("is longer than 32 MiB: save it without the bodies of responses")
	errCutOff       = errors.New("ends too early: save the whole text")
	errNoObject     = errors.New("is not an object: write one such as " + exampleJSON)
	errNoHeaders    = errors.New(`has no "headers": write an object such as ` + exampleJSON)
	errNoEntries    = errors.New(`has no "log.entries": save a HAR file with entries`)
	errNoneRecorded = errors.New(`has an empty "log.entries": record a request, and save the HAR file again`)
	errStatus       = errors.New(`has a "status" that is not a number: write one such as 200`)
	errHeaders      = errors.New(`has "headers" that are neither an object nor a list of names and values: write {"RateLimit":"..."}`)
)

const exampleJSON = `{"status":200,"headers":{"RateLimit":"..."}}`

const (
	maxEntry  = 32 << 20 // bytes
	maxFields = 1 << 16  // of a header, because an empty field takes more memory than its bytes of JSON
)

// A jsonReader reads objects one after another. It keeps one object, or one entry of a HAR file, in
// memory.
type jsonReader struct {
	*json.Decoder
	in      *io.LimitedReader
	emit    func(*response)
	object  int   // the number of the object, from 1
	entry   int   // the number of the entry of a HAR file, from 1; 0 outside of entries
	emitted int   // responses
	missing error // why the first object has no response
}

// readJSON calls emit for each response of a text in JSON: of HAR files, of single entries of such
// files, of objects with a status and headers, and of headers alone. It skips objects without headers,
// and returns an error if there is no response at all.
func readJSON(from io.Reader, emit func(*response)) error {
	in := &io.LimitedReader{R: from, N: maxEntry}
	r := &jsonReader{Decoder: json.NewDecoder(in), in: in}
	r.emit = func(p *response) {
		r.emitted++
		emit(p)
	}
	for r.object = 1; r.More(); r.object++ {
		if err := r.readObject(); err != nil {
			return r.fault(err)
		}
		in.N = maxEntry
	}
	if _, err := r.Token(); err != io.EOF || in.N <= 0 {
		return r.fault(err)
	}
	if r.emitted == 0 {
		return r.missing
	}
	return nil
}

// fault returns an error with the place of the fault.
func (r *jsonReader) fault(err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.Is(err, errHeaderTooLong):
		return err
	case r.in.N <= 0:
		err = errEntryTooLong
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		err = errCutOff
	case errors.As(err, &syntax):
		err = fmt.Errorf("is malformed (%s): write one whole object a line", Printable(syntax.Error()))
	case errors.As(err, &wrong) && wrong.Field == "":
		err = errNoObject
	case errors.As(err, &wrong):
		err = fmt.Errorf("has a %q of the wrong type: write an object such as %s", wrong.Field, exampleJSON)
	}
	if r.entry > 0 {
		return fmt.Errorf("entry %d of log.entries %w", r.entry, err)
	}
	return fmt.Errorf("JSON object %d %w", r.object, err)
}

func (r *jsonReader) readObject() error {
	var members jsonMembers
	missing := errNoHeaders
	err := object(r.Decoder, errNoObject, func(key string) (err error) {
		if strings.EqualFold(key, "log") {
			missing, err = r.readLog()
			return err
		}
		return members.add(r.Decoder, key)
	})
	if err != nil {
		return err
	}
	p, err := members.response()
	if p != nil && err == nil {
		r.emit(p)
	}
	if r.emitted == 0 && r.missing == nil {
		r.missing = r.fault(missing)
	}
	return err
}

// readLog reads the log of a HAR file. If it has no entries, it returns what is missing.
func (r *jsonReader) readLog() (missing, err error) {
	missing = errNoEntries
	err = object(r.Decoder, errNoEntries, func(key string) error {
		if !strings.EqualFold(key, "entries") {
			return r.Decode(new(json.RawMessage))
		}
		missing = errNoneRecorded
		return delimited(r.Decoder, '[', errNoEntries, r.readEntry)
	})
	if err == nil {
		r.entry = 0
	}
	return missing, err
}

func (r *jsonReader) readEntry() error {
	r.entry++
	var e harEntry
	if err := r.Decode(&e); err != nil {
		return err
	}
	p, err := e.response()
	if err != nil {
		return err
	}
	r.emit(p)
	r.in.N = maxEntry
	return nil
}

// object calls a function for each member of an object, to read the value. If there is an array
// instead, it returns the error wrong. It skips null, text and numbers.
func object(d *json.Decoder, wrong error, one func(key string) error) error {
	return delimited(d, '{', wrong, func() error {
		key, err := d.Token()
		if err != nil {
			return err
		}
		return one(key.(string))
	})
}

// delimited calls a function for each element of an array, or for each member of an object: see object.
func delimited(d *json.Decoder, begin json.Delim, wrong error, one func() error) error {
	start, err := d.Token()
	if err != nil {
		return err
	}
	switch delim, ok := start.(json.Delim); {
	case !ok:
		return nil
	case delim != begin:
		return wrong
	}
	for d.More() {
		if err := one(); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// A harEntry is an entry of a HAR file, its response, or an object of a log.
type harEntry struct {
	Request  json.RawMessage `json:"request"` // a log may describe it in any way
	Response *harResponse    `json:"response"`
	harResponse
}

type harResponse struct {
	Status     json.RawMessage `json:"status"` // a number, such as 200, or a text, such as "200 OK"
	StatusText string          `json:"statusText"`
	Headers    json.RawMessage `json:"headers"` // a list of names and values, or an object
}

// response returns the response of an entry. If there was no answer, the response has no status.
func (e *harEntry) response() (*response, error) {
	from := cmp.Or(e.Response, &e.harResponse)
	p := newResponse("")
	var request struct{ URL string }
	_ = json.Unmarshal(e.Request, &request)
	p.host = hostOf(request.URL)
	if status := strings.Trim(string(from.Status), `"`); status != "" && status != "null" {
		p.setStatus(status + " " + from.StatusText)
		_, err := strconv.Atoi(status)
		switch {
		case err != nil && p.StatusCode == 0:
			return nil, errStatus
		case p.StatusCode <= 0: // the browser got no answer
			p.setStatus("")
		}
	}
	return p, p.addHeaders(from.Headers)
}

func isNull(value json.RawMessage) bool { return len(value) == 0 || string(value) == "null" }

// addHeaders adds the fields of a list of names and values, or of an object.
func (p *response) addHeaders(value json.RawMessage) error {
	var list []struct{ Name, Value string }
	switch {
	case isNull(value):
		return nil
	case value[0] == '{':
		var members jsonMembers
		d := json.NewDecoder(bytes.NewReader(value))
		if err := object(d, errHeaders, func(key string) error { return members.add(d, key) }); err != nil {
			return err
		}
		return p.addMembers(members)
	case bytes.Count(value, []byte("{")) > maxFields:
		return errHeaderTooLong
	case json.Unmarshal(value, &list) != nil:
		return errHeaders
	}
	for _, field := range list {
		p.addField(field.Name, field.Value)
	}
	return nil
}

func (p *response) addField(name, value string) {
	if text.IsToken(name) {
		p.add(name, value, 0)
	}
}

// addMembers adds members as fields. A value is a string, or a list with a string for each line.
func (p *response) addMembers(members jsonMembers) error {
	n := 0
	for _, one := range members {
		d := json.NewDecoder(bytes.NewReader(one.value))
		for t, err := d.Token(); err == nil; t, err = d.Token() {
			switch value := t.(type) {
			case string:
				if n++; n > maxFields {
					return errHeaderTooLong
				}
				p.addField(one.name, value)
			case json.Delim:
				if value == '{' {
					return errValue(one.name)
				}
			case bool, float64:
				return errValue(one.name)
			}
		}
	}
	return nil
}

type jsonMembers []jsonMember

type jsonMember struct {
	name  string
	value json.RawMessage
}

// add adds a member, whose value is next in the text.
func (m *jsonMembers) add(d *json.Decoder, name string) error {
	if len(*m) >= maxFields {
		return errHeaderTooLong
	}
	one := jsonMember{name: name}
	err := d.Decode(&one.value)
	*m = append(*m, one)
	return err
}

// get returns the value of the last member of a name, or nil.
func (m jsonMembers) get(name string) (value json.RawMessage) {
	for _, one := range m {
		if strings.EqualFold(one.name, name) {
			value = one.value
		}
	}
	return value
}

// response returns the response that the members describe, or nil.
func (m jsonMembers) response() (*response, error) {
	e := harEntry{Request: m.get("request"), harResponse: harResponse{Status: m.get("status"), Headers: m.get("headers")}}
	_ = json.Unmarshal(m.get("statusText"), &e.StatusText) // a log may use the name for another thing
	if isNull(e.Headers) {
		_ = json.Unmarshal(m.get("response"), &e.Response)
	}
	if e.Response == nil && isNull(e.Headers) || e.Response != nil && isNull(e.Response.Headers) {
		return m.header()
	}
	return e.response()
}

// header returns a response with the members as its fields, or nil. Other objects have members that
// look like fields too, but neither Date (RFC 9110 Section 6.6.1) nor limits.
func (m jsonMembers) header() (*response, error) {
	p := newResponse("")
	switch err := p.addMembers(m); {
	case err == errHeaderTooLong:
		return nil, err
	case err != nil || p.Header.Get("Date") == "" && !newReport("", p).Speaks():
		return nil, nil
	}
	return p, nil
}

func errValue(name string) error {
	return fmt.Errorf(`has %s in "headers", which is neither a string nor a list of strings: write its value in quotes`, Quoted(name))
}
