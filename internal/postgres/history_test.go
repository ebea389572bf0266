package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory"
)

// shelf is a bed with the store of a user's chats, whose requests are checked as the API checks them.
type shelf struct {
	*bed
	history.Store
	// rebuilds are the chats whose rebuild was enqueued.
	rebuilds chan uuid.UUID
}

func newShelf(t *testing.T) shelf {
	t.Helper()
	return shelfOf(newBed(t))
}

func shelfOf(b *bed) shelf {
	s := shelf{bed: b, rebuilds: make(chan uuid.UUID, 100)}
	s.Store = NewHistory(b.pool, b.limits, b.turns.enqueue, func(_ context.Context, _ pgx.Tx, chatID uuid.UUID) error {
		s.rebuilds <- chatID
		return nil
	})
	return s
}

func (s shelf) CreateChat(ctx context.Context, user auth.Principal, chat history.NewChat) (history.Chat, error) {
	if err := chat.Check(memory.ChatDefaults{}); err != nil {
		return history.Chat{}, err
	}
	return s.Store.CreateChat(ctx, user, chat)
}

func (s shelf) ListChats(ctx context.Context, user auth.Principal, query history.ListQuery) (history.ChatPage, error) {
	if err := history.Check(&query); err != nil {
		return history.ChatPage{}, err
	}
	return s.Store.ListChats(ctx, user, query)
}

func (s shelf) StoreMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, messages history.NewMessages) (history.StoredMessages, error) {
	if err := history.Check(&messages); err != nil {
		return history.StoredMessages{}, err
	}
	return s.Store.StoreMessages(ctx, user, chatID, messages)
}

func (s shelf) ChangeChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, change history.ChatChange) (history.Chat, error) {
	if err := history.Check(&change); err != nil {
		return history.Chat{}, err
	}
	return s.Store.ChangeChat(ctx, user, chatID, change)
}

func (s shelf) ListMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, query history.MessagesQuery) (history.MessagePage, error) {
	if err := history.Check(&query); err != nil {
		return history.MessagePage{}, err
	}
	return s.Store.ListMessages(ctx, user, chatID, query)
}

// create makes a chat of the bed's user.
func (s shelf) create(chat history.NewChat) history.Chat {
	s.t.Helper()
	return must(s.CreateChat(s.t.Context(), s.user, chat))(s.t)
}

// age moves a chat's last activity into the past.
func (s shelf) age(chatID uuid.UUID, by string) {
	s.t.Helper()
	s.exec("update chats set created_at = created_at - $2::interval, last_message_at = last_message_at - $2::interval, revived_at = null where id = $1",
		chatID, by)
}

// expire makes a chat have expired an hour ago.
func (s shelf) expire(chatID uuid.UUID) {
	s.t.Helper()
	s.exec("update chats set ttl_hours = 1 where id = $1", chatID)
	s.age(chatID, "2 hours")
}

func titles(chats []history.Chat) []string {
	names := []string{}
	for _, chat := range chats {
		names = append(names, chat.Title)
	}
	return names
}

func (s shelf) list(query history.ListQuery) history.ChatPage {
	s.t.Helper()
	return must(s.ListChats(s.t.Context(), s.user, query))(s.t)
}

func TestCreatedChatIsFoundAsItWasMade(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	prompt, seven, tool := "Be brief.", 7, "lookup"
	made := s.create(history.NewChat{
		Title: "Größe 🎻", SystemPrompt: &prompt, Metadata: map[string]any{"n": json.Number("9007199254740993")},
		Tags: []string{" cello ", "cello", "it's \"one\" {tag}, really"}, MemoryStrategy: "hybrid", TTLHours: history.To(seven),
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
	plain := s.create(history.NewChat{})
	if got := jsonOf(t, plain); plain.Tags == nil || plain.MemoryStrategy != "summary" || plain.ExpiresAt != nil ||
		!strings.Contains(got, `"metadata":{},"tags":[]`) {
		t.Errorf("a chat of nothing is %s", got)
	}
	is(t, s.brief(plain.ID), (briefRow{}), "its brief")
	made = s.create(history.NewChat{ToolName: &tool})
	is(t, tuple(*made.TTLHours, *made.MaxTurns, *made.ToolName), tuple(3, 50, tool), "a tool's: %s", jsonOf(t, made))
	made = s.create(history.NewChat{ToolName: &tool, TTLHours: history.None[int](), MaxTurns: history.To(2)})
	is(t, tuple(made.TTLHours == nil, *made.MaxTurns, made.ExpiresAt == nil), tuple(true, 2, true), "a tool's, without end: %s", jsonOf(t, made))
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	encoded := must(json.Marshal(value))(t)
	return string(encoded)
}

func TestChangeChatsNamedFieldsAlone(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	prompt := "Be brief."
	made := s.create(history.NewChat{
		Title: "One", SystemPrompt: &prompt, Metadata: map[string]any{"a": 1}, Tags: []string{"x"}, MemoryStrategy: "simple",
		TTLHours: history.To(5), MaxTurns: history.To(6),
	})
	change := func(what history.ChatChange) history.Chat {
		t.Helper()
		return must(s.ChangeChat(t.Context(), s.user, made.ID, what))(t)
	}
	same := change(history.ChatChange{})
	if same.Title != "One" || *same.SystemPrompt != prompt ||
		string(same.Metadata) != `{"a": 1}` || !slices.Equal(same.Tags, []string{"x"}) || same.MemoryStrategy != "simple" || *same.TTLHours != 5 ||
		*same.MaxTurns != 6 {
		t.Errorf("a change of nothing gave %s", jsonOf(t, same))
	}
	one := change(history.ChatChange{Title: history.To("Two"), Tags: history.To([]string{"y", "z"}), TTLHours: history.To(9)})
	if one.Title != "Two" || !slices.Equal(one.Tags, []string{"y", "z"}) || *one.TTLHours != 9 || *one.MaxTurns != 6 || *one.SystemPrompt != prompt ||
		!one.ExpiresAt.Equal(one.CreatedAt.Add(9*time.Hour)) {
		t.Errorf("%s", jsonOf(t, one))
	}
	none := change(history.ChatChange{
		Title: history.None[string](), SystemPrompt: history.None[string](), Metadata: history.None[map[string]any](), Tags: history.None[[]string](),
		MemoryStrategy: history.None[string](), TTLHours: history.None[int](), MaxTurns: history.None[int](),
	})
	if none.Title != "" || none.SystemPrompt != nil || string(none.Metadata) != "{}" || len(none.Tags) != 0 || none.MemoryStrategy != "summary" ||
		none.TTLHours != nil || none.MaxTurns != nil || none.ExpiresAt != nil {
		t.Errorf("%s", jsonOf(t, none))
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
		codes["delete"] = fault.CodeOf(s.DeleteChat(t.Context(), user, turn.ChatID, history.ChatDeletion{}))
		codes["delete a message"] = fault.CodeOf(s.DeleteMessage(t.Context(), user, turn.UserMessageID))
		for name, code := range codes {
			want := fault.ChatNotFound
			if strings.HasSuffix(name, "message") {
				want = fault.MessageNotFound
			}
			is(t, code, want, "%s, %s", who, name)
		}
		after := history.Cursor{AsOf: time.Now(), Activity: time.Now(), ChatID: turn.ChatID}
		page, err := s.ListChats(t.Context(), user, history.ListQuery{IncludeExpired: true, After: &after})
		is(t, tuple(err, len(page.Chats)), tuple(nil, 0), "%s lists %v", who, page)
		is(t, must(s.PruneChats(t.Context(), user, history.PruneQuery{OlderThanDays: 1}))(t).Chats, 0, "%s pruned", who)
	}
	is(t, s.everything(), before, "something changed:\n…\n")
	is(t, fault.CodeOf(s.DeleteChat(t.Context(), s.user, uuid.New(), history.ChatDeletion{})), fault.ChatNotFound, "no chat at all")
}

// attempts makes every call that names a chat, or one of its messages, and returns the codes of the refusals.
func (s shelf) attempts(user auth.Principal, chatID, messageID uuid.UUID) map[string]fault.Code {
	s.t.Helper()
	ctx, codes := s.t.Context(), map[string]fault.Code{}
	for name, err := range map[string]error{
		"find":             errOf(s.FindChat(ctx, user, chatID)),
		"read":             errOf(s.turns.ReadChat(ctx, user, chatID)),
		"find reply":       errOf2(s.turns.FindReply(ctx, user, chatID, uuid.Nil, 0)),
		"change":           errOf(s.ChangeChat(ctx, user, chatID, history.ChatChange{Title: history.To("Mine")})),
		"clear":            errOf(s.ClearChat(ctx, user, chatID)),
		"files":            errOf(s.ListFiles(ctx, user, chatID, history.FilesQuery{Content: true})),
		"messages":         errOf(s.ListMessages(ctx, user, chatID, history.MessagesQuery{})),
		"revisions":        errOf(s.ListBriefRevisions(ctx, user, chatID, history.BriefRevisionsQuery{Limit: 1})),
		"store":            errOf(s.StoreMessages(ctx, user, chatID, history.NewMessages{Messages: []history.NewMessage{{Role: "system", Content: "A note."}}})),
		"change a message": errOf(s.ChangeMessage(ctx, user, messageID, history.MessageChange{Pinned: new(true)})),
	} {
		codes[name] = fault.CodeOf(err)
	}
	return codes
}

// everything returns all stored rows of chats, messages and briefs.
func (s shelf) everything() string {
	s.t.Helper()
	return ask[string](s, `select (select json_agg(c)::text from chats c) || (select json_agg(m order by seq)::text from messages m)
		|| (select json_agg(b)::text from conversation_briefs b)`)
}

// An expired chat can only be deleted, until it is revived.
func TestExpiredChats(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := s.exchange(firstTurn("Soon gone."), "Indeed.")
	s.expire(turn.ChatID)
	s.create(history.NewChat{Title: "Here."})
	is(t, titles(s.list(history.ListQuery{}).Chats), []string{"Here."}, "listed")
	all := s.list(history.ListQuery{IncludeExpired: true}).Chats
	is(t, tuple(titles(all), all[0].Expired, all[1].Expired), tuple([]string{"Here.", "Soon gone."}, false, true), "listed with expired ones")
	told := faultOf(t, errOf(s.FindChat(t.Context(), s.user, turn.ChatID)), fault.ChatExpired)
	is(t, tuple(told["chat_id"], told["expired_at"].(time.Time).Before(time.Now())), tuple(turn.ChatID, true), "refused with %v", told)
	before := s.everything()
	for name, code := range s.attempts(s.user, turn.ChatID, turn.MessageID) {
		is(t, code, fault.ChatExpired, "%s", name)
	}
	is(t, s.everything(), before, "something was changed")
	revived, err := s.ChangeChat(t.Context(), s.user, turn.ChatID, history.ChatChange{Title: history.To("Back."), Revive: true})
	if err != nil || revived.Expired || revived.Title != "Back." || time.Until(*revived.ExpiresAt) < 50*time.Minute {
		t.Errorf("revived: %s, %v", jsonOf(t, revived), err)
	}
	again, err := s.ChangeChat(t.Context(), s.user, turn.ChatID, history.ChatChange{Revive: true})
	is(t, tuple(err, *again.ExpiresAt), tuple(nil, *revived.ExpiresAt), "reviving what lives moved its end")
	is(t, len(must(s.ListMessages(t.Context(), s.user, turn.ChatID, history.MessagesQuery{}))(t).Messages), 2, "after that: messages")
	s.expire(turn.ChatID)
	fine(t, s.DeleteMessage(t.Context(), s.user, turn.MessageID), "a message of an expired chat could not be deleted")
	fine(t, s.DeleteChat(t.Context(), s.user, turn.ChatID, history.ChatDeletion{}), "an expired chat could not be deleted")
}
