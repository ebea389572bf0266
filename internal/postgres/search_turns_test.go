package postgres

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
)

// readAll finds messages as find_messages does, with their ranks, by reading each of the user's.
const readAll = `
	select coalesce(array_agg(f.id || ' ' || f.rank order by f.created_at desc, f.id desc), '{}')
	  from (select m.id, m.created_at, ts_rank_cd(v.words, $1::tsquery) as rank
	          from messages m, lateral (select to_tsvector('throughline.words', throughline.searchable(m.content)) as words) v
	         where m.user_id = auth.uid() and m.superseded_by is null and btrim(m.content) <> '' and v.words @@ $1::tsquery
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
	b.t.Helper()
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
		query := ask[string](b, "select (websearch_to_tsquery('throughline.words', $1))::text", history.WebSearch(text))
		for _, in := range []uuid.NullUUID{{}, {UUID: chats[0], Valid: true}} {
			tx := b.begin()
			mustExec(b.t, tx, "select set_config('request.jwt.claim.sub', $1, true)", b.user.UserID.String())
			var want, got []string
			if err := tx.QueryRow(b.t.Context(), readAll, query, in).Scan(&want); err != nil {
				b.t.Fatal(err)
			}
			if err := tx.QueryRow(b.t.Context(), findAll, query, in).Scan(&got); err != nil {
				b.t.Fatal(err)
			}
			_ = tx.Rollback(b.t.Context())
			if diff := cmp.Diff(want, got); diff != "" {
				b.t.Errorf("%s: %s in %v: %s", stage, text, in, diff)
			}
		}
	}
}

// Whatever was said, indexed, edited and deleted, in whatever order, a search finds what the texts of messages say.
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
	for round := range 4 {
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
			b.exec("update messages m set superseded_by = $3, token_count = 0 where chat_id = $1 and seq % 17 = $2 and role = 'assistant'", chatID, random.IntN(17), uuid.New())
		}
		b.wantSearchesRight(fmt.Sprintf("round %d, changed", round), chats)
	}
	b.checkIndex()
	// As rows are that were written before they told messages apart.
	b.exec("update turn_index set second_seq = null, tsv = setweight(tsv, 'A')")
	b.wantSearchesRight("not told apart", chats)
}

// A turn is found by all of its words, however long it is, and where they found no room it is read.
func TestSearchOfHugeTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
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
	if !ask[bool](b, "select tsv @@ $$'cut short'$$ and second_seq = 2 from turn_index where chat_id = $1", chatID) {
		t.Error("the turn's words found room")
	}
	for _, text := range []string{"begin0", "begin3 w3x4", "begin20", "begin59", `"begin59 w59x0"`, "what log", "look"} {
		if got := b.found(history.SearchQuery{Text: text}); len(got) != 1 {
			t.Errorf("%s: %d", text, len(got))
		}
	}
	for _, text := range []string{"begin0 begin1", "log look", `"begin59 w59x1"`} {
		b.wantFound(text)
	}
}

// A word that is there so often that the second message's finds no room in the turn is found in it.
func TestSearchOfCrowdedTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	often, once := strings.Repeat("again and ", 300), "again"
	b.keepIndexed(b.user, often, once)
	b.wantFound("again", often, once)
	b.wantFound("-and", once)
}

// An edit that leaves the number of tokens as it is may give words to a message beyond the index.
func TestSearchAfterAnEditOfEqualLength(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.keep(b.user, "a kite", " ")
	b.exec("select throughline.index_chat($1, 1)", chatID)
	b.exec("update messages set content = case seq when 1 then ' ' else 'a kite' end where chat_id = $1", chatID)
	b.wantFound("kite", "a kite")
}

// Of what is not indexed, the newest 10 000 messages are read.
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
