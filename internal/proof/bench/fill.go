package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/memories"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// The kinds of chats that fill makes. Their ids follow from kind and number, see kit.ID.
const (
	shortChat = "short" // shortTurns turns, none of them folded
	dueChat   = "due"   // just over the threshold, and never folded
)

func (e *environment) shortChats() int { return max(1, e.messages/(2*shortTurns)) }

// batch is chats of one kind, an hour from turn to turn.
type batch struct {
	kind         string
	chats, turns int
	texts        []string // message s of chat c has the one of number 31 c + s, counted around
	covered      int      // the last seq that the brief covers
	summary      string
	version      int
}

// inBulk writes with triggers and foreign keys off; what triggers would have set is written as they would have, but that
// everything was read for memories.
func (e *environment) inBulk(ctx context.Context, write func(*pgxpool.Conn) error) error {
	conn, err := e.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := kit.Exec(ctx, conn, "set session_replication_role = replica", "set synchronous_commit = off", "set work_mem = '1GB'"); err != nil {
		return err
	}
	return errors.Join(write(conn), kit.Exec(ctx, conn, "reset all",
		"vacuum (analyze) public.chats, public.messages, public.conversation_briefs, public.memories", "checkpoint"))
}

// fill writes users with their memories, chats, briefs and messages.
func (e *environment) fill(ctx context.Context) error {
	began := time.Now()
	texts := make([]string, kit.Texts)
	for n := range texts {
		texts[n] = kit.Text(n)
	}
	err := e.inBulk(ctx, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, kit.InsertUsers, e.users)
		return errors.Join(err,
			batch{kind: shortChat, chats: e.shortChats(), turns: shortTurns, texts: texts}.insert(ctx, conn, e.users),
			batch{kind: dueChat, chats: e.folds, turns: dueTurns(), texts: texts}.insert(ctx, conn, e.users),
			e.fillMemories(ctx, conn))
	})
	if err != nil {
		return err
	}
	e.say("filled: %d messages in %.1f s", e.messages, time.Since(began).Seconds())
	return e.unfold(ctx)
}

func (b batch) insert(ctx context.Context, conn *pgxpool.Conn, users int) error {
	tokens := make([]int, len(b.texts))
	for n := range tokens {
		tokens[n] = text.Tokens(b.texts[n])
	}
	// By seq, because in a real table the messages of a chat do not lie side by side either.
	_, err := conn.Exec(ctx, `
		insert into public.messages (id, chat_id, user_id, seq, role, content, reply_to, token_count, created_at)
		select md5($1 || '-' || c || '-' || s)::uuid, md5($1 || '-' || c)::uuid, md5('user-' || c % $3)::uuid, s,
		       case when s % 2 = 1 then 'user' else 'assistant' end, ($5::text[])[n],
		       case when s % 2 = 0 then md5($1 || '-' || c || '-' || s - 1)::uuid end, ($6::int[])[n],
		       now() - make_interval(hours => $4::int - (s - 1) / 2)
		  from generate_series(1, 2 * $4::int) s cross join generate_series(0, $2::int - 1) c
		 cross join lateral (select 1 + (c * 31 + s) % cardinality($6::int[]) as n) t order by s`,
		b.kind, b.chats, users, b.turns, b.texts, tokens)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `
		insert into public.chats (id, user_id, title, last_seq, message_count, turn_count, last_message_at)
		select md5($1 || '-' || c)::uuid, md5('user-' || c % $3)::uuid, 'Chat ' || c, 2 * $4::int, 2 * $4::int, $4::int, now()
		  from generate_series(0, $2::int - 1) c`,
		b.kind, b.chats, users, b.turns)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `
		insert into public.conversation_briefs (chat_id, user_id, to_index, brief, brief_tokens, version, covered_seq, extracted_seq, pending_tokens, pending_turns)
		select c.id, c.user_id, false,
		       jsonb_build_object('global_summary', $2::text, 'last_summarized_message_id',
		         (select m.id from public.messages m where m.chat_id = c.id and m.seq = $4)),
		       $3, $5, $4, c.last_seq, rest.tokens, rest.turns
		  from generate_series(0, $6::int - 1) n
		  join public.chats c on c.id = md5($1 || '-' || n)::uuid
		 cross join lateral (
		       select coalesce(sum(m.token_count), 0) as tokens, count(*) filter (where m.role = 'user') as turns
		         from public.messages m where m.chat_id = c.id and m.seq > $4) rest`,
		b.kind, b.summary, text.Tokens(b.summary), b.covered, b.version, b.chats)
	return err
}

// What users are known for: each thing is in each of the places, for every user.
var (
	knownThings = []string{"accordion", "telescope", "kayak", "sewing machine", "microscope", "saxophone", "typewriter", "barometer"}
	knownPlaces = []string{"attic", "cellar", "garage", "greenhouse", "workshop"}
)

// askForMemory returns a question whose words find memories. It is always another one, because the vector of a question
// is kept for when it comes again.
func (e *environment) askForMemory() string {
	n := int(e.asked.Add(1))
	return fmt.Sprintf("Is it the %s that I keep in the %s, or one of the %d others?", knownThings[n%len(knownThings)], knownPlaces[n%len(knownPlaces)], n)
}

// fillMemories makes every user known for the same things. The keyless embedder makes the vectors of the first user's
// memories, as the program would.
func (e *environment) fillMemories(ctx context.Context, conn *pgxpool.Conn) error {
	for _, thing := range knownThings {
		for _, place := range knownPlaces {
			_, err := conn.Exec(ctx, "insert into public.memories (user_id, content, graph_version) values ($1, $2, 1)",
				e.owners[0].user, fmt.Sprintf("The user keeps a %s in the %s.", thing, place))
			if err != nil {
				return err
			}
		}
	}
	if _, err := conn.Exec(ctx, "insert into public.memory_users (user_id, fades_at) select id, null from auth.users"); err != nil {
		return err
	}
	helper, err := startRole(ctx, role{Kind: roleEmbedder, Source: e.source})
	if err != nil {
		return err
	}
	vectors := llm.NewEmbedder(llm.EmbedderConfig{BaseURL: helper.Address, APIKey: "none", Model: embedder.Model})
	err = errors.Join(e.embedMemories(ctx, vectors), helper.Stop())
	vectors.Close()
	if err != nil {
		return fmt.Errorf("vectors of memories: %w", err)
	}
	_, err = conn.Exec(ctx, `insert into public.memories (user_id, content, graph_version, embedding, embedding_model)
		select u.id, m.content, 1, m.embedding, m.embedding_model from auth.users u cross join public.memories m where m.user_id = $1 and u.id <> $1`,
		e.owners[0].user)
	return err
}

// embedMemories makes the vectors of the first user's memories.
func (e *environment) embedMemories(ctx context.Context, by recall.Embedder) error {
	vectors := memories.NewVectors(memories.VectorsConfig{Store: postgres.NewEmbeddings(e.pool, recall.VectorSize), Embedder: by, Logger: quiet()})
	done, err := vectors.EmbedMemories(ctx, e.owners[0].user)
	if err == nil && done.Memories != len(knownThings)*len(knownPlaces) {
		err = fmt.Errorf("%d memories have one", done.Memories)
	}
	return err
}

// fillTalks writes the chats of measureRecall, has them indexed as the sweep does, and their vectors made as embed_turns does,
// for the first user's memories as well. It returns those that are searched. Only the first run needs it.
func (e *environment) fillTalks(ctx context.Context) ([]talk, error) {
	if e.talks != nil {
		return e.talks, nil
	}
	var all []talk
	for n := range len(e.recallTurns) + e.otherChats {
		turns := e.otherTurns
		if n < len(e.recallTurns) {
			turns = e.recallTurns[n]
		}
		all = append(all, talk{conversation: e.conversation(fmt.Sprint(recallChat, n), 0), number: n, turns: turns})
	}
	began := time.Now()
	err := e.inBulk(ctx, func(conn *pgxpool.Conn) error {
		for _, t := range all {
			if err := t.batch().insert(ctx, conn, 1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if err := e.indexTalk(ctx, t); err != nil {
			return nil, fmt.Errorf("index: %w", err)
		}
	}
	if err := e.embedMemories(ctx, bagOfWords{}); err != nil {
		return nil, err
	}
	e.say("recall: filled in %.1f s", time.Since(began).Seconds())
	e.talks = all[:len(e.recallTurns)]
	return e.talks, kit.Exec(ctx, e.admin, "vacuum (analyze) public.turn_index, public.memories")
}

// indexTalk indexes what the brief covers, and makes its vectors.
func (e *environment) indexTalk(ctx context.Context, t talk) error {
	for further := true; further; {
		if err := e.admin.QueryRow(ctx, "select throughline.index_chat($1, $2)", t.id, t.covered()).Scan(&further); err != nil {
			return err
		}
	}
	vectors := recall.NewVectors(recall.VectorsConfig{
		Store: postgres.NewEmbeddings(e.pool, recall.VectorSize), Embedder: bagOfWords{}, Logger: quiet(), Metrics: metrics.New(),
	})
	for {
		done, err := vectors.EmbedTurns(ctx, t.id)
		if err == nil && done.Rest > 0 {
			err = errors.New("the embedder failed")
		}
		if err != nil || !done.Paused {
			return err
		}
	}
}

// summaryText returns a brief of some 300 tokens without repetition.
func summaryText() string {
	var b strings.Builder
	for i := range 14 {
		sentence := strings.ToLower(kit.Sentences[i%len(kit.Sentences)][:40])
		fmt.Fprintf(&b, "On day %d the user worked on piece %d: %s. ", i+1, 100+7*i, sentence)
	}
	return strings.TrimSpace(b.String())
}

// dueTurns returns how many turns bring a chat over the threshold.
func dueTurns() int {
	tokens, turns := 0, 0
	for tokens <= memory.DefaultLimits().ChunkThreshold*21/20 {
		tokens += text.Tokens(kit.Text(2*turns)) + text.Tokens(kit.Text(2*turns+1))
		turns++
	}
	return turns
}
