package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// window reads JSON values out of a long one, never more than maxRecord of it at a time.
type window struct {
	content *io.SectionReader
	decoder *json.Decoder
	// read is how far the decoder has read, until how far it may.
	read, until int64
	// begun is where the value begins that is read now.
	begun int64
}

func newWindow(content *io.SectionReader) *window {
	w := &window{content: content}
	w.decoder = json.NewDecoder(w)
	return w
}

// Read is for the decoder.
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
		return nil, broken(err)
	}
	return token, err
}

// key gives the name of an object's next member.
func (w *window) key() (string, error) {
	token, err := w.token()
	if errors.Is(err, io.EOF) {
		return "", wrong("bad_json", "the file ends in the middle")
	}
	if err != nil {
		return "", err
	}
	name, _ := token.(string) // the decoder lets nothing else stand there
	return name, nil
}

// value gives the next value as it is written, checked as text.
func (w *window) value() (json.RawMessage, error) {
	w.begin()
	var raw json.RawMessage
	if err := w.decoder.Decode(&raw); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, broken(err)
	}
	return raw, checkText(raw)
}

// open expects a bracket or a brace.
func (w *window) open(delim json.Delim, says string) error {
	token, err := w.token()
	if errors.Is(err, io.EOF) {
		return wrong("bad_json", "the file ends in the middle")
	}
	if err == nil && !isDelim(token, delim) {
		return wrong("wrong_type", says)
	}
	return err
}

// more tells whether the array or object has a further element.
func (w *window) more() bool {
	w.begin()
	return w.decoder.More()
}

// close takes the end of an array or an object, after more told that nothing else comes.
func (w *window) close(delim json.Delim) error {
	return w.open(delim, "the file ends in the middle")
}

// over expects nothing more.
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

// place counts the lines up to the value that is read now. That is only done for errors.
func (w *window) place() place {
	return place{line: w.lineOf(w.begun), conversation: -1}
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
	n, _ := w.content.ReadAt(buffer, offset) // what cannot be read has no lines
	between := buffer[:n]
	if value := bytes.IndexFunc(between, func(r rune) bool { return r == utf8.RuneError || !bytes.ContainsRune([]byte(" \t\r\n,:"), r) }); value >= 0 {
		between = between[:value]
	}
	return bytes.Count(between, []byte("\n"))
}
