package bundle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

type lines struct {
	scanner *bufio.Scanner
	number  int
}

// newLines reads from the beginning, independently of other readers of the content.
func newLines(content *io.SectionReader) *lines {
	l := &lines{scanner: bufio.NewScanner(io.NewSectionReader(content, 0, content.Size()))}
	l.scanner.Buffer(make([]byte, 64<<10), maxRecord+1)
	return l
}

func (l *lines) position() position { return position{line: max(1, l.number), conversation: -1} }

// each calls take with each line that is not blank, after checkText. The line is valid until take returns.
func (l *lines) each(take func(line []byte) error) error {
	for l.scanner.Scan() {
		l.number++
		line := bytes.TrimSpace(l.scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := checkText(line); err != nil {
			return err
		}
		if err := take(line); err != nil {
			return err
		}
	}
	switch err := l.scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		l.number++
		return tooLong()
	case err != nil:
		return fmt.Errorf("read import: %w", err)
	}
	return nil
}

func tooLong() error {
	return wrong("record_too_long", fmt.Sprintf("the record is longer than %d bytes", maxRecord))
}

// window reads the JSON values within a long one, each of at most maxRecord bytes.
type window struct {
	content *io.SectionReader
	decoder *json.Decoder
	// Offsets: how far the decoder has read, how far it may read, and where the current value begins.
	read, until, begun int64
}

func newWindow(content *io.SectionReader) *window {
	w := &window{content: content}
	w.decoder = json.NewDecoder(w)
	return w
}

// Read is called by the decoder.
func (w *window) Read(into []byte) (int, error) {
	if w.read >= w.until {
		return 0, tooLong()
	}
	n, err := w.content.ReadAt(into[:min(int64(len(into)), w.until-w.read)], w.read)
	w.read += int64(n)
	if n > 0 {
		return n, nil
	}
	return 0, err
}

func (w *window) begin() {
	w.begun = w.decoder.InputOffset()
	w.until = w.begun + maxRecord
}

// members reads an object, for open '{', or an array, for '[', up to its end. It calls take, which reads the value, with
// the name of each member and with "" for each element. otherwise is the problem of any other value.
func (w *window) members(open json.Delim, otherwise string, take func(name string) error) error {
	if err := w.delim(open, otherwise); err != nil {
		return err
	}
	for w.more() {
		name := ""
		if open == '{' {
			token, err := w.token()
			if err != nil {
				return err
			}
			name, _ = token.(string) // the decoder accepts nothing else here
		}
		if err := take(name); err != nil {
			return err
		}
	}
	end := map[json.Delim]json.Delim{'{': '}', '[': ']'}[open]
	return w.delim(end, "the file ends in the middle")
}

func (w *window) more() bool {
	w.begin()
	return w.decoder.More()
}

func (w *window) token() (json.Token, error) {
	w.begin()
	token, err := w.decoder.Token()
	return token, jsonProblem(err)
}

func (w *window) delim(want json.Delim, otherwise string) error {
	token, err := w.token()
	if err == nil && token != want {
		return wrong("wrong_type", otherwise)
	}
	return err
}

// value returns the next value as it is written, after checkText.
func (w *window) value() (json.RawMessage, error) {
	w.begin()
	var raw json.RawMessage
	if err := w.decoder.Decode(&raw); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, jsonProblem(err)
	}
	return raw, checkText(raw)
}

// whole reads the array or object that is the whole file, as members does.
func (w *window) whole(open json.Delim, otherwise string, take func(name string) error) error {
	if err := w.members(open, otherwise, take); err != nil {
		return err
	}
	w.begin()
	_, err := w.decoder.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return jsonProblem(err)
	}
	return wrong("bad_json", "something follows the end of the JSON value")
}

func (w *window) position() position {
	return position{line: w.lineOf(w.begun), conversation: -1}
}

// lineOf is the line of the value that begins at an offset or, after what stands between values, behind it. It reads the
// file from its beginning and is only called for errors.
func (w *window) lineOf(offset int64) int {
	return newLineCounter(w.content).lineOf(offset)
}

// lineCounter counts the lines up to offsets that do not fall.
type lineCounter struct {
	in   *bufio.Reader
	at   int64
	line int
}

func newLineCounter(content *io.SectionReader) *lineCounter {
	return &lineCounter{in: bufio.NewReader(io.NewSectionReader(content, 0, content.Size())), line: 1}
}

func (l *lineCounter) lineOf(offset int64) int {
	for ; ; l.at++ {
		c, err := l.in.ReadByte()
		if err != nil {
			return l.line
		}
		if l.at >= offset && !strings.ContainsRune(" \t\r\n,:", rune(c)) {
			_ = l.in.UnreadByte() // after ReadByte it can
			return l.line
		}
		if c == '\n' {
			l.line++
		}
	}
}
