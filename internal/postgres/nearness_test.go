package postgres

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// Of 3000 turns those nearest to a vector are found by the signs of all vectors, in the index alone, and their cosines are exact. Those
// beside them come with them, and those that are known already; a turn of another topic or from before the last clear does not.
func TestNearnessFindsTheNearest(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	chatID := b.emptyChat()
	b.exec(`insert into turn_index (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes, embedding, embedding_model)
		select $1::uuid, 2 * n - 1, $2::uuid, 2 * n, greatest(2 * n - 3, 1), n / 20, now(), 6, '', 6,
		       ('[' || (select string_agg((random() - .5 + sin(k * (1 + n % 15)))::text, ',') from generate_series(1, 512) k) || ']')::throughline.embedding, 'm'
		  from generate_series(1, 3000) n`, chatID, b.user.UserID)
	b.exec("update turn_index set embedding = extensions.l2_normalize(embedding)")
	admin := testkit.Connect(t, b.db.AdminDSN)
	testkit.Exec(t, admin, "vacuum analyze turn_index")
	exact := map[int64]float64{} // by seq
	var nearest []int64
	rows, _ := admin.Query(t.Context(), `select i.seq, -(i.embedding operator(throughline.<#>) q.embedding) from public.turn_index i, public.turn_index q
		where q.seq = 2001 order by 2 desc`)
	var seq int64
	var cosine float64
	_, err := pgx.ForEachRow(rows, []any{&seq, &cosine}, func() error {
		exact[seq], nearest = cosine, append(nearest, seq)
		return nil
	})
	noError(t, err)
	mustBe(t, len(nearest), 3000, "turns")
	var question recall.Vector
	noError(t, json.Unmarshal([]byte(ask[string](b, "select embedding::text from turn_index where seq = 2001")), &question.Values))
	question.Model = "m"
	far := recall.TurnID{ChatID: chatID, Seq: nearest[len(nearest)-1]}
	recalls := &Recall{Pool: b.pool}
	found := must(recalls.Nearness(t.Context(), b.user, recall.Query{ChatID: chatID}, question, []recall.TurnID{far}))(t).Turns
	got := map[int64]recall.Near{}
	for _, near := range found {
		got[near.Seq] = near
		assert.InDelta(t, exact[near.Seq], near.Cosine, .001, "turn %d", near.Seq)
	}
	assert.True(t, slices.IsSortedFunc(found, func(a, b recall.Near) int { return cmp.Compare(a.Seq, b.Seq) }), "in order of seq")
	among := func(seqs []int64) (count int) {
		for _, seq := range seqs {
			if _, ok := got[seq]; ok {
				count++
			}
		}
		return count
	}
	is(t, among(nearest[:20]), 20, "of the 20 nearest")
	assert.GreaterOrEqual(t, among(nearest[:200]), 190, "of the 200 nearest")
	is(t, among([]int64{far.Seq}), 1, "a turn that is known")
	is(t, among([]int64{nearest[0] - 2, nearest[0] + 2}), 2, "turns beside the nearest")
	assert.LessOrEqual(t, len(found), 3*mostNear+1)
	is(t, got[2001].AskedSeq, int64(1999), "AskedSeq")
	found = must(recalls.Nearness(t.Context(), b.user, recall.Query{ChatID: chatID, After: 2000, Before: 2003}, question, []recall.TurnID{far}))(t).Turns
	assert.Truef(t, len(found) == 1 && found[0].Seq == 2001, "between two seqs: %+v", found)
	is(t, len(must(recalls.Nearness(t.Context(), b.user, recall.Query{ChatID: chatID, TopicID: uuid.New()}, question, nil))(t).Turns), 0, "of a topic")
	is(t, must(recalls.Matches(t.Context(), b.user, recall.Query{ChatID: chatID}, nil))(t).Turns, 3000, "turns to look in")
	tx := must(admin.Begin(t.Context()))(t)
	testkit.Exec(t, tx, "set local enable_seqscan = off; set local enable_bitmapscan = off")
	plan := explain(t, tx, `select i.seq, i.words_from, i.last_seq, i.signs operator(throughline.<~>) repeat('1', 512)::bit(512) as apart
		from public.turn_index i where i.embedding_model = 'm' and i.chat_id = $1 and i.seq > 0 order by apart limit 400`, chatID)
	assert.Contains(t, plan, "Index Only Scan", "the function's statement, of columns of the index alone")
}
