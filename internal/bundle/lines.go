package bundle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
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

type bundleLines struct{ *lines }

func (b *bundleLines) read(emit func(Record) error) error {
	return b.each(func(line []byte) error {
		var kind struct {
			Type string `json:"type"`
		}
		if err := decode(line, &kind); err != nil {
			return err
		}
		return emitRecord(kind.Type, line, emit)
	})
}

// emitRecord reads a record into the field of a Record that its type names.
func emitRecord(kind string, raw []byte, emit func(Record) error) error {
	var record Record
	if kind == typeMemory && bytes.Count(raw, []byte(",")) >= maxMembers {
		return wrong("record_too_long", fmt.Sprintf("the memory has more than %d members", maxMembers))
	}
	for field, into := range reflect.ValueOf(&record).Elem().Fields() {
		if field.Tag.Get("type") != kind {
			continue
		}
		into.Set(reflect.New(field.Type.Elem()))
		if err := decode(raw, into.Interface()); err != nil {
			return err
		}
		return emit(record)
	}
	return wrong("unknown_type", "the line's type is none of those that a bundle has")
}

// maxMembers is how many members a memory and its parts may have. A source or a change of two characters takes a hundred bytes
// when it is decoded.
const maxMembers = 200_000

// bundleObject reads a bundle that is one object: {"format", "version", "exported_at", "chats": [{"chat", "files",
// "messages", "memories", "topics", "revisions", "end"}]}. Its members are in this order, so that records can be read one by one.
type bundleObject struct{ *window }

func (b *bundleObject) read(emit func(Record) error) error {
	head := map[string]json.RawMessage{}
	begun := false
	return b.whole('{', "a JSON object is expected here", func(name string) (err error) {
		if name == "chats" && !begun {
			begun = true
			return b.chats(head, emit)
		}
		head[name], err = b.value()
		return err
	})
}

func (b *bundleObject) chats(head map[string]json.RawMessage, emit func(Record) error) error {
	raw, err := marshal(head)
	if err != nil {
		return err
	}
	if err := emitRecord(typeBundle, raw, emit); err != nil {
		return err
	}
	return b.members('[', "chats is not an array", func(string) error {
		return b.members('{', "a chat is not an object", func(name string) error { return b.member(name, emit) })
	})
}

// lists are the members of a chat that hold records of one type each.
var lists = map[string]string{"files": typeFile, "messages": typeMessage, "memories": typeMemory, "topics": typeTopic, "revisions": typeRevision}

func (b *bundleObject) member(name string, emit func(Record) error) error {
	if kind, isList := lists[name]; isList {
		return b.members('[', name+" is not an array", func(string) error { return b.record(kind, emit) })
	}
	if name == typeChat || name == typeEnd {
		return b.record(name, emit)
	}
	_, err := b.value()
	return err
}

func (b *bundleObject) record(kind string, emit func(Record) error) error {
	raw, err := b.value()
	if err != nil {
		return err
	}
	return emitRecord(kind, raw, emit)
}
