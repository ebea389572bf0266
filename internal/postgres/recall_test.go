package postgres

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/google/uuid"
)

func (b *bed) recaller() *recall.Recaller {
	return recall.New(recall.Config{Store: NewRecall(b.pool)})
}

// search returns what a search of the bed's user finds, the best first.
func (b *bed) search(chatID uuid.UUID, question string) []string {
	b.t.Helper()
	found, err := b.recaller().Search(b.t.Context(), b.user, recall.Query{ChatID: chatID, Text: question, Limit: 5})
	if err != nil {
		b.t.Fatal(err)
	}
	var contents []string
	for _, turn := range found.Turns {
		for _, message := range turn.Messages {
			contents = append(contents, message.Content)
		}
	}
	return contents
}

// Nobody has indexed anything yet: who searches finds what was said a moment ago, in the chat and in all chats.
func TestRecallFindsWhatWasSaidAMomentAgo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.keep(b.user, "My dentist is called Dr. Bukowski.", "Noted.", "Which bow is the best for me?", "A carbon one.", "I bought a violin.", "Great!")
	b.keep(b.newUser(), "My dentist is called Dr. Other.", "Noted.")
	for _, chat := range []uuid.UUID{chatID, uuid.Nil} {
		if got := b.search(chat, "What was the name of my dentist?"); len(got) == 0 || got[0] != "My dentist is called Dr. Bukowski." {
			t.Errorf("found %q", got)
		}
	}
	if rows := testkit.Ask[int](t, b.pool, "select count(*) from turn_index"); rows != 3 {
		t.Errorf("%d turns are indexed, want the 3 of the user who searched", rows)
	}
}

func TestRecallInAPromptPassesTheGate(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.keep(b.user, "My dentist is called Dr. Bukowski.", "Noted.", "Which bow is the best for me?", "A carbon one.", "I bought a violin.", "Great!")
	if err := b.index.IndexTurns(t.Context(), chatID); err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]int64{"Where did I buy the violin?": 5, "ok, thanks!": 0, "What is the capital of Peru?": 0} {
		found, err := b.recaller().Recall(t.Context(), b.user, recall.Query{ChatID: chatID, Text: question, Limit: 5})
		if err != nil || (want == 0) != (len(found.Turns) == 0) || want > 0 && (found.Turns[0].Seq != want || found.How != recall.ByWords) {
			t.Errorf("%s: %+v, %v", question, found, err)
		}
	}
}
