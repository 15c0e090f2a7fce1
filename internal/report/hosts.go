package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/httpfields/ratelimit"
	"github.com/httpfields/ratelimit/internal/text"
	"github.com/httpfields/ratelimit/ratelimittest"
)

// A Host summarizes the responses of one host.
type Host struct {
	Name      string  `json:"host"` // "" if it is unknown
	Requests  int     `json:"requests"`
	Refused   int     `json:"refused"`
	Malformed int     `json:"malformed"`       // fields that are ignored
	Findings  int     `json:"findings"`        // broken rules, without notes
	Lowest    *Limit  `json:"lowest,omitzero"` // the limit with the lowest Remaining
	Wait      float64 `json:"wait"`            // the longest requested wait, in seconds
	Form      string  `json:"form,omitzero"`   // dialect of the newest limits

	wait time.Duration
}

// Hosts are the hosts of a capture.
type Hosts map[string]*Host

// The bounds of Hosts, for captures of any size.
const (
	mostHosts  = 10_000
	mostName   = 256 // bytes of the name of a host, and of a text of a limit that is kept
	otherHosts = "(other hosts)"
)

// Read adds the responses of a text in a form that [Read] accepts.
func (h Hosts) Read(from io.Reader) error {
	found := false
	err := each(from, func(p *response) {
		if p.isHeader() || p.host != "" { // a HAR file has requests without an answer too
			found = true
			h.add(p)
		}
	})
	if err == nil && !found {
		return errNoResponse
	}
	return err
}

func (h Hosts) Add(host string, resp *http.Response) { h.add(&response{Response: resp, host: host}) }

func (h Hosts) add(p *response) {
	name := p.hostName()
	if h[name] == nil && len(h) >= mostHosts {
		name = otherHosts
	}
	if h[name] == nil {
		h[name] = &Host{Name: name}
	}
	host := h[name]
	host.Requests++
	a := ratelimit.Advise(p.Response, arrival(p.Header).Time)
	if a.Refused {
		host.Refused++
	}
	faults, _ := a.Malformed.(text.Several)
	host.Malformed += len(faults)
	for _, f := range ratelimittest.Check(p.Response) {
		if FindingOf(f).IsFault() {
			host.Findings++
		}
	}
	host.wait = max(host.wait, a.Asked)
	host.Wait = host.wait.Seconds()
	host.Form = cmp.Or(strings.Clone(a.Fields.Dialect), host.Form)
	for _, l := range LimitsOf(a.Fields) {
		if l.Remaining != nil && (host.Lowest == nil || *l.Remaining < *host.Lowest.Remaining) {
			host.Lowest = l.Kept()
		}
	}
}

// hostName returns the host of a response to print, of a bounded length.
func (p *response) hostName() string {
	return Printable(strings.ToLower(p.host[:min(len(p.host), mostName)]))
}

// Kept returns a copy of a limit that keeps no memory of its response, with texts of a bounded length.
func (l Limit) Kept() *Limit {
	l.Name = strings.Clone(l.Name[:min(len(l.Name), mostName)])
	l.Unit = strings.Clone(l.Unit[:min(len(l.Unit), mostName)])
	l.PartitionKey = bytes.Clone(l.PartitionKey[:min(len(l.PartitionKey), mostName)])
	return &l
}

// Announced reports whether a response announced limits.
func (h Hosts) Announced() bool {
	return slices.ContainsFunc(h.list(), func(host *Host) bool { return host.Form != "" })
}

// Doubtful reports whether a field is malformed, or a finding is above a note.
func (h Hosts) Doubtful() bool {
	return slices.ContainsFunc(h.list(), func(host *Host) bool { return host.Malformed > 0 || host.Findings > 0 })
}

// list returns the hosts, the host with the most refused requests first.
func (h Hosts) list() []*Host {
	return slices.SortedFunc(maps.Values(h), func(a, b *Host) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Name, b.Name))
	})
}

func (h Hosts) WriteJSON(w io.Writer) error {
	return WriteJSON(w, map[string][]*Host{"hosts": append([]*Host{}, h.list()...)})
}

func (h Hosts) WriteText(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HOST\tREQUESTS\tREFUSED\tMALFORMED\tFINDINGS\tLOWEST\tLONGEST WAIT\tFORM")
	for _, host := range h.list() {
		lowest, wait, form := Absent, Absent, Absent
		if host.Lowest != nil {
			lowest = Quoted(host.Lowest.Name) + " " + host.Lowest.Left()
		}
		if host.wait > 0 {
			wait = duration(host.wait)
		}
		if host.Form != "" {
			form = FormName(host.Form)
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", cmp.Or(Clip(host.Name), "(unknown)"),
			host.Requests, host.Refused, host.Malformed, host.Findings, lowest, wait, form)
	}
	return table.Flush()
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
