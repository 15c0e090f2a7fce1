package report

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A harText is a HAR file with many entries. Entries are made while they are read.
type harText struct {
	entries int
	entry   func(i int) string
	i       int
	rest    string
}

func (h *harText) Read(b []byte) (int, error) {
	for h.rest == "" {
		switch {
		case h.i == 0:
			h.rest = `{"log":{"version":"1.2","entries":[`
		case h.i <= h.entries:
			if h.rest = h.entry(h.i); h.i < h.entries {
				h.rest += ",\n"
			}
		case h.i == h.entries+1:
			h.rest = `]}}`
		default:
			return 0, io.EOF
		}
		h.i++
	}
	n := copy(b, h.rest)
	h.rest = h.rest[n:]
	return n, nil
}

// entry returns an entry as a browser saves it, for one of ten hosts.
func entry(i int) string {
	return fmt.Sprintf(`{"startedDateTime":"2026-11-21T03:00:00.000Z","time":31.5,"request":{"method":"GET","url":"https://h%d.example/v1/items?page=%d","httpVersion":"http/2.0","headers":[{"name":"accept","value":"*/*"},{"name":"user-agent","value":"Mozilla/5.0 (X11; Linux x86_64)"}],"queryString":[],"cookies":[],"headersSize":-1,"bodySize":0},"response":{"status":200,"statusText":"OK","httpVersion":"http/2.0","headers":[{"name":"content-type","value":"application/json"},{"name":"date","value":"Sat, 21 Nov 2026 03:00:00 GMT"},{"name":"ratelimit-policy","value":"\"burst\";q=100;w=60"},{"name":"ratelimit","value":"\"burst\";r=%d;t=30"},{"name":"server","value":"nginx"}],"cookies":[],"content":{"size":30,"mimeType":"application/json","text":"{\"id\":1,\"name\":\"x\"}"},"redirectURL":"","headersSize":-1,"bodySize":30},"cache":{},"timings":{"send":0.1,"wait":30.1,"receive":1.3}}`, i%10, i, i%101)
}

// The memory for a capture does not grow with its length. Hosts beyond a bound are counted
// together.
func TestHostsBounds(t *testing.T) {
	hosts := Hosts{}
	require.NoError(t, hosts.Read(&harText{entries: 3000, entry: entry}))
	require.Len(t, hosts, 10)
	require.Equal(t, 300, hosts["h3.example"].Requests)
	require.Zero(t, *hosts["h3.example"].Lowest.Remaining)
	peak := func(entries int) uint64 {
		var most uint64
		runtime.GC()
		read := &harText{entries: entries, entry: func(i int) string {
			if i%2000 == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
			return entry(i)
		}}
		require.NoError(t, Hosts{}.Read(read))
		return most
	}
	require.Less(t, peak(16_000), peak(4000)+1<<20)

	many := Hosts{}
	require.NoError(t, many.Read(&harText{entries: mostHosts + 100, entry: func(i int) string {
		return fmt.Sprintf(`{"request":{"url":"http://h%d/"},"response":{"headers":[]}}`, i)
	}}))
	require.Len(t, many, mostHosts+1)
	require.Equal(t, 100, many[otherHosts].Requests)

	// Each entry has its own bound.
	body := strings.Repeat("x", 1<<20)
	long34 := Hosts{}
	require.NoError(t, long34.Read(&harText{entries: 34, entry: func(i int) string {
		return fmt.Sprintf(`{"response":{"headers":[{"name":"X%c-RateLimit-Remaining","value":"9"}],"content":{"text":"%s"}}}`, 'a'+i%26, body)
	}}))
	require.Equal(t, 34, long34[""].Requests)

	// A host keeps little of a long response.
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	large := Hosts{}
	require.NoError(t, large.Read(&harText{entries: 40, entry: func(i int) string {
		return fmt.Sprintf(`{"request":{"url":"http://h%d%s/"},"response":{"headers":[{"name":"ratelimit","value":"\"%s\";r=1"}]}}`, i, body, body[:1<<19])
	}}))
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Len(t, large, 40)
	require.Less(t, after.HeapAlloc, before.HeapAlloc+4<<20)
	runtime.KeepAlive(large)

	long := func(n int) string { return `{"log":{"entries":[{"x":"` + strings.Repeat("x", n) + `"}]}}` }
	require.ErrorIs(t, Hosts{}.Read(strings.NewReader(long(maxEntry))), errEntryTooLong)
	require.ErrorIs(t, Hosts{}.Read(strings.NewReader(`{"headers":[`+strings.Repeat("{},", 1<<16)+`{}]}`)), errHeaderTooLong)
}

// The memory for objects one after another does not grow with their number, and each has its own
// bounds.
func TestJSONLinesBounds(t *testing.T) {
	const line = `{"request":{"url":"http://a/"},"status":429,"headers":{"x":["` // the bodies follow
	hosts := Hosts{}
	body := strings.Repeat("x", 1<<20)
	lines := func(n int) io.Reader {
		var parts []io.Reader
		for range n {
			parts = append(parts, strings.NewReader(line+`y"]},"body":"`), strings.NewReader(body), strings.NewReader("\"}\n"))
		}
		return io.MultiReader(parts...)
	}
	require.NoError(t, hosts.Read(lines(34)))
	require.Equal(t, []int{34, 34}, []int{hosts["a"].Requests, hosts["a"].Refused})

	for name, headers := range map[string]string{
		"members":       `{` + strings.Repeat(`"a":"",`, maxFields) + `"a":""}`,
		"lines":         `{"a":[` + strings.Repeat(`"",`, maxFields) + `""]}`,
		"lines of many": `{` + strings.Repeat(`"a":["",""],`, maxFields/2) + `"a":""}`,
	} {
		for _, text := range []string{headers, `{"headers":` + headers + `}`} {
			require.ErrorIs(t, Hosts{}.Read(strings.NewReader(text)), errHeaderTooLong, name)
		}
	}
	require.ErrorIs(t, Hosts{}.Read(strings.NewReader(line+strings.Repeat("x", maxEntry))), errEntryTooLong)
	require.ErrorIs(t, Hosts{}.Read(strings.NewReader(line+`y"]}}`+strings.Repeat(" ", maxEntry+1<<20))), errEntryTooLong)
}
