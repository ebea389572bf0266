package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// shelf is a bed with the store of a user's chats, whose requests are checked as the API checks them.
type shelf struct {
	*bed
	api.Store
}

func newShelf(t *testing.T) shelf {
	t.Helper()
	return shelfOf(newBed(t))
}

func shelfOf(b *bed) shelf {
	return shelf{bed: b, Store: NewHistory(b.server, b.limits, b.turns.enqueue)}
}

func (s shelf) CreateChat(ctx context.Context, user auth.Principal, chat api.NewChat) (api.Chat, error) {
	if err := chat.Check(memory.ChatDefaults{}); err != nil {
		return api.Chat{}, err
	}
	return s.Store.CreateChat(ctx, user, chat)
}

func (s shelf) ListChats(ctx context.Context, user auth.Principal, query api.ListQuery) (api.ChatPage, error) {
	if err := api.Check(&query); err != nil {
		return api.ChatPage{}, err
	}
	return s.Store.ListChats(ctx, user, query)
}

func (s shelf) StoreMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, messages api.NewMessages) (api.StoredMessages, error) {
	if err := api.Check(&messages); err != nil {
		return api.StoredMessages{}, err
	}
	return s.Store.StoreMessages(ctx, user, chatID, messages)
}

func (s shelf) ChangeChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, change api.ChatChange) (api.Chat, error) {
	if err := api.Check(&change); err != nil {
		return api.Chat{}, err
	}
	return s.Store.ChangeChat(ctx, user, chatID, change)
}

func (s shelf) ListMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, query api.MessagesQuery) (api.MessagePage, error) {
	if err := api.Check(&query); err != nil {
		return api.MessagePage{}, err
	}
	return s.Store.ListMessages(ctx, user, chatID, query)
}

// create makes a chat of the bed's user.
func (s shelf) create(chat api.NewChat) api.Chat {
	return must(s.CreateChat(s.t.Context(), s.user, chat))(s.t)
}

// age moves a chat's last activity into the past.
func (s shelf) age(chatID uuid.UUID, by string) {
	s.exec("update chats set created_at = created_at - $2::interval, last_message_at = last_message_at - $2::interval, revived_at = null where id = $1",
		chatID, by)
}

// expire makes a chat have expired an hour ago.
func (s shelf) expire(chatID uuid.UUID) {
	s.exec("update chats set ttl_hours = 1 where id = $1", chatID)
	s.age(chatID, "2 hours")
}

func titles(chats []api.Chat) []string {
	names := []string{}
	for _, chat := range chats {
		names = append(names, chat.Title)
	}
	return names
}

func (s shelf) list(query api.ListQuery) api.ChatPage {
	return must(s.ListChats(s.t.Context(), s.user, query))(s.t)
}

func TestCreatedChatIsFoundAsItWasMade(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	prompt, seven, tool := "Be brief.", 7, "lookup"
	made := s.create(api.NewChat{
		Title: "Größe 🎻", SystemPrompt: &prompt, Metadata: map[string]any{"n": json.Number("9007199254740993")},
		Tags: []string{" cello ", "cello", "it's \"one\" {tag}, really"}, MemoryStrategy: "hybrid", TTLHours: api.To(seven),
	})
	found := must(s.FindChat(t.Context(), s.user, made.ID))(t)
	is(t, jsonOf(t, made), jsonOf(t, found), "made, and found")
	if found.Title != "Größe 🎻" || *found.SystemPrompt != prompt || found.MemoryStrategy != "hybrid" || *found.TTLHours != seven || found.MaxTurns != nil ||
		!slices.Equal(found.Tags, []string{"cello", "it's \"one\" {tag}, really"}) || string(found.Metadata) != `{"n": 9007199254740993}` {
		t.Errorf("found %s", jsonOf(t, found))
	}
	if found.ExpiresAt == nil || !found.ExpiresAt.Equal(found.CreatedAt.Add(7*time.Hour)) || found.Expired || found.CreatedAt.Location() != time.UTC {
		t.Errorf("expires at %v, created at %v", found.ExpiresAt, found.CreatedAt)
	}
	plain := s.create(api.NewChat{})
	got := jsonOf(t, plain)
	assert.Truef(t, plain.Tags != nil && plain.MemoryStrategy == "summary" && plain.ExpiresAt == nil && strings.Contains(got, `"metadata":{},"tags":[]`),
		"a chat of nothing is %s", got)
	is(t, s.brief(plain.ID), (briefRow{}), "its brief")
	made = s.create(api.NewChat{ToolName: &tool})
	is(t, tuple(*made.TTLHours, *made.MaxTurns, *made.ToolName), tuple(3, 50, tool), "a tool's: %s", jsonOf(t, made))
	made = s.create(api.NewChat{ToolName: &tool, TTLHours: api.None[int](), MaxTurns: api.To(2)})
	is(t, tuple(made.TTLHours == nil, *made.MaxTurns, made.ExpiresAt == nil), tuple(true, 2, true), "a tool's, without end: %s", jsonOf(t, made))
}

func jsonOf(t *testing.T, value any) string {
	encoded := must(json.Marshal(value))(t)
	return string(encoded)
}

func TestChangeChatsNamedFieldsAlone(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	made := s.create(api.NewChat{
		Title: "One", SystemPrompt: new("Be brief."), Metadata: map[string]any{"a": 1}, Tags: []string{"x"}, MemoryStrategy: "simple",
		TTLHours: api.To(5), MaxTurns: api.To(6),
	})
	for _, c := range []struct {
		change api.ChatChange
		want   string
	}{
		{api.ChatChange{}, `One|Be brief.|{"a": 1}|{x}|simple|5|6|05:00:00`},
		{api.ChatChange{Title: api.To("Two"), Tags: api.To([]string{"y", "z"}), TTLHours: api.To(9)},
			`Two|Be brief.|{"a": 1}|{y,z}|simple|9|6|09:00:00`},
		{api.ChatChange{
			Title: api.None[string](), SystemPrompt: api.None[string](), Metadata: api.None[map[string]any](), Tags: api.None[[]string](),
			MemoryStrategy: api.None[string](), TTLHours: api.None[int](), MaxTurns: api.None[int](),
		}, `|{}|{}|summary`},
	} {
		changed := must(s.ChangeChat(t.Context(), s.user, made.ID, c.change))(t)
		is(t, ask[string](s, `select concat_ws('|', title, system_prompt, metadata, tags, memory_strategy, ttl_hours, max_turns, expires_at - created_at)
			from chats where id = $1`, made.ID), c.want, "stored")
		is(t, jsonOf(t, changed), jsonOf(t, must(s.FindChat(t.Context(), s.user, made.ID))(t)), "answered, and found")
	}
}

// User B can neither see nor change nor delete what belongs to user A, and is told that it does not exist.
func TestStrangersFindNothing(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := s.exchange(firstTurn("My secret."), "Kept.")
	s.exec("update chats set last_message_at = now() - interval '50 days', created_at = now() - interval '50 days', tags = '{x}' where id = $1", turn.ChatID)
	before := s.everything()
	for who, user := range map[string]auth.Principal{"a stranger": s.newUser(), "somebody who does not exist": principalOf(t, uuid.New())} {
		codes := s.attempts(user, turn.ChatID, turn.UserMessageID)
		codes["delete"] = fault.CodeOf(s.DeleteChat(t.Context(), user, turn.ChatID, api.ChatDeletion{}))
		codes["delete a message"] = fault.CodeOf(s.DeleteMessage(t.Context(), user, turn.UserMessageID))
		for name, code := range codes {
			want := fault.ChatNotFound
			if strings.HasSuffix(name, "message") {
				want = fault.MessageNotFound
			}
			is(t, code, want, "%s, %s", who, name)
		}
		after := api.Cursor{AsOf: time.Now(), Activity: time.Now(), ChatID: turn.ChatID}
		page, err := s.ListChats(t.Context(), user, api.ListQuery{IncludeExpired: true, After: &after})
		is(t, tuple(err, len(page.Chats)), tuple(nil, 0), "%s lists %v", who, page)
		is(t, must(s.PruneChats(t.Context(), user, api.PruneQuery{OlderThanDays: 1}))(t).Chats, 0, "%s pruned", who)
	}
	is(t, s.everything(), before, "something changed:\n…\n")
	is(t, fault.CodeOf(s.DeleteChat(t.Context(), s.user, uuid.New(), api.ChatDeletion{})), fault.ChatNotFound, "no chat at all")
}

// attempts makes every call that names a chat, or one of its messages, and returns the codes of the refusals.
func (s shelf) attempts(user auth.Principal, chatID, messageID uuid.UUID) map[string]fault.Code {
	ctx, codes := s.t.Context(), map[string]fault.Code{}
	for name, err := range map[string]error{
		"find":             errOf(s.FindChat(ctx, user, chatID)),
		"read":             errOf(s.turns.ReadChat(ctx, user, chatID)),
		"find reply":       errOf2(s.turns.FindReply(ctx, user, chatID, uuid.Nil, 0)),
		"change":           errOf(s.ChangeChat(ctx, user, chatID, api.ChatChange{Title: api.To("Mine")})),
		"clear":            errOf(s.ClearChat(ctx, user, chatID)),
		"files":            errOf(s.ListFiles(ctx, user, chatID, api.FilesQuery{Content: true})),
		"messages":         errOf(s.ListMessages(ctx, user, chatID, api.MessagesQuery{})),
		"revisions":        errOf(s.ListBriefRevisions(ctx, user, chatID, api.BriefRevisionsQuery{Limit: 1})),
		"store":            errOf(s.StoreMessages(ctx, user, chatID, api.NewMessages{Messages: []api.NewMessage{{Role: "system", Content: "A note."}}})),
		"change a message": errOf(s.ChangeMessage(ctx, user, messageID, api.MessageChange{Pinned: new(true)})),
	} {
		codes[name] = fault.CodeOf(err)
	}
	return codes
}

// everything returns all stored rows of chats, messages and briefs.
func (s shelf) everything() string {
	return ask[string](s, `select (select json_agg(c)::text from chats c) || (select json_agg(m order by seq)::text from messages m)
		|| (select json_agg(b)::text from conversation_briefs b)`)
}

// An expired chat can only be deleted, until it is revived.
func TestExpiredChats(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := s.exchange(firstTurn("Soon gone."), "Indeed.")
	s.expire(turn.ChatID)
	s.create(api.NewChat{Title: "Here."})
	is(t, titles(s.list(api.ListQuery{}).Chats), []string{"Here."}, "listed")
	all := s.list(api.ListQuery{IncludeExpired: true}).Chats
	is(t, tuple(titles(all), all[0].Expired, all[1].Expired), tuple([]string{"Here.", "Soon gone."}, false, true), "listed with expired ones")
	told := faultOf(t, errOf(s.FindChat(t.Context(), s.user, turn.ChatID)), fault.ChatExpired)
	is(t, tuple(told["chat_id"], told["expired_at"].(time.Time).Before(time.Now())), tuple(turn.ChatID, true), "refused with %v", told)
	before := s.everything()
	for name, code := range s.attempts(s.user, turn.ChatID, turn.MessageID) {
		is(t, code, fault.ChatExpired, "%s", name)
	}
	is(t, s.everything(), before, "something was changed")
	revived, err := s.ChangeChat(t.Context(), s.user, turn.ChatID, api.ChatChange{Title: api.To("Back."), Revive: true})
	if err != nil || revived.Expired || revived.Title != "Back." || time.Until(*revived.ExpiresAt) < 50*time.Minute {
		t.Errorf("revived: %s, %v", jsonOf(t, revived), err)
	}
	again, err := s.ChangeChat(t.Context(), s.user, turn.ChatID, api.ChatChange{Revive: true})
	is(t, tuple(err, *again.ExpiresAt), tuple(nil, *revived.ExpiresAt), "reviving what lives moved its end")
	is(t, len(must(s.ListMessages(t.Context(), s.user, turn.ChatID, api.MessagesQuery{}))(t).Messages), 2, "after that: messages")
	s.expire(turn.ChatID)
	fine(t, s.DeleteMessage(t.Context(), s.user, turn.MessageID), "a message of an expired chat could not be deleted")
	fine(t, s.DeleteChat(t.Context(), s.user, turn.ChatID, api.ChatDeletion{}), "an expired chat could not be deleted")
}

// toolRound is what an app stores when its own tool was asked.
func toolRound() api.NewMessages {
	return api.NewMessages{Messages: []api.NewMessage{
		{Role: "user", Content: "Is my A in tune?", ClientMessageID: new(uuid.NewString())},
		{Role: "assistant", ClientMessageID: new(uuid.NewString()), ToolCalls: []map[string]any{
			{"id": "c1", "type": "function", "function": map[string]any{"name": "tuner", "arguments": `{"string": "A"}`}, "n": 1.0},
		}},
		{Role: "tool", Name: "tuner", ToolCallID: "c1", Content: "441 Hz", ClientMessageID: new(uuid.NewString())},
		{Role: "assistant", Content: "  Nearly.\n", Metadata: map[string]any{"from": "phone"}, ClientMessageID: new(uuid.NewString())},
		{Role: "system", Content: "The lesson is over.", ClientMessageID: new(uuid.NewString())},
	}}
}

func (s shelf) store(chatID uuid.UUID, messages api.NewMessages) []api.Message {
	stored := must(s.StoreMessages(s.t.Context(), s.user, chatID, messages))(s.t)
	return stored.Messages
}

// said describes a chat's messages, one per line.
func (s shelf) said(chatID uuid.UUID) string {
	return ask[string](s, `select coalesce(string_agg(concat_ws('|', m.seq, m.role, m.content, m.status, a.seq, m.name, m.tool_call_id,
		jsonb_array_length(m.tool_calls), nullif(m.metadata, '{}')), E'\n' order by m.seq), '')
		from messages m left join messages a on a.id = m.reply_to where m.chat_id = $1`, chatID)
}

func TestMessagesAreStoredAtTheEndOfAChat(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID := s.newChat(1)
	sent := toolRound()
	first := s.store(chatID, sent)
	want := strings.Join([]string{
		"3|user|Is my A in tune?|complete", "4|assistant||complete|1", "5|tool|441 Hz|complete|tuner|c1",
		"6|assistant|  Nearly.\n|complete|3|{\"from\": \"phone\"}", "7|system|The lesson is over.|complete",
	}, "\n")
	got := s.said(chatID)
	assert.Truef(t, strings.HasSuffix(got, want), "the chat holds\n%s", got)
	for i, message := range first {
		assert.Truef(t, message.Seq == int64(3+i) && message.ChatID == chatID && message.TokenCount != 0 && !message.CreatedAt.IsZero() && message.Files != nil,
			"message %d: %+v", i, message)
	}
	peeked := s.peek(chatID)
	turns := peeked.PendingTurns
	assert.Truef(t, turns == 2 && len(peeked.Buffer) == 7 && strings.Contains(peeked.Buffer[3].Content, "[calls tuner("),
		"the next prompt knows %d turns, %+v", turns, peeked.Buffer)
	// A message that is sent again is stored once, together with new ones or not, also while a reply runs.
	sent.Messages = append(sent.Messages, api.NewMessage{Role: "assistant", Content: "Sharper.", ClientMessageID: new(uuid.NewString())})
	second := s.store(chatID, sent)
	before := s.said(chatID)
	assert.Truef(t, len(second) == 6 && second[0].ID == first[0].ID && second[5].Content == "Sharper." && *second[5].ReplyTo == first[0].ID,
		"then %+v", second)
	s.start(turnIn(chatID, "And my D?"))
	again := s.store(chatID, sent)
	assert.Truef(t, len(again) == 6 && again[5].ID == second[5].ID, "while a reply runs: %+v", again)
	got = s.said(chatID)
	assert.Truef(t, strings.HasPrefix(got, before) && strings.Count(got, "\n") == 10, "the chat holds\n%s", got)
	s.checkCounters()
}

func TestStoringRefusals(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chatID, other, expired, busy := s.newChat(1), s.newChat(1), s.newChat(1), s.newChat(1)
	sent := toolRound()
	s.store(chatID, sent)
	s.expire(expired)
	running := turnIn(busy, "And my D?")
	s.start(running)
	change := func(alter func(messages []api.NewMessage)) api.NewMessages {
		again := api.NewMessages{Messages: append([]api.NewMessage{{Role: "system", Content: "New."}}, sent.Messages...)}
		alter(again.Messages)
		return again
	}
	before := s.everything()
	for name, c := range map[string]struct {
		chatID uuid.UUID
		sent   api.NewMessages
		code   fault.Code
	}{
		"no chat":              {uuid.New(), toolRound(), fault.ChatNotFound},
		"expired":              {expired, toolRound(), fault.ChatExpired},
		"busy":                 {busy, toolRound(), fault.GenerationInProgress},
		"in another chat":      {other, sent, fault.IdempotencyMismatch},
		"other content":        {chatID, change(func(m []api.NewMessage) { m[1].Content = "x" }), fault.IdempotencyMismatch},
		"another role":         {chatID, change(func(m []api.NewMessage) { m[1].Role = "system" }), fault.IdempotencyMismatch},
		"another tool":         {chatID, change(func(m []api.NewMessage) { m[3].Name = "x" }), fault.IdempotencyMismatch},
		"another call":         {chatID, change(func(m []api.NewMessage) { m[3].ToolCallID = "x" }), fault.IdempotencyMismatch},
		"other calls":          {chatID, change(func(m []api.NewMessage) { m[2].ToolCalls = []map[string]any{{"id": "c2"}} }), fault.IdempotencyMismatch},
		"calls become content": {chatID, change(func(m []api.NewMessage) { m[2].ToolCalls, m[2].Content = nil, "x" }), fault.IdempotencyMismatch},
	} {
		_, err := s.StoreMessages(t.Context(), s.user, c.chatID, c.sent)
		is(t, fault.CodeOf(err), c.code, "%s: %v", name, err)
	}
	wantFault(t, errOf(s.StoreMessages(t.Context(), s.newUser(), chatID, toolRound())), fault.ChatNotFound, "somebody else")
	is(t, s.everything(), before, "something was stored:\n…\n\n")
}

// Requests at once are stored one after the other, none within another. What they make due is folded.
func TestStoringAtOnce(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	chats, same := []uuid.UUID{s.newChat(1), s.newChat(1)}, toolRound()
	together(t, 20, func(n int) error {
		round := toolRound()
		if n%4 == 0 {
			round = same // the same messages, to either chat: one of them gets them
		}
		if err := errOf(s.StoreMessages(t.Context(), s.user, chats[n/4%2], round)); fault.CodeOf(err) != fault.IdempotencyMismatch {
			return err
		}
		return nil
	})
	is(t, s.count("messages where seq > 2"), 16*5, "messages are stored")
	is(t, s.count(`messages where role = 'tool' and (select role from messages c where c.chat_id = messages.chat_id
		and c.seq = messages.seq - 1) <> 'assistant'`), 0, "answers of tools are apart from their calls")
	s.checkCounters()
	is(t, len(s.folds), 0, "folds of short messages")
	long := api.NewMessages{}
	for range 5 {
		long.Messages = append(long.Messages, api.NewMessage{Role: "user", Content: "Look it up."},
			api.NewMessage{Role: "tool", Name: "lookup", Content: strings.Repeat("word ", 2000)})
	}
	s.store(chats[0], long)
	is(t, testkit.Receive(t, "the fold", s.folds), chats[0], "the fold of … was enqueued")
}
