// Package block replaces the parts of a text in Markdown that programs write.
package block

import (
	"fmt"
	"strings"
)

// Replace replaces what stands between the comments <!-- name --> and
// <!-- /name -->, each on a line of its own.
func Replace(text, name, block string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("no block <!-- %s -->", name)
	}
	return before + begin + block + end + after, nil
}
