package postgres

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/google/uuid"
)

// index indexes a chat whole.
func (b *bed) index(chatID uuid.UUID) {
	b.t.Helper()
	b.exec("select set_config('request.jwt.claims', $1, false), throughline.index_turns($2, null)", b.user.Claims, chatID)
}

func (b *bed) recaller() *recall.Recaller {
	return recall.New(recall.Config{Store: NewRecall(b.pool)})
}

func TestRecallFindsATurnByItsWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.keep(b.user, "My dentist is called Dr. Bukowski.", "Noted.", "Which bow is the best for me?", "A carbon one.", "I bought a violin.", "Great!")
	b.index(chatID)
	found, err := b.recaller().Search(t.Context(), b.user, recall.Query{ChatID: chatID, Text: "What was the name of my dentist?", Limit: 5})
	t.Logf("%+v %v", found, err)
	found, err = b.recaller().Recall(t.Context(), b.user, recall.Query{ChatID: chatID, Text: "Where did I buy the violin?", Limit: 5})
	t.Logf("%+v %v", found, err)
}
