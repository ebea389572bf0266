package transfer

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// The limits of one write: at most this many rows, or this many bytes of text.
const (
	chunkRows  = 500
	chunkBytes = 4 << 20
)

// chatWriter writes the records of one chat.
type chatWriter struct {
	chatID   uuid.UUID
	lastDate time.Time
	next     func() (record bundle.Record, err error, more bool) // reads the file
	count    int
	// attachments counts the messages' attachments that the file does not hold.
	attachments int
	// full counts the memories that were left out.
	full int

	add    Add
	rows   Rows // that are not written yet
	topics []bundle.Topic
	bytes  int
	// read is set for a file that brings all memories: nothing of the chat is to be read for them.
	read bool
	// foreign is set for another program's file. prompt is the message that became its system prompt.
	foreign bool
	prompt  *bundle.Message
}

// write reads up to the chat's end and writes what it reads.
func (w *chatWriter) write(add Add) error {
	w.add = add
	for {
		record, err, _ := w.next() // there is always an end, or an error
		switch {
		case err != nil:
		case record.File != nil:
			err = w.file(*record.File)
		case record.Message != nil:
			err = w.message(*record.Message)
		case record.Memory != nil:
			err = w.memory(*record.Memory)
		case record.Topic != nil:
			w.topics = append(w.topics, *record.Topic)
		case record.End != nil:
			return w.end()
		}
		if err != nil {
			return err
		}
	}
}

// end writes the rest. Topics are few, and wait for all messages.
func (w *chatWriter) end() error {
	for i := range w.topics {
		for n, turn := range w.topics[i].Turns {
			w.topics[i].Turns[n] = *w.id(&turn)
		}
	}
	w.rows.Topics, w.rows.Read = w.topics, w.read
	return w.flush()
}

func (w *chatWriter) file(file bundle.File) error {
	w.rows.Files = append(w.rows.Files, file)
	w.rows.Tokens = append(w.rows.Tokens, text.Tokens(file.Content))
	return w.grown(len(file.Content))
}

func (w *chatWriter) message(message bundle.Message) error {
	if w.foreign && message.Role == string(memory.RoleSystem) && strings.TrimSpace(message.Content) != "" {
		if w.prompt == nil && message.SupersededBy == nil && utf8.RuneCountInString(message.Content) <= memory.MaxSystemPrompt {
			w.prompt, w.rows.SystemPrompt = &message, message.Content
			return nil
		}
		message.Pinned = true // what it says holds from here on, also when a summary has taken its place
	}
	if w.prompt != nil && message.ParentID != nil && *message.ParentID == w.prompt.ID {
		message.ParentID = w.prompt.ParentID
	}
	if message.CreatedAt.IsZero() {
		message.CreatedAt = w.lastDate
	}
	if message.UpdatedAt.IsZero() {
		message.UpdatedAt = message.CreatedAt
	}
	w.lastDate = message.CreatedAt
	message.ID, message.ReplyTo, message.SupersededBy = *w.id(&message.ID), w.id(message.ReplyTo), w.id(message.SupersededBy)
	message.ParentID, message.MovedFrom, message.TokenCount = w.id(message.ParentID), w.id(message.MovedFrom), tokensOf(message)
	w.rows.Messages = append(w.rows.Messages, message)
	w.count++
	w.attachments += message.Attachments
	return w.grown(len(message.Content) + len(message.ToolCalls) + len(message.Parts) + len(message.Metadata))
}

// memory derives the memory's new id as a message's, so that what took its place is found without a table.
func (w *chatWriter) memory(memory bundle.Memory) error {
	for i, source := range memory.Sources {
		memory.Sources[i].MessageID = *w.id(&source.MessageID)
	}
	for _, other := range []**string{&memory.SupersededBy, &memory.ConflictsWith} {
		if *other != nil {
			*other = new(w.memoryID(**other).String())
		}
	}
	id := w.memoryID(memory.ID)
	memory.ID = id.String() // as others refer to it
	w.rows.Memories = append(w.rows.Memories, NewMemory{Memory: memory, ID: id})
	return w.grown(len(memory.Content) + len(memory.Sources)*memorySourceBytes)
}

// memorySourceBytes is about the most that a source of a memory takes.
const memorySourceBytes = 1 << 10

func (w *chatWriter) memoryID(original string) uuid.UUID {
	return uuid.NewSHA1(w.chatID, []byte("memory:"+original))
}

// id derives a message's new id from its original one, so that references to it need no table.
func (w *chatWriter) id(original *string) *string {
	if original == nil {
		return nil
	}
	return new(uuid.NewSHA1(w.chatID, []byte(*original)).String())
}

// tokensOf counts what a prompt would show of a message, which is nothing of one that is not on the path.
func tokensOf(message bundle.Message) int {
	if message.SupersededBy != nil {
		return 0
	}
	name := cmp.Or(message.Name, new(string))
	content := prompt.ReplyText(message.Content, memory.ReadParts(message.Parts))
	return text.Tokens(prompt.ToolText(memory.Role(message.Role), content, *name, message.ToolCalls))
}

// grown counts the bytes of a row that was appended, and writes the rows when there are enough.
func (w *chatWriter) grown(bytes int) error {
	w.bytes += bytes
	if w.bytes < chunkBytes && len(w.rows.Files)+len(w.rows.Messages)+len(w.rows.Memories) < chunkRows {
		return nil
	}
	return w.flush()
}

func (w *chatWriter) flush() error {
	rows := w.rows
	w.rows, w.bytes = Rows{}, 0
	full, err := w.add(rows)
	w.full += full
	return err
}

// accountImport is what an import has met of an account.
type accountImport struct {
	// chats has the ids of the file's chats; nil for a file that is no account. One that the user had already under its own id
	// has messages with their own ids, too. In others chatWriter derives the ids.
	chats    map[string]uuid.UUID
	memories []NewMemory
}

// memory renames what a memory of an account refers to. A source in a chat that is not in the file stays behind.
func (a *accountImport) memory(user uuid.UUID, memory bundle.Memory) {
	sources := memory.Sources
	memory.Sources, memory.History = nil, nil // no import restores the history, which may be far larger than the file
	for _, source := range sources {
		chat, here := a.chats[source.ChatID]
		if !here {
			continue
		}
		if chat.String() != source.ChatID {
			source.MessageID = *(&chatWriter{chatID: chat}).id(&source.MessageID)
		}
		source.ChatID = chat.String()
		memory.Sources = append(memory.Sources, source)
	}
	a.memories = append(a.memories, NewMemory{Memory: memory, ID: MemoryID(user, memory.ID)})
}

// memoryNamespace is the namespace of the ids of imported memories. It must never change, or files would be imported again.
var memoryNamespace = uuid.MustParse("c2b6a7c4-3f0e-4b57-9d1c-7a0e5d2f9b16")

// MemoryID is the id that a memory of a file gets, always the same one for the same user and file.
func MemoryID(user uuid.UUID, original string) uuid.UUID {
	return uuid.NewSHA1(memoryNamespace, []byte(user.String()+original))
}
