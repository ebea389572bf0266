package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
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

func (w *window) token() (json.Token, error) {
	w.begin()
	token, err := w.decoder.Token()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, jsonProblem(err)
	}
	return token, err
}

// key returns the name of an object's next member.
func (w *window) key() (string, error) {
	token, err := w.token()
	if errors.Is(err, io.EOF) {
		return "", wrong("bad_json", "the file ends in the middle")
	}
	if err != nil {
		return "", err
	}
	name, _ := token.(string) // the decoder accepts nothing else here
	return name, nil
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

// open reads a bracket or a brace; otherwise is what is wrong with any other value.
func (w *window) open(delim json.Delim, otherwise string) error {
	token, err := w.token()
	if errors.Is(err, io.EOF) {
		return wrong("bad_json", "the file ends in the middle")
	}
	if err == nil && !isDelim(token, delim) {
		return wrong("wrong_type", otherwise)
	}
	return err
}

// more reports whether the array or object has a further element.
func (w *window) more() bool {
	w.begin()
	return w.decoder.More()
}

// close reads the end of an array or an object, after more has returned false.
func (w *window) close(delim json.Delim) error {
	return w.open(delim, "the file ends in the middle")
}

// over returns io.EOF when nothing follows.
func (w *window) over() error {
	_, err := w.token()
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return err
	}
	return wrong("bad_json", "something follows the end of the JSON value")
}

func isDelim(token json.Token, delim json.Delim) bool {
	found, ok := token.(json.Delim)
	return ok && found == delim
}

// position counts the lines up to the current value. It is only called for errors.
func (w *window) position() position {
	return position{line: w.lineOf(w.begun), conversation: -1}
}

func (w *window) lineOf(offset int64) int {
	line := 1
	buffer := make([]byte, 32<<10)
	before := io.NewSectionReader(w.content, 0, offset)
	for {
		n, err := before.Read(buffer)
		line += bytes.Count(buffer[:n], []byte("\n"))
		if err != nil {
			return line + w.skipped(offset)
		}
	}
}

// skipped counts the line ends between an offset and the value after it.
func (w *window) skipped(offset int64) int {
	buffer := make([]byte, 4<<10)
	n, _ := w.content.ReadAt(buffer, offset) // what cannot be read counts as no lines
	between := buffer[:n]
	if value := bytes.IndexFunc(between, func(r rune) bool { return r == utf8.RuneError || !bytes.ContainsRune([]byte(" \t\r\n,:"), r) }); value >= 0 {
		between = between[:value]
	}
	return bytes.Count(between, []byte("\n"))
}
