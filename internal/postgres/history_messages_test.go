package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
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
	for i := 0; i < len(files); i += 2 {
		hash := sha256.Sum256([]byte(files[i+1]))
		s.exec(`insert into chat_files (chat_id, user_id, sha256, content, token_count) values ($1, $2, $3, $4, 7) on conflict do nothing`,
			turn.ChatID, s.user.UserID, hash[:], files[i+1])
		s.exec(`insert into message_files (message_id, place, chat_id, user_id, path, sha256) values ($1, $2, $3, $4, $5, $6)`,
			turn.UserMessageID, i/2+1, turn.ChatID, s.user.UserID, files[i], hash[:])
	}
}

func (s shelf) files(chatID uuid.UUID, query api.FilesQuery) []api.File {
	return must(s.ListFiles(s.t.Context(), s.user, chatID, query))(s.t).Files
}

// Files are listed once, with all of their paths. If there is more content than one answer may hold, only the latest files
// come with theirs.
func TestFilesAreListedOnce(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	first := s.turnWithFiles("See this.", "a.go", "package a", "b.go", "päckage b", "copy/a.go", "package a")
	second := turnIn(first.ChatID, "And again.")
	s.start(second)
	s.bring(second, "old/a.go", "package a", "a.go", "package a", "empty", "")
	s.turnWithFiles("Another chat.", "c.go", "package c")
	files := s.files(first.ChatID, api.FilesQuery{})
	mustBe(t, len(files), 3, "files: %s", jsonOf(t, files))
	empty, a, b := files[0], files[1], files[2]
	is(t, tuple(empty.Path, empty.Bytes, empty.Content == nil, b.Path, b.Bytes, b.TokenCount, b.MessageID),
		tuple("empty", 0, true, "b.go", 10, 7, first.UserMessageID), "%s", jsonOf(t, files))
	is(t, tuple(a.Path, a.Paths, a.MessageID, a.SHA256), tuple("a.go", []string{"a.go", "old/a.go", "copy/a.go"}, second.UserMessageID, hashOf("package a")),
		"%s", jsonOf(t, a))
	full := s.files(first.ChatID, api.FilesQuery{Content: true})
	is(t, tuple(*full[0].Content, *full[1].Content, *full[2].Content), tuple("", "package a", "päckage b"), "contents: %s", jsonOf(t, full))
	hash := sha256.Sum256([]byte("päckage b"))
	one := s.files(first.ChatID, api.FilesQuery{SHA256: hash[:], Content: true})
	is(t, tuple(len(one), *one[0].Content), tuple(1, "päckage b"), "by its hash: %s", jsonOf(t, one))
	if none := s.files(first.ChatID, api.FilesQuery{SHA256: make([]byte, 32)}); none == nil || len(none) != 0 {
		t.Errorf("by no hash of any: %s", jsonOf(t, none))
	}
	turn := s.turnWithFiles("Much to read.")
	s.exec(`insert into chat_files (chat_id, user_id, sha256, content, token_count)
		select $1, $2, sha256(n::text::bytea), repeat('x', 262144 - 1) || n % 10, 1 from generate_series(1, 70) n`, turn.ChatID, s.user.UserID)
	s.exec(`insert into message_files (message_id, place, chat_id, user_id, path, sha256)
		select $1, n, $2, $3, n::text, sha256(n::text::bytea) from generate_series(1, 70) n`, turn.UserMessageID, turn.ChatID, s.user.UserID)
	many := s.files(turn.ChatID, api.FilesQuery{Content: true})
	without := slices.IndexFunc(many, func(f api.File) bool { return f.Content == nil })
	with := slices.IndexFunc(many[without:], func(f api.File) bool { return f.Content != nil })
	is(t, tuple(len(many), without, with), tuple(70, 64, -1), "files, … with content before those without")
}

func TestMessagesAreRated(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := s.exchange(firstTurn("Remember this."), "I will.")
	before := s.brief(turn.ChatID)
	yes, no := true, false
	for _, c := range []struct {
		change api.MessageChange
		want   string
	}{
		{api.MessageChange{Pinned: &yes}, "true null"},
		{api.MessageChange{Importance: api.To(0.9)}, "true 0.9"},
		{api.MessageChange{Pinned: &no}, "false 0.9"},
		{api.MessageChange{}, "false 0.9"},
		{api.MessageChange{Importance: api.To(0.0)}, "false 0"},
		{api.MessageChange{Pinned: &yes, Importance: api.None[float64]()}, "true null"},
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
	s.mustCommit(s.claim(first.ChatID))
	second := turnIn(first.ChatID, "And again.")
	s.start(second)
	s.bring(second, "again.go", "package a", "c.go", "package c")

	is(t, fault.CodeOf(s.DeleteMessage(t.Context(), s.user, second.MessageID)), fault.GenerationInProgress, "a reply that runs")
	s.reply(second, "Seen again.")
	noError(t, s.DeleteMessage(t.Context(), s.user, second.UserMessageID))
	got := s.brief(first.ChatID)
	is(t, tuple(got.CoveredSeq, got.PendingTurns), tuple(2, 0), "after deleting an uncovered message: %+v", got)
	if got := s.files(first.ChatID, api.FilesQuery{}); len(got) != 2 || got[0].Path != "b.go" || !slices.Equal(got[1].Paths, []string{"a.go"}) {
		t.Errorf("files left: %s", jsonOf(t, got))
	}
	noError(t, s.DeleteMessage(t.Context(), s.user, first.UserMessageID))
	is(t, tuple(s.brief(first.ChatID).CoveredSeq, s.brief(first.ChatID).Summary), tuple(0, ""), "after deleting a covered message: covered")
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
	want := api.Pruned{DryRun: true, Chats: 4, Messages: 8, ChatIDs: []uuid.UUID{older, empty, expired, old}}
	is(t, must(s.PruneChats(t.Context(), s.user, api.PruneQuery{OlderThanDays: 30, DryRun: true}))(t), want, "counted")
	is(t, s.count("chats"), 6, "counting left … chats")
	want.DryRun = false
	is(t, must(s.PruneChats(t.Context(), s.user, api.PruneQuery{OlderThanDays: 30}))(t), want, "pruned")
	is(t, tuple(s.count("chats"), s.count("chats where id = any($1)", []uuid.UUID{busy, fresh})), tuple(2, 2), "left")
	again := must(s.PruneChats(t.Context(), s.user, api.PruneQuery{OlderThanDays: 30}))(t)
	assert.Truef(t, again.Chats == 0 && again.ChatIDs != nil, "again: %+v", again)
	s.exec("insert into chats (user_id, created_at) select $1, now() - interval '39 days' from generate_series(1, 1100)", s.user.UserID)
	pruned := must(s.PruneChats(t.Context(), s.user, api.PruneQuery{OlderThanDays: 39}))(t)
	is(t, tuple(pruned.Chats, len(pruned.ChatIDs)), tuple(1100, api.MaxPrunedIDs), "chats, … names")
}

// A chat that gets a message at the moment of pruning is not old any more.
func TestPruningMeetsANewMessage(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	s.age(chatID, "60 days")
	tx := s.begin()
	mustExec(t, tx, "insert into messages (chat_id, user_id, role, content) values ($1, $2, 'user', 'Back again.')", chatID, s.user.UserID)
	noError(t, s.waitsFor(tx, func() error { return errOf(s.PruneChats(t.Context(), s.user, api.PruneQuery{OlderThanDays: 30})) }))
	is(t, s.count("chats"), 1, "chats are left")
}

// titled creates chats named 1, 2, 3 …, each with its last activity that many minutes ago.
func (s shelf) titled(many int) {
	s.exec(`insert into chats (user_id, title, created_at, tags)
		select $1, n::text, now() - make_interval(mins => n), case when n % 3 = 0 then '{third,x}'::text[] else '{}' end from generate_series(1,
		  $2) n`, s.user.UserID, many)
}

// pages reads all pages. It calls between before each page but the first.
func (s shelf) pages(query api.ListQuery, between func(page int)) []string {
	var all []string
	for n := 1; ; n++ {
		page := s.list(query)
		require.Truef(s.t, len(page.Chats) <= query.Limit && (page.Next == nil || len(page.Chats) == query.Limit),
			"a page of %d, next %v", len(page.Chats), page.Next)
		all = append(all, titles(page.Chats)...)
		if page.Next == nil {
			return all
		}
		next := must(api.ParseCursor(page.Next.String()))(s.t)
		query.After = &next
		between(n)
	}
}

// Each chat is listed once, also of the same moment, and also where chats are talked to between two pages.
func TestPagesOfChats(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.titled(60)
	s.exec("update chats set created_at = (select created_at from chats where title = '30') where title in ('31', '32', '33')") // of the same moment
	s.exec("insert into messages (chat_id, user_id, role, content, created_at) select id, user_id, 'user', 'x', created_at + interval '10 seconds' from chats")
	want := []string{}
	for n := range 60 {
		want = append(want, fmt.Sprint(n+1))
	}
	nothing := func(int) {}
	talk := func(page int) {
		for _, n := range []int{1 + rand.IntN(60), 60 - page, page*5 + 1} { // somewhere, near the end, the next one to come
			s.exchange(turnIn(ask[uuid.UUID](s, "select id from chats where title = $1", fmt.Sprint(n)), "Hello again."), "Hello.")
		}
		s.start(firstTurn("new"))
	}
	for _, limit := range []int{1, 7, 30, 60, 61} {
		got := s.pages(api.ListQuery{Limit: limit}, nothing)
		slices.Sort(got[29:33])
		is(t, got, want, "by %d", limit)
	}
	is(t, len(s.list(api.ListQuery{}).Chats), 20, "chats where nothing is said")
	is(t, len(s.pages(api.ListQuery{Limit: 5, Tag: "third"}, nothing)), 20, "tagged")
	page := s.list(api.ListQuery{Tag: "thir"})
	assert.Truef(t, len(page.Chats) == 0 && page.Chats != nil && page.Next == nil, "a part of a tag: %+v", page)
	got := s.pages(api.ListQuery{Limit: 5}, talk)
	slices.Sort(got[29:33])
	is(t, got, want, "while chats are talked to")
	is(t, s.list(api.ListQuery{Limit: 1}).Chats[0].Title, "new", "the first page begins with")
}

func TestStretchesOfMessages(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(5)
	noError(t, s.DeleteMessage(t.Context(), s.user, s.message(chatID, 4)))
	all := []int64{1, 2, 3, 5, 6, 7, 8, 9, 10}
	for _, c := range []struct {
		name  string
		query api.MessagesQuery
		want  []int64
		more  bool
	}{
		{"the newest", api.MessagesQuery{Limit: 3}, []int64{8, 9, 10}, true},
		{"all", api.MessagesQuery{}, all, false},
		{"just all", api.MessagesQuery{Limit: 9}, all, false},
		{"before", api.MessagesQuery{Limit: 3, BeforeSeq: new(int64(6))}, []int64{2, 3, 5}, true},
		{"before, to the beginning", api.MessagesQuery{Limit: 3, BeforeSeq: new(int64(4))}, []int64{1, 2, 3}, false},
		{"before all", api.MessagesQuery{BeforeSeq: new(int64(1))}, []int64{}, false},
		{"after", api.MessagesQuery{Limit: 3, AfterSeq: new(int64(3))}, []int64{5, 6, 7}, true},
		{"after nothing", api.MessagesQuery{Limit: 2, AfterSeq: new(int64(0))}, []int64{1, 2}, true},
		{"after, to the end", api.MessagesQuery{Limit: 3, AfterSeq: new(int64(7))}, []int64{8, 9, 10}, false},
		{"after all", api.MessagesQuery{AfterSeq: new(int64(10))}, []int64{}, false},
	} {
		page, err := s.ListMessages(t.Context(), s.user, chatID, c.query)
		seqs := []int64{}
		for _, message := range page.Messages {
			seqs = append(seqs, message.Seq)
		}
		is(t, tuple(err, seqs, page.HasMore), tuple(nil, c.want, c.more), "%s: …, more", c.name)
	}
}

func TestMessagesAreGivenWhole(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := s.turnWithFiles("See this.", "a.go", "package a", "b.go", "päckage b")
	client := uuid.New()
	s.exec(`update messages set client_message_id = $2, metadata = '{"k": 1}', pinned = true, importance = 0.25, tool_name = 'lookup', name = 'me' where id = $1`,
		turn.UserMessageID, client)
	s.exec(`update messages set tool_calls = '[{"id": "c1"}]', parts = '[{"at": 2, "type": "source"}]' where id = $1`, turn.MessageID)
	s.exec(`insert into messages (chat_id, role, content, tool_call_id) values ($1, 'tool', 'result', 'c1')`, turn.ChatID)
	page := must(s.ListMessages(t.Context(), s.user, turn.ChatID, api.MessagesQuery{}))(t)
	mustBe(t, len(page.Messages), 3, "messages")
	asked, reply, tool := page.Messages[0], page.Messages[1], page.Messages[2]
	want := api.Message{
		ID: turn.UserMessageID, ChatID: turn.ChatID, Seq: 1, Role: "user", Content: "See this.", Status: "complete", ClientMessageID: &client, Pinned: true,
		Importance: new(float32(0.25)), ToolName: new("lookup"), Name: new("me"), Metadata: []byte(`{"k": 1}`), TokenCount: turn.ContentTokens,
		Version: 1, Versions: 1, Files: asked.Files, CreatedAt: asked.CreatedAt, UpdatedAt: asked.UpdatedAt,
	}
	is(t, asked, want, "the question")
	assert.Truef(t, len(asked.Files) == 2 && asked.Files[0].Path == "a.go" && asked.Files[1].Bytes == 10 && len(asked.Files[1].SHA256) == 64,
		"files: %+v", asked.Files)
	is(t, tuple(*reply.ReplyTo, reply.Role, string(reply.ToolCalls), len(reply.Files), reply.Files != nil, reply.ClientMessageID == nil, reply.Importance == nil),
		tuple(asked.ID, "assistant", `[{"id": "c1"}]`, 0, true, true, true), "%s", jsonOf(t, reply))
	is(t, tuple(*tool.ToolCallID, tool.SupersededBy == nil), tuple("c1", true), "%s", jsonOf(t, tool))
	is(t, tuple(string(reply.Parts), tool.Parts == nil), tuple(`[{"at": 2, "type": "source"}]`, true), "parts")
	is(t, tuple(*reply.ParentID, *tool.ParentID), tuple(asked.ID, reply.ID), "the messages before")
}

// Turns that a deletion takes out of the brief are folded again by a job of its own transaction: without the job nothing is deleted.
func TestDeletingACoveredMessageEnqueuesTheFold(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(3)
	s.exec("update chats set max_turns = 1 where id = $1", chatID)
	s.mustCommit(s.claim(chatID))
	first, broken := s.message(chatID, 1), errors.New("no queue")
	store := NewHistory(s.server, s.limits, Enqueue{Fold: func(context.Context, pgx.Tx, uuid.UUID) error { return broken }})
	is(t, errors.Is(store.DeleteMessage(t.Context(), s.user, first), broken), true, "deleted without a fold")
	is(t, tuple(s.count("messages"), s.brief(chatID).CoveredSeq, len(s.folds)), tuple(6, 6, 0), "messages, covered, folds")
	noError(t, s.DeleteMessage(t.Context(), s.user, first))
	is(t, tuple(s.count("messages"), s.brief(chatID).CoveredSeq, len(s.folds)), tuple(5, 0, 1), "messages, covered, folds")
}

func TestCountUsage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stranger := b.newUser()
	wantUsage := func(user auth.Principal, want api.Stats, what string) {
		t.Helper()
		is(t, must(b.searches().CountUsage(t.Context(), user))(t), want, "%s", what)
	}
	wantUsage(b.user, api.Stats{}, "of nothing")
	chatID := b.keep(b.user, "Grüße", "東京", "ok", "", "again", "yes")
	expired := b.keep(b.user, "old", "older")
	shelf{bed: b}.expire(expired)
	b.exec(`update messages set metadata = '{"usage": {"input_tokens": 100, "cached_tokens": 40, "output_tokens": 7}}' where chat_id = $1 and seq in (1,
		2)`, chatID)
	b.exec(`update messages set metadata = '{"usage": {"input_tokens": 1, "output_tokens": 3}}' where chat_id = $1 and seq = 2`, expired)
	change := b.claim(chatID)
	change.Stats.InputTokens, change.Stats.OutputTokens = 300, 20
	b.mustCommit(change)
	b.exec(`insert into chat_files (chat_id, user_id, sha256, content, token_count) values ($1, $2, sha256('ä'), 'ä', 1)`, chatID, b.user.UserID)
	want := api.Stats{
		Chats: 1, ExpiredChats: 1, Turns: 4, Messages: 8,
		Tokens: api.UsedTokens{
			Reply: api.ReplyTokens{Input: 101, Cached: 40, Output: 10}, // what a user's message says is not a reply's
			Fold:  api.FoldTokens{Input: 300, Output: 20},
		},
		StoredBytes: api.StoredBytes{Messages: 7 + 6 + 2 + 5 + 3 + 3 + 5, Files: 2, Briefs: 2 * int64(len("They talked.")), Total: 31 + 2 + 24},
	}
	wantUsage(b.user, want, "the result")
	wantUsage(stranger, api.Stats{}, "a stranger")
	wantUsage(auth.Principal{UserID: b.user.UserID, Claims: stranger.Claims}, api.Stats{}, "a mistake of ours")

	b.exec("update messages set content = 'again!' where content = 'again'")
	again := b.claim(chatID)
	again.Stats.InputTokens, again.Stats.OutputTokens = 500, 30
	b.mustCommit(again)
	// Anything else that an app wrote in place of token counts is skipped.
	for _, usage := range []string{
		`7`, `"7"`, `null`, `[1]`, `{}`, `{"input_tokens": "7"}`, `{"input_tokens": null}`, `{"input_tokens": true}`, `{"input_tokens": -7}`,
		`{"input_tokens": 1e300}`, `{"input_tokens": {"input_tokens": 7}}`, `{"input_tokens": [7]}`, `{"input_tokens": 2.5, "output_tokens": "x"}`,
	} {
		b.exec("update messages set metadata = jsonb_build_object('usage', $2::jsonb) where chat_id = $1", b.keep(b.user, "question", "answer"), usage)
	}
	want.Tokens.Fold, want.Tokens.Reply.Input = api.FoldTokens{Input: 800, Output: 50}, 103
	is(t, must(b.searches().CountUsage(t.Context(), b.user))(t).Tokens, want.Tokens, "after another fold, and nonsense")
}

// Where somebody dropped the constraint, a user's chats can still be read.
func TestDatesThatJSONCannotHaveAreReadAsTheNearest(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	b.exec("alter table chats drop constraint chats_valid")
	b.exec("alter table messages drop constraint messages_valid")
	for date, want := range map[string]string{"infinity": "9999-12-31T23:59:59Z", "-infinity": "0001-01-01T00:00:00Z",
		"20000-02-03": "9999-12-31T23:59:59Z", "0044-03-15 BC": "0001-01-01T00:00:00Z"} {
		id := ask[uuid.UUID](b, "insert into chats (user_id, created_at, revived_at) values ($1, $2::text::timestamptz, $2::text::timestamptz) returning id",
			b.user.UserID, date)
		b.exec("insert into messages (chat_id, role, content, created_at) values ($1, 'user', 'Hello', $2::text::timestamptz)", id, date)
		page, err := b.searches().ListMessages(t.Context(), b.user, id, api.MessagesQuery{Limit: 5})
		assert.Truef(t, err == nil && len(page.Messages) == 1 && page.Messages[0].CreatedAt.Format(time.RFC3339) == want,
			"%s: %+v, %v", date, page, err)
	}
	chats, err := b.searches().ListChats(t.Context(), b.user, api.ListQuery{Limit: 50})
	mustBe(t, tuple(err, len(chats.Chats)), tuple(nil, 4), "%+v", chats)
	fine(t, errOf(json.Marshal(chats)), "an error")
}
