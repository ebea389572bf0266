package transfer

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
)

// accountsAtOnce is how many accounts one process exports at the same time. Each keeps a connection and a
// snapshot of the database, for accountTimeout at most.
const (
	accountsAtOnce = 4
	accountTimeout = 15 * time.Minute
)

// ExportAccount writes everything about a user, as it is at one moment. After an error, what was written is incomplete.
func (s *Service) ExportAccount(ctx context.Context, user auth.Principal, w io.Writer) error {
	if err := s.accounts.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.accounts.Release(1)
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	return s.Store.Snapshot(ctx, user, func(all Snapshot) error {
		a := accountExport{ctx, s, user, all, bundle.NewLines(w)}
		return a.write()
	})
}

// accountExport is the export of one account.
type accountExport struct {
	ctx     context.Context //nolint:containedctx // it lives as long as the export
	service *Service
	user    auth.Principal
	all     Snapshot
	to      *bundle.Bundle
}

func (a *accountExport) write() error {
	account, err := a.all.Account(a.ctx)
	if err != nil {
		return err
	}
	if err := a.to.BeginAccount(a.service.Now(), account); err != nil {
		return err
	}
	err = EachInPages(nil, func(after *bundle.Chat) ([]AccountChat, error) { return a.all.Chats(a.ctx, after) },
		func(chat AccountChat) (*bundle.Chat, error) { return &chat.Chat, a.chat(chat) })
	if err != nil {
		return err
	}
	if err := a.outside(); err != nil {
		return err
	}
	return a.to.EndAccount()
}

// chat writes a chat without its memories, which come with all others.
func (a *accountExport) chat(chat AccountChat) error {
	id, err := uuid.Parse(chat.ID)
	if err != nil {
		return err
	}
	e := Export{Chat: chat.Chat, service: a.service, pages: a.all, user: a.user, chatID: id, last: chat.LastSeq}
	if err := a.to.Write(bundle.Record{Chat: &chat.Chat}); err != nil {
		return err
	}
	if err := e.writeSaid(a.ctx, a.to); err != nil {
		return err
	}
	return e.writeMade(a.ctx, a.to)
}

func (a *accountExport) outside() error {
	err := EachInPages(nil, func(after *bundle.Memory) ([]bundle.Memory, error) { return a.all.Memories(a.ctx, after) },
		func(memory bundle.Memory) (*bundle.Memory, error) {
			return &memory, a.to.Write(bundle.Record{Memory: &memory})
		})
	if err != nil {
		return err
	}
	err = EachInPages("", func(after string) ([]bundle.Entity, error) { return a.all.Entities(a.ctx, after) },
		func(entity bundle.Entity) (string, error) {
			return entity.ID, a.to.Write(bundle.Record{Entity: &entity})
		})
	if err != nil {
		return err
	}
	return EachInPages("", func(after string) ([]bundle.Relationship, error) { return a.all.Relationships(a.ctx, after) },
		func(one bundle.Relationship) (string, error) {
			return one.ID, a.to.Write(bundle.Record{Relationship: &one})
		})
}

// accountImport is what an import has met of an account.
type accountImport struct {
	begun bool
	// chats are the chats of the file that the user had already under their own id: their messages have their own ids, too.
	// In others they have those that chatWriter derives.
	own      map[string]bool
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
		if !a.own[source.ChatID] {
			source.MessageID = (&chatWriter{chatID: chat}).id(&source.MessageID).String()
		}
		source.ChatID = chat.String()
		memory.Sources = append(memory.Sources, source)
	}
	a.memories = append(a.memories, NewMemory{Memory: memory, ID: MemoryID(user, memory.ID)})
}

func (a *accountImport) chat(original string, id uuid.UUID) {
	if a.begun {
		a.chats[original] = id
		a.own[original] = id.String() == original
	}
}

// memoryNamespace is the namespace of the ids of imported memories. It must never change, or files would be imported again.
var memoryNamespace = uuid.MustParse("c2b6a7c4-3f0e-4b57-9d1c-7a0e5d2f9b16")

// MemoryID is the id that a memory of a file gets, always the same one for the same user and file.
func MemoryID(user uuid.UUID, original string) uuid.UUID {
	return uuid.NewSHA1(memoryNamespace, []byte(user.String()+original))
}
