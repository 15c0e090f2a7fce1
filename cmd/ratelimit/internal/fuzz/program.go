package fuzz

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// A Program is a parser that is tested. It reads a case from each line of its input, and
// writes a line with its verdict.
type Program struct {
	in    io.Writer
	out   *bufio.Scanner
	ended func() error // waits for its end
}

// Start starts a program, which ends with ctx at the latest.
func Start(ctx context.Context, stderr io.Writer, name string, args ...string) (*Program, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr, cmd.WaitDelay = stderr, time.Second
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return nil, err
	}
	return newProgram(in, out, cmd.Wait), cmd.Start()
}

const (
	longest = 1 << 20          // bytes of an answer
	patient = 10 * time.Second // for an answer
)

func newProgram(in io.Writer, out io.Reader, ended func() error) *Program {
	p := &Program{in, bufio.NewScanner(out), ended}
	p.out.Buffer(nil, longest)
	return p
}

// Ask has the type [Ask]. Its error contains the case. After an error it cannot be called again.
func (p *Program) Ask(ctx context.Context, c Case) (Verdict, error) {
	var v Verdict
	sent, replied := encode(c), make(chan error, 1)
	go func() {
		var err error
		if v, err = p.exchange(sent, c.ID); err != nil {
			time.Sleep(100 * time.Millisecond) // an interrupt may end the program before it ends ctx
		}
		replied <- err
	}()
	var err error
	select {
	case <-ctx.Done():
		return Verdict{}, ctx.Err()
	case <-time.After(patient):
		err = fmt.Errorf("the program did not answer within %v: it must write a line for each line that it reads, and flush it", patient)
	case err = <-replied:
	}
	if err != nil {
		return Verdict{}, fmt.Errorf("%w; the case was %.300s", err, sent)
	}
	return v, nil
}

func (p *Program) exchange(sent []byte, id int) (Verdict, error) {
	_, _ = p.in.Write(append(sent[:len(sent):len(sent)], '\n')) // if it fails, the output ends too
	switch {
	case p.out.Scan():
		return answer(p.out.Bytes(), id)
	case p.out.Err() != nil:
		return Verdict{}, errors.New("the program wrote a line of more than 1 MiB: it must write one answer in a line")
	}
	status := "exit status 0"
	if err := p.ended(); err != nil {
		status = err.Error()
	}
	return Verdict{}, fmt.Errorf("the program ended without an answer (%s): it must answer until its input ends", status)
}

// answer reads a line of the program.
func answer(line []byte, id int) (v Verdict, err error) {
	var a struct {
		ID      int
		OK      *bool
		Members json.RawMessage
	}
	var members []any
	switch {
	case json.Unmarshal(line, &a) != nil || a.OK == nil:
		err = errors.New(`it is not an object with "id" and "ok"`)
	case a.ID != id:
		err = fmt.Errorf(`its "id" is %d`, a.ID)
	case *a.OK && json.Unmarshal(a.Members, &members) != nil:
		err = errors.New(`its "members" are not an array`)
	default:
		return Verdict{*a.OK, a.Members}, nil
	}
	return v, fmt.Errorf("the answer cannot be read, because %w: it was %.300q", err, line)
}
