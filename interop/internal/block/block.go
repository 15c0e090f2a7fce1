// Package block replaces the generated parts of a Markdown text.
package block

import (
	"fmt"
	"strings"
)

// Replace replaces the text between the comments <!-- name --> and <!-- /name -->. Each comment
// is a line of its own.
func Replace(text, name, block string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("no block <!-- %s -->", name)
	}
	return before + begin + block + end + after, nil
}
