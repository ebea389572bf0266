package transfer

import (
	"cmp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// What is written at once: at most this many rows, or this many bytes of text.
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
	// attachments counts those that the messages came with and the file does not hold.
	attachments int

	rows     Rows
	files    []bundle.File
	tokens   []int
	messages []NewMessage
	memories []NewMemory
	topics   []bundle.Topic
	bytes    int
	// read is set for a file that brings all memories: nothing of the chat is to be read for them.
	read bool
	// foreign is set for another program's file. instructed is whether its system prompt was found.
	foreign, instructed bool
}

// write reads up to the chat's end and writes what it reads.
func (w *chatWriter) write(rows Rows) error {
	w.rows = rows
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

// end writes what is left. Topics are few, and wait for all messages.
func (w *chatWriter) end() error {
	if err := w.flush(); err != nil {
		return err
	}
	for i := range w.topics {
		for n, turn := range w.topics[i].Turns {
			w.topics[i].Turns[n] = w.id(&turn).String()
		}
	}
	if len(w.topics) > 0 {
		if err := w.rows.Topics(w.topics); err != nil {
			return err
		}
	}
	if w.read {
		return w.rows.Read()
	}
	return nil
}

func (w *chatWriter) file(file bundle.File) error {
	w.files = append(w.files, file)
	w.tokens = append(w.tokens, text.Tokens(file.Content))
	return w.add(len(file.Content))
}

func (w *chatWriter) message(message bundle.Message) error {
	if w.foreign && message.Role == string(memory.RoleSystem) && strings.TrimSpace(message.Content) != "" {
		if !w.instructed && utf8.RuneCountInString(message.Content) <= memory.MaxSystemPrompt {
			w.instructed = true
			return w.rows.SystemPrompt(message.Content)
		}
		message.Pinned = true // what it says holds from here on, also when a summary has taken its place
	}
	if message.CreatedAt.IsZero() {
		message.CreatedAt = w.lastDate
	}
	if message.UpdatedAt.IsZero() {
		message.UpdatedAt = message.CreatedAt
	}
	w.lastDate = message.CreatedAt
	w.messages = append(w.messages, NewMessage{
		Message: message, ID: w.id(&message.ID), ReplyTo: w.id(message.ReplyTo), SupersededBy: w.id(message.SupersededBy),
		Tokens: tokensOf(message),
	})
	w.count++
	w.attachments += message.Attachments
	return w.add(len(message.Content) + len(message.ToolCalls) + len(message.Metadata))
}

// memory derives the memory's new id as a message's, so that what took its place is found without a table.
func (w *chatWriter) memory(memory bundle.Memory) error {
	for i, source := range memory.Sources {
		memory.Sources[i].MessageID = w.id(&source.MessageID).String()
	}
	for _, other := range []**string{&memory.SupersededBy, &memory.ConflictsWith} {
		if *other != nil {
			*other = new(w.memoryID(**other).String())
		}
	}
	w.memories = append(w.memories, NewMemory{Memory: memory, ID: w.memoryID(memory.ID)})
	return w.add(len(memory.Content) + len(memory.Sources)*memorySourceBytes)
}

// memorySourceBytes is about the most that a source of a memory takes.
const memorySourceBytes = 1 << 10

func (w *chatWriter) memoryID(original string) uuid.UUID {
	return uuid.NewSHA1(w.chatID, []byte("memory:"+original))
}

// id derives a message's new id from its original one, so that references to it need no table.
func (w *chatWriter) id(original *string) uuid.UUID {
	if original == nil {
		return uuid.Nil
	}
	return uuid.NewSHA1(w.chatID, []byte(*original))
}

// tokensOf counts what a prompt would show of a message, which is nothing of a superseded reply.
func tokensOf(message bundle.Message) int {
	if message.SupersededBy != nil {
		return 0
	}
	name := cmp.Or(message.Name, new(string))
	return text.Tokens(prompt.ToolText(memory.Role(message.Role), message.Content, *name, message.ToolCalls))
}

// add counts the bytes of a row that was appended, and writes the rows when there are enough.
func (w *chatWriter) add(bytes int) error {
	w.bytes += bytes
	if w.bytes < chunkBytes && len(w.files)+len(w.messages)+len(w.memories) < chunkRows {
		return nil
	}
	return w.flush()
}

// flush writes what is collected, files before the messages that name them, and memories after these.
func (w *chatWriter) flush() error {
	if len(w.files) > 0 {
		if err := w.rows.Files(w.files, w.tokens); err != nil {
			return err
		}
	}
	if len(w.messages) > 0 {
		if err := w.rows.Messages(w.messages); err != nil {
			return err
		}
	}
	if len(w.memories) > 0 {
		if err := w.rows.Memories(w.memories); err != nil {
			return err
		}
	}
	w.files, w.tokens, w.messages, w.memories, w.bytes = w.files[:0], w.tokens[:0], w.messages[:0], w.memories[:0], 0
	return nil
}
