package main

import (
	"context"
	"crypto/md5" //nolint:gosec // names rows, protects nothing
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
)

// idOf returns the id of a thing by its kind and number. In SQL that is md5('kind-' || number)::uuid.
func idOf(kind string, n int) uuid.UUID {
	return md5.Sum([]byte(kind + "-" + strconv.Itoa(n))) //nolint:gosec // see the import
}

// newID returns an id as the server makes them.
func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// sentences are what the messages of a filled database consist of.
var sentences = []string{
	"The second movement still falls apart around bar forty, where the shift comes too early.",
	"I practised the scales with a metronome for twenty minutes before anything else today.",
	"My teacher thinks the bow arm is too stiff and wants long notes on open strings again.",
	"We could move the lesson to Thursday, since the hall is free then and I am not at work.",
	"A slower tempo helps, but the phrase loses its direction when I think about every note.",
	"There is a concert in six weeks, and the programme is not quite settled yet.",
	"Record yourself once a week and write down one thing that became better and one that did not.",
	"The left hand is fine; what gets tired is the shoulder, mostly in the last ten minutes.",
}

// textCount is how many different messages textOf makes.
const textCount = 64

// textOf returns a message of some 60 tokens, the same for the same number.
func textOf(n int) string {
	const length = 4
	chosen := make([]string, length)
	for i := range chosen {
		chosen[i] = sentences[(n*3+i*5+n/8)%len(sentences)]
	}
	return strings.Join(chosen, " ")
}

// shortChat is the kind of chats of shortTurns turns that are not folded. Their ids follow from kind and number, see idOf.
const shortChat = "short"

func (b *bench) shortChats() int { return b.of(15_000) }

// ordinaryTexts are the texts of all chats but the searched ones.
func ordinaryTexts() []string {
	texts := make([]string, textCount)
	for n := range texts {
		texts[n] = textOf(n)
	}
	return texts
}

// batch is chats of one kind, an hour from turn to turn. The folded part of them has a brief that was folded often.
type batch struct {
	kind         string
	chats, turns int
	texts        []string // message s of chat c has the one of number 31 c + s, counted around
	covered      int      // the last seq that the brief covers
}

// fill writes users with their memories, and chats with briefs and messages; once.
func (b *bench) fill(ctx context.Context) {
	if b.filled {
		return
	}
	defer kit.In("fill")
	b.inBulk(ctx, func(conn *pgxpool.Conn) {
		kit.Must(conn.Exec(ctx, insertUsers, b.users()))
		short := batch{kind: shortChat, chats: b.shortChats(), turns: shortTurns, texts: ordinaryTexts()}
		short.insert(ctx, conn, b.users())
		b.fillMemories(ctx, conn)
	})
	b.filled = true
}

// insertUsers stores as many users as its argument says, with the ids idOf("user", 0) and so on.
const insertUsers = `insert into auth.users (id, aud, role, created_at, updated_at)
	select md5('user-' || n)::uuid, 'authenticated', 'authenticated', now(), now() from generate_series(0, $1::int - 1) n`

// inBulk writes with triggers and foreign keys off; what triggers would have set is written as they would have, but that
// everything was read for memories.
func (b *bench) inBulk(ctx context.Context, write func(*pgxpool.Conn)) {
	conn := kit.Must(b.admin.Acquire(ctx))
	defer conn.Release()
	kit.Check(kit.Exec(ctx, conn, "set session_replication_role = replica", "set synchronous_commit = off", "set work_mem = '1GB'"))
	write(conn)
	kit.Check(kit.Exec(ctx, conn, "reset all",
		"vacuum (analyze) public.chats, public.messages, public.conversation_briefs, public.memories", "checkpoint"))
}

func (b batch) insert(ctx context.Context, conn *pgxpool.Conn, users int) {
	all := pgx.NamedArgs{"kind": b.kind, "chats": b.chats, "users": users, "turns": b.turns, "texts": b.texts, "covered": b.covered, "summary": "", "version": 0}
	tokens := make([]int, len(b.texts))
	for n := range tokens {
		tokens[n] = text.Tokens(b.texts[n])
	}
	if all["tokens"] = tokens; b.covered > 0 {
		all["summary"], all["version"] = summaryText(), 1+b.turns/30
	}
	all["summary_tokens"] = text.Tokens(all["summary"].(string))
	for statement := range strings.SplitSeq(strings.TrimSuffix(insertBatch, ";\n"), ";\n") {
		kit.Must(conn.Exec(ctx, statement, all))
	}
}

//go:embed batch.sql
var insertBatch string

// What users are known for: each thing is in each of the places, for every user.
var (
	knownThings = []string{"accordion", "telescope", "kayak", "sewing machine", "microscope", "saxophone", "typewriter", "barometer"}
	knownPlaces = []string{"attic", "cellar", "garage", "greenhouse", "workshop"}
)

// askForMemory returns a question whose words find memories: always another one, because the vector of one is kept.
func (b *bench) askForMemory() string {
	n := int(b.asked.Add(1))
	return fmt.Sprintf("Is it the %s that I keep in the %s, or one of the %d others?", knownThings[n%len(knownThings)], knownPlaces[n%len(knownPlaces)], n)
}

// fillMemories makes every user known for the same things, with vectors of the keyless embedder, as the program would.
func (b *bench) fillMemories(ctx context.Context, conn *pgxpool.Conn) {
	kit.Must(conn.Exec(ctx, `insert into public.memories (user_id, content, graph_version)
		select $1, format('The user keeps a %s in the %s.', thing, place), 1 from unnest($2::text[]) thing, unnest($3::text[]) place`,
		idOf("user", 0), knownThings, knownPlaces))
	kit.Check(kit.Exec(ctx, conn, "insert into public.memory_users (user_id, fades_at) select id, null from auth.users"))
	vectors := llm.NewEmbedder(llm.Settings{BaseURL: b.system.Embedder.BaseURL(), APIKey: "none"}, embedder.Model)
	defer vectors.Close()
	b.embedMemories(ctx, vectors)
	kit.Check(kit.Exec(ctx, conn, `insert into public.memories (user_id, content, graph_version, embedding, embedding_model)
		select u.id, m.content, 1, m.embedding, m.embedding_model from auth.users u join public.memories m on m.user_id <> u.id`))
}

func (b *bench) embedMemories(ctx context.Context, by recall.Embedder) {
	done := kit.Must(b.vectors("memories", &postgres.MemoryVectors{Pool: b.admin}, by).Embed(ctx, idOf("user", 0), 1))
	if done.Made != len(knownThings)*len(knownPlaces) {
		kit.Fail("%d memories have a vector", done.Made)
	}
}

func (b *bench) vectors(things string, store recall.VectorStore, by recall.Embedder) *recall.Vectors {
	scales := recall.NewScales(&postgres.Embeddings{Pool: b.admin}, by)
	return &recall.Vectors{Things: things, Store: store, Embedder: by, Scales: []*recall.Scales{scales}, Logger: quiet(), Rest: recall.NewRest(0, 0, quiet())}
}

// summaryText returns a brief without repetition.
func summaryText() string { return "The user spoke of this: " + strings.Join(sentences, " ") }

// embedding is how long the vector of a question takes: as long as the keyless embedder does.
const embedding = 15 * time.Millisecond

// measureRecall measures the cost of finding turns that left the prompt, and the user's memories: by how much
// later a first delta comes. The program as shipped and stripped is asked by turns, in the same chats.
func measureRecall(ctx context.Context, b *bench, t *table) {
	embedder := kit.Must(people.StartModel(func(*offline.Request) offline.Answer { return offline.Answer{Latency: embedding} }, &said.Subjects))
	b.later(embedder.Close)
	b.fillTalks(ctx, embedder.BaseURL())
	// Without workers, so that both leave the chat's jobs alone.
	vectors := map[string]string{"EMBEDDING_MODEL": said.Subjects.Model(), "EMBEDDING_BASE_URL": embedder.BaseURL()}
	ours := b.serve(ctx, b.system, shipped, vectors, "--no-workers")
	bare := b.serve(ctx, b.system, stripped, nil, "--no-workers")
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // it protects nothing
	short, long := b.talks[0], b.talks[1]
	for _, c := range []struct {
		what, figure string
		in           talk
		ask          func() string
		most         float64 // added to p50, in milliseconds; 0 without a target
	}{
		{"small talk", "question_smalltalk_", short, func() string { return smallTalk[random.IntN(len(smallTalk))] }, 1},
		{"found by words", "question_words_", short, func() string { return short.byWords(random) }, 4},
		{"waits for its vector", "question_vector_", short, func() string { return short.byMeaning(random) }, 25},
		{fmt.Sprintf("by words in %d turns", long.turns), "question_long_words_", long, func() string { return long.byWords(random) }, 0},
		{fmt.Sprintf("by a vector in %d turns", long.turns), "question_long_vector_", long, func() string { return long.byMeaning(random) }, 0},
	} {
		began := time.Now()
		took := firsts(ctx, []endpoint{ours, bare}, b.of(100), func() (chat, string) { return c.in.chat, c.ask() })
		var targets []*target
		if c.most > 0 {
			targets = []*target{{limit: c.most, against: stripped, added: true}, {limit: 40, against: stripped, added: true}}
		}
		for i, column := range t.columns {
			t.times(column, "first delta, "+c.what, c.figure, took[i], targets...)
		}
		b.noteReceipts(ctx, t, "receipts, "+c.what, "memory->>'recall'", began)
	}
	t.note("the embedder is a stand-in that takes %v, as the keyless one does, and knows words of our own", embedding)
	b.settle(ctx)
}

// noteReceipts counts the replies since a time by what an expression makes of their receipts.
func (b *bench) noteReceipts(ctx context.Context, t *table, what, expression string, since time.Time) {
	var found string
	kit.Check(b.admin.QueryRow(ctx, `
		select coalesce(string_agg(n || ' ' || result, ', ' order by n desc, result), 'none')
		  from (select `+expression+` as result, count(*) as n from public.messages m cross join lateral (select m.metadata->'memory' as memory) r
		         where m.role = 'assistant' and m.created_at >= $1 group by 1) counted where result is not null`, since).Scan(&found))
	t.note("%s: %s", what, found)
}

// talk is a chat that is searched. Its turns wander between the subjects of said.
type talk struct {
	chat
	kind          string
	number, turns int
}

// said is what all talks say. Recall takes as long as words are frequent: a subject is rare, the others are in every third.
var said = people.Talk{Subjects: subjects(), Words: people.Range{Least: 15, Most: 45}, Reply: people.Range{Least: 15, Most: 45}}

// subjects are as many as vectors have room for: words of three syllables, so that none is a word of any language.
func subjects() (s people.Subjects) {
	syllables := strings.NewReplacer("0", "ba", "1", "de", "2", "fi", "3", "go", "4", "ku", "5", "la", "6", "me", "7", "nu", "8", "so", "9", "ti")
	for n := range 480 {
		s.Words = append(s.Words, syllables.Replace(fmt.Sprintf("%03d", n)))
	}
	return s
}

// covered is the last seq that the brief covers; what follows is in each prompt.
func (t talk) covered() int { return 2 * (t.turns - shortTurns) }

// mark is the number in said of the turn of a user's message.
func (t talk) mark(seq int) int { return (t.number+1)*100_000 + seq }

func (t talk) batch() batch {
	texts := make([]string, 2*t.turns)
	for seq := 1; seq < len(texts); seq += 2 {
		texts[seq] = said.Question(t.mark(seq))
		texts[(seq+1)%len(texts)] = said.ReplyTo(t.mark(seq))
	}
	return batch{kind: t.kind, chats: 1, turns: t.turns, texts: texts, covered: t.covered()}
}

// asked draws a message that left the prompt.
func (t talk) asked(random *rand.Rand) int { return t.mark(1 + 2*random.IntN(t.covered()/2)) }

// byWords asks with the subject of a message and two words beside it: who did something, and with what.
func (t talk) byWords(random *rand.Rand) string {
	n := t.asked(random)
	_, rest, _ := strings.Cut(said.Question(n), ": On day ")
	words := strings.Fields(rest)
	return "What was it that I said about the " + said.Subjects.Of(n) + " when " + words[1] + " was with the " + words[4] + "?"
}

// byMeaning asks with a word that no turn holds, and that the embedder takes for the subject of one.
func (t talk) byMeaning(random *rand.Rand) string {
	return "What was it that I said about the qu" + said.Subjects.Of(t.asked(random)) + "?"
}

var smallTalk = []string{"ok, thanks", "hello!", "good morning", "yes please", "great", "how are you?", "really?", "go on", "danke", "d'accord", "gracias"}

// fillTalks writes the chats that are searched and some beside them, all of the first user, has them indexed as the sweep
// does, and their vectors made as embed_turns does, those of the user's memories as well; once.
func (b *bench) fillTalks(ctx context.Context, vectors string) {
	if b.talks != nil {
		return
	}
	defer kit.In("fill")
	by := llm.NewEmbedder(llm.Settings{BaseURL: vectors, APIKey: "none"}, said.Subjects.Model())
	defer by.Close()
	var talks []talk
	for n, turns := range append([]int{b.of(2000), b.of(20_000)}, slices.Repeat([]int{b.of(200) + shortTurns}, 20)...) {
		kind := fmt.Sprintf("recall%d", n)
		talks = append(talks, talk{chat: b.chat(kind, 0), kind: kind, number: n, turns: turns})
	}
	b.inBulk(ctx, func(conn *pgxpool.Conn) {
		for _, t := range talks {
			t.batch().insert(ctx, conn, 1)
		}
	})
	for _, t := range talks {
		b.index(ctx, t, by)
	}
	b.embedMemories(ctx, by)
	b.talks = talks
	kit.Check(kit.Exec(ctx, b.admin, "vacuum (analyze) public.turn_index, public.memories"))
}

// index indexes what the brief covers, and makes its vectors.
func (b *bench) index(ctx context.Context, t talk, by recall.Embedder) {
	for further := true; further; {
		kit.Check(b.admin.QueryRow(ctx, "select throughline.index_chat($1, $2)", t.id, t.covered()).Scan(&further))
	}
	vectors := b.vectors("turns", &postgres.TurnVectors{Pool: b.admin}, by)
	for paused := true; paused; {
		done := kit.Must(vectors.Embed(ctx, t.id, 1))
		if paused = done.Paused; done.Rest > 0 {
			kit.Fail("the embedder failed")
		}
	}
}
