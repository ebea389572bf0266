package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// Formats of an export.
const (
	FormatLines    = string(bundle.FormatLines)
	FormatObject   = string(bundle.FormatObject)
	FormatMarkdown = "markdown"
)

// Export is a chat that is ready to be written.
type Export struct {
	Chat    bundle.Chat
	parts   Parts
	service *Service
}

// Export finds the chat. Later messages are not part of the export.
func (s *Service) Export(ctx context.Context, user auth.Principal, chatID uuid.UUID) (*Export, error) {
	chat, parts, err := s.Store.ExportChat(ctx, user, chatID)
	if err != nil {
		return nil, err
	}
	return &Export{chat, parts, s}, nil
}

// Write writes the export. After an error, the export is incomplete.
func (e *Export) Write(ctx context.Context, w io.Writer, format string) error {
	switch format {
	case FormatLines:
		return e.writeAll(ctx, bundle.NewLines(w))
	case FormatObject:
		return e.writeAll(ctx, bundle.NewObject(w))
	case FormatMarkdown:
		return e.writeForPeople(ctx, bundle.NewMarkdown(w))
	}
	return fmt.Errorf("there is no export format %q", format)
}

// writeAll writes files before the messages that name them, and then the topics and briefs made of these.
func (e *Export) writeAll(ctx context.Context, to *bundle.Bundle) error {
	if err := to.Begin(e.service.Now(), e.Chat); err != nil {
		return err
	}
	p := e.parts
	if err := writeEach(ctx, to, p.Files, p.Messages, p.Memories, p.Topics, p.Revisions); err != nil {
		return err
	}
	return to.End()
}

func writeEach(ctx context.Context, to *bundle.Bundle, parts ...func(context.Context, func(bundle.Record) error) error) error {
	for _, part := range parts {
		if err := part(ctx, to.Write); err != nil {
			return err
		}
	}
	return nil
}

// writeForPeople writes the path alone, and each file after the message that brought it.
func (e *Export) writeForPeople(ctx context.Context, to *bundle.Markdown) error {
	if err := to.Begin(e.service.Now(), e.Chat); err != nil {
		return err
	}
	shown := map[string]bool{}
	return e.parts.Messages(ctx, func(record bundle.Record) error {
		if record.Message.SupersededBy != nil {
			return nil
		}
		if err := to.Message(*record.Message); err != nil {
			return err
		}
		for _, ref := range record.Message.Files {
			file := bundle.File{SHA256: ref.SHA256}
			if !shown[ref.SHA256] {
				var err error
				if file, err = e.parts.File(ctx, ref.SHA256); err != nil {
					return err
				}
			}
			shown[ref.SHA256] = true
			if err := to.File(ref.Path, file); err != nil {
				return err
			}
		}
		return nil
	})
}

// accountsAtOnce is how many accounts one process exports at the same time. Each keeps a connection and a
// snapshot of the database, for accountTimeout at most.
const (
	accountsAtOnce = 4
	accountTimeout = 15 * time.Minute
)

// ExportAccount writes everything about a user, as it is at one moment. After an error, the export is incomplete.
func (s *Service) ExportAccount(ctx context.Context, user auth.Principal, w io.Writer) error {
	if err := s.accounts.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.accounts.Release(1)
	late := fault.New(fault.NotReady, fmt.Sprintf("The export took longer than %.0f minutes.", accountTimeout.Minutes()))
	ctx, cancel := context.WithTimeoutCause(ctx, accountTimeout, late)
	defer cancel()
	err := s.Store.Snapshot(ctx, user, func(all Snapshot) error { return s.writeAccount(ctx, all, bundle.NewLines(w)) })
	if err != nil && errors.Is(context.Cause(ctx), late) {
		return fault.Wrap(late.Code, late.Message, err)
	}
	return err
}

// writeAccount writes chats without their memories, which come with all others.
func (s *Service) writeAccount(ctx context.Context, all Snapshot, to *bundle.Bundle) error {
	account, err := all.Account(ctx)
	if err != nil {
		return err
	}
	if err := to.BeginAccount(s.Now(), account); err != nil {
		return err
	}
	err = all.Chats(ctx, func(chat bundle.Chat, p Parts) error {
		if err := to.Write(bundle.Record{Chat: &chat}); err != nil {
			return err
		}
		if err := writeEach(ctx, to, p.Files, p.Messages, p.Topics, p.Revisions); err != nil {
			return err
		}
		return to.End()
	})
	if err != nil {
		return err
	}
	if err := writeEach(ctx, to, all.Memories, all.Entities, all.Relationships); err != nil {
		return err
	}
	return to.EndAccount()
}
