package fuzz

import (
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/httpfields/ratelimit"
)

// A Verdict is the answer of a parser to a case.
type Verdict struct {
	OK      bool            `json:"ok"`
	Members json.RawMessage `json:"members,omitempty"` // in the form of ratelimittest/vectors
}

// Judge returns the verdict of this module. If the module rejects the case, section is the section of
// the specification that decides.
func Judge(c Case) (v Verdict, section string) {
	var fault *ratelimit.FieldError
	lines := strings.Split(c.text(), newLine)
	if c.Field == ratelimit.PolicyField {
		list, err := ratelimit.ParsePolicies(lines...)
		errors.As(err, &fault)
		for i := range list {
			c.drop(&list[i].Params)
		}
		v.Members = encode(append([]ratelimit.Policy{}, list...)) // null would not be an array
	} else {
		list, err := ratelimit.ParseLimits(lines...)
		errors.As(err, &fault)
		for i := range list {
			c.drop(&list[i].Params)
		}
		v.Members = encode(append([]ratelimit.Limit{}, list...))
	}
	if fault != nil {
		return Verdict{}, sectionOf(c.Field, lines, fault)
	}
	v.OK = true
	return v, ""
}

// drop removes the extension parameters of a member if the case has NoParams.
func (c Case) drop(params *ratelimit.Params) {
	if c.NoParams {
		*params = nil
	}
}

// A definition has the sections and the parameters of a field. Parameter i is defined in subsection i +
// 1 of the section params.
type definition struct {
	field, params string   // sections
	keys, names   []string // of parameters: in the field, in JSON
}

var definitions = map[string]definition{
	ratelimit.PolicyField: {"draft-11 Section 3", "draft-11 Section 3.1", []string{"q", "qu", "w", "pk"}, []string{"quota", "unit", "window", "partition_key"}},
	ratelimit.LimitField:  {"draft-11 Section 4", "draft-11 Section 4.1", []string{"r", "t", "pk"}, []string{"remaining", "reset", "partition_key"}},
}

func (d definition) param(i int) string { return d.params + "." + strconv.Itoa(i+1) }

// sectionOf returns the section that the lines of a field break.
func sectionOf(field string, lines []string, fault *ratelimit.FieldError) string {
	d := definitions[field]
	i := slices.Index(d.keys, fault.Param)
	switch {
	case fault.Err == ratelimit.ErrMissing:
		return d.params
	case fault.Err != ratelimit.ErrSyntax && i >= 0:
		return d.param(i)
	case fault.Err != ratelimit.ErrSyntax:
		return d.field
	}
	before, rest := strings.TrimRight(lines[fault.Line][:fault.Offset], " \t"), lines[fault.Line][fault.Offset:]
	switch end := before[max(len(before)-1, 0):]; {
	case end == ";":
		return "RFC 9651 Section 4.2.3.3 (Keys)"
	case before == "" && rest == "":
		return "RFC 9651 Section 4.2 (lines are joined)"
	case end != "" && end != "=" && (end != "," || rest == ""):
		return listSection
	}
	for _, s := range syntax {
		if rest != "" && strings.Contains(s.begins, rest[:1]) {
			return s.section
		}
	}
	return "RFC 9651 Section 4.2.3.1 (Bare Items)"
}

const (
	listSection  = "RFC 9651 Section 4.2.1 (Lists)"
	paramSection = "RFC 9651 Section 4.2.3.2 (Parameters)"
)

// syntax has sections of RFC 9651. A text that the section defines begins with a byte of begins.
// found matches well-formed cases that a parser without the section cannot read.
var syntax = []struct {
	section, begins string
	found           *regexp.Regexp
}{
	{"RFC 9651 Section 4.2.10 (Display Strings)", "%", regexp.MustCompile(`=%`)},
	{"RFC 9651 Section 4.2.9 (Dates)", "@", regexp.MustCompile(`=@`)},
	{"RFC 9651 Section 4.2.8 (Booleans)", "?", regexp.MustCompile(`=\?`)},
	{"RFC 9651 Section 4.2.6 (Tokens)", "*ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", regexp.MustCompile(`=[*A-Za-z]`)},
	{"RFC 9651 Section 4.2.7 (Byte Sequences)", ":", regexp.MustCompile(`=:`)},
	{"RFC 9651 Section 4.2.4 (Integers and Decimals)", "-0123456789", regexp.MustCompile(`=(-|0\d|\d+\.|\d{10})`)},
	{"RFC 9651 Section 4.2.5 (Strings)", `"`, regexp.MustCompile(`\\|(^|[,=\s])"[^"]*[,;]|="`)},
	{paramSection, "", regexp.MustCompile(`; |;[a-z*][a-z0-9_.*-]*(;|,|\n|$)`)},
	{"RFC 9651 Section 4.2 (lines are joined)", "", regexp.MustCompile(newLine)},
	{listSection, ",", regexp.MustCompile(`[,\t]`)},
	{"RFC 9651 Section 4.2 (an empty List, and spaces around one)", "\t", regexp.MustCompile(`^ | $|^$`)},
}

// needs returns the section without which a well-formed case cannot be read.
func needs(c Case) string {
	text := c.text()
	for _, s := range syntax {
		if s.found.MatchString(text) || s.section == paramSection && twice(text) {
			return s.section
		}
	}
	return definitions[c.Field].params
}

// parameter matches a parameter's key, a String, or the end of a member.
var parameter = regexp.MustCompile(`; *([a-z*][a-z0-9_.*-]*)|"[^"]*"|[,\n]`)

// twice reports whether a member has a parameter twice.
func twice(text string) bool {
	seen := map[string]bool{}
	for _, m := range parameter.FindAllStringSubmatch(text, -1) {
		switch {
		case m[1] != "" && seen[m[1]]:
			return true
		case m[1] != "":
			seen[m[1]] = true
		case m[0][0] != '"':
			clear(seen)
		}
	}
	return false
}

// A kind is a way in which the verdict of a program differs, with the section that decides.
type kind struct{ how, section string }

const (
	accepts = "the program accepts malformed lines"
	rejects = "the program rejects well-formed lines"
	misread = "the program reads other values"
)

// compare returns how the verdict of a program differs, or the zero kind.
func compare(c Case, theirs Verdict) kind {
	ours, section := Judge(c)
	switch {
	case !ours.OK && theirs.OK:
		return kind{accepts, section}
	case ours.OK && !theirs.OK:
		return kind{rejects, needs(c)}
	case !ours.OK:
		return kind{}
	}
	a, b := c.members(ours), c.members(theirs)
	if reflect.DeepEqual(a, b) {
		return kind{}
	}
	d := definitions[c.Field]
	for i := range min(len(a), len(b)) {
		m, _ := a[i].(map[string]any)
		n, _ := b[i].(map[string]any)
		for j, name := range d.names {
			if !reflect.DeepEqual(m[name], n[name]) && needs(c) != paramSection {
				return kind{misread, d.param(j)}
			}
		}
	}
	return kind{misread, needs(c)}
}

// members returns the members of a verdict that are compared.
func (c Case) members(v Verdict) (list []any) {
	_ = json.Unmarshal(v.Members, &list) // both programs have written an array
	for _, member := range list {
		if m, ok := member.(map[string]any); ok && c.NoParams {
			delete(m, "params")
		}
	}
	return list
}
