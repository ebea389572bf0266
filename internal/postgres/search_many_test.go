package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// fillSearched stores so many messages of 75 words each in 200 chats, and indexes their turns. It returns one of the chats.
func (b *bed) fillSearched(messages int) uuid.UUID {
	b.t.Helper()
	admin := testkit.Connect(b.t, b.db.AdminDSN)
	testkit.Exec(b.t, admin, "set session_replication_role = replica") // no triggers and no checks of foreign keys
	testkit.Exec(b.t, admin, "create temporary table filled as select n, gen_random_uuid() as id from generate_series(1, 200) n")
	testkit.Exec(b.t, admin, "insert into chats (id, user_id, last_seq) select id, $1, $2::int / 200 from filled", b.user.UserID, messages)
	testkit.Exec(b.t, admin, "insert into conversation_briefs (chat_id, user_id) select id, $1 from filled", b.user.UserID)
	testkit.Exec(b.t, admin, `insert into messages (chat_id, user_id, seq, role, content, token_count, created_at)
		select f.id, $1, s, case when s % 2 = 1 then 'user' else 'assistant' end,
		       concat_ws(' ', 'a', case when (f.n + s) % 50 > 0 then 'nearly' end, case when s % 4 < 2 then 'common kite' else 'kite common' end,
		         case when s % 2 = 0 then 'red' else 'green' end, case when (f.n + s) % 200 = 7 then 'seldom' end,
		         case when (f.n + s) % 3300 = 9 then 'rare' end, case when f.n * s % 3300 = 8 then 'scarce' end, case when f.n * s % 500 = 6 then 'blue heron' end,
		         w.words),
		       90, now() - make_interval(secs => f.n * 1000 + s)
		  from filled f cross join generate_series(1, $2::int / 200) s
		 cross join lateral (select string_agg('w' || hashint4(f.n * 100003 + s * 71 + k) % 3000 + 3000, ' ') as words from generate_series(1, 70) k) w`,
		b.user.UserID, messages)
	testkit.Exec(b.t, admin, "reset session_replication_role")
	for more := true; more; {
		more = ask[bool](b, "select bool_or(throughline.index_chat(id, null)) from chats")
	}
	for _, table := range []string{"chats", "messages", "turn_index"} {
		testkit.Exec(b.t, admin, "vacuum analyze "+table)
	}
	return ask[uuid.UUID](b, "select id from chats limit 1")
}

// Searches among many messages find what is there. With -v the test says how long they take.
func TestSearchOfManyMessages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.fillSearched(manyMessages())
	for _, search := range []struct {
		query history.SearchQuery
		where string // that of the messages that match
	}{
		{history.SearchQuery{Text: "red"}, `content ~ '\mred\M'`},
		{history.SearchQuery{Text: "nearly"}, `content ~ '\mnearly\M'`},
		{history.SearchQuery{Text: "seldom"}, `content ~ '\mseldom\M'`},
		{history.SearchQuery{Text: "rare"}, `content ~ '\mrare\M'`},
		{history.SearchQuery{Text: `"blue heron"`}, `content ~ '\mblue heron\M'`},
		{history.SearchQuery{Text: `"common kite"`}, `content ~ '\mcommon kite\M'`},
		{history.SearchQuery{Text: "red", ChatID: chatID}, `content ~ '\mred\M' and chat_id = '` + chatID.String() + `'`},
		{history.SearchQuery{Text: "seldom -red"}, `content ~ '\mseldom\M' and content !~ '\mred\M'`},
		{history.SearchQuery{Text: "red -nearly"}, `content ~ '\mred\M' and content !~ '\mnearly\M'`},
		{history.SearchQuery{Text: "rare scarce", Mode: history.ModeAny}, `content ~ '\m(rare|scarce)\M'`},
		{history.SearchQuery{Text: "red green common kite nearly", Mode: history.ModeAny}, `true`},
	} {
		search.query.Limit = history.MaxSearchResults
		fastest := time.Hour
		var ids []uuid.UUID
		for range 3 {
			began := time.Now()
			results, err := b.searches().Search(t.Context(), b.user, search.query)
			if err != nil {
				t.Fatal(err)
			}
			fastest = min(fastest, time.Since(began))
			ids = ids[:0]
			for _, result := range results {
				ids = append(ids, result.MessageID)
			}
		}
		matches := ask[int](b, "select count(*) from messages where "+search.where)
		right := ask[int](b, "select count(*) from messages where "+search.where+" and id = any ($1)", ids)
		t.Logf("%s, %s: %d matches, %s", search.query.Text, search.query.Mode, matches, fastest)
		if len(ids) != min(matches, search.query.Limit) || right != len(ids) {
			t.Errorf("%s, %s: %d results, %d of them right, of %d", search.query.Text, search.query.Mode, len(ids), right, matches)
		}
	}
}
