package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// A process is a Node that times the packages of npm by its own clock. One process does all
// works, and answers one question after the other.
type process struct {
	cmd       *exec.Cmd
	stdin     io.Closer
	questions *json.Encoder
	replies   *json.Decoder
	version   string
}

// A task is a work for the process. The process gets the list of tasks first, and then
// their indexes.
type task struct {
	Do    string
	Input any
}

// A question asks for the time of the task at an index, or for its answer if the time is zero.
type question struct {
	Task         int
	Milliseconds float64
}

// startNode adds the packages of npm to the contenders of works.
func startNode(ctx context.Context, dir string, works []work) (*process, error) {
	cmd := exec.CommandContext(ctx, "node", "bench.mjs")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, stdin: stdin, questions: json.NewEncoder(stdin), replies: json.NewDecoder(stdout)}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var tasks []task
	for i := range works {
		for l, do := range works[i].js {
			if do == "" {
				continue
			}
			works[i].contenders[l] = p.contender(len(tasks))
			tasks = append(tasks, task{do, works[i].input})
		}
	}
	if err := p.ask(tasks, &p.version); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) stop() {
	_ = p.stdin.Close() // ends the process
	_ = p.cmd.Wait()
}

func (p *process) ask(question, reply any) error {
	if err := p.questions.Encode(question); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	if err := p.replies.Decode(reply); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}

func (p *process) contender(task int) *contender {
	return &contender{
		time: func(atLeast time.Duration) (ns float64, err error) {
			err = p.ask(question{task, atLeast.Seconds() * 1e3}, &ns)
			return ns, err
		},
		answer: func() (a answer, err error) {
			err = p.ask(question{Task: task}, &a)
			return a, err
		},
		allocs: -1,
	}
}
