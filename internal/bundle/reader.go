package bundle

import (
	"errors"
	"fmt"
	"io"
)

// Format is a file's format.
type Format string

// The formats that can be read.
const (
	FormatLines   Format = "jsonl"   // our bundle, line by line
	FormatObject  Format = "json"    // our bundle as one object
	FormatChatGPT Format = "chatgpt" // ChatGPT's conversations.json
	FormatPlain   Format = "plain"   // one message per line
)

// maxRecord is the longest record in bytes: the longest content with each character escaped, and room for the rest.
const maxRecord = 16 << 20

// Reader reads the records of one file in order: for each chat its Chat, its files, messages and revisions, its End. It
// checks everything that the file alone can show. It is not safe for concurrent use.
type Reader struct {
	format Format
	source source
	rules  rules
}

// source reads one format. Its position is that of the latest record, or of what is wrong.
type source interface {
	next() (Record, error)
	position() position
}

// Open detects the file's format and returns its reader. The file must not change meanwhile.
func Open(file io.ReaderAt, size int64) (*Reader, error) {
	content, err := withoutMark(file, size)
	if err != nil {
		return nil, err
	}
	format, err := detect(content)
	if err != nil {
		return nil, err
	}
	r := &Reader{format: format, rules: newRules(format)}
	switch format {
	case FormatLines:
		r.source = &bundleLines{lines: newLines(content)}
	case FormatObject:
		r.source = newBundleObject(content)
	case FormatChatGPT:
		r.source = newChatGPT(content)
	case FormatPlain:
		r.source = newPlain(content)
	}
	return r, nil
}

// Format is the file's format.
func (r *Reader) Format() Format { return r.format }

// Next returns the next record, and io.EOF after the last one.
func (r *Reader) Next() (Record, error) {
	record, err := r.source.next()
	switch {
	case errors.Is(err, io.EOF):
		if err := r.rules.over(); err != nil {
			return Record{}, at(r.source.position(), err)
		}
		return Record{}, io.EOF
	case err == nil:
		err = r.rules.check(&record)
	}
	if err != nil {
		return Record{}, at(r.source.position(), err)
	}
	return record, nil
}

// withoutMark skips the byte order mark that some programs begin a file with.
func withoutMark(file io.ReaderAt, size int64) (*io.SectionReader, error) {
	var begin [3]byte
	n, err := file.ReadAt(begin[:min(3, size)], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read import: %w", err)
	}
	if n == 3 && string(begin[:]) == "\xef\xbb\xbf" {
		return io.NewSectionReader(file, 3, size-3), nil
	}
	return io.NewSectionReader(file, 0, size), nil
}

var errUnknown = wrong("unknown_format", "this is neither a bundle nor ChatGPT's conversations.json nor one message per line")

// detect reads the first value: an array is ChatGPT's, and the members of an object decide.
func detect(content *io.SectionReader) (Format, error) {
	w := newWindow(content)
	token, err := w.token()
	switch {
	case errors.Is(err, io.EOF):
		return "", at(w.position(), wrong("empty", "the file is empty"))
	case err != nil:
		return "", at(w.position(), errUnknown)
	case isDelim(token, '['):
		return FormatChatGPT, nil
	case !isDelim(token, '{'):
		return "", at(w.position(), errUnknown)
	}
	format, err := formatOf(w)
	if err != nil {
		return "", at(w.position(), err)
	}
	return format, nil
}

// formatOf reads members of an object until one of them decides.
func formatOf(w *window) (Format, error) {
	for w.more() {
		key, err := w.key()
		if err != nil {
			return "", err
		}
		switch key {
		case "role", "content":
			return FormatPlain, nil
		case "chats":
			return FormatObject, nil
		}
		raw, err := w.value()
		if err != nil {
			return "", err
		}
		if key == "type" && string(raw) == `"`+typeBundle+`"` {
			return FormatLines, nil
		}
	}
	if err := w.close('}'); err != nil {
		return "", err
	}
	return "", errUnknown
}
