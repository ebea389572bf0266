package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

// turnWithFiles is a complete turn in a new chat, with files given as path, content, path, content …
func (s shelf) turnWithFiles(content string, files ...string) chat.NewTurn {
	s.t.Helper()
	turn := firstTurn(content)
	s.start(turn)
	s.reply(turn, "Seen.")
	s.bring(turn, files...)
	return turn
}

// bring adds files to a turn's message.
func (s shelf) bring(turn chat.NewTurn, files ...string) {
	s.t.Helper()
	for i := 0; i < len(files); i += 2 {
		hash := sha256.Sum256([]byte(files[i+1]))
		s.exec(`insert into chat_files (chat_id, user_id, sha256, content, token_count) values ($1, $2, $3, $4, 7) on conflict do nothing`,
			turn.ChatID, s.user.UserID, hash[:], files[i+1])
		s.exec(`insert into message_files (message_id, place, chat_id, user_id, path, sha256) values ($1, $2, $3, $4, $5, $6)`,
			turn.UserMessageID, i/2+1, turn.ChatID, s.user.UserID, files[i], hash[:])
	}
}

func (s shelf) files(chatID uuid.UUID, query history.FilesQuery) []history.File {
	s.t.Helper()
	files, err := s.ListFiles(s.t.Context(), s.user, chatID, query)
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

func TestFilesAreListedOnce(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	first := s.turnWithFiles("See this.", "a.go", "package a", "b.go", "päckage b", "copy/a.go", "package a")
	second := turnIn(first.ChatID, "And again.")
	s.start(second)
	s.bring(second, "old/a.go", "package a", "a.go", "package a", "empty", "")
	s.turnWithFiles("Another chat.", "c.go", "package c")
	files := s.files(first.ChatID, history.FilesQuery{})
	if len(files) != 3 {
		t.Fatalf("%d files: %s", len(files), jsonOf(t, files))
	}
	empty, a, b := files[0], files[1], files[2]
	if empty.Path != "empty" || empty.Bytes != 0 || empty.Content != nil || b.Path != "b.go" || b.Bytes != 10 || b.TokenCount != 7 || b.MessageID != first.UserMessageID {
		t.Errorf("%s", jsonOf(t, files))
	}
	if a.Path != "a.go" || !slices.Equal(a.Paths, []string{"a.go", "old/a.go", "copy/a.go"}) || a.MessageID != second.UserMessageID {
		t.Errorf("%s", jsonOf(t, a))
	}
	if hash := sha256.Sum256([]byte("package a")); a.SHA256 != hex.EncodeToString(hash[:]) {
		t.Errorf("the hash is %s", a.SHA256)
	}
	full := s.files(first.ChatID, history.FilesQuery{Content: true})
	if *full[0].Content != "" || *full[1].Content != "package a" || *full[2].Content != "päckage b" {
		t.Errorf("contents: %s", jsonOf(t, full))
	}
	hash := sha256.Sum256([]byte("päckage b"))
	if one := s.files(first.ChatID, history.FilesQuery{SHA256: hash[:], Content: true}); len(one) != 1 || *one[0].Content != "päckage b" {
		t.Errorf("by its hash: %s", jsonOf(t, one))
	}
	if none := s.files(first.ChatID, history.FilesQuery{SHA256: make([]byte, 32)}); none == nil || len(none) != 0 {
		t.Errorf("by no hash of any: %s", jsonOf(t, none))
	}
}

// If there is more content than one answer may hold, only the latest files come with theirs.
func TestContentOfFilesIsBounded(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := s.turnWithFiles("Much to read.")
	s.exec(`insert into chat_files (chat_id, user_id, sha256, content, token_count)
		select $1, $2, sha256(n::text::bytea), repeat('x', 262144 - 1) || n % 10, 1 from generate_series(1, 70) n`, turn.ChatID, s.user.UserID)
	s.exec(`insert into message_files (message_id, place, chat_id, user_id, path, sha256)
		select $1, n, $2, $3, n::text, sha256(n::text::bytea) from generate_series(1, 70) n`, turn.UserMessageID, turn.ChatID, s.user.UserID)
	files := s.files(turn.ChatID, history.FilesQuery{Content: true})
	with := 0
	for i, file := range files {
		if file.Content == nil {
			continue
		}
		with++
		if i != with-1 {
			t.Errorf("file %d has a content and one before it has none", i)
		}
	}
	if len(files) != 70 || with != 64 {
		t.Errorf("%d of %d files with content", with, len(files))
	}
}

func TestMessagesAreRated(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := firstTurn("Remember this.")
	s.start(turn)
	s.reply(turn, "I will.")
	before := s.brief(turn.ChatID)
	yes, no := true, false
	for _, c := range []struct {
		change history.MessageChange
		want   string
	}{
		{history.MessageChange{Pinned: &yes}, "true null"},
		{history.MessageChange{Importance: history.To(0.9)}, "true 0.9"},
		{history.MessageChange{Pinned: &no}, "false 0.9"},
		{history.MessageChange{}, "false 0.9"},
		{history.MessageChange{Importance: history.To(0.0)}, "false 0"},
		{history.MessageChange{Pinned: &yes, Importance: history.None[float64]()}, "true null"},
	} {
		got, err := s.ChangeMessage(t.Context(), s.user, turn.UserMessageID, c.change)
		if err != nil || jsonOf(t, got.Pinned)+" "+jsonOf(t, got.Importance) != c.want || got.Content != "Remember this." {
			t.Errorf("%s: %s, %v", c.want, jsonOf(t, got), err)
		}
	}
	if after := s.brief(turn.ChatID); after != before {
		t.Errorf("rating is no edit: %+v, %+v", before, after)
	}
	if edits := ask[int](s.bed, "select edit_count from conversation_briefs"); edits != 0 {
		t.Errorf("%d edits", edits)
	}
}

func (s shelf) noRebuild() {
	s.t.Helper()
	if len(s.rebuilds) != 0 {
		s.t.Error("a rebuild was enqueued")
	}
}

func TestDeletingMessages(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	first := s.turnWithFiles("See this.", "a.go", "package a", "b.go", "package b")
	s.mustCommit(s.claim(first.ChatID, brief.KindFold))
	second := turnIn(first.ChatID, "And again.")
	s.start(second)
	s.bring(second, "again.go", "package a", "c.go", "package c")

	if err := s.DeleteMessage(t.Context(), s.user, second.MessageID); fault.CodeOf(err) != fault.GenerationInProgress {
		t.Errorf("a reply that runs: %v", err)
	}
	s.reply(second, "Seen again.")
	if err := s.DeleteMessage(t.Context(), s.user, second.UserMessageID); err != nil {
		t.Fatal(err)
	}
	s.noRebuild()
	if got := s.brief(first.ChatID); got.Stale || got.PendingTurns != 0 {
		t.Errorf("after deleting what is not covered: %+v", got)
	}
	if got := s.files(first.ChatID, history.FilesQuery{}); len(got) != 2 || got[0].Path != "b.go" || !slices.Equal(got[1].Paths, []string{"a.go"}) {
		t.Errorf("files left: %s", jsonOf(t, got))
	}
	if err := s.DeleteMessage(t.Context(), s.user, first.UserMessageID); err != nil {
		t.Fatal(err)
	}
	if len(s.rebuilds) != 1 || <-s.rebuilds != first.ChatID || !s.brief(first.ChatID).Stale {
		t.Errorf("after deleting what is covered: %+v", s.brief(first.ChatID))
	}
	if n := ask[int](s.bed, "select count(*) from chat_files"); n != 0 {
		t.Errorf("%d files are left", n)
	}
	if err := s.DeleteMessage(t.Context(), s.user, first.UserMessageID); fault.CodeOf(err) != fault.MessageNotFound {
		t.Errorf("a second time: %v", err)
	}
	s.checkCounters()
}

// A reply whose server died does not count as running.
func TestAbandonedReplyCanBeDeleted(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := firstTurn("Hello?")
	s.start(turn)
	s.exec("update messages set lease_until = clock_timestamp() where status = 'streaming'")
	if err := s.DeleteMessage(t.Context(), s.user, turn.MessageID); err != nil {
		t.Error(err)
	}
	s.checkCounters()
}

// If the rebuild cannot be enqueued, nothing is deleted.
func TestDeletionAndRebuildAreOne(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(2)
	s.mustCommit(s.claim(chatID, brief.KindFold))
	broken := errors.New("no queue")
	store := NewHistory(s.pool, memory.Limits{}, Enqueue{}, func(context.Context, pgx.Tx, uuid.UUID) error { return broken })
	id := ask[uuid.UUID](s.bed, "select id from messages where seq = 1")
	if err := store.DeleteMessage(t.Context(), s.user, id); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if n := ask[int](s.bed, "select count(*) from messages"); n != 4 || s.brief(chatID).Stale {
		t.Errorf("%d messages, %+v", n, s.brief(chatID))
	}
}

// Text that is deleted while a model summarizes it does not reappear with the summary.
func TestDeletionDuringAFold(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(3)
	change := s.claim(chatID, brief.KindFold)
	if err := s.DeleteMessage(t.Context(), s.user, change.Planned.Messages[0].ID); err != nil {
		t.Fatal(err)
	}
	if won, err := s.commit(change); err != nil || won {
		t.Errorf("the fold was written: %v, %v", won, err)
	}
	s.noRebuild()
	if got := s.brief(chatID); got.Version != 0 || got.Summary != "" {
		t.Errorf("%+v", got)
	}
	s.checkCounters()
}

func (s shelf) prune(query history.PruneQuery) history.Pruned {
	s.t.Helper()
	pruned, err := s.PruneChats(s.t.Context(), s.user, query)
	if err != nil {
		s.t.Fatal(err)
	}
	return pruned
}

func TestPruning(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	old, older, expired, busy, fresh := s.newChat(2), s.newChat(1), s.newChat(1), s.newChat(1), s.newChat(1)
	empty := s.create(history.NewChat{Title: "empty"}).ID
	s.start(turnIn(busy, "Still talking."))
	s.expire(expired)
	for chatID, age := range map[uuid.UUID]string{old: "31 days", older: "60 days", expired: "40 days", busy: "50 days", fresh: "29 days", empty: "45 days"} {
		s.age(chatID, age)
	}
	want := []uuid.UUID{older, empty, expired, old}
	counted := s.prune(history.PruneQuery{OlderThanDays: 30, DryRun: true})
	if !counted.DryRun || counted.Chats != 4 || counted.Messages != 8 || !slices.Equal(counted.ChatIDs, want) {
		t.Errorf("counted %+v, want %v", counted, want)
	}
	if n := ask[int](s.bed, "select count(*) from chats"); n != 6 {
		t.Errorf("counting left %d chats", n)
	}
	pruned := s.prune(history.PruneQuery{OlderThanDays: 30})
	if pruned.DryRun || pruned.Chats != counted.Chats || pruned.Messages != counted.Messages || !slices.Equal(pruned.ChatIDs, want) {
		t.Errorf("pruned %+v", pruned)
	}
	left := ask[[]uuid.UUID](s.bed, "select array_agg(id order by id) from chats")
	kept := []uuid.UUID{busy, fresh}
	slices.SortFunc(kept, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	if !slices.Equal(left, kept) {
		t.Errorf("left are %v, want %v", left, kept)
	}
	if again := s.prune(history.PruneQuery{OlderThanDays: 30}); again.Chats != 0 || again.ChatIDs == nil {
		t.Errorf("again: %+v", again)
	}
}

// A chat that gets a message at the moment of pruning is not old any more.
func TestPruningMeetsANewMessage(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	s.age(chatID, "60 days")
	tx := s.begin()
	mustExec(t, tx, "insert into messages (chat_id, user_id, role, content) values ($1, $2, 'user', 'Back again.')", chatID, s.user.UserID)
	done := make(chan history.Pruned, 1)
	go func() {
		pruned, err := s.PruneChats(t.Context(), s.user, history.PruneQuery{OlderThanDays: 30})
		if err != nil {
			t.Error(err)
		}
		done <- pruned
	}()
	s.awaitBlocked(1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pruned := <-done; pruned.Chats != 0 {
		t.Errorf("pruned %+v", pruned)
	}
}

func TestPruningNamesAThousand(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.exec("insert into chats (user_id, created_at) select $1, now() - interval '9 days' from generate_series(1, 1100)", s.user.UserID)
	if pruned := s.prune(history.PruneQuery{OlderThanDays: 9}); pruned.Chats != 1100 || len(pruned.ChatIDs) != history.MaxPrunedIDs {
		t.Errorf("%d chats, %d names", pruned.Chats, len(pruned.ChatIDs))
	}
}
