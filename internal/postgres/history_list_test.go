package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
)

func asFault(err error, into **fault.Error) bool { return errors.As(err, into) }

// titled creates chats named 1, 2, 3 …, each with its last activity that many minutes ago.
func (s shelf) titled(many int) {
	s.t.Helper()
	s.exec(`insert into chats (user_id, title, created_at, tags)
		select $1, n::text, now() - make_interval(mins => n), case when n % 3 = 0 then '{third,x}'::text[] else '{}' end from generate_series(1, $2) n`, s.user.UserID, many)
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
		next, err := history.ParseCursor(page.Next.String())
		if err != nil {
			s.t.Fatal(err)
		}
		query.After = &next
		between(n)
	}
}

func numbers(many, step int) []string {
	var all []string
	for n := step; n <= many; n += step {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

func TestPagesOfChats(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.titled(50)
	s.exec("update chats set created_at = (select created_at from chats where title = '30') where title in ('31', '32', '33')") // of the same moment
	nothing := func(int) {}
	for _, limit := range []int{1, 7, 25, 50, 51} {
		got := s.pages(history.ListQuery{Limit: limit}, nothing)
		same := got[29:33]
		slices.Sort(same)
		if !slices.Equal(got, numbers(50, 1)) {
			t.Errorf("by %d: %v", limit, got)
		}
	}
	if got := len(s.list(history.ListQuery{}).Chats); got != history.DefaultChats {
		t.Errorf("%d chats where nothing is said", got)
	}
	if got := s.pages(history.ListQuery{Limit: 5, Tag: "third"}, nothing); len(got) != 16 {
		t.Errorf("tagged: %v", got)
	}
	if page := s.list(history.ListQuery{Tag: "thir"}); len(page.Chats) != 0 || page.Chats == nil || page.Next != nil {
		t.Errorf("a part of a tag: %+v", page)
	}
}

// Whatever happens between two pages, each chat that existed at the first is listed once.
func TestPagesWhileChatsAreTalkedTo(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.titled(60)
	s.exec("insert into messages (chat_id, user_id, role, content, created_at) select id, user_id, 'user', 'x', created_at + interval '10 seconds' from chats")
	got := s.pages(history.ListQuery{Limit: 5}, func(page int) {
		talkTo := []int{1 + rand.IntN(60), 60 - page, page*5 + 1} // somewhere, near the end, the next one to come
		for _, n := range talkTo {
			turn := turnIn(ask[uuid.UUID](s.bed, "select id from chats where title = $1", fmt.Sprint(n)), "Hello again.")
			s.start(turn)
			s.reply(turn, "Hello.")
		}
		s.start(firstTurn("new"))
	})
	if !slices.Equal(got, numbers(60, 1)) {
		t.Errorf("%v", got)
	}
	if first := s.list(history.ListQuery{Limit: 1}).Chats[0]; first.Title != "new" {
		t.Errorf("the first page begins with %q", first.Title)
	}
}

func TestListsBelongToTheirUser(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.titled(3)
	other := s
	bed := *s.bed
	bed.user = s.newUser()
	other.bed = &bed
	other.titled(2)
	for _, one := range []struct {
		user auth.Principal
		want int
	}{{s.user, 3}, {other.user, 2}, {s.newUser(), 0}} {
		page, err := s.ListChats(t.Context(), one.user, history.ListQuery{})
		if err != nil || len(page.Chats) != one.want {
			t.Errorf("%d chats, want %d, %v", len(page.Chats), one.want, err)
		}
	}
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
	if err := s.DeleteMessage(t.Context(), s.user, ask[uuid.UUID](s.bed, "select id from messages where seq = 4")); err != nil {
		t.Fatal(err)
	}
	place := func(seq int64) *int64 { return &seq }
	for _, c := range []struct {
		name  string
		query history.MessagesQuery
		want  []int64
		more  bool
	}{
		{"the newest", history.MessagesQuery{Limit: 3}, []int64{8, 9, 10}, true},
		{"all", history.MessagesQuery{}, []int64{1, 2, 3, 5, 6, 7, 8, 9, 10}, false},
		{"just all", history.MessagesQuery{Limit: 9}, []int64{1, 2, 3, 5, 6, 7, 8, 9, 10}, false},
		{"before", history.MessagesQuery{Limit: 3, BeforeSeq: place(6)}, []int64{2, 3, 5}, true},
		{"before, to the beginning", history.MessagesQuery{Limit: 3, BeforeSeq: place(4)}, []int64{1, 2, 3}, false},
		{"before all", history.MessagesQuery{BeforeSeq: place(1)}, []int64{}, false},
		{"after", history.MessagesQuery{Limit: 3, AfterSeq: place(3)}, []int64{5, 6, 7}, true},
		{"after nothing", history.MessagesQuery{Limit: 2, AfterSeq: place(0)}, []int64{1, 2}, true},
		{"after, to the end", history.MessagesQuery{Limit: 3, AfterSeq: place(7)}, []int64{8, 9, 10}, false},
		{"after all", history.MessagesQuery{AfterSeq: place(10)}, []int64{}, false},
	} {
		page, err := s.ListMessages(t.Context(), s.user, chatID, c.query)
		if err != nil || !slices.Equal(seqs(page.Messages), c.want) || page.HasMore != c.more {
			t.Errorf("%s: %v, more %v, %v", c.name, seqs(page.Messages), page.HasMore, err)
		}
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
	if err != nil || len(page.Messages) != 3 {
		t.Fatalf("%d messages, %v", len(page.Messages), err)
	}
	asked, reply, tool := page.Messages[0], page.Messages[1], page.Messages[2]
	if asked.ID != turn.UserMessageID || asked.ChatID != turn.ChatID || asked.Role != "user" || asked.Content != "See this." || asked.Status != "complete" ||
		*asked.ClientMessageID != client || asked.ReplyTo != nil || !asked.Pinned || *asked.Importance != 0.25 || *asked.ToolName != "lookup" || *asked.Name != "me" || string(asked.Metadata) != `{"k": 1}` ||
		asked.ToolCalls != nil || asked.TokenCount != turn.ContentTokens {
		t.Errorf("%s", jsonOf(t, asked))
	}
	if len(asked.Files) != 2 || asked.Files[0].Path != "a.go" || asked.Files[1].Bytes != 10 || len(asked.Files[1].SHA256) != 64 {
		t.Errorf("files: %+v", asked.Files)
	}
	if reply.ClientMessageID != nil || *reply.ReplyTo != asked.ID || reply.Role != "assistant" || string(reply.ToolCalls) != `[{"id": "c1"}]` || reply.Importance != nil || reply.Files == nil || len(reply.Files) != 0 {
		t.Errorf("%s", jsonOf(t, reply))
	}
	if *tool.ToolCallID != "c1" || tool.SupersededBy != nil {
		t.Errorf("%s", jsonOf(t, tool))
	}
}
