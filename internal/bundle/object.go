package bundle

import "encoding/json"

// bundleObject reads a bundle that is one object: {"format", "version", "exported_at", "chats": [{"chat", "files",
// "messages", "memories", "topics", "revisions", "end"}]}. Its members are in this order, so that records can be read one by one.
type bundleObject struct {
	window *window
}

func (b *bundleObject) position() position { return b.window.position() }

func (b *bundleObject) read(emit func(Record) error) error {
	head := map[string]json.RawMessage{}
	begun := false
	return b.window.whole('{', "a JSON object is expected here", func(name string) (err error) {
		if name == "chats" && !begun {
			begun = true
			return b.chats(head, emit)
		}
		head[name], err = b.window.value()
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
	return b.window.members('[', "chats is not an array", func(string) error {
		return b.window.members('{', "a chat is not an object", func(name string) error { return b.member(name, emit) })
	})
}

// lists are the members of a chat that hold records of one type each.
var lists = map[string]string{"files": typeFile, "messages": typeMessage, "memories": typeMemory, "topics": typeTopic, "revisions": typeRevision}

func (b *bundleObject) member(name string, emit func(Record) error) error {
	if kind, isList := lists[name]; isList {
		return b.window.members('[', name+" is not an array", func(string) error { return b.record(kind, emit) })
	}
	if name == typeChat || name == typeEnd {
		return b.record(name, emit)
	}
	_, err := b.window.value()
	return err
}

func (b *bundleObject) record(kind string, emit func(Record) error) error {
	raw, err := b.window.value()
	if err != nil {
		return err
	}
	return emitRecord(kind, raw, emit)
}
