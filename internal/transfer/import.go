package transfer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"iter"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/transfer/bundle"
)

// Result is what an import did.
type Result struct {
	_        struct{}       `description:"What an import did."`
	Chats    []ImportedChat `json:"chats" nullable:"false" description:"The file's chats, in its order."`
	Imported int            `json:"imported" description:"Chats that were written."`
	Skipped  int            `json:"skipped" description:"Chats that the user has already."`
	Messages int            `json:"messages" description:"Messages that were written."`
	// SkippedAttachments are known of ChatGPT's format only.
	SkippedAttachments int `json:"skipped_attachments" description:"Attachments of these messages that the file names but does not hold."`
	// Memories and SkippedMemories are known of an account only.
	Memories        int `json:"memories" description:"Memories of an account that were written."`
	SkippedMemories int `json:"skipped_memories" description:"Memories of an account that are there already, or whose words are."`
	FullMemories    int `json:"full_memories" description:"Memories that are left out: a user has 10 000 at most."`
}

// ImportedChat is one chat of the file.
type ImportedChat struct {
	_        struct{}  `description:"A chat of the file."`
	ChatID   uuid.UUID `json:"chat_id" description:"The chat's id here, the same one each time the file is imported."`
	Title    string    `json:"title" description:"As the file has it."`
	Messages int       `json:"messages" description:"Messages that were written; none for a chat that was skipped."`
	Skipped  bool      `json:"skipped" description:"Whether the user has the chat already."`
}

// Phase is what an import is busy with.
type Phase string

// The phases of an import, in order.
const (
	PhaseReceiving Phase = "receiving"
	PhaseChecking  Phase = "checking"
	PhaseWriting   Phase = "writing"
)

// Progress is how far an import has come.
type Progress struct {
	_             struct{} `description:"How far an import has come: data of the event import.progress."`
	Phase         Phase    `json:"phase" enum:"receiving,checking,writing"`
	Bytes         int64    `json:"bytes" description:"Size of what was received."`
	Chats         int      `json:"chats" description:"Chats that the phase is done with."`
	Messages      int      `json:"messages" description:"Messages that the phase has come to."`
	TotalMessages int      `json:"total_messages" description:"Messages of the file; 0 until it was checked."`
}

// Import reads a file: it writes all of it to disk, checks all of it, and only then writes chat after chat into the
// database, each whole or not at all. Importing a file again adds nothing. It calls progress often, on the caller's
// goroutine. When ctx ends, the chats that are already written stay. Few are checked and written at once; the
// others wait on disk.
func (s *Service) Import(ctx context.Context, user auth.Principal, body io.Reader, progress func(Progress)) (Result, error) {
	work := &importRun{service: s, user: user, began: s.Now(), report: progress, result: Result{Chats: []ImportedChat{}}}
	work.enter(PhaseReceiving)
	file, err := receive(ctx, s.TempDir, body, work.received)
	if err != nil {
		return Result{}, err
	}
	defer file.close()
	work.file = file
	if err := s.imports.Acquire(ctx, 1); err != nil {
		return Result{}, err
	}
	defer s.imports.Release(1)
	if err := work.check(ctx); err != nil {
		return Result{}, err
	}
	if err := work.write(ctx); err != nil {
		return Result{}, err
	}
	s.Logger.LogAttrs(ctx, slog.LevelInfo, "import", slog.String(keyUserID, user.UserID.String()), slog.String(keyFormat, string(work.format)),
		slog.Int64(keyBytes, file.size), slog.Int(keyChats, work.result.Imported), slog.Int(keySkipped, work.result.Skipped),
		slog.Int(keyMessages, work.result.Messages), slog.Int64(keyDurationMS, s.Now().Sub(work.began).Milliseconds()))
	return work.result, nil
}

// ReadMemories reads a file of memories, which it keeps on disk meanwhile. It returns all of them or an error.
func (s *Service) ReadMemories(ctx context.Context, body io.Reader) (bundle.MemoryFile, error) {
	file, err := receive(ctx, s.TempDir, body, func(int64) {})
	if err != nil {
		return bundle.MemoryFile{}, err
	}
	defer file.close()
	return bundle.ReadMemories(file.file, file.size, s.Now())
}

// importRun is one running import.
type importRun struct {
	service  *Service
	user     auth.Principal
	began    time.Time
	file     *spool
	format   bundle.Format
	records  iter.Seq2[bundle.Record, error]
	report   func(Progress)
	progress Progress
	result   Result
	account  accountImport
}

func (i *importRun) enter(phase Phase) {
	i.progress.Phase, i.progress.Chats, i.progress.Messages = phase, 0, 0
	i.report(i.progress)
}

func (i *importRun) received(bytes int64) {
	i.progress.Bytes = bytes
	i.report(i.progress)
}

// check reads the whole file and counts its messages.
func (i *importRun) check(ctx context.Context) (err error) {
	i.enter(PhaseChecking)
	if i.format, i.records, err = bundle.Open(i.file.file, i.file.size); err != nil {
		return err
	}
	for _, err := range i.watched(ctx) {
		if err != nil {
			return err
		}
	}
	i.progress.TotalMessages = i.progress.Messages
	return nil
}

// watched yields the file's records until ctx ends, and reports the progress.
func (i *importRun) watched(ctx context.Context) iter.Seq2[bundle.Record, error] {
	return func(yield func(bundle.Record, error) bool) {
		for record, err := range i.records {
			if err = cmp.Or(ctx.Err(), err); err != nil {
				yield(bundle.Record{}, err)
				return
			}
			switch {
			case record.End != nil:
				i.progress.Chats++
			case record.Message != nil:
				i.progress.Messages++
			}
			i.report(i.progress)
			if !yield(record, nil) {
				return
			}
		}
	}
}

// write writes chat after chat into the database.
func (i *importRun) write(ctx context.Context) error {
	i.enter(PhaseWriting)
	next, stop := iter.Pull2(i.watched(ctx))
	defer stop()
	for {
		record, err, more := next()
		if err != nil || !more {
			return err
		}
		if record.Chat == nil {
			if err := i.outside(ctx, record); err != nil {
				return err
			}
			continue
		}
		plan := i.plan(*record.Chat)
		writer := &chatWriter{chatID: plan.ID, lastDate: plan.CreatedAt, next: next, read: i.account.chats != nil, foreign: i.isForeign()}
		id, imported, err := i.service.Store.Import(ctx, i.user, plan, writer.write)
		if err != nil {
			return err
		}
		for skip := !imported; skip; {
			record, err, more := next()
			if err != nil {
				return err
			}
			skip = more && record.End == nil
		}
		if i.account.chats != nil {
			i.account.chats[record.Chat.ID] = id
		}
		i.result.Chats = append(i.result.Chats, ImportedChat{ChatID: id, Title: record.Chat.Title, Messages: writer.count, Skipped: !imported})
		i.result.Messages += writer.count
		i.result.SkippedAttachments += writer.attachments
		i.result.FullMemories += writer.full
		if imported {
			i.result.Imported++
		} else {
			i.result.Skipped++
		}
	}
}

// isForeign reports whether the file is another program's, which knows neither system prompts nor pins.
func (i *importRun) isForeign() bool {
	return i.format == bundle.FormatChatGPT || i.format == bundle.FormatPlain
}

// outside takes in what stands outside of chats: a header, or a part of an account. Its memories are written together, so
// that they find what took their place.
func (i *importRun) outside(ctx context.Context, record bundle.Record) error {
	switch {
	case record.Account != nil:
		i.account = accountImport{chats: map[string]uuid.UUID{}}
		return i.service.Store.ImportSettings(ctx, i.user, record.Account.Settings)
	case record.Memory != nil:
		i.account.memory(i.user.UserID, *record.Memory)
	case record.AccountEnd != nil:
		imported, full, err := i.service.Store.ImportAccountMemories(ctx, i.user, i.account.memories)
		i.result.Memories, i.result.SkippedMemories = imported, len(i.account.memories)-imported-full
		i.result.FullMemories += full
		return err
	}
	return nil
}

// chatNamespace is the namespace of the ids of imported chats. It must never change, or files would be imported again.
var chatNamespace = uuid.MustParse("5b9f2c1e-8d34-4e7a-9c60-1f2d7a3b8e45")

// plan chooses the chat's id, always the same one for the same user and file.
func (i *importRun) plan(chat bundle.Chat) NewChat {
	plan := NewChat{Chat: chat}
	if plan.CreatedAt.IsZero() {
		plan.CreatedAt = i.began
	}
	original := string(i.format) + ":" + chat.ID
	switch i.format {
	case bundle.FormatLines, bundle.FormatObject:
		plan.Original = uuid.MustParse(chat.ID) // checked by the reader
		original = plan.Original.String()
	case bundle.FormatPlain:
		original += i.file.sum()
		plan.setDefaults(i.service.ChatDefaults)
	case bundle.FormatChatGPT:
		plan.setDefaults(i.service.ChatDefaults)
	}
	plan.ID = uuid.NewSHA1(chatNamespace, []byte(i.user.UserID.String()+original))
	return plan
}

// spool is the imported file on disk, where it is read twice. It is unlinked as soon as it is open, so that nothing
// remains even when the process is killed.
type spool struct {
	file   *os.File
	size   int64
	digest hash.Hash
}

// receive copies the body to a new spool. It returns the body's errors as they are.
func receive(ctx context.Context, dir string, body io.Reader, received func(bytes int64)) (*spool, error) {
	file, err := os.CreateTemp(dir, "throughline-import-*")
	if err != nil {
		return nil, fmt.Errorf("keep import: %w", err)
	}
	s := &spool{file: file, digest: sha256.New()}
	if err := os.Remove(file.Name()); err != nil {
		s.close()
		return nil, fmt.Errorf("keep import: %w", err)
	}
	_, err = io.Copy(io.MultiWriter(file, s.digest, writer(func(part []byte) (int, error) {
		s.size += int64(len(part))
		received(s.size)
		return len(part), ctx.Err()
	})), body)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// writer is an io.Writer.
type writer func(part []byte) (int, error)

func (w writer) Write(part []byte) (int, error) { return w(part) }

// sum is the SHA-256 of the content in hexadecimal digits.
func (s *spool) sum() string { return hex.EncodeToString(s.digest.Sum(nil)) }

func (s *spool) close() {
	_ = s.file.Close() // its content is no longer needed
}
