package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/memory/recall"
)

// memorize stores memories of a user, and returns their ids by their contents.
func (b *bed) memorize(user auth.Principal, contents ...string) map[string]uuid.UUID {
	b.t.Helper()
	b.exec("insert into memory_users (user_id) values ($1) on conflict do nothing", user.UserID)
	ids := map[string]uuid.UUID{}
	for _, content := range contents {
		ids[content] = ask[uuid.UUID](b, "insert into memories (user_id, content) values ($1, $2) returning id", user.UserID, content)
	}
	return ids
}

// candidates are those of a message, best words first.
func (b *bed) candidates(user auth.Principal, text string, vector recall.Vector) []memories.Candidate {
	b.t.Helper()
	found, err := NewMemories(b.pool).Candidates(b.t.Context(), user, memories.Ask{
		Words: recall.Words(text), Names: recall.Names(text), Vector: vector, PerWay: 10,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	slices.SortStableFunc(found, func(a, b memories.Candidate) int { return cmp.Compare(b.Words, a.Words) })
	return found
}

func contentsOf(found []memories.Candidate) []string {
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
	b.memorize(b.user, "The user plays the cello.", "The user is allergic to walnuts.", "The user bought a bow in Graz.", "Der Nutzer wohnt in Köln.", "ユーザーは東京に住んでいます。")
	for question, want := range map[string]string{
		"May I eat walnuts?":         "The user is allergic to walnuts.",
		"Where did I buy my bow?":    "The user bought a bow in Graz.", // by another form of the verb
		"Wo in Köln ist ein Café?":   "Der Nutzer wohnt in Köln.",
		"東京の天気は？":                    "ユーザーは東京に住んでいます。",
		"New strings for the cello?": "The user plays the cello.",
	} {
		found := b.candidates(b.user, question, recall.Vector{})
		if len(found) == 0 || found[0].Content != want || found[0].All != 5 {
			t.Errorf("%s: %q", question, contentsOf(found))
		}
	}
	for _, question := range []string{"umbrella", "?!", "'", `\`, "violin", "umbrella & !(x <-> y:*)"} {
		if found := b.candidates(b.user, question, recall.Vector{}); len(found) > 0 {
			t.Errorf("%s: %q", question, contentsOf(found))
		}
	}
}

func TestWhichMemoriesAreCandidates(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ids := b.memorize(b.user, "Plays the cello.", "Was a cello teacher.", "Maybe owns a cello.", "Once had a cello.", "Sees a cello therapist.", "Eats no nuts.", "Has a cat named Bruno.")
	set := func(content, change string) {
		b.exec("update memories set "+change+" where id = $1", ids[content])
	}
	set("Was a cello teacher.", "status = 'archived'")
	set("Maybe owns a cello.", "status = 'inbox'")
	set("Once had a cello.", "status = 'superseded'")
	set("Eats no nuts.", "pinned = true")
	b.exec("update memory_users set excluded = '{therapist}' where user_id = $1", b.user.UserID)
	entity := ask[uuid.UUID](b, "insert into memory_entities (user_id, name, aliases) values ($1, 'Bruno Müller', '{Der Kater}') returning id", b.user.UserID)
	b.exec("insert into memory_mentions (memory_id, entity_id, user_id) values ($1, $2, $3)", ids["Has a cat named Bruno."], entity, b.user.UserID)

	for question, want := range map[string][]string{
		"My cello":                      {"Plays the cello.", "Eats no nuts."},
		"What about bruno müller's vet": {"Has a cat named Bruno.", "Eats no nuts."},
		"Was frisst der Kater?":         {"Has a cat named Bruno.", "Eats no nuts."},
		"umbrella":                      {"Eats no nuts."},
	} {
		found := b.candidates(b.user, question, recall.Vector{})
		got := contentsOf(found)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", question, got, want)
		}
	}
	if found := b.candidates(b.user, "Was frisst der Kater?", recall.Vector{}); found[0].Named+found[1].Named != 1 {
		t.Errorf("named: %+v", found)
	}
	b.exec("update memory_users set enabled = false where user_id = $1", b.user.UserID)
	if found := b.candidates(b.user, "My cello", recall.Vector{}); len(found) > 0 {
		t.Errorf("switched off: %q", contentsOf(found))
	}
}

// basis is a vector of unit length along an axis.
func basis(axis int) []float32 {
	v := make([]float32, recall.VectorSize)
	v[axis] = 1
	return v
}

func TestMemoriesAreFoundByTheirMeaning(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ids := b.memorize(b.user, "Plays the cello.", "Eats no nuts.", "Rents a flat.")
	store := NewEmbeddings(b.pool, recall.VectorSize)
	bare, err := store.BareMemories(t.Context(), b.user.UserID, "m", uuid.Nil, 10)
	if err != nil || len(bare) != 3 {
		t.Fatalf("%v, %v", bare, err)
	}
	fresh, outdated, err := store.BareUsers(t.Context(), "m", 10)
	if err != nil || !slices.Contains(fresh, b.user.UserID) || slices.Contains(outdated, b.user.UserID) {
		t.Errorf("fresh %v, outdated %v, %v", fresh, outdated, err)
	}
	vectors := []memories.Vector{
		{Bare: memories.Bare{ID: ids["Plays the cello."], Content: "Plays the cello."}, Values: basis(3)},
		{Bare: memories.Bare{ID: ids["Eats no nuts."], Content: "What it was before an edit."}, Values: basis(4)},
	}
	if saved, err := store.SaveMemoryVectors(t.Context(), b.user.UserID, "m", vectors); saved != 1 || err != nil {
		t.Errorf("saved %d, %v", saved, err)
	}
	if saved, err := store.SaveMemoryVectors(t.Context(), b.newUser().UserID, "m", vectors); saved != 0 || err != nil {
		t.Errorf("saved %d of another user, %v", saved, err)
	}
	found := b.candidates(b.user, "umbrella", recall.Vector{Model: "m", Values: basis(3)})
	if len(found) != 1 || found[0].Content != "Plays the cello." || !found[0].HasCosine || found[0].Cosine < .99 {
		t.Errorf("%+v", found)
	}
	if found := b.candidates(b.user, "umbrella", recall.Vector{Model: "another", Values: basis(3)}); len(found) > 0 {
		t.Errorf("of another model: %+v", found)
	}
	if versions := ask[int](b, "select max(version) from memories where user_id = $1", b.user.UserID); versions != 1 {
		t.Errorf("a vector made version %d", versions)
	}
	b.exec("update memories set embedding = $1::text::throughline.embedding, embedding_model = 'm' where user_id = $2 and embedding is null", vectorText(nil), b.user.UserID)
	if fresh, outdated, err = store.BareUsers(t.Context(), "n", 10); err != nil || slices.Contains(fresh, b.user.UserID) || !slices.Contains(outdated, b.user.UserID) {
		t.Errorf("another model: fresh %v, outdated %v, %v", fresh, outdated, err)
	}
}

// similarRow is a row of throughline.similar_memories.
type similarRow struct {
	Candidate             int
	ID                    uuid.UUID
	SameKey               bool
	VectorRank, WordsRank *int
	Cosine                *float64
}

func TestSimilarMemories(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.memorize(b.newUser(), "Plays the cello!")
	ids := b.memorize(b.user, "Plays the cello.", "Plays chess.", "Eats no nuts.", "Played the cello badly.")
	b.exec("update memories set status = 'superseded' where id = $1", ids["Played the cello badly."])
	b.exec("update memories set status = 'archived', embedding = $1::text::throughline.embedding, embedding_model = 'm' where id = $2", vectorText(basis(1)), ids["Eats no nuts."])
	var rows []similarRow
	err := sendAs(t.Context(), b.pool, b.user, "similar", func(batch *pgx.Batch) {
		batch.Queue("select * from throughline.similar_memories($1, $2, 'm', 10)", []string{"plays THE cello", "walnuts are bad", ""}, []string{"", vectorText(basis(1)), ""}).
			Query(func(found pgx.Rows) (err error) {
				rows, err = pgx.CollectRows(found, pgx.RowToStructByPos[similarRow])
				return err
			})
	})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%+v, %v", rows, err)
	}
	cello, chess, nuts := rows[0], rows[1], rows[2]
	if cello.ID != ids["Plays the cello."] || !cello.SameKey || cello.WordsRank == nil || *cello.WordsRank != 1 || cello.VectorRank != nil || cello.Cosine != nil {
		t.Errorf("the same words: %+v", cello)
	}
	if chess.ID != ids["Plays chess."] || chess.SameKey || chess.WordsRank == nil || *chess.WordsRank != 2 {
		t.Errorf("a word in common: %+v", chess)
	}
	if nuts.Candidate != 2 || nuts.ID != ids["Eats no nuts."] || nuts.VectorRank == nil || *nuts.VectorRank != 1 || nuts.Cosine == nil || *nuts.Cosine < .99 {
		t.Errorf("by meaning: %+v", nuts)
	}
}

func TestATurnLearnsWhetherThereAreMemories(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.turns.enqueue.Extract = func(context.Context, pgx.Tx, uuid.UUID, time.Time) error { return nil }
	state := func(want memory.Memories) {
		t.Helper()
		turn := firstTurn("Hello.")
		if started := b.start(turn); started.Memories != want {
			t.Errorf("a new chat: %q, want %q", started.Memories, want)
		}
		stored, err := b.turns.ReadChat(t.Context(), b.user, turn.ChatID)
		if err != nil || stored.Memories != want {
			t.Errorf("a stored chat: %q, want %q, %v", stored.Memories, want, err)
		}
	}
	state(memory.NoMemories)
	b.memorize(b.newUser(), "Somebody else's.")
	ids := b.memorize(b.user, "Plays the cello.")
	state(memory.SomeMemories)
	b.exec("update memories set pinned = true where id = $1", ids["Plays the cello."])
	state(memory.HasPinned)
	b.exec("update memories set status = 'inbox' where id = $1", ids["Plays the cello."])
	state(memory.NoMemories)
	b.exec("update memories set status = 'active' where id = $1", ids["Plays the cello."])

	silent := firstTurn("Hello.")
	b.start(silent)
	b.exec("update chats set remember = false where id = $1", silent.ChatID)
	if stored, err := b.turns.ReadChat(t.Context(), b.user, silent.ChatID); err != nil || stored.Memories != memory.MemoriesOff {
		t.Errorf("a chat that is not remembered: %q, %v", stored.Memories, err)
	}
	b.exec("update memory_users set enabled = false where user_id = $1", b.user.UserID)
	state(memory.MemoriesOff)
	b.exec("update memory_users set enabled = true where user_id = $1", b.user.UserID)
	b.turns.enqueue.Extract = nil
	state(memory.MemoriesOff)
}

// A user with 5 000 memories is answered by one scan of those.
func TestManyMemories(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("stores 5 000 memories")
	}
	b := newBed(t)
	b.exec("insert into memory_users (user_id) values ($1)", b.user.UserID)
	b.exec(`insert into memories (user_id, content, embedding, embedding_model)
		select $1, format('The user met person%s in city%s and talked about subject%s at length.', n, n % 100, n % 977), $2::text::throughline.embedding, 'm' from generate_series(1, 5000) n`,
		b.user.UserID, vectorText(basis(3)))
	found := b.candidates(b.user, "What did person4711 say about subject803 in city11?", recall.Vector{Model: "m", Values: basis(3)})
	if len(found) == 0 || !strings.Contains(found[0].Content, "person4711 ") {
		t.Errorf("%q", contentsOf(found))
	}
}
