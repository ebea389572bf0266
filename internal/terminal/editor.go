package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/peterh/liner"
)

// Attended tells whether somebody can type: whether stdin is a terminal.
func Attended() bool {
	_, err := liner.TerminalMode()
	return err == nil
}

// maxKept is the longest line that is kept, in bytes: the editor reads no longer ones back.
const maxKept = 4000

// editor reads lines with keys for moving in them and for the lines before.
type editor struct {
	lines *liner.State
	file  string // "" keeps nothing
	// trouble is why nothing is kept.
	trouble error
}

// newEditor takes over the terminal, between prompts as well. Close it.
func newEditor(file string) *editor {
	e := &editor{lines: liner.NewLiner(), file: file}
	e.lines.SetMultiLineMode(true)
	if file == "" {
		return e
	}
	if e.trouble = e.readHistory(); e.trouble != nil {
		e.file = ""
	}
	return e
}

// close gives the terminal back as it was.
func (e *editor) close() { _ = e.lines.Close() } // it never fails

// prompt reads a line and keeps it. Its error is io.EOF after Ctrl-D, or that of ctx.
func (e *editor) prompt(ctx context.Context, text string) (string, error) {
	line, err := e.read(ctx, text)
	if err == nil && line != "" {
		e.lines.AppendHistory(line)
		e.keep(line)
	}
	return line, err
}

// ask reads a line that is not kept. Ctrl-C is an empty answer.
func (e *editor) ask(ctx context.Context, text string) (string, error) {
	e.lines.SetCtrlCAborts(true)
	defer e.lines.SetCtrlCAborts(false)
	line, err := e.read(ctx, text)
	if errors.Is(err, liner.ErrPromptAborted) {
		return "", nil
	}
	return line, err
}

// read waits for a line on a goroutine, which stays when ctx ends first: nothing can wake it, and the
// program is about to end.
func (e *editor) read(ctx context.Context, text string) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := e.lines.Prompt(text)
		read <- result{line, err}
	}()
	select {
	case got := <-read:
		return got.line, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// readHistory reads the file, and writes it anew with the latest lines when it has grown long.
func (e *editor) readHistory() error {
	if err := os.MkdirAll(filepath.Dir(e.file), 0o700); err != nil {
		return err
	}
	kept, err := os.ReadFile(e.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := e.lines.ReadHistory(bytes.NewReader(bytes.ToValidUTF8(kept, nil))); err != nil {
		return err
	}
	if bytes.Count(kept, []byte("\n")) < 2*liner.HistoryLimit {
		return os.Chmod(e.file, 0o600)
	}
	return WriteFile(e.file, func(out io.Writer) error {
		_, err := e.lines.WriteHistory(out)
		return err
	})
}

// keep adds a line to the file at once, so that several terminals do not write over each other's.
func (e *editor) keep(line string) {
	if e.file == "" || len(line) > maxKept {
		return
	}
	file, err := os.OpenFile(e.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return // told at the start, or a disk that is full: the conversation goes on
	}
	_, _ = file.WriteString(line + "\n") // the same
	_ = file.Close()
}
