package postgres

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// A title is the first line, cut at a word.
func TestTitleOfAMessage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	a80 := strings.Repeat("a", 80)
	for _, c := range []struct{ name, content, want string }{
		{"short", "How do buses work?", "How do buses work?"},
		{"first line", "\n\n  First line \r\nsecond", "First line"},
		{"exactly full", a80, a80},
		{"one word too long", a80 + "b", a80},
		{"a word ends at the limit", a80 + " b", a80},
		{"a word ends one past the limit", strings.Repeat("a", 40) + " " + strings.Repeat("b", 40) + " c", strings.Repeat("a", 40)},
		{"spaces before the cut", strings.Repeat("a", 70) + "    " + strings.Repeat("b", 40), strings.Repeat("a", 70)},
		{"other spaces", strings.Repeat("a", 70) + "\u2003" + strings.Repeat("b", 40), strings.Repeat("a", 70)},
		{"characters, not bytes", strings.Repeat("é", 80) + "x", strings.Repeat("é", 80)},
		{"a line of Windows", "Zeile\r\nzwei", "Zeile"},
		{"no spaces in the language", strings.Repeat("日", 100), strings.Repeat("日", 80)},
	} {
		is(t, ask[string](b, "select throughline.title_of($1)", c.content), c.want, "%s", c.name)
	}
}

func TestTitleOfAnything(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.SampledFrom([]rune("aé日 \n\t👋")), 0, 300, -1)).Draw(t, "content")
		content = strings.TrimSpace(strings.ReplaceAll(content, "\x00", "")) // as a message is stored
		title := ask[string](b, "select throughline.title_of($1)", content)
		if utf8.RuneCountInString(title) > 80 || title != strings.TrimSpace(title) || strings.Contains(title, "\n") {
			t.Errorf("%q", title)
		}
		if !strings.HasPrefix(content, title) || title == "" && content != "" {
			t.Errorf("%q is not the beginning", title)
		}
	})
}

// untitled is a chat of so many turns with the title of its first message, which a job is to change.
func (s shelf) untitled(turns int) (chatID uuid.UUID, asked int) {
	s.t.Helper()
	first := firstTurn("My secret question.")
	first.Title = ""
	s.turns.enqueue.Title = func(context.Context, pgx.Tx, uuid.UUID) error { asked++; return nil }
	s.exchange(first, "An answer.")
	for range turns - 1 {
		s.exchange(turnIn(first.ChatID, "Another one."), "Another answer.")
	}
	return first.ChatID, asked
}

func (s shelf) title(chatID uuid.UUID) string {
	return ask[string](s, "select title from chats where id = $1", chatID)
}

// made has the model make a title, while something else happens to the chat.
func (s shelf) made(chatID uuid.UUID, meanwhile func()) string {
	s.t.Helper()
	store := &Titles{Pool: s.pool}
	chat, found, err := store.ReadUntitled(s.t.Context(), chatID)
	mustBe(s.t, tuple(found, err), tuple(true, nil), "read")
	meanwhile()
	noError(s.t, store.WriteTitle(s.t.Context(), chatID, chat, "Of the model"))
	return s.title(chatID)
}

func TestModelTitlesAChatAfterThreeTurns(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	for turns, want := range []int{0, 0, 0, 1, 1, 1, 2} {
		if turns > 0 {
			_, asked := s.untitled(turns)
			is(t, asked, want, "jobs after %d turns", turns)
		}
	}
	chatID, _ := s.untitled(3)
	chat, found, err := (&Titles{Pool: s.pool}).ReadUntitled(t.Context(), chatID)
	is(t, tuple(found, err, len(chat.Said), chat.Said[0], chat.LastSeq, chat.UserID),
		tuple(true, nil, 6, topics.QuestionMessage{Role: "user", Content: "My secret question."}, int64(6), s.user.UserID), "read")
	is(t, s.made(chatID, func() {}), "Of the model", "the title")
	_, found, err = (&Titles{Pool: s.pool}).ReadUntitled(t.Context(), chatID)
	is(t, tuple(found, err), tuple(false, nil), "a chat with a title")
	_, found, err = (&Titles{Pool: s.pool}).ReadUntitled(t.Context(), uuid.New())
	is(t, tuple(found, err), tuple(false, nil), "no chat")
	again := turnIn(chatID, "And?")
	s.turns.enqueue.Title = func(context.Context, pgx.Tx, uuid.UUID) error { t.Error("asked again"); return nil }
	for range 3 {
		s.exchange(again, "So.")
		again = turnIn(chatID, "And?")
	}
}

// What is done to a chat while the model is asked counts, and so does what is done afterwards.
func TestTitleGoesWithItsWords(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	memories := rememberingOf(s.bed)
	for what, c := range map[string]struct {
		do                    func(chatID uuid.UUID)
		meanwhile, afterwards string
	}{
		"a person gives one":   {func(id uuid.UUID) { s.rename(id, "Mine") }, "Mine", "Mine"},
		"the same as it was":   {func(id uuid.UUID) { s.rename(id, s.title(id)) }, "My secret question.", "Of the model"},
		"a person gives it up": {func(id uuid.UUID) { s.rename(id, "") }, "Of the model", ""},
		"a phone gives one":    {func(id uuid.UUID) { s.exec("update chats set title = 'Mine' where id = $1", id) }, "Mine", "Mine"},
		"a message is deleted": {func(id uuid.UUID) { s.exec("delete from messages where chat_id = $1 and seq = 1", id) }, "Another one.", "Another one."},
		"a reply is edited": {func(id uuid.UUID) { s.exec("update messages set content = 'No.' where chat_id = $1 and seq = 2", id) },
			"My secret question.", "My secret question."},
		"the chat is cleared": {func(id uuid.UUID) { s.clear(id) }, "My secret question.", "My secret question."},
		"a memory is forgotten": {func(id uuid.UUID) {
			memory := memories.said("Asks.", ask[uuid.UUID](s, "select id from messages where chat_id = $1 and seq = 3", id))
			noError(t, memories.deleteOrChange(memory, api.MemoryChange{}))
		}, "Of the model", "My secret question."},
	} {
		chatID, _ := s.untitled(3)
		is(t, s.made(chatID, func() { c.do(chatID) }), c.meanwhile, "%s while the model is asked", what)
		chatID, _ = s.untitled(3)
		s.made(chatID, func() {})
		c.do(chatID)
		is(t, s.title(chatID), c.afterwards, "%s afterwards", what)
	}
}

func (s shelf) rename(chatID uuid.UUID, title string) {
	must(s.ChangeChat(s.t.Context(), s.user, chatID, api.ChatChange{Title: api.To(title)}))(s.t)
}

// A title comes in as whose it was.
func TestTitlesAreExported(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	s := shelfOf(p.bed)
	for by, give := range map[string]func(uuid.UUID){
		`"titled_by":"first_message"`: func(uuid.UUID) {},
		`"titled_by":"model"`:         func(id uuid.UUID) { s.made(id, func() {}) },
		"":                            func(id uuid.UUID) { s.rename(id, "Mine") },
	} {
		chatID, _ := s.untitled(2)
		give(chatID)
		text := p.mustExport(p.user, chatID, transfer.FormatLines)
		is(t, strings.Contains(text, by) && strings.Contains(text, "titled_by") == (by != ""), true, "%s in %s", by, text)
		other := p.newUser()
		imported := p.mustImport(other, text).Chats[0].ChatID
		is(t, s.title(imported), s.title(chatID), "the title")
		is(t, strings.Contains(p.mustExport(other, imported, transfer.FormatLines), by), true, "exported again")
		s.exec("update messages set content = 'Other words.' where chat_id = $1 and seq = 1", imported)
		want := "Other words."
		if by == "" {
			want = "Mine"
		}
		is(t, s.title(imported), want, "%s: the title after the first message was edited", by)
	}
}
