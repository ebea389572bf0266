package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/history"
	"github.com/google/uuid"
)

// foundAny returns the contents that a search for any of the words finds, the best first.
func (b *bed) foundAny(query string) []string {
	b.t.Helper()
	return b.found(history.SearchQuery{Text: query, Mode: history.ModeAny})
}

// Messages with more of the words, and with rarer ones, come first; the mode all finds none of them.
func TestSearchForAnyWord(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	rare, both, common := "The luthier in Cremona", "My cello has a luthier", "I practised the cello"
	b.keep(b.user, common, "The cello again", rare, "Cello and cello", both, "Nothing of it")
	if got := b.foundAny("Which luthier did my cello go to?"); !slices.Equal(got[:2], []string{both, rare}) || len(got) != 5 {
		t.Errorf("found %q", got)
	}
	if got := b.foundAny("cello -luthier"); slices.Contains(got, both) || len(got) != 3 {
		t.Errorf("found %q", got)
	}
	if got := b.foundAny(`"a luthier" Cremona`); len(got) != 2 || !slices.Contains(got, rare) || !slices.Contains(got, both) {
		t.Errorf("found %q", got)
	}
	if got := b.foundAny("is there the"); len(got) != 3 { // only common words: then they are the words
		t.Errorf("found %q", got)
	}
	for _, query := range []string{"violin", "-cello", "!?", "…", `""`, "or", "( | & ) :*", "'; drop table messages; --"} {
		if got := b.foundAny(query); len(got) != 0 {
			t.Errorf("%s finds %q", query, got)
		}
	}
	b.wantFound("Which luthier did my cello go to?")
	b.keep(b.user, "東京タワーの近くで", "大阪だけ")
	if got := b.foundAny("東京で大阪"); len(got) != 2 {
		t.Errorf("found %q", got)
	}
}

// The other parameters mean what they mean in the mode all, and the matches of every word are marked.
func TestSearchForAnyWordOfOneChat(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keep(b.user, "a slow scale")
	chatID := b.keep(b.user, "a slow bow", "a fast scale")
	expired := b.keep(b.user, "an expired scale")
	b.exec("update chats set ttl_hours = 1, created_at = now() - interval '1 day', last_message_at = now() - interval '2 hours' where id = $1", expired)
	b.keep(b.newUser(), "another user's scale")
	until := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		query history.SearchQuery
		want  []string
	}{
		{history.SearchQuery{ChatID: chatID}, []string{"a slow bow", "a fast scale"}},
		{history.SearchQuery{ChatID: chatID, Role: "assistant"}, []string{"a fast scale"}},
		{history.SearchQuery{ChatID: chatID, Before: &until}, []string{"a slow bow"}},
	} {
		c.query.Text, c.query.Mode = "slow scales bow", history.ModeAny
		if got := b.found(c.query); !slices.Equal(got, c.want) {
			t.Errorf("found %q, not %q", got, c.want)
		}
	}
	if got := b.foundAny("scales"); len(got) != 2 {
		t.Errorf("found %q", got)
	}
	results, err := b.searches().Search(t.Context(), b.user, history.SearchQuery{Text: "slow bow", Mode: history.ModeAny, ChatID: chatID, Limit: 1})
	if err != nil || len(results) != 1 || len(results[0].Highlights) != 2 || results[0].Snippet.Text != "a slow bow" || results[0].Rank <= 0 {
		t.Errorf("%+v, %v", results, err)
	}
	if _, err := b.searches().Search(t.Context(), b.user, history.SearchQuery{Text: "bow", Mode: history.ModeAny, ChatID: uuid.New(), Limit: 1}); err == nil {
		t.Error("an unknown chat was searched")
	}
}
