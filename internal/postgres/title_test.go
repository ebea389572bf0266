package postgres

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/chat"
)

// A chat created without a title gets it from its first message, by the same rule as a chat begun by a
// message.
func TestFirstMessageGivesTheTitle(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, content := range []string{
		"Scales", "  A first line \t\nand another", strings.Repeat("word ", 30), strings.Repeat("x", 100), strings.Repeat("é", 79) + " x y",
		strings.Repeat("a", 80) + " b", "Zeile\r\nzwei", strings.Repeat("ab ", 26) + "abc d",
	} {
		if got := ask[string](b, "select throughline.title_of($1)", strings.TrimSpace(content)); got != chat.Title(content) {
			t.Errorf("%q: SQL says %q, Go says %q", content, got, chat.Title(content))
		}
	}
	untitled := ask[uuid.UUID](b, "insert into chats (user_id) values ($1) returning id", b.user.UserID)
	b.start(turnIn(untitled, "My cello\nis old"))
	titled := ask[uuid.UUID](b, "insert into chats (user_id, title) values ($1, 'Mine') returning id", b.user.UserID)
	b.start(turnIn(titled, "My cello"))
	if got := ask[[]string](b, "select array[(select title from chats where id = $1), (select title from chats where id = $2)]", untitled, titled); got[0] != "My cello" || got[1] != "Mine" {
		t.Errorf("titles %q", got)
	}
}
