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
	Revision(revision Revision) error
	End() error
}

var (
	_ Encoder = (*Lines)(nil)
	_ Encoder = (*Object)(nil)
	_ Encoder = (*Markdown)(nil)
)

// recordWriter counts the records of a chat and writes each with its type.
type recordWriter struct {
	write   func(kind string, record any) error
	written End
}

// File writes a content; the path is with the messages that bring it.
func (r *recordWriter) File(_ string, file File) error {
	r.written.Files++
	return r.write(typeFile, file)
}

// Message writes a message.
func (r *recordWriter) Message(message Message) error {
	r.written.Messages++
	return r.write(typeMessage, message)
}

// Revision writes a change of the brief.
func (r *recordWriter) Revision(revision Revision) error {
	r.written.Revisions++
	return r.write(typeRevision, revision)
}

// Lines writes a bundle line by line.
type Lines struct {
	recordWriter
}

// NewLines returns an encoder that writes to w.
func NewLines(w io.Writer) *Lines {
	return &Lines{recordWriter{write: func(kind string, record any) error { return writeLine(w, kind, record) }}}
}

// Begin writes the bundle's first line and the chat's.
func (l *Lines) Begin(exportedAt time.Time, chat Chat) error {
	if err := l.write(typeBundle, headerOf(exportedAt)); err != nil {
		return err
	}
	return l.write(typeChat, chat)
}

// End writes the chat's last line.
func (l *Lines) End() error { return l.write(typeEnd, l.written) }

func headerOf(exportedAt time.Time) Header {
	return Header{Format: Name, Version: Version, ExportedAt: exportedAt.UTC()}
}

// writeLine writes a record with its type as the first member.
func writeLine(w io.Writer, kind string, record any) error {
	encoded, err := marshal(record)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "{\"type\":%q,%s\n", kind, encoded[1:])
	return err
}

// Object writes a bundle as one JSON object, on several lines.
type Object struct {
	recordWriter
	w    io.Writer
	kind string // of the records in the list that is open; "" for none
}

// NewObject returns an encoder that writes to w.
func NewObject(w io.Writer) *Object {
	o := &Object{w: w}
	o.write = o.writeElement
	return o
}

// Begin writes everything before the chat's lists.
func (o *Object) Begin(exportedAt time.Time, chat Chat) error {
	header, err := marshal(headerOf(exportedAt))
	if err != nil {
		return err
	}
	encoded, err := marshal(chat)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.w, "%s,\"chats\":[{\n\"chat\":%s", header[:len(header)-1], encoded)
	return err
}

// writeElement writes a record into the list of its type, which it opens first if need be.
func (o *Object) writeElement(kind string, record any) error {
	encoded, err := marshal(record)
	if err != nil {
		return err
	}
	before := ",\n"
	if o.kind != kind {
		before = o.closing() + fmt.Sprintf(",\n%q:[\n", kind+"s")
		o.kind = kind
	}
	_, err = fmt.Fprintf(o.w, "%s%s", before, encoded)
	return err
}

func (o *Object) closing() string {
	if o.kind == "" {
		return ""
	}
	return "]"
}

// End closes the chat and the bundle.
func (o *Object) End() error {
	encoded, err := marshal(o.written)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.w, "%s,\n\"end\":%s}]}\n", o.closing(), encoded)
	return err
}
