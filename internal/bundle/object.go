package bundle

import (
	"encoding/json"
	"io"
)

// bundleObject reads a bundle that is one object: {"format", "version", "exported_at", "chats": [{"chat", "files",
// "messages", "revisions", "end"}]}. Its members are in this order, so that records can be read one by one.
type bundleObject struct {
	window *window
	step   func() (Record, error)
	header Header
}

func newBundleObject(content *io.SectionReader) *bundleObject {
	b := &bundleObject{window: newWindow(content)}
	b.step = b.begin
	return b
}

func (b *bundleObject) position() position { return b.window.position() }

// next runs steps until one of them returns a record.
func (b *bundleObject) next() (Record, error) {
	for {
		record, err := b.step()
		if err != nil || record != (Record{}) {
			return record, err
		}
	}
}

// begin reads up to the first chat.
func (b *bundleObject) begin() (Record, error) {
	w := b.window
	if err := w.open('{', "a JSON object is expected here"); err != nil {
		return Record{}, err
	}
	head := map[string]json.RawMessage{}
	for w.more() {
		key, err := w.key()
		if err != nil {
			return Record{}, err
		}
		if key == "chats" {
			return b.beginChats(head)
		}
		if head[key], err = w.value(); err != nil {
			return Record{}, err
		}
	}
	return Record{}, wrong("no_chats", "the member chats is missing")
}

func (b *bundleObject) beginChats(head map[string]json.RawMessage) (Record, error) {
	raw, err := marshal(head)
	if err != nil {
		return Record{}, err
	}
	if err := decode(raw, &b.header); err != nil {
		return Record{}, err
	}
	b.step = b.chat
	return Record{Header: &b.header}, b.window.open('[', "chats is not an array")
}

// chat begins the next chat, or ends the file.
func (b *bundleObject) chat() (Record, error) {
	w := b.window
	if w.more() {
		b.step = b.member
		return Record{}, w.open('{', "a chat is not an object")
	}
	if err := w.close(']'); err != nil {
		return Record{}, err
	}
	for w.more() {
		if _, err := w.key(); err != nil {
			return Record{}, err
		}
		if _, err := w.value(); err != nil {
			return Record{}, err
		}
	}
	if err := w.close('}'); err != nil {
		return Record{}, err
	}
	b.step = func() (Record, error) { return Record{}, w.over() }
	return Record{}, nil
}

// lists are the members of a chat that hold records of one type each.
var lists = map[string]string{"files": typeFile, "messages": typeMessage, "revisions": typeRevision}

// member reads the next member of a chat.
func (b *bundleObject) member() (Record, error) {
	w := b.window
	if !w.more() {
		b.step = b.chat
		return Record{}, w.close('}')
	}
	key, err := w.key()
	if err != nil {
		return Record{}, err
	}
	if kind, isList := lists[key]; isList {
		b.step = func() (Record, error) { return b.element(kind) }
		return Record{}, w.open('[', key+" is not an array")
	}
	raw, err := w.value()
	if err != nil || key != typeChat && key != typeEnd {
		return Record{}, err
	}
	return recordOf(key, raw)
}

// element reads the next record of a list.
func (b *bundleObject) element(kind string) (Record, error) {
	w := b.window
	if !w.more() {
		b.step = b.member
		return Record{}, w.close(']')
	}
	raw, err := w.value()
	if err != nil {
		return Record{}, err
	}
	return recordOf(kind, raw)
}
