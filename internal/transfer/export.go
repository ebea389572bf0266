package transfer

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/bundle"
)

// Formats of an export.
const (
	FormatLines    = string(bundle.FormatLines)
	FormatObject   = string(bundle.FormatObject)
	FormatMarkdown = "markdown"
)

// Export is a chat that is ready to be written.
type Export struct {
	Chat bundle.Chat

	service *Service
	pages   Pages
	user    auth.Principal
	chatID  uuid.UUID
	last    int64 // seq of the last message that is part of the export
}

// Export finds the chat. Later messages are not part of the export.
func (s *Service) Export(ctx context.Context, user auth.Principal, chatID uuid.UUID) (*Export, error) {
	chat, last, err := s.Store.ExportChat(ctx, user, chatID)
	if err != nil {
		return nil, err
	}
	return &Export{Chat: chat, service: s, pages: s.Store, user: user, chatID: chatID, last: last}, nil
}

// Write writes the export. After an error, what was written is incomplete.
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

// writeAll writes all of the chat.
func (e *Export) writeAll(ctx context.Context, to *bundle.Bundle) error {
	if err := to.Begin(e.service.Now(), e.Chat); err != nil {
		return err
	}
	if err := e.writeSaid(ctx, to); err != nil {
		return err
	}
	err := EachInPages(nil, func(after *bundle.Memory) ([]bundle.Memory, error) {
		return e.pages.ExportMemories(ctx, e.user, e.chatID, after, e.last)
	}, func(memory bundle.Memory) (*bundle.Memory, error) {
		return &memory, to.Write(bundle.Record{Memory: &memory})
	})
	if err != nil {
		return err
	}
	return e.writeMade(ctx, to)
}

// writeSaid writes what was said, files before the messages that name them.
func (e *Export) writeSaid(ctx context.Context, to *bundle.Bundle) error {
	err := EachInPages("", func(after string) ([]bundle.File, error) {
		return e.pages.ExportFiles(ctx, e.user, e.chatID, after, e.last)
	}, func(file bundle.File) (string, error) { return file.SHA256, to.Write(bundle.Record{File: &file}) })
	if err != nil {
		return err
	}
	return e.messages(ctx, func(message bundle.Message) error { return to.Write(bundle.Record{Message: &message}) })
}

// writeMade writes what was made of it, and the chat's end.
func (e *Export) writeMade(ctx context.Context, to *bundle.Bundle) error {
	err := EachInPages(0, func(after int) ([]NumberedTopic, error) {
		return e.pages.ExportTopics(ctx, e.user, e.chatID, after, e.last)
	}, func(topic NumberedTopic) (int, error) {
		return topic.Number, to.Write(bundle.Record{Topic: &topic.Topic})
	})
	if err != nil {
		return err
	}
	err = EachInPages(0, func(after int64) ([]bundle.Revision, error) {
		return e.pages.ExportRevisions(ctx, e.user, e.chatID, after)
	}, func(revision bundle.Revision) (int64, error) {
		return revision.Version, to.Write(bundle.Record{Revision: &revision})
	})
	if err != nil {
		return err
	}
	return to.End()
}

// writeForPeople writes each file after the message that brought it.
func (e *Export) writeForPeople(ctx context.Context, to *bundle.Markdown) error {
	if err := to.Begin(e.service.Now(), e.Chat); err != nil {
		return err
	}
	shown := map[string]bool{}
	return e.messages(ctx, func(message bundle.Message) error {
		if err := to.Message(message); err != nil {
			return err
		}
		for _, ref := range message.Files {
			file := bundle.File{SHA256: ref.SHA256}
			if !shown[ref.SHA256] {
				var err error
				if file, err = e.pages.ExportFile(ctx, e.user, e.chatID, ref.SHA256); err != nil {
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

func (e *Export) messages(ctx context.Context, write func(bundle.Message) error) error {
	return EachInPages(0, func(after int64) ([]bundle.Message, error) {
		return e.pages.ExportMessages(ctx, e.user, e.chatID, after, e.last)
	}, func(message bundle.Message) (int64, error) { return message.Seq, write(message) })
}

// EachInPages calls write for each item of all pages. read returns the page after a key, and write the key of its item.
func EachInPages[Key, Item any](after Key, read func(after Key) ([]Item, error), write func(Item) (Key, error)) error {
	for {
		page, err := read(after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, item := range page {
			if after, err = write(item); err != nil {
				return err
			}
		}
	}
}
