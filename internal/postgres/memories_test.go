package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// memorize stores memories of a user, and returns their ids by their contents.
func (b *bed) memorize(user auth.Principal, contents ...string) map[string]uuid.UUID {
	b.exec("insert into memory_users (user_id) values ($1) on conflict do nothing", user.UserID)
	ids := map[string]uuid.UUID{}
	for _, content := range contents {
		ids[content] = ask[uuid.UUID](b, "insert into memories (user_id, content) values ($1, $2) returning id", user.UserID, content)
	}
	return ids
}

// candidates are those of a message, best words first.
func (b *bed) candidates(user auth.Principal, text string, vector recall.Vector) []longterm.Found {
	found, err := (&Memories{Pool: b.pool}).Candidates(b.t.Context(), user, longterm.Ask{
		Words: recall.Words(text), Names: recall.Names(text), Vector: vector, PerWay: 10,
	})
	require.NoError(b.t, err)
	slices.SortStableFunc(found, func(a, b longterm.Found) int { return cmp.Compare(b.Words, a.Words) })
	return found
}

func contentsOf(found []longterm.Found) []string {
	contents := []string{}
	for i := range found {
		contents = append(contents, found[i].Content)
	}
	return contents
}

func TestMemoriesAreFoundByTheirWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	other := b.newUser()
	b.memorize(other, "The user plays the violin in Graz.")
	ids := b.memorize(b.user, "The user plays the cello.", "The user is allergic to walnuts.", "The user bought a bow in Graz.", "Der Nutzer wohnt in Köln.",
		"ユーザーは東京に住んでいます。", "Was a cello teacher.", "Maybe owns a cello.", "Once had a cello.", "Sees a cello therapist.",
		"Has a cat named Bruno.")
	set := func(content, change string) {
		b.exec("update memories set "+change+" where id = $1", ids[content])
	}
	set("Was a cello teacher.", "status = 'archived'")
	set("Maybe owns a cello.", "status = 'inbox'")
	set("Once had a cello.", "status = 'superseded'")
	b.exec("update memory_users set excluded = '{therapist}' where user_id = $1", b.user.UserID)
	entity := ask[uuid.UUID](b, "insert into memory_entities (user_id, name, aliases) values ($1, 'Bruno Müller', '{Der Kater}') returning id", b.user.UserID)
	b.exec("insert into memory_mentions (memory_id, entity_id, user_id) values ($1, $2, $3)", ids["Has a cat named Bruno."], entity, b.user.UserID)
	for question, want := range map[string]string{
		"May I eat walnuts?":            "The user is allergic to walnuts.",
		"Where did I buy my bow?":       "The user bought a bow in Graz.", // by another form of the verb
		"Wo in Köln ist ein Café?":      "Der Nutzer wohnt in Köln.",
		"東京の天気は？":                       "ユーザーは東京に住んでいます。",
		"New strings for the cello?":    "The user plays the cello.",
		"What about bruno müller's vet": "Has a cat named Bruno.",
		"Was frisst der Kater?":         "Has a cat named Bruno.",
	} {
		found := b.candidates(b.user, question, recall.Vector{})
		if len(found) == 0 || found[0].Content != want {
			t.Errorf("%s: %q", question, contentsOf(found))
		}
	}
	is(t, contentsOf(b.candidates(b.user, "My cello", recall.Vector{})), []string{"The user plays the cello."}, "the shown ones")
	is(t, b.candidates(b.user, "Was frisst der Kater?", recall.Vector{})[0].Named, 1, "named")
	for _, question := range []string{"umbrella", "?!", "'", `\`, "violin", "umbrella & !(x <-> y:*)"} {
		is(t, len(b.candidates(b.user, question, recall.Vector{})), 0, "%s", question)
	}
	b.exec("update memory_users set enabled = false where user_id = $1", b.user.UserID)
	is(t, len(b.candidates(b.user, "My cello", recall.Vector{})), 0, "switched off")
}

// A question for a family of relationships finds the memories that say one, in any words.
func TestMemoriesAreFoundByTheirRelationships(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.linked("Prefers Neovim to other editors.", "Neovim/tool", "User prefers Neovim")
	b.linked("Fond of Lyon.", "Lyon/place", "User likes Lyon")
	b.linked("Hates nano.", "nano/tool", "User hates nano")
	b.linked("Mira uses Emacs.", "Mira/person", "Emacs/tool", "Mira uses Emacs")
	tooMany := memory.Memories{On: true, Active: memory.MostFirst + 1} // more than are shown without a search
	for question, want := range map[string][]string{
		"what tools do I like":            {"Prefers Neovim to other editors."},
		"Welche Werkzeuge mag ich?":       {"Prefers Neovim to other editors."},
		"what tools do I not like":        {"Hates nano."},
		"Welche Werkzeuge mag ich nicht?": {"Hates nano."},
		"what do I enjoy":                 {"Fond of Lyon.", "Prefers Neovim to other editors."},
		"what tools do I photograph":      {},
	} {
		found := must((&longterm.Retriever{Store: &Memories{Pool: b.pool}, Tokens: longterm.SectionTokens}).Retrieve(t.Context(), b.user,
			longterm.Query{Text: question, Known: tooMany}))(t)
		got := []string{}
		for _, m := range found {
			got = append(got, m.Content)
		}
		slices.Sort(got)
		is(t, got, want, "%s", question)
	}
}

func TestMemoriesAreFoundByTheirMeaning(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ids := b.memorize(b.user, "Plays the cello.", "Eats no nuts.", "Rents a flat.")
	store := &MemoryVectors{Pool: b.pool}
	bare, of, err := store.Bare(t.Context(), b.user.UserID, "m", recall.Bare{}, 10)
	require.Truef(t, err == nil && len(bare) == 3 && of == (recall.For{UserID: b.user.UserID}),
		"%v of %v, %v", bare, of, err)
	fresh, outdated, err := store.Owners(t.Context(), "m", 10)
	assert.Truef(t, err == nil && slices.Contains(fresh, b.user.UserID) && !slices.Contains(outdated, b.user.UserID),
		"fresh %v, outdated %v, %v", fresh, outdated, err)
	vectors := []recall.Made{
		{Bare: recall.Bare{ID: ids["Plays the cello."], Words: "Plays the cello."}, Vector: axis(3)},
		{Bare: recall.Bare{ID: ids["Eats no nuts."], Words: "What it was before an edit."}, Vector: axis(4)},
	}
	saved := must(store.Save(t.Context(), b.user.UserID, "m", vectors))(t)
	is(t, saved, 1, "saved")
	is(t, must(store.Save(t.Context(), b.newUser().UserID, "m", vectors))(t), 0, "saved … of another user")
	found := b.candidates(b.user, "umbrella", recall.Vector{Model: "m", Values: axis(3)})
	assert.Truef(t, len(found) == 1 && found[0].Content == "Plays the cello." && found[0].HasCosine && found[0].Cosine >= .99,
		"%+v", found)
	is(t, len(b.candidates(b.user, "umbrella", recall.Vector{Model: "another", Values: axis(3)})), 0, "of another model")
	is(t, ask[int](b, "select max(version) from memories where user_id = $1", b.user.UserID), 1, "a vector made version")
	b.exec("update memories set embedding = $1::text::throughline.embedding, embedding_model = 'm' where user_id = $2 and embedding is null",
		vectorText(nil), b.user.UserID)
	if fresh, outdated, err = store.Owners(t.Context(), "n", 10); err != nil || slices.Contains(fresh, b.user.UserID) ||
		!slices.Contains(outdated, b.user.UserID) {
		t.Errorf("another model: fresh %v, outdated %v, %v", fresh, outdated, err)
	}
}

func TestSimilarMemories(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.memorize(b.newUser(), "Plays the cello!")
	ids := b.memorize(b.user, "Plays the cello.", "Plays chess.", "Eats no nuts.", "Played the cello badly.")
	b.exec("update memories set status = 'superseded' where id = $1", ids["Played the cello badly."])
	b.exec("update memories set status = 'archived', embedding = $1::text::throughline.embedding, embedding_model = 'm' where id = $2",
		vectorText(axis(1)), ids["Eats no nuts."])
	tx := b.begin()
	noError(t, actAs(t.Context(), tx, b.user))
	found := testkit.Ask[[]string](t, tx, `select array_agg(concat_ws(' ', candidate, (select content from memories m where m.id = s.id), same_key,
		'words ' || words_rank, 'vector ' || vector_rank, cosine > .99) order by candidate, words_rank)
		from throughline.similar_memories($1, $2, 'm', 10) s (candidate, id, same_key, vector_rank, words_rank, cosine)`,
		[]string{"plays THE cello", "walnuts are bad", ""}, []string{"", vectorText(axis(1)), ""})
	is(t, found, []string{"1 Plays the cello. t words 1", "1 Plays chess. f words 2", "2 Eats no nuts. f vector 1 t"}, "similar")
}

// The start of a turn reads the first memories: pinned ones, durable ones, and of each the most recently used first.
func TestATurnReadsTheFirstMemories(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.turns.enqueue.Extract = func(context.Context, pgx.Tx, uuid.UUID, time.Time) error { return nil }
	state := func(on bool, want ...string) memory.Memories {
		t.Helper()
		turn := firstTurn("Hello.")
		first := b.start(turn).Memories
		var contents []string
		for _, m := range first.First {
			contents = append(contents, m.Content)
		}
		is(t, tuple(first.On, first.Active, contents), tuple(on, len(want), want), "a new chat")
		stored, err := b.turns.ReadChat(t.Context(), b.user, turn.ChatID)
		is(t, tuple(err, stored.Memories), tuple(nil, first), "a stored chat")
		return first
	}
	state(true)
	b.memorize(b.newUser(), "Somebody else's.")
	ids := b.memorize(b.user, "Plays the cello.", "Was a cello teacher.", "Eats no nuts.", "Sees a therapist.", "Rents a flat.", "Is called Ada.")
	set := func(content, change string) {
		b.exec("update memories set "+change+" where id = $1", ids[content])
	}
	set("Plays the cello.", "last_accessed = '2026-03-01', valid_from = '2019-01-01', valid_precision = 'year', confidence = .75")
	set("Was a cello teacher.", "status = 'archived'")
	set("Eats no nuts.", "durable = true, recorded_at = '2026-01-01'")
	set("Sees a therapist.", "pinned = true")
	set("Rents a flat.", "recorded_at = '2026-02-01', edited = true")
	set("Is called Ada.", "durable = true, recorded_at = '2025-01-01', last_accessed = '2026-02-01'")
	source := firstTurn("I play the cello.")
	b.start(source)
	b.exec(`insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
		values ($1, $2, $3, $4, 1, 'Plays', 'the cello', now())`,
		ids["Plays the cello."], source.UserMessageID, b.user.UserID, source.ChatID)

	first := state(true, "Sees a therapist.", "Is called Ada.", "Eats no nuts.", "Plays the cello.", "Rents a flat.").First
	want := memory.Remembered{
		ID: ids["Plays the cello."], Content: "Plays the cello.", Confidence: .75, Precision: memory.Year,
		ValidFrom: time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC), LastUsed: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		Sources: []memory.Said{{ChatID: source.ChatID, Seq: 1, Quote: "the cello"}},
	}
	is(t, first[3], want, "the memory as read")
	is(t, tuple(first[0].Pinned, first[1].Durable, first[4].Edited), tuple(true, true, true), "marks")

	b.exec("update memory_users set excluded = '{therapist, nuts}' where user_id = $1", b.user.UserID)
	state(true, "Is called Ada.", "Plays the cello.", "Rents a flat.")
	silent := firstTurn("Hello.")
	b.start(silent)
	b.exec("update chats set remember = false where id = $1", silent.ChatID)
	is(t, must(b.turns.ReadChat(t.Context(), b.user, silent.ChatID))(t).Memories, memory.Memories{}, "a chat that is not remembered")
	b.exec("update memory_users set enabled = false where user_id = $1", b.user.UserID)
	state(false)
	b.exec("update memory_users set enabled = true where user_id = $1", b.user.UserID)
	b.turns.enqueue.Extract = nil
	state(false)
	b.turns.enqueue.Extract = func(context.Context, pgx.Tx, uuid.UUID, time.Time) error { return nil }
	for n := range memory.MostFirst {
		b.memorize(b.user, fmt.Sprintf("Knows the number %d.", n))
	}
	found := b.start(firstTurn("Hello.")).Memories
	is(t, tuple(found.Active, len(found.First)), tuple(memory.MostFirst+3, memory.MostFirst), "all, and read")
}

func TestUserNamesInGoAndSQL(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, name := range []string{"User", "the  USER", "I", "me", "Myself", "der Nutzer", "die Nutzerin", "l'utilisateur", "L’utilisatrice", "el usuario",
		"o usuário", "a usuária", "l'utente",
		"Users", "user 2", "", "it", "Neovim", "mr user"} {
		is(t, ask[bool](b, "select throughline.is_user_name($1)", name), graph.IsUser(name), "%q: in SQL, … in Go", name)
	}
}

// wrote stores a memory of the user, active and written by the user.
func (b *bed) wrote(user auth.Principal, content string) uuid.UUID {
	b.exec("insert into memory_users (user_id) values ($1) on conflict do nothing", user.UserID)
	return ask[uuid.UUID](b, "insert into memories (user_id, content, origin) values ($1, $2, 'user') returning id", user.UserID, content)
}

// indexedTurns makes a chat with turns of two messages each, and their rows of the index.
func (b *bed) indexedTurns(turns int) uuid.UUID {
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
	turns, of, err := v.Bare(b.t.Context(), chatID, model, recall.Bare{Seq: after}, most)
	require.Truef(b.t, err == nil && (len(turns) == 0 || of == (recall.For{UserID: b.user.UserID, ChatID: chatID})),
		"turns of %v, %v", of, err)
	return turns
}

func TestVectorsAreStoredForTheirWords(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	e := &TurnVectors{Pool: b.pool}
	chatID := b.indexedTurns(3)
	turns := b.bareTurns(e, chatID, "m", 0, 2)
	const want = "User: words of message 1\nAssistant: words of message 2"
	require.Truef(t, len(turns) == 2 && turns[0].Seq == 1 && turns[1].Seq == 3 && turns[0].Text == want && turns[0].Words != turns[1].Words,
		"%+v", turns)
	rest := b.bareTurns(e, chatID, "m", 3, 2)
	assert.Truef(t, len(rest) == 1 && rest[0].Seq == 5, "after the second: %+v", rest)
	b.exec("update turn_index set tsv = to_tsvector('simple', 'changed') where seq = 3")
	saved, err := e.Save(t.Context(), chatID, "m", []recall.Made{
		{Bare: turns[0], Vector: axis(7)}, {Bare: turns[1], Vector: axis(8)}, {Bare: recall.Bare{Seq: 99, Words: turns[0].Words}},
	})
	is(t, tuple(err, saved), tuple(nil, 1), "vectors are stored")
	is(t, ask[string](b, "select string_agg(seq || coalesce(embedding_model, '-'), ',' order by seq) from turn_index"), "1m,3-,5-", "the models of the turns")
	again := b.bareTurns(e, chatID, "m", 0, 9)
	assert.Truef(t, len(again) == 2 && again[0].Seq == 3 && again[0].Words != turns[1].Words, "%+v", again)
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
	e := &TurnVectors{Pool: b.pool}
	chatID := b.indexedTurns(1)
	b.exec("alter table messages disable trigger user")
	b.exec("delete from messages")
	turns := b.bareTurns(e, chatID, "m", 0, 9)
	mustBe(t, len(turns), 1, "%+v", turns)
	saved, err := e.Save(t.Context(), chatID, "m", []recall.Made{{Bare: turns[0]}})
	assert.Truef(t, err == nil && saved == 1, "%d, %v", saved, err)
	is(t, b.bareTurns(e, chatID, "m", 0, 9), nil, "turns that are left")
	b.exec("delete from chats")
	is(t, must(e.Save(t.Context(), chatID, "m", []recall.Made{{Bare: turns[0], Vector: axis(1)}}))(t), 0, "of a chat that is gone")
	is(t, b.bareTurns(e, chatID, "m", 0, 9), nil, "turns of a chat that is gone")
}

func TestScalesAreStored(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	e := &Embeddings{Pool: b.pool}
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
	is(t, ask[int](b, "select dims from embedding_models"), recall.VectorSize, "dims")
}
