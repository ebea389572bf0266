package bundle

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// lines reads a file line by line and checks each line with checkText.
type lines struct {
	in     *bufio.Reader
	buffer []byte
	number int
}

// newLines reads from the beginning, independently of other readers of the content.
func newLines(content *io.SectionReader) *lines {
	return &lines{in: bufio.NewReaderSize(io.NewSectionReader(content, 0, content.Size()), 64<<10)}
}

func (l *lines) position() position { return position{line: max(1, l.number), conversation: -1} }

// next returns the next line that is not blank. It is valid until the next call.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.read()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, checkText(line)
		}
	}
}

func (l *lines) read() ([]byte, error) {
	l.buffer = l.buffer[:0]
	l.number++
	for {
		part, err := l.in.ReadSlice('\n')
		l.buffer = append(l.buffer, part...)
		switch {
		case len(l.buffer) > maxRecord:
			return nil, tooLong()
		case err == nil, errors.Is(err, io.EOF) && len(l.buffer) > 0:
			return l.buffer, nil
		case errors.Is(err, io.EOF):
			l.number-- // there is no further line
			return nil, io.EOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("read import: %w", err)
		}
	}
}

func tooLong() error {
	return wrong("record_too_long", fmt.Sprintf("the record is longer than %d bytes", maxRecord))
}

// bundleLines reads a bundle line by line.
type bundleLines struct {
	lines *lines
}

func (b *bundleLines) position() position { return b.lines.position() }

func (b *bundleLines) next() (Record, error) {
	line, err := b.lines.next()
	if err != nil {
		return Record{}, err
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := decode(line, &kind); err != nil {
		return Record{}, err
	}
	return recordOf(kind.Type, line)
}

func recordOf(kind string, raw []byte) (record Record, err error) {
	switch kind {
	case typeBundle:
		record.Header, err = decodeAs[Header](raw)
	case typeChat:
		record.Chat, err = decodeAs[Chat](raw)
	case typeFile:
		record.File, err = decodeAs[File](raw)
	case typeMessage:
		record.Message, err = decodeAs[Message](raw)
	case typeRevision:
		record.Revision, err = decodeAs[Revision](raw)
	case typeEnd:
		record.End, err = decodeAs[End](raw)
	default:
		err = wrong("unknown_type", "the line's type is none of bundle, chat, file, message, revision and end")
	}
	return record, err
}

func decodeAs[T any](raw []byte) (*T, error) {
	decoded := new(T)
	return decoded, decode(raw, decoded)
}
