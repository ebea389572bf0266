package postgres

import (
	"math"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// indexedTurns makes a chat with turns of two messages each, and their rows of the index.
func (b *bed) indexedTurns(turns int) uuid.UUID {
	b.t.Helper()
	chatID := b.emptyChat()
	b.exec(`insert into messages (chat_id, role, content, token_count)
		select $1, case when n % 2 = 1 then 'user' else 'assistant' end, 'words of message ' || n, 6 from generate_series(1, $2) n`, chatID, 2*turns)
	b.exec(`insert into turn_index (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes)
		select chat_id, seq, user_id, seq + 1, seq, 1, created_at, 12, to_tsvector('simple', content), 4 from messages where chat_id = $1 and role = 'user'`, chatID)
	return chatID
}

// axis is the unit vector along one axis.
func axis(n int) []float32 {
	vector := make([]float32, recall.VectorSize)
	vector[n] = 1
	return vector
}

func (b *bed) bareTurns(v *TurnVectors, chatID uuid.UUID, model string, after int64, most int) []recall.Bare {
	b.t.Helper()
	turns, of, err := v.Bare(b.t.Context(), chatID, model, recall.Bare{Seq: after}, most)
	if err != nil || len(turns) > 0 && of != (recall.For{UserID: b.user.UserID, ChatID: chatID}) {
		b.t.Fatalf("turns of %v, %v", of, err)
	}
	return turns
}

func TestVectorsAreStoredForTheirWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	e := NewTurnVectors(b.pool)
	chatID := b.indexedTurns(3)
	turns := b.bareTurns(e, chatID, "m", 0, 2)
	const want = "User: words of message 1\nAssistant: words of message 2"
	if len(turns) != 2 || turns[0].Seq != 1 || turns[1].Seq != 3 || turns[0].Text != want || turns[0].Words == turns[1].Words {
		t.Fatalf("%+v", turns)
	}
	if rest := b.bareTurns(e, chatID, "m", 3, 2); len(rest) != 1 || rest[0].Seq != 5 {
		t.Errorf("after the second: %+v", rest)
	}
	b.exec("update turn_index set tsv = to_tsvector('simple', 'changed') where seq = 3")
	saved, err := e.Save(t.Context(), chatID, "m", []recall.Made{
		{Bare: turns[0], Vector: axis(7)}, {Bare: turns[1], Vector: axis(8)}, {Bare: recall.Bare{Seq: 99, Words: turns[0].Words}},
	})
	is(t, tuple(err, saved), tuple(nil, 1), "vectors are stored")
	is(t, ask[string](b, "select string_agg(seq || coalesce(embedding_model, '-'), ',' order by seq) from turn_index"), "1m,3-,5-", "the models of the turns")
	if again := b.bareTurns(e, chatID, "m", 0, 9); len(again) != 2 || again[0].Seq != 3 || again[0].Words == turns[1].Words {
		t.Errorf("%+v", again)
	}
	is(t, len(b.bareTurns(e, chatID, "another", 0, 9)), 3, "of another model")
	if cosine := ask[float64](b, `select -(embedding operator(throughline.<#>) ('[' || repeat('0,', 7) || '1' || repeat(',0',
		504) || ']')::throughline.embedding) from turn_index where seq = 1`); math.Abs(cosine-1) > 1e-9 {
		t.Errorf("another vector is stored: cosine %f", cosine)
	}
}

// A turn whose messages are gone, and one that means nothing, must not be asked about for ever.
func TestTurnsWithoutAVectorAreDone(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	e := NewTurnVectors(b.pool)
	chatID := b.indexedTurns(1)
	b.exec("alter table messages disable trigger user")
	b.exec("delete from messages")
	turns := b.bareTurns(e, chatID, "m", 0, 9)
	mustBe(t, len(turns), 1, "%+v", turns)
	if saved, err := e.Save(t.Context(), chatID, "m", []recall.Made{{Bare: turns[0]}}); err != nil || saved != 1 {
		t.Errorf("%d, %v", saved, err)
	}
	is(t, b.bareTurns(e, chatID, "m", 0, 9), nil, "turns that are left")
	b.exec("delete from chats")
	is(t, must(e.Save(t.Context(), chatID, "m", []recall.Made{{Bare: turns[0], Vector: axis(1)}}))(t), 0, "of a chat that is gone")
	is(t, b.bareTurns(e, chatID, "m", 0, 9), nil, "turns of a chat that is gone")
}

func TestScalesAreStored(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	e := NewEmbeddings(b.pool, 256)
	read := func() []string {
		scale, found, err := e.ReadScale(t.Context(), "m")
		return tuple(scale, found, err)
	}
	is(t, read(), tuple(recall.Scale{}, false, nil), "none")
	first, newer := recall.Scale{P50: .1, P99: .5, List: 1}, recall.Scale{P50: .2, P99: .4, Languages: "en", List: 2}
	for _, c := range []struct{ saved, want recall.Scale }{
		{first, first}, {recall.Scale{P50: .2, P99: .6, List: 1}, first}, {newer, newer}, {first, newer}, // a newer list of sentences counts
	} {
		noError(t, e.SaveScale(t.Context(), "m", c.saved))
		is(t, read(), tuple(c.want, true, nil), "after %+v", c.saved)
	}
	is(t, ask[int](b, "select dims from embedding_models"), 256, "dims")
}
