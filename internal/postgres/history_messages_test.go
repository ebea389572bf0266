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
	turn := s.exchange(firstTurn(content), "Seen.")
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
	return must(s.ListFiles(s.t.Context(), s.user, chatID, query))(s.t)
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
	mustBe(t, len(files), 3, "files: %s", jsonOf(t, files))
	empty, a, b := files[0], files[1], files[2]
	if empty.Path != "empty" || empty.Bytes != 0 || empty.Content != nil || b.Path != "b.go" || b.Bytes != 10 || b.TokenCount != 7 ||
		b.MessageID != first.UserMessageID {
		t.Errorf("%s", jsonOf(t, files))
	}
	is(t, tuple(a.Path, a.Paths, a.MessageID), tuple("a.go", []string{"a.go", "old/a.go", "copy/a.go"}, second.UserMessageID), "%s", jsonOf(t, a))
	if hash := sha256.Sum256([]byte("package a")); a.SHA256 != hex.EncodeToString(hash[:]) {
		t.Errorf("the hash is %s", a.SHA256)
	}
	full := s.files(first.ChatID, history.FilesQuery{Content: true})
	is(t, tuple(*full[0].Content, *full[1].Content, *full[2].Content), tuple("", "package a", "päckage b"), "contents: %s", jsonOf(t, full))
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
		is(t, i, with-1, "file … has a content and one before it has none")
	}
	is(t, tuple(len(files), with), tuple(70, 64), "of … files with content")
}

func TestMessagesAreRated(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := s.exchange(firstTurn("Remember this."), "I will.")
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
		is(t, tuple(err, jsonOf(t, got.Pinned)+" "+jsonOf(t, got.Importance), got.Content), tuple(nil, c.want, "Remember this."), "…: %s", jsonOf(t, got))
	}
	is(t, s.brief(turn.ChatID), before, "rating is no edit")
	is(t, ask[int](s, "select edit_count from conversation_briefs"), 0, "edits")
}

func TestDeletingMessages(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	first := s.turnWithFiles("See this.", "a.go", "package a", "b.go", "package b")
	s.mustCommit(s.claim(first.ChatID, brief.KindFold))
	second := turnIn(first.ChatID, "And again.")
	s.start(second)
	s.bring(second, "again.go", "package a", "c.go", "package c")

	is(t, fault.CodeOf(s.DeleteMessage(t.Context(), s.user, second.MessageID)), fault.GenerationInProgress, "a reply that runs")
	s.reply(second, "Seen again.")
	noError(t, s.DeleteMessage(t.Context(), s.user, second.UserMessageID))
	got := s.brief(first.ChatID)
	is(t, tuple(got.Stale, got.PendingTurns, len(s.rebuilds)), tuple(false, 0, 0), "after deleting what is not covered: %+v", got)
	if got := s.files(first.ChatID, history.FilesQuery{}); len(got) != 2 || got[0].Path != "b.go" || !slices.Equal(got[1].Paths, []string{"a.go"}) {
		t.Errorf("files left: %s", jsonOf(t, got))
	}
	// If the rebuild cannot be enqueued, nothing is deleted.
	broken := errors.New("no queue")
	store := NewHistory(s.pool, memory.Limits{}, Enqueue{}, func(context.Context, pgx.Tx, uuid.UUID) error { return broken })
	is(t, errors.Is(store.DeleteMessage(t.Context(), s.user, first.UserMessageID), broken), true, "deleted without a rebuild")
	is(t, tuple(s.count("messages"), s.brief(first.ChatID).Stale), tuple(3, false), "messages, stale")
	noError(t, s.DeleteMessage(t.Context(), s.user, first.UserMessageID))
	if len(s.rebuilds) != 1 || <-s.rebuilds != first.ChatID || !s.brief(first.ChatID).Stale {
		t.Errorf("after deleting what is covered: %+v", s.brief(first.ChatID))
	}
	is(t, s.count("chat_files"), 0, "files are left")
	is(t, fault.CodeOf(s.DeleteMessage(t.Context(), s.user, first.UserMessageID)), fault.MessageNotFound, "a second time")
	lost := turnIn(first.ChatID, "Hello?") // a reply whose server died does not count as running
	s.start(lost)
	s.exec("update messages set lease_until = clock_timestamp() where status = 'streaming'")
	fine(t, s.DeleteMessage(t.Context(), s.user, lost.MessageID), "an abandoned reply")
	s.checkCounters()
}

func TestPruning(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	old, older, expired, busy, fresh, empty := s.newChat(2), s.newChat(1), s.newChat(1), s.newChat(1), s.newChat(1), s.emptyChat()
	s.start(turnIn(busy, "Still talking."))
	s.expire(expired)
	for chatID, age := range map[uuid.UUID]string{old: "31 days", older: "60 days", expired: "40 days", busy: "50 days", fresh: "29 days", empty: "45 days"} {
		s.age(chatID, age)
	}
	want := history.Pruned{DryRun: true, Chats: 4, Messages: 8, ChatIDs: []uuid.UUID{older, empty, expired, old}}
	is(t, must(s.PruneChats(t.Context(), s.user, history.PruneQuery{OlderThanDays: 30, DryRun: true}))(t), want, "counted")
	is(t, s.count("chats"), 6, "counting left … chats")
	want.DryRun = false
	is(t, must(s.PruneChats(t.Context(), s.user, history.PruneQuery{OlderThanDays: 30}))(t), want, "pruned")
	is(t, tuple(s.count("chats"), s.count("chats where id = any($1)", []uuid.UUID{busy, fresh})), tuple(2, 2), "left")
	if again := must(s.PruneChats(t.Context(), s.user, history.PruneQuery{OlderThanDays: 30}))(t); again.Chats != 0 || again.ChatIDs == nil {
		t.Errorf("again: %+v", again)
	}
	s.exec("insert into chats (user_id, created_at) select $1, now() - interval '39 days' from generate_series(1, 1100)", s.user.UserID)
	pruned := must(s.PruneChats(t.Context(), s.user, history.PruneQuery{OlderThanDays: 39}))(t)
	is(t, tuple(pruned.Chats, len(pruned.ChatIDs)), tuple(1100, history.MaxPrunedIDs), "chats, … names")
}

// A chat that gets a message at the moment of pruning is not old any more.
func TestPruningMeetsANewMessage(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	s.age(chatID, "60 days")
	tx := s.begin()
	mustExec(t, tx, "insert into messages (chat_id, user_id, role, content) values ($1, $2, 'user', 'Back again.')", chatID, s.user.UserID)
	noError(t, s.waitsFor(tx, func() error { return errOf(s.PruneChats(t.Context(), s.user, history.PruneQuery{OlderThanDays: 30})) }))
	is(t, s.count("chats"), 1, "chats are left")
}
