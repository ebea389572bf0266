package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// keepIndexed is keep, and indexes the chat.
func (b *bed) keepIndexed(user auth.Principal, contents ...string) uuid.UUID {
	chatID := b.keep(user, contents...)
	noError(b.t, b.index.RunIndexTurns(b.t.Context(), chatID, 0))
	return chatID
}

// recalled returns the texts of the messages that a search finds, best first.
func (b *bed) recalled(user auth.Principal, query recall.Query) []string {
	query.Limit = cmp.Or(query.Limit, 10)
	found := must((&recall.Recaller{Store: &Recall{Pool: b.pool}}).Search(b.t.Context(), user, query))(b.t)
	var messages []recall.Message
	for _, turn := range found.Turns {
		messages = append(messages, turn.Messages...)
	}
	slices.SortStableFunc(messages, func(a, b recall.Message) int { return cmp.Compare(b.Score, a.Score) })
	texts := []string{}
	for _, m := range messages {
		texts = append(texts, m.Text)
	}
	return texts
}

func TestRecallFindsTurnsByTheirWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.keepIndexed(b.user, "My dentist is called Dr. Bukowski.", "Noted.", "I need a better bow.", "A carbon one.",
		"I bought a violin in Graz.", "Great!", "東京の歯医者に行きました。", "はい。", "Der Zahnarzt heißt Müller.", "Gut.")
	for question, want := range map[string]string{
		"What was the name of my dentist?": "My dentist is called Dr. Bukowski.",
		"Where did I buy the violin?":      "I bought a violin in Graz.", // by another form of the verb
		"歯医者はどこ？":                          "東京の歯医者に行きました。",
		"Wie heißt der Zahnarzt?":          "Der Zahnarzt heißt Müller.",
		"bows":                             "I need a better bow.",
	} {
		got := b.recalled(b.user, recall.Query{ChatID: chatID, Text: question})
		assert.Truef(t, len(got) != 0 && got[0] == want, "%s: %q", question, got)
	}
	for _, question := range []string{"umbrella", "?!", "'", `\`, "umbrella & !(x <-> y:*)", "chat " + chatID.String()} {
		is(t, len(b.recalled(b.user, recall.Query{ChatID: chatID, Text: question})), 0, "%s", question)
	}
}

func TestRecallKeepsToItsScope(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keep(b.newUser(), "Another's kite.")
	// Nothing is indexed yet: a search finds the latest message, in the chat and in all chats.
	chatID := b.keep(b.user, "A red kite.", "Yes.", "A blue kite.", "Yes.", "A green kite.", "Yes.")
	b.keep(b.user, "A white kite.")
	for _, c := range []struct {
		query recall.Query
		want  int // messages that speak of a kite
	}{
		{recall.Query{ChatID: chatID}, 3},
		{recall.Query{}, 4},
		{recall.Query{ChatID: chatID, After: 1}, 2},
		{recall.Query{ChatID: chatID, Before: 5}, 2},
		{recall.Query{ChatID: chatID, After: 1, Before: 5}, 1},
		{recall.Query{ChatID: chatID, TopicID: uuid.New()}, 0},
	} {
		c.query.Text = "kite"
		got := strings.Count(strings.Join(b.recalled(b.user, c.query), " "), "kite")
		is(t, got, c.want, "%+v finds", c.query)
	}
	is(t, b.count("turn_index"), 4, "turns are indexed, want those of the user who searched")
	shelf{bed: b}.expire(chatID)
	is(t, len(b.recalled(b.user, recall.Query{Text: "kite"})), 1, "with an expired chat")
	wantFault(t, errOf((&Recall{Pool: b.pool}).Matches(t.Context(), b.user, recall.Query{ChatID: chatID}, [][]string{{"kite"}})), fault.ChatExpired, "in the chat")
}

func TestRecallIsOfTheUserAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	other := b.newUser()
	chatID := b.keepIndexed(b.user, "The canary is yellow.")
	is(t, len(b.recalled(other, recall.Query{Text: "canary"})), 0, "another user finds")
	store := &Recall{Pool: b.pool}
	wantFault(t, errOf(store.Matches(t.Context(), other, recall.Query{ChatID: chatID}, [][]string{{"canary"}})), fault.ChatNotFound, "in the chat")
	turn := recall.Span{TurnID: recall.TurnID{ChatID: chatID, Seq: 1}, LastSeq: 1}
	texts, _, err := store.Texts(t.Context(), other, []recall.Span{turn}, uuid.Nil)
	assert.Truef(t, err == nil && len(texts) == 0, "of the turn: %v, %v", texts, err)
	b.exec("update turn_index set embedding = ('[1' || repeat(',0', 511) || ']')::throughline.embedding, embedding_model = 'm'")
	near := recall.Vector{Model: "m", Values: []float32{1}}
	if found, err := store.Nearness(t.Context(), b.user, recall.Query{}, near, nil); err != nil || len(found.Turns) != 1 || found.Turns[0].Cosine < .99 ||
		found.Turns[0].TurnID != turn.TurnID {
		t.Errorf("the owner is near to %+v, %v", found, err)
	}
	found := must(store.Nearness(t.Context(), b.user, recall.Query{ChatID: chatID}, recall.Vector{Model: "another", Values: []float32{1}}, nil))(t)
	is(t, len(found.Turns), 0, "vectors of another model: %+v", found)
	is(t, len(must(store.Nearness(t.Context(), other, recall.Query{}, near, nil))(t).Turns), 0, "another user is near to")
}

// Own and Asked tell how often the turn and the question before it hold a word.
func TestRecallCountsWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.keepIndexed(b.user, "kite kite", "kite", "no", "a kite", "nothing", "of it")
	found, err := (&Recall{Pool: b.pool}).Matches(t.Context(), b.user, recall.Query{ChatID: chatID}, [][]string{{"umbrella"}, {"kite"}})
	require.Truef(t, err == nil && found.Turns == 3 && len(found.Found) == 2, "%+v, %v", found, err)
	slices.SortFunc(found.Found, func(a, b recall.Match) int { return cmp.Compare(a.Seq, b.Seq) })
	first, second := found.Found[0], found.Found[1]
	assert.Truef(t, first.Word == 1 && first.Own > 1.9 && first.Asked == 0 && first.LastSeq == 2, "%+v", first)
	assert.Truef(t, math.Abs(second.Own-1) <= .01 && second.Asked > 1 && second.AskedSeq == 1, "%+v", second)
	assert.Truef(t, !first.SaidAt.IsZero() && !first.SaidAt.After(time.Now()), "said at %v", first.SaidAt)
}

// The words of a question are looked up in the index, and only rows that hold one are read.
func TestRecallReadsOnlyTurnsWithTheWords(t *testing.T) {
	t.Parallel()
	b := newOwnBed(t)
	chatID := b.emptyChat()
	b.exec(`insert into turn_index (chat_id, seq, user_id, last_seq, words_from, segment, said_at, tokens, tsv, lexemes)
		select $1::uuid, n, $2::uuid, n, n, 0, now(), 6, array_to_tsvector(array['chat ' || $1::uuid, 'user ' || $2::uuid]) ||
		       setweight(to_tsvector('throughline.words', 'some words of turn ' || n || case when n % 100 = 0 then ' kite' else '' end), 'A'), 6
		  from generate_series(1, 5000) n`, chatID, b.user.UserID)
	b.exec("select gin_clean_pending_list('turn_index_tsv_idx')")
	b.exec("analyze turn_index")
	const row = "select i.seq from public.turn_index i where i.tsv @@ (quote_literal('chat ' || $1::text)::tsquery && 'kite') limit 1201"
	admin := must(pgx.Connect(t.Context(), b.db.AdminDSN))(t)
	defer admin.Close(t.Context())
	tx := must(admin.Begin(t.Context()))(t)
	plan := explain(t, tx, row, chatID.String())
	assert.Truef(t, strings.Contains(plan, "turn_index_tsv_idx") && mostRows(t, plan) <= 60, "%v", plan)
}

// Postgres ends a lookup itself before the deadline: the connection is kept, and there is no search left in it.
func TestLateRecallKeepsItsConnection(t *testing.T) {
	t.Parallel()
	b := newBedWith(t, memory.DefaultLimits(), 1)
	chatID := b.keepIndexed(b.user, "My dentist is called Dr. Bukowski.", "Noted.")
	store := &Recall{Pool: b.pool}
	const backend = "select pg_backend_pid()"
	before := ask[int](b, backend)
	conn := testkit.Connect(t, b.db.DSN)
	tx := must(conn.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	noError(t, errOf(tx.Exec(t.Context(), "lock table turn_index")))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := store.Matches(ctx, b.user, recall.Query{ChatID: chatID}, [][]string{{"dentist"}})
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("%v, after the deadline: %v", err, ctx.Err())
	}
	after := ask[int](b, backend)
	assert.Truef(t, after == before || b.db.Pooled(), "connection %d became %d", before, after)
}

// A question of a new chat finds turns of the user's other chats, which are not indexed yet, and no others.
func TestRecallLooksElsewhereWhereTheChatSaysNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	other := b.keep(b.user, "For my bow I chose the amber rosin.", "Noted.")
	b.keep(b.newUser(), "For my bow I chose the black rosin.", "Noted.")
	asking := b.keepIndexed(b.user, "The dog barks.", "Yes.")
	off := b.turns
	b.reading()
	for turns, want := range map[*Turns]bool{off: false, b.turns: true} {
		is(t, must(turns.ReadChat(t.Context(), b.user, asking))(t).Chat.RecallsOthers, want, "others may be quoted where long-term memory is on")
	}
	found := func(query recall.Query) string {
		t.Helper()
		query.ChatID, query.Limit = asking, 6
		var all []string
		for _, turn := range must((&recall.Recaller{Store: &Recall{Pool: b.pool}}).Recall(t.Context(), b.user, query))(t).Turns {
			is(t, turn.Elsewhere, turn.ChatID == other, "%+v", turn)
			all = append(all, turn.Messages[0].Content)
		}
		return strings.Join(all, " ")
	}
	const rosin, dog = "Which rosin did I choose?", "Which dog barks? What about my rosin?"
	for _, c := range []struct {
		query recall.Query
		want  string
	}{
		{recall.Query{Text: rosin}, ""},
		{recall.Query{Text: rosin, Elsewhere: true}, "For my bow I chose the amber rosin."},
		{recall.Query{Text: rosin, Elsewhere: true, OwnShown: true}, "For my bow I chose the amber rosin."},
		{recall.Query{Text: dog, Elsewhere: true}, "The dog barks."}, // its own turns come first
		{recall.Query{Text: dog, Elsewhere: true, OwnShown: true}, "For my bow I chose the amber rosin."},
		{recall.Query{Text: dog, OwnShown: true}, ""},
		{recall.Query{Text: "ok, thanks", Elsewhere: true, OwnShown: true}, ""},
	} {
		is(t, found(c.query), c.want, "%+v", c.query)
	}
}

// readAll finds messages as find_messages does, with their ranks, by reading each of the user's.
const readAll = `
	select coalesce(array_agg(f.id || ' ' || f.rank order by f.created_at desc, f.id desc), '{}')
	  from (select m.id, m.created_at, ts_rank_cd(v.words, $1::tsquery) as rank
	          from messages m, lateral (select to_tsvector('throughline.words', throughline.searchable(m.content)) as words) v
	         where m.user_id = throughline.uid() and m.superseded_by is null and btrim(m.content) <> '' and v.words @@ $1::tsquery
	           and ($2::uuid is null or m.chat_id = $2)
	         order by m.created_at desc, m.id desc limit 500) f`

const findAll = `
	select coalesce(array_agg(f.id || ' ' || f.rank order by f.place), '{}')
	  from throughline.find_messages($1::tsquery, $2, null, null, null, 500) with ordinality f (id, rank, place)`

// words are few, so that they meet in all ways.
var words = strings.Fields("slow slow fast scale scale bow bows running run the a 東京 大阪 京 well-known e-mail")

func sentence(random *rand.Rand, most int) string {
	said := make([]string, random.IntN(most))
	for i := range said {
		said[i] = words[random.IntN(len(words))]
	}
	return strings.Join(said, " ")
}

// talk adds messages to a chat: questions, replies, what tools return, orders of the system, and blank ones.
func (b *bed) talk(random *rand.Rand, chatID uuid.UUID, messages int) {
	roles := []string{"user", "assistant", "user", "assistant", "user", "assistant", "tool", "system"}
	for range messages {
		content := sentence(random, 12)
		if random.IntN(30) == 0 {
			content = strings.Repeat(sentence(random, 4)+" ", 300)
		}
		b.exec(`insert into messages (chat_id, role, content, created_at) values ($1, $2, $3, timestamptz '2026-11-20' + $4 * interval '1 second')`,
			chatID, roles[random.IntN(len(roles))], content, random.IntN(100_000))
	}
}

func (b *bed) wantSearchesRight(stage string, chats []uuid.UUID) {
	b.t.Helper()
	for _, text := range []string{
		"scale", "slow scale", "slow or fast", "bow -slow", "-slow", "-slow -fast or bow", `"slow scale"`, `bow -"slow scale"`, "東京", "東京 -大阪", "京",
		"well-known", "e-mail bow", "is the bow running", "absent", "absent or bow", `"the bow" or "a scale"`,
	} {
		query := ask[string](b, "select (websearch_to_tsquery('throughline.words', $1))::text", api.WebSearch(text))
		for _, in := range []uuid.NullUUID{{}, {UUID: chats[0], Valid: true}} {
			tx := b.begin()
			mustExec(b.t, tx, "select set_config('request.jwt.claims', json_build_object('sub', $1::text)::text, true)", b.user.UserID.String())
			var want, got []string
			noError(b.t, tx.QueryRow(b.t.Context(), readAll, query, in).Scan(&want))
			noError(b.t, tx.QueryRow(b.t.Context(), findAll, query, in).Scan(&got))
			_ = tx.Rollback(b.t.Context())
			is(b.t, got, want, "%s: %s in %v", stage, text, in)
		}
	}
}

// After any order of messages, indexing, edits and deletions, a search finds the texts as they are now.
func TestSearchFindsWhatMessagesSay(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	stranger := b.keep(b.newUser(), "slow scale", "fast bow")
	b.exec("select throughline.index_chat($1, null)", stranger)
	var chats []uuid.UUID
	for range 4 {
		chats = append(chats, b.keep(b.user))
	}
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for round := range rounds {
		for _, chatID := range chats {
			b.talk(random, chatID, 15)
		}
		b.wantSearchesRight(fmt.Sprintf("round %d, said", round), chats)
		for _, chatID := range chats[:3] {
			b.exec("select throughline.index_chat($1, (select last_seq - $2 from chats where id = $1))", chatID, random.IntN(10))
		}
		b.wantSearchesRight(fmt.Sprintf("round %d, indexed", round), chats)
		for _, chatID := range chats {
			b.exec("update messages set content = $3 where chat_id = $1 and seq % 7 = $2", chatID, random.IntN(7), sentence(random, 8))
			b.exec("update messages set role = 'tool' where chat_id = $1 and seq % 13 = $2 and role = 'assistant'", chatID, random.IntN(13))
			b.exec("delete from messages where chat_id = $1 and seq % 11 = $2", chatID, random.IntN(11))
			b.exec("update messages m set superseded_by = $3, token_count = 0 where chat_id = $1 and seq % 17 = $2 and role = 'assistant'", chatID,
				random.IntN(17), uuid.New())
		}
		b.wantSearchesRight(fmt.Sprintf("round %d, changed", round), chats)
	}
	b.checkIndex()
	// As rows are that were written before they told messages apart.
	b.exec("update turn_index set second_seq = null, tsv = setweight(tsv, 'A')")
	b.wantSearchesRight("not told apart", chats)
}

// A turn is found by all of its words, however long it is, and where they found no room it is read: also where a word is there so
// often that the second message's finds none. Words that come by an edit that leaves the number of tokens as it is are found.
func TestSearchOfHugeTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	often, once := strings.Repeat("again and ", 300), "again"
	b.keepIndexed(b.user, often, once)
	b.wantFound("again", often, once)
	b.wantFound("-and", once)
	edited := b.keep(b.user, "a kite", " ")
	b.exec("select throughline.index_chat($1, 1)", edited)
	b.exec("update messages set content = case seq when 1 then ' ' else 'a kite' end where chat_id = $1", edited)
	b.wantFound("kite", "a kite")
	chatID := b.keepIndexed(b.user, "What does the log say?", "I look.")
	for n := range 60 {
		var content strings.Builder
		fmt.Fprintf(&content, "begin%d ", n)
		for i := 0; content.Len() < 50_000; i++ {
			fmt.Fprintf(&content, "w%dx%d ", n, i)
		}
		b.exec("insert into messages (chat_id, role, content) values ($1, 'tool', $2)", chatID, content.String())
	}
	b.exec("select throughline.index_chat($1, null)", chatID)
	is(t, ask[bool](b, "select tsv @@ $$'cut short'$$ and second_seq = 2 from turn_index where chat_id = $1", chatID), true, "the turn's words found room")
	for _, text := range []string{"begin0", "begin3 w3x4", "begin20", "begin59", `"begin59 w59x0"`, "what log", "look"} {
		is(t, len(b.found(api.SearchQuery{Text: text})), 1, "%s", text)
	}
	for _, text := range []string{"begin0 begin1", "log look", `"begin59 w59x1"`} {
		b.wantFound(text)
	}
}

// Of the messages without an index entry, the newest 10 000 are read.
func TestSearchOfManyUnindexedMessages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keep(b.user, "the oldest kite")
	chatID := b.keep(b.user)
	b.exec(`insert into messages (chat_id, role, content, created_at)
		select $1, 'user', case when n = 1 then 'an old kite' when n % 5000 = 0 then 'kite ' || n else 'word' end, timestamptz '2026-11-21' + n * interval '1 second'
		  from generate_series(1, 10001) n`, chatID)
	b.wantFound("kite", "kite 5000", "kite 10000")
	for range 21 { // 500 at once
		b.exec("select throughline.index_chat($1, null)", chatID)
	}
	b.wantFound("kite", "kite 5000", "kite 10000", "an old kite", "the oldest kite")
}

// fillSearched stores so many messages of 75 words each in 200 chats, and indexes their turns. It returns one of the chats.
func (b *bed) fillSearched(messages int) uuid.UUID {
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

// Searches among many messages find the messages. With -v the test says how long they take.
func TestSearchOfManyMessages(t *testing.T) {
	t.Parallel()
	tries := 3
	if testing.Short() {
		tries = 1
	}
	b := newOwnBed(t)
	chatID := b.fillSearched(manyMessages())
	for _, search := range []struct {
		query api.SearchQuery
		where string // that of the messages that match
	}{
		{api.SearchQuery{Text: "red"}, `content ~ '\mred\M'`},
		{api.SearchQuery{Text: "nearly"}, `content ~ '\mnearly\M'`},
		{api.SearchQuery{Text: "seldom"}, `content ~ '\mseldom\M'`},
		{api.SearchQuery{Text: "rare"}, `content ~ '\mrare\M'`},
		{api.SearchQuery{Text: `"blue heron"`}, `content ~ '\mblue heron\M'`},
		{api.SearchQuery{Text: `"common kite"`}, `content ~ '\mcommon kite\M'`},
		{api.SearchQuery{Text: "red", ChatID: chatID}, `content ~ '\mred\M' and chat_id = '` + chatID.String() + `'`},
		{api.SearchQuery{Text: "seldom -red"}, `content ~ '\mseldom\M' and content !~ '\mred\M'`},
		{api.SearchQuery{Text: "red -nearly"}, `content ~ '\mred\M' and content !~ '\mnearly\M'`},
		{api.SearchQuery{Text: "rare scarce", Mode: api.ModeAny}, `content ~ '\m(rare|scarce)\M'`},
		{api.SearchQuery{Text: "red green common kite nearly", Mode: api.ModeAny}, `true`},
	} {
		search.query.Limit = 100
		fastest := time.Hour
		var ids []uuid.UUID
		for range tries {
			began := time.Now()
			results := must(b.searches().Search(t.Context(), b.user, search.query))(t)
			fastest = min(fastest, time.Since(began))
			ids = ids[:0]
			for _, result := range results {
				ids = append(ids, result.MessageID)
			}
		}
		matches := b.count("messages where " + search.where)
		right := b.count("messages where "+search.where+" and id = any ($1)", ids)
		t.Logf("%s, %s: %d matches, %s", search.query.Text, search.query.Mode, matches, fastest)
		is(t, tuple(len(ids), right), tuple(min(matches, search.query.Limit), len(ids)), "%s, %s: results, … of them right, of %d", search.query.Text,
			search.query.Mode, matches)
	}
}
