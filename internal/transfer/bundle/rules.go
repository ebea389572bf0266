package bundle

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// rules check what one record alone does not show: the order of the records, their number, what they refer to.
type rules struct {
	counted
	format Format
	chats  idSet
	// Of the current chat.
	files idSet
	ids   idSet
	turns idSet  // in topics
	off   idSet  // messages that are not on the path
	last  string // on the path
	// Of an account.
	account  accountState
	memories idSet
}

// accountState is how far an account has come.
type accountState int

const (
	noAccount accountState = iota
	accountExpected
	accountBegun
	accountEnded
)

// idSet holds a hash of each id, because a file may have millions of them: 16 bytes, no pointer, and no two ids that share
// one.
type idSet map[uuid.UUID]struct{}

func keyOf(id string) uuid.UUID { return uuid.NewSHA1(uuid.Nil, []byte(id)) }

func (s idSet) has(id string) bool {
	_, known := s[keyOf(id)]
	return known
}

func (s idSet) add(id, reason, message string) error {
	known := len(s)
	if s[keyOf(id)] = struct{}{}; len(s) == known {
		return wrong(reason, message)
	}
	return nil
}

func newRules(format Format) rules {
	return rules{format: format, chats: idSet{}}
}

// isBundle reports whether the format is our own, whose ids are uuids.
func (r *rules) isBundle() bool {
	return r.format == FormatLines || r.format == FormatObject
}

// check checks a record and fills in what it leaves out.
func (r *rules) check(record *Record) error {
	err := r.checkNext(record)
	r.count(record)
	return err
}

func (r *rules) checkNext(record *Record) error {
	switch {
	case record.Header != nil:
		return r.header(record.Header)
	case r.account == accountEnded:
		return wrong("wrong_counts", "something follows the end of the account")
	case record.Account != nil:
		return r.accountBegins(record.Account)
	case r.account == accountExpected:
		return wrong("no_account", "the file should hold an account, and does not begin with it")
	case record.Chat != nil:
		return r.chat(record.Chat)
	case r.account == accountBegun && !r.open:
		return r.outsideOfChats(record)
	case !r.open:
		return wrong("no_chat", "this belongs to a chat, but no chat has begun")
	case record.File != nil:
		return r.file(record.File)
	case record.Message != nil:
		return r.message(record.Message)
	case record.Memory != nil:
		return r.memory(record.Memory)
	case record.Topic != nil:
		return r.topic(record.Topic)
	case record.Revision != nil:
		return nil
	case record.End != nil:
		return r.end(record.End)
	}
	return wrong("no_end", "this belongs to the account, but the chat before has no end")
}

func (r *rules) header(header *Header) error {
	if err := r.between(); err != nil {
		return err
	}
	if r.account != noAccount {
		return wrong("unknown_format", "an account is a file by itself")
	}
	if header.Holds == HoldsAccount && r.format == FormatLines && len(r.chats) == 0 {
		r.account = accountExpected
	}
	if header.Format != Name {
		return wrong("unknown_format", "the format is not "+Name)
	}
	if header.Version != Version {
		return wrong("unknown_version", fmt.Sprintf("only version %d of the format can be read", Version))
	}
	return nil
}

func (r *rules) chat(chat *Chat) error {
	if err := r.between(); err != nil {
		return err
	}
	if r.isBundle() {
		if err := uniform("id", &chat.ID); err != nil {
			return err
		}
	}
	if err := r.chats.add(chat.ID, "duplicate_id", "there is a chat with this id already"); err != nil {
		return err
	}
	if len(r.chats) > MaxChats {
		return wrong("too_many_chats", fmt.Sprintf("there are more than %d chats", MaxChats))
	}
	r.files, r.ids, r.turns, r.off, r.last = idSet{}, idSet{}, idSet{}, idSet{}, ""
	return checkChat(chat)
}

func (r *rules) file(file *File) error {
	if len(file.Content) > maxFileBytes {
		return wrong("file_too_large", fmt.Sprintf("the file is larger than %d bytes", maxFileBytes))
	}
	file.SHA256 = strings.ToLower(file.SHA256)
	if fmt.Sprintf("%x", sha256.Sum256([]byte(file.Content))) != file.SHA256 {
		return wrong("wrong_sha256", "sha256 is not that of the file's content")
	}
	return r.files.add(file.SHA256, "duplicate_file", "the chat has this file already")
}

func (r *rules) message(message *Message) error {
	if r.isBundle() {
		if err := cmp.Or(uniform("id", &message.ID), uniform("reply_to", message.ReplyTo), uniform("parent_id", message.ParentID),
			uniform("moved_from", message.MovedFrom), uniform("superseded_by", message.SupersededBy)); err != nil {
			return err
		}
	}
	if err := checkMessage(message); err != nil {
		return err
	}
	for _, file := range message.Files {
		if !r.files.has(file.SHA256) {
			return wrong("file_missing", "the message names a file that is not among the chat's files before it")
		}
	}
	if r.format == FormatPlain {
		return nil // numbered by us
	}
	if err := r.place(message); err != nil {
		return err
	}
	return r.ids.add(message.ID, "duplicate_id", "the chat has a message with this id already")
}

// place checks where a message stands in the tree. In a file without parents, the superseded messages are replies, and each stands
// after the message that it answers.
func (r *rules) place(message *Message) error {
	parent := message.ParentID
	switch {
	case parent == nil && message.SupersededBy != nil && message.ReplyTo != nil && r.ids.has(*message.ReplyTo):
		message.ParentID = message.ReplyTo
	case parent != nil && !r.ids.has(*parent):
		return wrong("message_missing", "parent_id names a message that is not among the chat's messages before it")
	case parent != nil && message.SupersededBy == nil && *parent != r.last:
		return wrong("wrong_parent", "superseded_by is null, and parent_id is not the message before it of which that is true")
	}
	if message.SupersededBy == nil {
		r.last = message.ID
	} else {
		r.off[keyOf(message.ID)] = struct{}{}
	}
	return nil
}

func (r *rules) memory(memory *Memory) error {
	if err := cmp.Or(uniform("id", &memory.ID), checkMemory(memory)); err != nil {
		return err
	}
	for _, source := range memory.Sources {
		if !r.ids.has(source.MessageID) || r.off.has(source.MessageID) {
			return wrong("message_missing", "the memory names a message that is not on the path of the chat before it")
		}
	}
	if len(memory.Sources) == 0 {
		return wrong("message_missing", "the memory names no message in which it was said")
	}
	return nil
}

func (r *rules) topic(topic *Topic) error {
	if err := cmp.Or(uniform("id", &topic.ID), checkTopic(topic)); err != nil {
		return err
	}
	for i := range topic.Turns {
		if err := uniform("turns", &topic.Turns[i]); err != nil {
			return err
		}
		if !r.ids.has(topic.Turns[i]) {
			return wrong("message_missing", "the topic names a message that is not among the chat's messages before it")
		}
		if err := r.turns.add(topic.Turns[i], "duplicate_id", "a turn belongs to two topics"); err != nil {
			return err
		}
	}
	return nil
}

func (r *rules) end(end *End) error {
	if seen := r.inChat; *end != seen {
		return wrong("wrong_counts", fmt.Sprintf("the chat's end counts %d files, %d messages, %d memories, %d topics and %d revisions, but there are %d, "+
			"%d, %d, %d and %d",
			end.Files, end.Messages, end.Memories, end.Topics, end.Revisions, seen.Files, seen.Messages, seen.Memories, seen.Topics, seen.Revisions))
	}
	return nil
}

func (r *rules) accountBegins(account *Account) error {
	if r.account != accountExpected {
		return wrong("unknown_format", "there is an account where none is expected")
	}
	r.account, r.memories = accountBegun, idSet{}
	settings := &account.Settings
	if settings.Excluded == nil {
		settings.Excluded = []string{}
	}
	if len(settings.Excluded) > maxExcluded {
		return wrong("out_of_range", fmt.Sprintf("there are more than %d excluded subjects", maxExcluded))
	}
	return cmp.Or(
		eachWithin("excluded", settings.Excluded, maxSubject), uniform("id", &account.ID),
		within("time_zone", settings.TimeZone, 1, maxZone), within("language", settings.Language, 1, maxLang))
}

// outsideOfChats checks what an account holds beside its chats.
func (r *rules) outsideOfChats(record *Record) error {
	switch {
	case record.Memory != nil:
		if r.outside.Memories >= MaxMemories {
			return wrong("too_many_memories", fmt.Sprintf("there are more than %d memories", MaxMemories))
		}
		if err := r.remembered(record.Memory); err != nil {
			return err
		}
		return r.memories.add(record.Memory.ID, "duplicate_id", "there is a memory with this id already")
	case record.Entity != nil, record.Relationship != nil:
	case record.AccountEnd != nil:
		r.account = accountEnded
		if *record.AccountEnd != r.outside {
			return wrong("wrong_counts", fmt.Sprintf("the account's end counts %+v, but there are %+v", *record.AccountEnd, r.outside))
		}
	default:
		return wrong("no_chat", "this belongs to a chat, but no chat has begun")
	}
	return nil
}

// remembered checks a memory of the account. Its sources are messages of chats, of this file or others.
func (r *rules) remembered(memory *Memory) error {
	err := oneOf("unknown_type", "origin", cmp.Or(memory.Origin, "user"), "extracted", "user", "assistant", "import")
	for i := range memory.Sources {
		err = cmp.Or(err, uniform("chat_id", &memory.Sources[i].ChatID))
	}
	return cmp.Or(err, uniform("id", &memory.ID), checkMemory(memory))
}

// over checks that the file ends where it may.
func (r *rules) over() error {
	if r.account == accountExpected || r.account == accountBegun {
		return cmp.Or(r.between(), wrong("no_end", "the account has no end: the file is not whole"))
	}
	return r.between()
}

// between checks that the chat before is whole.
func (r *rules) between() error {
	if r.open {
		return wrong("no_end", "the chat before has no end: the file is not whole")
	}
	return nil
}
