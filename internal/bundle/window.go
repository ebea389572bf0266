package bundle

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

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
// the name of each member and with "" for each element. otherwise is what is wrong with any other value.
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
