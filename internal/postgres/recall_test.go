package postgres

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// keepIndexed is keep, and indexes the chat.
func (b *bed) keepIndexed(user auth.Principal, contents ...string) uuid.UUID {
	b.t.Helper()
	chatID := b.keep(user, contents...)
	noError(b.t, b.index.IndexTurns(b.t.Context(), chatID))
	return chatID
}

// recalled returns the texts of the messages that a search finds, best first.
func (b *bed) recalled(user auth.Principal, query recall.Query) []string {
	b.t.Helper()
	query.Limit = cmp.Or(query.Limit, 10)
	found := must(recall.New(recall.Config{Store: NewRecall(b.pool)}).Search(b.t.Context(), user, query))(b.t)
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
		if got := b.recalled(b.user, recall.Query{ChatID: chatID, Text: question}); len(got) == 0 || got[0] != want {
			t.Errorf("%s: %q", question, got)
		}
	}
	for _, question := range []string{"umbrella", "?!", "'", `\`, "umbrella & !(x <-> y:*)", "chat " + chatID.String()} {
		is(t, len(b.recalled(b.user, recall.Query{ChatID: chatID, Text: question})), 0, "%s", question)
	}
}

func TestRecallKeepsToItsScope(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.keep(b.newUser(), "Another's kite.")
	// Nothing is indexed yet: who searches finds what was said a moment ago, in the chat and in all chats.
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
	wantFault(t, errOf(NewRecall(b.pool).Matches(t.Context(), b.user, recall.Scope{ChatID: chatID}, [][]string{{"kite"}})), fault.ChatExpired, "in the chat")
}

func TestRecallIsOfTheUserAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	other := b.newUser()
	chatID := b.keepIndexed(b.user, "The canary is yellow.")
	is(t, len(b.recalled(other, recall.Query{Text: "canary"})), 0, "another user finds")
	store := NewRecall(b.pool)
	wantFault(t, errOf(store.Matches(t.Context(), other, recall.Scope{ChatID: chatID}, [][]string{{"canary"}})), fault.ChatNotFound, "in the chat")
	turn := recall.Span{TurnID: recall.TurnID{ChatID: chatID, Seq: 1}, LastSeq: 1}
	if texts, _, err := store.Texts(t.Context(), other, []recall.Span{turn}, uuid.Nil); err != nil || len(texts) > 0 {
		t.Errorf("of the turn: %v, %v", texts, err)
	}
	b.exec("update turn_index set embedding = ('[1' || repeat(',0', 511) || ']')::throughline.embedding, embedding_model = 'm'")
	near := recall.Vector{Model: "m", Values: []float32{1}}
	if found, err := store.Nearness(t.Context(), b.user, recall.Scope{}, near); err != nil || len(found.Turns) != 1 || found.Turns[0].Cosine < .99 ||
		found.Turns[0].TurnID != turn.TurnID {
		t.Errorf("the owner is near to %+v, %v", found, err)
	}
	found := must(store.Nearness(t.Context(), b.user, recall.Scope{ChatID: chatID}, recall.Vector{Model: "another", Values: []float32{1}}))(t)
	is(t, len(found.Turns), 0, "vectors of another model: %+v", found)
	is(t, len(must(store.Nearness(t.Context(), other, recall.Scope{}, near))(t).Turns), 0, "another user is near to")
}

// Own and Asked tell how often the turn and the question before it hold a word.
func TestRecallCountsWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.keepIndexed(b.user, "kite kite", "kite", "no", "a kite", "nothing", "of it")
	found, err := NewRecall(b.pool).Matches(t.Context(), b.user, recall.Scope{ChatID: chatID}, [][]string{{"umbrella"}, {"kite"}})
	if err != nil || found.Turns != 3 || len(found.Found) != 2 {
		t.Fatalf("%+v, %v", found, err)
	}
	slices.SortFunc(found.Found, func(a, b recall.Match) int { return cmp.Compare(a.Seq, b.Seq) })
	first, second := found.Found[0], found.Found[1]
	if first.Word != 1 || first.Own <= 1.9 || first.Asked != 0 || first.LastSeq != 2 {
		t.Errorf("%+v", first)
	}
	if math.Abs(second.Own-1) > .01 || second.Asked <= 1 || second.AskedSeq != 1 {
		t.Errorf("%+v", second)
	}
	if first.SaidAt.IsZero() || first.SaidAt.After(time.Now()) {
		t.Errorf("said at %v", first.SaidAt)
	}
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
	const row = "select i.seq from public.turn_index i where i.tsv @@ (quote_literal('chat ' || $1::text)::tsquery && 'kite') limit 2401"
	admin := must(pgx.Connect(t.Context(), b.db.AdminDSN))(t)
	defer admin.Close(t.Context())
	tx := must(admin.Begin(t.Context()))(t)
	plan := explain(t, tx, row, chatID.String())
	if !strings.Contains(plan, "turn_index_tsv_idx") || mostRows(t, plan) > 60 {
		t.Error(plan)
	}
}

// Postgres ends a lookup itself before the deadline: the connection is kept, and there is no search left in it.
func TestLateRecallKeepsItsConnection(t *testing.T) {
	t.Parallel()
	b := newBedWith(t, memory.DefaultLimits(), 1)
	chatID := b.keepIndexed(b.user, "My dentist is called Dr. Bukowski.", "Noted.")
	store := NewRecall(b.pool)
	const backend = "select pg_backend_pid()"
	before := ask[int](b, backend)
	conn := testkit.Connect(t, b.db.DSN)
	tx := must(conn.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	noError(t, errOf(tx.Exec(t.Context(), "lock table turn_index")))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := store.Matches(ctx, b.user, recall.Scope{ChatID: chatID}, [][]string{{"dentist"}})
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("%v, after the deadline: %v", err, ctx.Err())
	}
	if after := ask[int](b, backend); after != before && !b.db.Pooled() {
		t.Errorf("connection %d became %d", before, after)
	}
}

// A question of a new chat finds turns of the user's other chats, which nobody has indexed yet, and no others.
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
		for _, turn := range must(recall.New(recall.Config{Store: NewRecall(b.pool)}).Recall(t.Context(), b.user, query))(t).Turns {
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
