package bundle

import (
	"cmp"
	"fmt"
)

// rules check what one record alone does not show: the order of the records, their number, what they refer to.
type rules struct {
	format Format
	chats  map[string]struct{}
	inChat bool
	// Of the current chat.
	seen  End
	files map[string]struct{}
	ids   map[string]struct{}
}

func newRules(format Format) rules {
	return rules{format: format, chats: map[string]struct{}{}}
}

// isBundle reports whether the format is our own, whose ids are uuids.
func (r *rules) isBundle() bool {
	return r.format == FormatLines || r.format == FormatObject
}

// check checks a record and fills in what it leaves out.
func (r *rules) check(record *Record) error {
	switch {
	case record.Header != nil:
		return r.header(record.Header)
	case record.Chat != nil:
		return r.chat(record.Chat)
	case !r.inChat:
		return wrong("no_chat", "this belongs to a chat, but no chat has begun")
	case record.File != nil:
		return r.file(record.File)
	case record.Message != nil:
		return r.message(record.Message)
	case record.Revision != nil:
		r.seen.Revisions++
		return nil
	default:
		return r.end(record.End)
	}
}

func (r *rules) header(header *Header) error {
	switch {
	case r.inChat:
		return missingEnd()
	case header.Format != Name:
		return wrong("unknown_format", "the format is not "+Name)
	case header.Version != Version:
		return wrong("unknown_version", fmt.Sprintf("only version %d of the format can be read", Version))
	}
	return nil
}

func missingEnd() error {
	return wrong("no_end", "the chat before has no end: the file is not whole")
}

func (r *rules) chat(chat *Chat) error {
	if r.inChat {
		return missingEnd()
	}
	if r.isBundle() {
		if err := uniform("id", &chat.ID); err != nil {
			return err
		}
	}
	if _, twice := r.chats[chat.ID]; twice {
		return wrong("duplicate_id", "there is a chat with this id already")
	}
	if len(r.chats) == MaxChats {
		return wrong("too_many_chats", fmt.Sprintf("there are more than %d chats", MaxChats))
	}
	r.chats[chat.ID] = struct{}{}
	r.inChat, r.seen = true, End{}
	r.files, r.ids = map[string]struct{}{}, map[string]struct{}{}
	return checkChat(chat)
}

func (r *rules) file(file *File) error {
	if err := checkFile(file); err != nil {
		return err
	}
	if _, twice := r.files[file.SHA256]; twice {
		return wrong("duplicate_file", "the chat has this file already")
	}
	r.files[file.SHA256] = struct{}{}
	r.seen.Files++
	return nil
}

func (r *rules) message(message *Message) error {
	if r.isBundle() {
		if err := cmp.Or(uniform("id", &message.ID), uniform("reply_to", message.ReplyTo), uniform("superseded_by", message.SupersededBy)); err != nil {
			return err
		}
	}
	if err := checkMessage(message); err != nil {
		return err
	}
	for _, file := range message.Files {
		if _, known := r.files[file.SHA256]; !known {
			return wrong("file_missing", "the message names a file that is not among the chat's files before it")
		}
	}
	r.seen.Messages++
	if r.format == FormatPlain {
		return nil // numbered by us
	}
	if _, twice := r.ids[message.ID]; twice {
		return wrong("duplicate_id", "the chat has a message with this id already")
	}
	r.ids[message.ID] = struct{}{}
	return nil
}

func (r *rules) end(end *End) error {
	r.inChat = false
	if *end != r.seen {
		return wrong("wrong_counts", fmt.Sprintf("the chat's end counts %d files, %d messages and %d revisions, but there are %d, %d and %d",
			end.Files, end.Messages, end.Revisions, r.seen.Files, r.seen.Messages, r.seen.Revisions))
	}
	return nil
}

// over checks that the file ends after a whole chat.
func (r *rules) over() error {
	if r.inChat {
		return missingEnd()
	}
	return nil
}
