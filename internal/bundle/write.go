package bundle

import (
	"fmt"
	"io"
	"time"
)

// Encoder writes the records of one chat, in the order of its methods. File comes before the messages that name
// it, in Markdown after the message that brings it. Its errors are those of writing.
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

// Lines writes a bundle line by line.
type Lines struct {
	w    io.Writer
	seen End
}

// NewLines makes an encoder that writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Begin writes the bundle's first line and the chat's.
func (l *Lines) Begin(exportedAt time.Time, chat Chat) error {
	if err := writeLine(l.w, typeBundle, headerOf(exportedAt)); err != nil {
		return err
	}
	return writeLine(l.w, typeChat, chat)
}

// File writes a content; whoever brings it names the path.
func (l *Lines) File(_ string, file File) error {
	l.seen.Files++
	return writeLine(l.w, typeFile, file)
}

// Message writes a message.
func (l *Lines) Message(message Message) error {
	l.seen.Messages++
	return writeLine(l.w, typeMessage, message)
}

// Revision writes a change of the brief.
func (l *Lines) Revision(revision Revision) error {
	l.seen.Revisions++
	return writeLine(l.w, typeRevision, revision)
}

// End closes the chat.
func (l *Lines) End() error { return writeLine(l.w, typeEnd, l.seen) }

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
	w    io.Writer
	list string // the chat's member that is open
	seen End
}

// NewObject makes an encoder that writes to w.
func NewObject(w io.Writer) *Object { return &Object{w: w} }

// Begin writes all before the chat's lists.
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

// File writes a content; whoever brings it names the path.
func (o *Object) File(_ string, file File) error {
	o.seen.Files++
	return o.element("files", file)
}

// Message writes a message.
func (o *Object) Message(message Message) error {
	o.seen.Messages++
	return o.element("messages", message)
}

// Revision writes a change of the brief.
func (o *Object) Revision(revision Revision) error {
	o.seen.Revisions++
	return o.element("revisions", revision)
}

// element writes into a list, and begins it where it is not open yet.
func (o *Object) element(list string, record any) error {
	encoded, err := marshal(record)
	if err != nil {
		return err
	}
	before := ",\n"
	if o.list != list {
		before = o.closing() + fmt.Sprintf(",\n%q:[\n", list)
		o.list = list
	}
	_, err = fmt.Fprintf(o.w, "%s%s", before, encoded)
	return err
}

func (o *Object) closing() string {
	if o.list == "" {
		return ""
	}
	return "]"
}

// End closes the chat and the bundle.
func (o *Object) End() error {
	encoded, err := marshal(o.seen)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.w, "%s,\n\"end\":%s}]}\n", o.closing(), encoded)
	return err
}
