// Package bundle reads and writes chats as files: our own bundle (lines of JSON, or the same as one object), Markdown
// for people, which is only written, and two foreign formats, which are only read: ChatGPT's conversations.json and
// plain lines of messages. docs/bundle.md describes them.
//
// Readers hold one record at a time, for any length of file. Everything that is wrong with a file is a
// fault.ImportInvalid that names the line. Databases and users are not known here.
package bundle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"

	"github.com/arcoscribe/throughline/internal/memory"
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

// source reads one format. Its position is that of the latest record, or of the problem.
type source interface {
	// read calls emit for each record and returns its errors as they are.
	read(emit func(Record) error) error
	position() position
}

var errStopped = errors.New("no more is wanted")

// Open detects the file's format. The records are in order: for each chat its Chat, its files, messages and revisions,
// its End. Everything that the file alone can show is checked; a problem is the last record's error. Each loop over
// the records reads the file from its beginning. It must not change meanwhile.
func Open(file io.ReaderAt, size int64) (Format, iter.Seq2[Record, error], error) {
	content, err := withoutMark(file, size)
	if err != nil {
		return "", nil, err
	}
	format, err := detect(content)
	if err != nil {
		return "", nil, err
	}
	return format, func(yield func(Record, error) bool) {
		source, rules := open(format, content), newRules(format)
		err := source.read(func(record Record) error {
			if err := rules.check(&record); err != nil {
				return err
			}
			if !yield(record, nil) {
				return errStopped
			}
			return nil
		})
		if err == nil {
			err = rules.over()
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Record{}, at(source.position(), err))
		}
	}, nil
}

func open(format Format, content *io.SectionReader) source {
	switch format {
	case FormatObject:
		return &bundleObject{newWindow(content)}
	case FormatChatGPT:
		return &chatGPT{window: newWindow(content), conversation: -1, node: -1}
	case FormatPlain:
		return &plain{content: content, lines: newLines(content)}
	default:
		return &bundleLines{newLines(content)}
	}
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
	w.begin()
	switch token, err := w.decoder.Token(); {
	case errors.Is(err, io.EOF):
		return "", at(w.position(), wrong("empty", "the file is empty"))
	case token == json.Delim('['):
		return FormatChatGPT, nil
	case token != json.Delim('{'):
		return "", at(w.position(), errUnknown)
	}
	w = newWindow(content) // from the brace again
	format, err := formatOf(w)
	if format == "" {
		return "", at(w.position(), err)
	}
	return format, nil
}

// formatOf reads members of an object until one of them decides. Its error matters when there is no format.
func formatOf(w *window) (format Format, err error) {
	err = w.members('{', "", func(name string) error {
		switch name {
		case "role", "content":
			format = FormatPlain
		case "chats":
			format = FormatObject
		default:
			raw, err := w.value()
			if err != nil || name != "type" || string(raw) != `"`+typeBundle+`"` {
				return err
			}
			format = FormatLines
		}
		return errStopped
	})
	return format, cmp.Or(err, errUnknown)
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
	raw, err := memory.EncodeJSON(head)
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
var lists = map[string]string{"files": "file", "messages": "message", "memories": typeMemory, "topics": "topic", "revisions": "revision"}

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
