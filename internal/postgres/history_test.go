package postgres

import (
	"context"
	"encoding/json"
	"maps"
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
	if err := query.Check(); err != nil {
		return history.ChatPage{}, err
	}
	return s.Store.ListChats(ctx, user, query)
}

func (s shelf) StoreMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, messages history.NewMessages) (history.StoredMessages, error) {
	if err := messages.Check(); err != nil {
		return history.StoredMessages{}, err
	}
	return s.Store.StoreMessages(ctx, user, chatID, messages)
}

func (s shelf) ChangeChat(ctx context.Context, user auth.Principal, chatID uuid.UUID, change history.ChatChange) (history.Chat, error) {
	if err := change.Check(); err != nil {
		return history.Chat{}, err
	}
	return s.Store.ChangeChat(ctx, user, chatID, change)
}

func (s shelf) ListMessages(ctx context.Context, user auth.Principal, chatID uuid.UUID, query history.MessagesQuery) (history.MessagePage, error) {
	if err := query.Check(); err != nil {
		return history.MessagePage{}, err
	}
	return s.Store.ListMessages(ctx, user, chatID, query)
}

// create makes a chat of the bed's user.
func (s shelf) create(chat history.NewChat) history.Chat {
	s.t.Helper()
	made, err := s.CreateChat(s.t.Context(), s.user, chat)
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// age moves a chat's last activity into the past.
func (s shelf) age(chatID uuid.UUID, by string) {
	s.t.Helper()
	s.exec("update chats set created_at = created_at - $2::interval, last_message_at = last_message_at - $2::interval, revived_at = null where id = $1", chatID, by)
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
	page, err := s.ListChats(s.t.Context(), s.user, query)
	if err != nil {
		s.t.Fatal(err)
	}
	return page
}

func TestCreatedChatIsFoundAsItWasMade(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	prompt, seven := "Be brief.", 7
	made := s.create(history.NewChat{
		Title: "Größe 🎻", SystemPrompt: &prompt, Metadata: map[string]any{"n": json.Number("9007199254740993")},
		Tags: []string{" cello ", "cello", "it's \"one\" {tag}, really"}, MemoryStrategy: "hybrid", TTLHours: history.To(seven),
	})
	found, err := s.FindChat(t.Context(), s.user, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if a, z := jsonOf(t, made), jsonOf(t, found); a != z {
		t.Errorf("made  %s\nfound %s", a, z)
	}
	if found.Title != "Größe 🎻" || *found.SystemPrompt != prompt || found.MemoryStrategy != "hybrid" || *found.TTLHours != seven || found.MaxTurns != nil ||
		!slices.Equal(found.Tags, []string{"cello", "it's \"one\" {tag}, really"}) || string(found.Metadata) != `{"n": 9007199254740993}` {
		t.Errorf("found %s", jsonOf(t, found))
	}
	if found.ExpiresAt == nil || !found.ExpiresAt.Equal(found.CreatedAt.Add(7*time.Hour)) || found.Expired || found.CreatedAt.Location() != time.UTC {
		t.Errorf("expires at %v, created at %v", found.ExpiresAt, found.CreatedAt)
	}
	plain := s.create(history.NewChat{})
	if got := jsonOf(t, plain); plain.Tags == nil || plain.MemoryStrategy != "summary" || plain.ExpiresAt != nil || !strings.Contains(got, `"metadata":{},"tags":[]`) {
		t.Errorf("a chat of nothing is %s", got)
	}
	if got := s.brief(plain.ID); got != (briefRow{}) {
		t.Errorf("its brief is %+v", got)
	}
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

func TestChatOfAToolHasLimits(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	tool := "lookup"
	made := s.create(history.NewChat{ToolName: &tool})
	if *made.TTLHours != 3 || *made.MaxTurns != 50 || *made.ToolName != tool {
		t.Errorf("%s", jsonOf(t, made))
	}
	made = s.create(history.NewChat{ToolName: &tool, TTLHours: history.None[int](), MaxTurns: history.To(2)})
	if made.TTLHours != nil || *made.MaxTurns != 2 || made.ExpiresAt != nil {
		t.Errorf("%s", jsonOf(t, made))
	}
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
		changed, err := s.ChangeChat(t.Context(), s.user, made.ID, what)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	same := change(history.ChatChange{})
	if same.Title != "One" || *same.SystemPrompt != prompt ||
		string(same.Metadata) != `{"a": 1}` || !slices.Equal(same.Tags, []string{"x"}) || same.MemoryStrategy != "simple" || *same.TTLHours != 5 || *same.MaxTurns != 6 {
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
	turn := firstTurn("My secret.")
	s.start(turn)
	s.reply(turn, "Kept.")
	s.exec("update chats set last_message_at = now() - interval '50 days', created_at = now() - interval '50 days', tags = '{x}' where id = $1", turn.ChatID)
	before := s.everything()
	for who, user := range map[string]auth.Principal{"a stranger": s.newUser(), "somebody who does not exist": principalOf(t, uuid.New())} {
		for name, code := range s.attempts(user, turn.ChatID, turn.UserMessageID) {
			want := fault.ChatNotFound
			if strings.HasSuffix(name, "message") {
				want = fault.MessageNotFound
			}
			if code != want {
				t.Errorf("%s, %s: %q", who, name, code)
			}
		}
		page, err := s.ListChats(t.Context(), user, history.ListQuery{IncludeExpired: true, After: &history.Cursor{AsOf: time.Now(), Activity: time.Now(), ChatID: turn.ChatID}})
		if err != nil || len(page.Chats) != 0 {
			t.Errorf("%s lists %v, %v", who, page, err)
		}
		if pruned, err := s.PruneChats(t.Context(), user, history.PruneQuery{OlderThanDays: 1}); err != nil || pruned.Chats != 0 {
			t.Errorf("%s pruned %+v, %v", who, pruned, err)
		}
	}
	if after := s.everything(); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
	if code := fault.CodeOf(s.DeleteChat(t.Context(), s.user, uuid.New(), history.ChatDeletion{})); code != fault.ChatNotFound {
		t.Errorf("no chat at all: %q", code)
	}
}

// attempts makes every call that names a chat or a message and returns the codes of the refusals.
func (s shelf) attempts(user auth.Principal, chatID, messageID uuid.UUID) map[string]fault.Code {
	s.t.Helper()
	ctx, codes := s.t.Context(), map[string]fault.Code{}
	_, err := s.FindChat(ctx, user, chatID)
	codes["find chat"] = fault.CodeOf(err)
	_, err = s.ChangeChat(ctx, user, chatID, history.ChatChange{Title: history.To("Mine")})
	codes["change chat"] = fault.CodeOf(err)
	_, err = s.ClearChat(ctx, user, chatID)
	codes["clear chat"] = fault.CodeOf(err)
	_, err = s.ListFiles(ctx, user, chatID, history.FilesQuery{Content: true})
	codes["list files"] = fault.CodeOf(err)
	_, err = s.ListMessages(ctx, user, chatID, history.MessagesQuery{})
	codes["list messages"] = fault.CodeOf(err)
	_, err = s.ListBriefRevisions(ctx, user, chatID, history.BriefRevisionsQuery{Limit: 1})
	codes["list revisions"] = fault.CodeOf(err)
	_, err = s.StoreMessages(ctx, user, chatID, history.NewMessages{Messages: []history.NewMessage{{Role: "system", Content: "A note."}}})
	codes["store messages"] = fault.CodeOf(err)
	pinned := true
	_, err = s.ChangeMessage(ctx, user, messageID, history.MessageChange{Pinned: &pinned})
	codes["change a message"] = fault.CodeOf(err)
	maps.Copy(codes, map[string]fault.Code{
		"delete a message": fault.CodeOf(s.DeleteMessage(ctx, user, messageID)),
		"delete chat":      fault.CodeOf(s.DeleteChat(ctx, user, chatID, history.ChatDeletion{})),
	})
	return codes
}

// everything returns all stored rows of chats, messages and briefs.
func (s shelf) everything() string {
	s.t.Helper()
	return ask[string](s.bed, `select (select json_agg(c)::text from chats c) || (select json_agg(m order by seq)::text from messages m)
		|| (select json_agg(b)::text from conversation_briefs b)`)
}

// An expired chat can only be deleted, until it is revived.
func TestExpiredChats(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := firstTurn("Soon gone.")
	s.start(turn)
	s.reply(turn, "Indeed.")
	s.expire(turn.ChatID)
	s.create(history.NewChat{Title: "Here."})
	if got := titles(s.list(history.ListQuery{}).Chats); !slices.Equal(got, []string{"Here."}) {
		t.Errorf("listed %v", got)
	}
	all := s.list(history.ListQuery{IncludeExpired: true}).Chats
	if got := titles(all); !slices.Equal(got, []string{"Here.", "Soon gone."}) || all[0].Expired || !all[1].Expired {
		t.Errorf("listed %v with expired ones", got)
	}
	_, err := s.FindChat(t.Context(), s.user, turn.ChatID)
	refused := new(fault.Error)
	if !asFault(err, &refused) || refused.Details["chat_id"] != turn.ChatID || refused.Details["expired_at"].(time.Time).After(time.Now()) {
		t.Errorf("refused with %v", err)
	}
	pinned := true
	for name, try := range map[string]func() error{
		"find": func() error { return err },
		"change": func() error {
			_, err := s.ChangeChat(t.Context(), s.user, turn.ChatID, history.ChatChange{Title: history.To("x")})
			return err
		},
		"clear": func() error { _, err := s.ClearChat(t.Context(), s.user, turn.ChatID); return err },
		"files": func() error {
			_, err := s.ListFiles(t.Context(), s.user, turn.ChatID, history.FilesQuery{})
			return err
		},
		"messages": func() error {
			_, err := s.ListMessages(t.Context(), s.user, turn.ChatID, history.MessagesQuery{})
			return err
		},
		"revisions": func() error {
			_, err := s.ListBriefRevisions(t.Context(), s.user, turn.ChatID, history.BriefRevisionsQuery{Limit: 1})
			return err
		},
		"pin": func() error {
			_, err := s.ChangeMessage(t.Context(), s.user, turn.MessageID, history.MessageChange{Pinned: &pinned})
			return err
		},
	} {
		if code := fault.CodeOf(try()); code != fault.ChatExpired {
			t.Errorf("%s: %q", name, code)
		}
	}
	if got := ask[string](s.bed, "select title || (select bool_or(pinned) from messages)::text || (select version from conversation_briefs where chat_id = c.id)::text from chats c where id = $1", turn.ChatID); got != "Soon gone.false0" {
		t.Errorf("something was changed: %s", got)
	}
	revived, err := s.ChangeChat(t.Context(), s.user, turn.ChatID, history.ChatChange{Title: history.To("Back."), Revive: true})
	if err != nil || revived.Expired || revived.Title != "Back." || time.Until(*revived.ExpiresAt) < 50*time.Minute {
		t.Errorf("revived: %s, %v", jsonOf(t, revived), err)
	}
	again, err := s.ChangeChat(t.Context(), s.user, turn.ChatID, history.ChatChange{Revive: true})
	if err != nil || !again.ExpiresAt.Equal(*revived.ExpiresAt) {
		t.Errorf("reviving what lives moved its end from %v to %v, %v", revived.ExpiresAt, again.ExpiresAt, err)
	}
	if page, err := s.ListMessages(t.Context(), s.user, turn.ChatID, history.MessagesQuery{}); err != nil || len(page.Messages) != 2 {
		t.Errorf("after that: %d messages, %v", len(page.Messages), err)
	}
	s.expire(turn.ChatID)
	if err := s.DeleteMessage(t.Context(), s.user, turn.MessageID); err != nil {
		t.Errorf("a message of an expired chat could not be deleted: %v", err)
	}
	if err := s.DeleteChat(t.Context(), s.user, turn.ChatID, history.ChatDeletion{}); err != nil {
		t.Errorf("an expired chat could not be deleted: %v", err)
	}
}

func TestDeletingAChatDeletesAllThatWasMadeOfIt(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	turn := s.turnWithFiles("See this.", "a.go", "package a", "b.go", "package b", "copy.go", "package a")
	s.mustCommit(s.claim(turn.ChatID, "fold"))
	running := turnIn(turn.ChatID, "And more?")
	s.start(running)
	if err := s.DeleteChat(t.Context(), s.user, turn.ChatID, history.ChatDeletion{}); err != nil {
		t.Fatal(err)
	}
	for _, table := range append(slices.Clone(userTables), "chat_files", "message_files") {
		if n := ask[int](s.bed, "select count(*) from "+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	if saved, err := s.turns.SaveReply(t.Context(), s.user, finished(running, "Too late.")); err != nil || saved {
		t.Errorf("a reply to the deleted chat was saved: %v, %v", saved, err)
	}
}
