// Package readme finds the shell commands of a README, so that a test can run them.
//
// A block that begins with ```sh holds commands. The test runs them from the root of the
// repository, depending on the next word:
//
//	```sh            until they end, with exit status 0
//	```sh server     in the background, while the next commands run
//	```sh elsewhere  never: they need another host, or the reader's own files
//
// A span in a sentence is a command as well, if it begins with go run, go test, go build or
// go vet and contains no address.
package readme

import (
	"fmt"
	"regexp"
	"strings"
)

// A Kind is how the test runs a command.
type Kind string

const (
	Run       Kind = ""
	Server    Kind = "server"
	Elsewhere Kind = "elsewhere"
)

// A Command is the text of one block or one span.
type Command struct {
	Line int // of the block's first command, or of the span, from 1
	Kind Kind
	Text string
}

const fence = "```"

var (
	// begins matches the beginning of a command.
	begins = regexp.MustCompile(`^(\w+=\S* +)*(go (run|test|get|build|vet|tool|mod|list|install|generate|-C)|curl|git|npm|npx|node|redis-server|valkey-server|apt-get|bash|sudo|docker) `)
	span   = regexp.MustCompile("`((?:\\w+=\\S* +)*go (?:run|test|build|vet) [^`]+)`")
)

// Commands returns the commands of a README. It returns an error if a block with a command is
// not marked as ```sh.
func Commands(text string) ([]Command, error) {
	var commands []Command
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		info, ok := strings.CutPrefix(lines[i], fence)
		if !ok {
			commands = append(commands, spans(i+1, lines[i])...)
			continue
		}
		begin := i + 1
		for i++; i < len(lines) && lines[i] != fence; i++ {
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: a block without an end", begin)
		}
		block := lines[begin:i]
		language, kind, _ := strings.Cut(info, " ")
		switch {
		case language == "sh" && (Kind(kind) == Run || Kind(kind) == Server || Kind(kind) == Elsewhere):
			commands = append(commands, Command{begin + 1, Kind(kind), strings.Join(block, "\n")})
		case language == "sh":
			return nil, fmt.Errorf("line %d: a block of commands is sh, sh server or sh elsewhere", begin)
		case info == "":
			for n, line := range block {
				if begins.MatchString(line) {
					return nil, fmt.Errorf("line %d: a command in a block that does not begin with ```sh", begin+n+1)
				}
			}
		}
	}
	return commands, nil
}

// spans returns the commands within a sentence.
func spans(line int, text string) []Command {
	var commands []Command
	for _, m := range span.FindAllStringSubmatch(text, -1) {
		kind := Run
		if strings.Contains(m[1], "://") || strings.Contains(m[1], "@") {
			kind = Elsewhere
		}
		commands = append(commands, Command{line, kind, m[1]})
	}
	return commands
}
