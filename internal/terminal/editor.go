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

// Attended reports whether stdin is a terminal.
func Attended() bool {
	_, err := liner.TerminalMode()
	return err == nil
}

// maxHistoryLine is the longest stored line in bytes: the editor cannot read longer ones back.
const maxHistoryLine = 4000

// editor reads lines, with keys for editing and for earlier lines.
type editor struct {
	lines *liner.State
	file  string // of the history; "" for none
	// historyErr is why there is no history.
	historyErr error
}

// newEditor takes over the terminal, also between prompts. Close it.
func newEditor(file string) *editor {
	e := &editor{lines: liner.NewLiner(), file: file}
	e.lines.SetMultiLineMode(true)
	if file == "" {
		return e
	}
	if e.historyErr = e.readHistory(); e.historyErr != nil {
		e.file = ""
	}
	return e
}

func (e *editor) close() { _ = e.lines.Close() } // it never fails

// prompt reads a line and adds it to the history. Its error is io.EOF after Ctrl-D, or that of ctx.
func (e *editor) prompt(ctx context.Context, text string) (string, error) {
	line, err := e.read(ctx, text, "")
	if err == nil && line != "" {
		e.lines.AppendHistory(line)
		e.store(line)
	}
	return line, err
}

// ask reads a line that begins as answer, without adding it to the history. Ctrl-C and Ctrl-D are an empty answer.
func (e *editor) ask(ctx context.Context, text, answer string) (string, error) {
	e.lines.SetCtrlCAborts(true)
	defer e.lines.SetCtrlCAborts(false)
	line, err := e.read(ctx, text, answer)
	if errors.Is(err, liner.ErrPromptAborted) || errors.Is(err, io.EOF) {
		return "", nil
	}
	return line, err
}

// read waits for a line on a goroutine. The goroutine stays when ctx ends first: nothing can wake it, and the program
// is about to end.
func (e *editor) read(ctx context.Context, text, line string) (string, error) {
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := e.lines.PromptWithSuggestion(text, line, -1)
		read <- result{line, err}
	}()
	select {
	case got := <-read:
		return got.line, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// readHistory reads the file, and rewrites it with the latest lines when it has grown long.
func (e *editor) readHistory() error {
	if err := os.MkdirAll(filepath.Dir(e.file), 0o700); err != nil {
		return err
	}
	stored, err := os.ReadFile(e.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := e.lines.ReadHistory(bytes.NewReader(bytes.ToValidUTF8(stored, nil))); err != nil {
		return err
	}
	if bytes.Count(stored, []byte("\n")) < 2*liner.HistoryLimit {
		return os.Chmod(e.file, 0o600)
	}
	return WriteFile(e.file, func(out io.Writer) error {
		_, err := e.lines.WriteHistory(out)
		return err
	})
}

// store appends a line to the file at once, so that several terminals do not overwrite each other's lines.
func (e *editor) store(line string) {
	if e.file == "" || len(line) > maxHistoryLine {
		return
	}
	file, err := os.OpenFile(e.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return // the conversation goes on without
	}
	_, _ = file.WriteString(line + "\n") // likewise
	_ = file.Close()
}

// WriteFile writes a file that only its owner may read, completely or not at all: it writes a temporary file and renames
// it at the end.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
