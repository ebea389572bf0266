package postgres

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/brief"
)

// titled creates chats named 1, 2, 3 …, each with its last activity that many minutes ago.
func (s shelf) titled(many int) {
	s.t.Helper()
	s.exec(`insert into chats (user_id, title, created_at, tags)
		select $1, n::text, now() - make_interval(mins => n), case when n % 3 = 0 then '{third,x}'::text[] else '{}' end from generate_series(1,
		  $2) n`, s.user.UserID, many)
}

// pages reads all pages. It calls between before each page but the first.
func (s shelf) pages(query history.ListQuery, between func(page int)) []string {
	s.t.Helper()
	var all []string
	for n := 1; ; n++ {
		page := s.list(query)
		if len(page.Chats) > query.Limit || page.Next != nil && len(page.Chats) != query.Limit {
			s.t.Fatalf("a page of %d, next %v", len(page.Chats), page.Next)
		}
		all = append(all, titles(page.Chats)...)
		if page.Next == nil {
			return all
		}
		next := must(history.ParseCursor(page.Next.String()))(s.t)
		query.After = &next
		between(n)
	}
}

// Each chat is listed once, also of the same moment, and whatever happens between two pages.
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
		got := s.pages(history.ListQuery{Limit: limit}, nothing)
		slices.Sort(got[29:33])
		is(t, got, want, "by %d", limit)
	}
	is(t, len(s.list(history.ListQuery{}).Chats), 20, "chats where nothing is said")
	is(t, len(s.pages(history.ListQuery{Limit: 5, Tag: "third"}, nothing)), 20, "tagged")
	if page := s.list(history.ListQuery{Tag: "thir"}); len(page.Chats) != 0 || page.Chats == nil || page.Next != nil {
		t.Errorf("a part of a tag: %+v", page)
	}
	got := s.pages(history.ListQuery{Limit: 5}, talk)
	slices.Sort(got[29:33])
	is(t, got, want, "while chats are talked to")
	is(t, s.list(history.ListQuery{Limit: 1}).Chats[0].Title, "new", "the first page begins with")
}

func seqs(messages []history.Message) []int64 {
	all := []int64{}
	for _, message := range messages {
		all = append(all, message.Seq)
	}
	return all
}

func TestStretchesOfMessages(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(5)
	noError(t, s.DeleteMessage(t.Context(), s.user, s.message(chatID, 4)))
	all := []int64{1, 2, 3, 5, 6, 7, 8, 9, 10}
	for _, c := range []struct {
		name  string
		query history.MessagesQuery
		want  []int64
		more  bool
	}{
		{"the newest", history.MessagesQuery{Limit: 3}, []int64{8, 9, 10}, true},
		{"all", history.MessagesQuery{}, all, false},
		{"just all", history.MessagesQuery{Limit: 9}, all, false},
		{"before", history.MessagesQuery{Limit: 3, BeforeSeq: new(int64(6))}, []int64{2, 3, 5}, true},
		{"before, to the beginning", history.MessagesQuery{Limit: 3, BeforeSeq: new(int64(4))}, []int64{1, 2, 3}, false},
		{"before all", history.MessagesQuery{BeforeSeq: new(int64(1))}, []int64{}, false},
		{"after", history.MessagesQuery{Limit: 3, AfterSeq: new(int64(3))}, []int64{5, 6, 7}, true},
		{"after nothing", history.MessagesQuery{Limit: 2, AfterSeq: new(int64(0))}, []int64{1, 2}, true},
		{"after, to the end", history.MessagesQuery{Limit: 3, AfterSeq: new(int64(7))}, []int64{8, 9, 10}, false},
		{"after all", history.MessagesQuery{AfterSeq: new(int64(10))}, []int64{}, false},
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
	s.exec(`update messages set tool_calls = '[{"id": "c1"}]' where id = $1`, turn.MessageID)
	s.exec(`insert into messages (chat_id, role, content, tool_call_id) values ($1, 'tool', 'result', 'c1')`, turn.ChatID)
	page, err := s.ListMessages(t.Context(), s.user, turn.ChatID, history.MessagesQuery{})
	mustBe(t, tuple(err, len(page.Messages)), tuple(nil, 3), "messages")
	asked, reply, tool := page.Messages[0], page.Messages[1], page.Messages[2]
	if asked.ID != turn.UserMessageID || asked.ChatID != turn.ChatID || asked.Role != "user" || asked.Content != "See this." || asked.Status != "complete" ||
		*asked.ClientMessageID != client || asked.ReplyTo != nil || !asked.Pinned || *asked.Importance != 0.25 || *asked.ToolName != "lookup" ||
		*asked.Name != "me" || string(asked.Metadata) != `{"k": 1}` ||
		asked.ToolCalls != nil || asked.TokenCount != turn.ContentTokens {
		t.Errorf("%s", jsonOf(t, asked))
	}
	if len(asked.Files) != 2 || asked.Files[0].Path != "a.go" || asked.Files[1].Bytes != 10 || len(asked.Files[1].SHA256) != 64 {
		t.Errorf("files: %+v", asked.Files)
	}
	if reply.ClientMessageID != nil || *reply.ReplyTo != asked.ID || reply.Role != "assistant" || string(reply.ToolCalls) != `[{"id": "c1"}]` ||
		reply.Importance != nil || reply.Files == nil || len(reply.Files) != 0 {
		t.Errorf("%s", jsonOf(t, reply))
	}
	if *tool.ToolCallID != "c1" || tool.SupersededBy != nil {
		t.Errorf("%s", jsonOf(t, tool))
	}
}

func TestCountUsage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stranger := b.newUser()
	wantUsage := func(user auth.Principal, want history.Stats, what string) {
		t.Helper()
		is(t, must(b.searches().CountUsage(t.Context(), user))(t), want, "%s", what)
	}
	wantUsage(b.user, history.Stats{}, "of nothing")
	chatID := b.keep(b.user, "Grüße", "東京", "ok", "", "again", "yes")
	expired := b.keep(b.user, "old", "older")
	shelf{bed: b}.expire(expired)
	b.exec(`update messages set metadata = '{"usage": {"input_tokens": 100, "cached_tokens": 40, "output_tokens": 7}}' where chat_id = $1 and seq in (1,
		2)`, chatID)
	b.exec(`update messages set metadata = '{"usage": {"input_tokens": 1, "output_tokens": 3}}' where chat_id = $1 and seq = 2`, expired)
	change := b.claim(chatID, brief.KindFold)
	change.Stats.InputTokens, change.Stats.OutputTokens = 300, 20
	b.mustCommit(change)
	b.exec(`insert into chat_files (chat_id, user_id, sha256, content, token_count) values ($1, $2, sha256('ä'), 'ä', 1)`, chatID, b.user.UserID)
	want := history.Stats{
		Chats: 1, ExpiredChats: 1, Turns: 4, Messages: 8,
		Tokens: history.UsedTokens{
			Reply: history.ReplyTokens{Input: 101, Cached: 40, Output: 10}, // what a user's message says is not a reply's
			Fold:  history.FoldTokens{Input: 300, Output: 20},
		},
		StoredBytes: history.StoredBytes{Messages: 7 + 6 + 2 + 5 + 3 + 3 + 5, Files: 2, Briefs: 2 * int64(len("They talked.")), Total: 31 + 2 + 24},
	}
	wantUsage(b.user, want, "what is found")
	wantUsage(stranger, history.Stats{}, "a stranger")
	wantUsage(auth.Principal{UserID: b.user.UserID, Claims: stranger.Claims}, history.Stats{}, "a mistake of ours")

	b.exec("update messages set content = 'again!' where content = 'again'")
	rebuilt := b.claim(chatID, brief.KindRebuild)
	rebuilt.Stats.InputTokens, rebuilt.Stats.OutputTokens = 500, 30
	b.mustCommit(rebuilt)
	// Anything else that an app wrote in place of token counts is skipped.
	for _, usage := range []string{
		`7`, `"7"`, `null`, `[1]`, `{}`, `{"input_tokens": "7"}`, `{"input_tokens": null}`, `{"input_tokens": true}`, `{"input_tokens": -7}`,
		`{"input_tokens": 1e300}`, `{"input_tokens": {"input_tokens": 7}}`, `{"input_tokens": [7]}`, `{"input_tokens": 2.5, "output_tokens": "x"}`,
	} {
		b.exec("update messages set metadata = jsonb_build_object('usage', $2::jsonb) where chat_id = $1", b.keep(b.user, "question", "answer"), usage)
	}
	want.Tokens.Rebuild, want.Tokens.Reply.Input = history.FoldTokens{Input: 500, Output: 30}, 103
	is(t, must(b.searches().CountUsage(t.Context(), b.user))(t).Tokens, want.Tokens, "after a rebuild, and nonsense")
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
		page, err := b.searches().ListMessages(t.Context(), b.user, id, history.MessagesQuery{Limit: 5})
		if err != nil || len(page.Messages) != 1 || page.Messages[0].CreatedAt.Format(time.RFC3339) != want {
			t.Errorf("%s: %+v, %v", date, page, err)
		}
	}
	chats, err := b.searches().ListChats(t.Context(), b.user, history.ListQuery{Limit: 50})
	mustBe(t, tuple(err, len(chats.Chats)), tuple(nil, 4), "%+v", chats)
	fine(t, errOf(json.Marshal(chats)), "an error")
}
