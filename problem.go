package ratelimit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/httpfields/ratelimit/internal/text"
)

// The problem types that draft-11 Section 5 defines. The member violated-policies of such a
// problem names the exceeded policies.
const (
	// The requests exceed one or more policies: 429.
	QuotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	// The server has less capacity than usual, and may have lowered its policies: 503.
	TemporaryReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	// The requests look unintended or malicious: 429.
	AbnormalUsageDetected = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
)

// registrations has the title and the status of each type (draft-11 Section 10.2).
var registrations = [...]struct {
	uri, title string
	status     int
}{
	{QuotaExceeded, "Quota Exceeded", http.StatusTooManyRequests},
	{TemporaryReducedCapacity, "Temporary Reduced Capacity", http.StatusServiceUnavailable},
	{AbnormalUsageDetected, "Abnormal Usage Detected", http.StatusTooManyRequests},
}

// ProblemMediaType is the media type of a [Problem] (RFC 9457 Section 6.1).
const ProblemMediaType = "application/problem+json"

// A Problem is the body of a response to a failed request (RFC 9457). It is a handler that sends
// itself, and an error that a client can find with [errors.As]. The type of the zero Problem is
// about:blank.
type Problem struct {
	Type     string // the kind of problem, a URI reference such as [QuotaExceeded]; "" means about:blank
	Title    string // a summary of the type for humans; "" is absent
	Status   int    // such as 429; 0 is absent; recipients use the status of the response instead (RFC 9457 Section 3.1.2)
	Detail   string // explains this occurrence to humans; "" is absent
	Instance string // identifies this occurrence, a URI reference; "" is absent
	// ViolatedPolicies are the names of the policies that were exceeded, such as "burst".
	ViolatedPolicies []string
	// Extensions are all other members of the document by name (RFC 9457 Section 3.2).
	Extensions map[string]json.RawMessage
}

// NewProblem returns a problem with a type, and with the names of the exceeded policies. The
// three types of this package get their registered titles and statuses.
func NewProblem(typ string, violated ...string) *Problem {
	p := &Problem{Type: typ, ViolatedPolicies: append([]string(nil), violated...)}
	for _, r := range registrations {
		if r.uri == typ {
			p.Title, p.Status = r.title, r.status
		}
	}
	return p
}

// Error returns the status, the title or the type, and the detail in one line. Characters
// that cannot be printed become U+FFFD. A nil p is "<nil>", as package fmt prints it.
func (p *Problem) Error() string {
	if p == nil {
		return "<nil>"
	}
	what := cmp.Or(p.Title, p.Type, "about:blank")
	if p.Status != 0 {
		what = strconv.Itoa(p.Status) + " " + what
	}
	if p.Detail != "" {
		what += ": " + p.Detail
	}
	return "ratelimit: problem " + strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, what)
}

// A problemMember is a member of the document with a struct field.
type problemMember struct {
	name  string
	value any // *string, *int or *[]string; the zero value is absent
}

// members returns the members of RFC 9457 Section 3.1, and violated-policies of draft-11
// Section 5, in the order of writing.
func (p *Problem) members() [6]problemMember {
	return [...]problemMember{
		{"type", &p.Type},
		{"title", &p.Title},
		{"status", &p.Status},
		{"detail", &p.Detail},
		{"instance", &p.Instance},
		{"violated-policies", &p.ViolatedPolicies},
	}
}

// MarshalJSON returns p as a JSON object: type, title, status, detail, instance, violated-policies,
// then the Extensions sorted by name. Absent members are left out. Bytes that are not UTF-8 become
// U+FFFD. The error wraps ErrDuplicate if an extension has the name of another member, and
// ErrSyntax if it is not UTF-8, or not one JSON value.
func (p Problem) MarshalJSON() ([]byte, error) { return p.marshal(p.Status) }

// marshal returns p in JSON. status takes the place of a Status that is not 0.
func (p *Problem) marshal(status int) ([]byte, error) {
	b := append(make([]byte, 0, 256), '{')
	for _, m := range p.members() {
		switch v := m.value.(type) {
		case *string:
			if *v != "" {
				b = appendJSONString(beginMember(b, m.name), *v)
			}
		case *int:
			if *v != 0 {
				b = strconv.AppendInt(beginMember(b, m.name), int64(status), 10)
			}
		case *[]string:
			if *v != nil {
				b = append(beginMember(b, m.name), '[')
				for i, s := range *v {
					if i > 0 {
						b = append(b, ',')
					}
					b = appendJSONString(b, s)
				}
				b = append(b, ']')
			}
		}
	}
	if len(p.Extensions) > 0 {
		return p.extend(b)
	}
	return append(b, '}'), nil
}

// beginMember appends the name of a member to the beginning of an object.
func beginMember(b []byte, name string) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	return append(appendJSONString(b, name), ':')
}

// extend completes an object with the Extensions.
func (p *Problem) extend(b []byte) ([]byte, error) {
	known := p.members()
	for _, name := range slices.Sorted(maps.Keys(p.Extensions)) {
		value := p.Extensions[name]
		switch {
		case slices.ContainsFunc(known[:], func(m problemMember) bool { return m.name == name }):
			return nil, fmt.Errorf("ratelimit: problem extension %q: %w", name, ErrDuplicate)
		case !utf8.ValidString(name), !utf8.Valid(value), !json.Valid(value):
			return nil, fmt.Errorf("ratelimit: problem extension %q: %w", name, ErrSyntax)
		}
		b = append(beginMember(b, name), value...)
	}
	// Values that are valid alone may be nested too deeply within the object.
	var out bytes.Buffer
	if err := json.Compact(&out, append(b, '}')); err != nil {
		return nil, fmt.Errorf("ratelimit: problem extensions: %w: %w", ErrSyntax, err)
	}
	return out.Bytes(), nil
}

// appendJSONString appends a string in JSON. It does not escape <, > and &, because people read
// problems, and a problem is not a part of HTML. Package json writes the few strings with escapes.
func appendJSONString(b []byte, s string) []byte {
	if text.All(s, text.Plain) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	var quoted bytes.Buffer
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string does not fail
	return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}

// UnmarshalJSON reads a JSON object. Names are case-sensitive, and the last of two equal names
// counts. A member is ignored if its type is not the type in RFC 9457 Section 3.1. Members without
// a struct field become Extensions, as they are written in b. If b is not a JSON object, or is
// nested too deeply for package json, the error wraps ErrSyntax, and p is unchanged.
func (p *Problem) UnmarshalJSON(b []byte) error {
	var all map[string]json.RawMessage
	if !utf8.Valid(b) {
		b = []byte(string([]rune(string(b)))) // as package json does within values
	}
	if json.Unmarshal(b, &all) != nil || all == nil {
		return fmt.Errorf("ratelimit: problem document is not a JSON object: %w", ErrSyntax)
	}
	var q Problem
	for _, m := range q.members() {
		switch v := m.value.(type) {
		case *string:
			_ = json.Unmarshal(all[m.name], v) // an error leaves it unchanged
		case *int:
			var x float64 // some languages write 429.0
			if json.Unmarshal(all[m.name], &x) == nil && x == math.Trunc(x) && math.Abs(x) <= math.MaxInt32 {
				*v = int(x)
			}
		case *[]string:
			var list []*string
			if json.Unmarshal(all[m.name], &list) == nil {
				*v, _ = elements(list)
			}
		}
		delete(all, m.name)
	}
	if len(all) > 0 {
		q.Extensions = all
	}
	*p = q
	return nil
}

// ServeHTTP sends p in JSON, with its Status and Cache-Control: no-store, because p is about this
// request alone. A Status of 0, or one without a body, such as 204, becomes 429. If
// [Problem.MarshalJSON] returns an error, the response is a plain 500.
func (p *Problem) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body, err := p.document()
	if err != nil {
		status = http.StatusInternalServerError
		body, _ = Problem{Title: http.StatusText(status), Status: status}.MarshalJSON()
	}
	sendProblem(w, r, status, body)
}

// document returns the status and the JSON of the response.
func (p *Problem) document() (status int, body []byte, err error) {
	if p == nil {
		p = &Problem{}
	}
	switch status = p.Status; {
	case status < 200, status > 599, // not final, or without a body (RFC 9110 Section 15)
		status == http.StatusNoContent, status == http.StatusResetContent, status == http.StatusNotModified:
		status = http.StatusTooManyRequests
	}
	body, err = p.marshal(status)
	return status, body, err
}

// sendProblem sends a problem document and a newline, for readers at a terminal.
func sendProblem(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	delete(h, "Content-Length") // the handler may have set it for another body
	h["Content-Type"], h["Cache-Control"] = []string{ProblemMediaType}, []string{"no-store"}
	w.WriteHeader(status)
	if r == nil || r.Method != http.MethodHead {
		_, _ = w.Write(append(body, '\n')) // a client that has gone away needs no answer
	}
}

const maxProblem = 1 << 20 // the most bytes of a problem document that are read

// ReadProblem reads the problem document of a response with any status. It does not close the
// body. If the media type is not [ProblemMediaType], the body is not read, and the error wraps
// ErrType. If the document is longer than 1 MiB, the error wraps ErrTooMany. If it is not a
// JSON object, the error wraps ErrSyntax. Otherwise it wraps the error from the body.
func ReadProblem(resp *http.Response) (*Problem, error) {
	if resp == nil || resp.Body == nil {
		return nil, errors.New("ratelimit: problem document: no response body")
	}
	// Parameters of this media type have no meaning, so malformed ones do no harm.
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(text.Trim(media), ProblemMediaType) {
		return nil, fmt.Errorf("ratelimit: problem document: media type is not %s: %w", ProblemMediaType, ErrType)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ratelimit: problem document: body: %w", err)
	case len(body) > maxProblem:
		return nil, fmt.Errorf("ratelimit: problem document of more than %d bytes: %w", maxProblem, ErrTooMany)
	}
	p := new(Problem)
	if err := p.UnmarshalJSON(body); err != nil {
		return nil, err
	}
	return p, nil
}
