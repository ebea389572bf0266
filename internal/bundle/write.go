package bundle

import (
	"fmt"
	"io"
	"time"
)

// Encoder writes one chat; its methods are called in their order. File comes before the messages that name the file, in
// Markdown after the message that brings it. Its errors are those of the writer.
type Encoder interface {
	Begin(exportedAt time.Time, chat Chat) error
	File(path string, file File) error
	Message(message Message) error
	Memory(memory Memory) error
	Topic(topic Topic) error
	Revision(revision Revision) error
	End() error
}

var (
	_ Encoder = (*Bundle)(nil)
	_ Encoder = (*Markdown)(nil)
)

// Bundle writes our own format: it counts the records of a chat and writes each with its type.
type Bundle struct {
	write   func(kind string, record any) error
	written End
}

// NewLines returns an encoder that writes a bundle line by line.
func NewLines(w io.Writer) *Bundle {
	return &Bundle{write: func(kind string, record any) error {
		encoded, err := marshal(record)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "{\"type\":%q,%s\n", kind, encoded[1:])
		return err
	}}
}

// NewObject returns an encoder that writes a bundle as one JSON object, on several lines.
func NewObject(w io.Writer) *Bundle {
	list := "" // the type of the records in the list that is open
	return &Bundle{write: func(kind string, record any) error {
		encoded, err := marshal(record)
		if err != nil {
			return err
		}
		closing := ""
		if list != "" && kind != list {
			closing = "]"
		}
		switch kind {
		case typeBundle:
			_, err = fmt.Fprintf(w, "%s,\"chats\":[{\n", encoded[:len(encoded)-1])
		case typeChat:
			_, err = fmt.Fprintf(w, "\"chat\":%s", encoded)
		case typeEnd:
			_, err = fmt.Fprintf(w, "%s,\n\"end\":%s}]}\n", closing, encoded)
		case list:
			_, err = fmt.Fprintf(w, ",\n%s", encoded)
		default:
			list = kind
			_, err = fmt.Fprintf(w, "%s,\n%q:[\n%s", closing, listOf(kind), encoded)
		}
		return err
	}}
}

// listOf is the name of the member that holds the records of a type.
func listOf(kind string) string {
	for name, of := range lists {
		if of == kind {
			return name
		}
	}
	return ""
}

// Begin writes what stands before the chat's records.
func (b *Bundle) Begin(exportedAt time.Time, chat Chat) error {
	if err := b.write(typeBundle, Header{Format: Name, Version: Version, ExportedAt: exportedAt.UTC()}); err != nil {
		return err
	}
	return b.write(typeChat, chat)
}

// count writes a record of the chat, and counts it.
func (b *Bundle) count(written *int, kind string, record any) error {
	*written++
	return b.write(kind, record)
}

// File writes a content; the path is with the messages that bring it.
func (b *Bundle) File(_ string, file File) error { return b.count(&b.written.Files, typeFile, file) }

// Message writes a message.
func (b *Bundle) Message(m Message) error { return b.count(&b.written.Messages, typeMessage, m) }

// Memory writes something that the user is remembered for.
func (b *Bundle) Memory(m Memory) error { return b.count(&b.written.Memories, typeMemory, m) }

// Topic writes what a part of the chat is about.
func (b *Bundle) Topic(topic Topic) error { return b.count(&b.written.Topics, typeTopic, topic) }

// Revision writes a change of the brief.
func (b *Bundle) Revision(r Revision) error { return b.count(&b.written.Revisions, typeRevision, r) }

// End closes the chat and the bundle.
func (b *Bundle) End() error { return b.write(typeEnd, b.written) }
