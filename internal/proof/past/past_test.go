// Package past changes the past of chats at random in Postgres and in a [tree] in memory, and compares the two after each step: the
// path, the counters, what the brief covers and says, its history; and that no word that was taken back is left anywhere.
package past

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

var (
	histories = flag.Int("histories", 40, "how many")
	seed      = flag.Uint64("seed", 1, "of the first history; each next one has the next")
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestRandomHistories(t *testing.T) {
	t.Parallel()
	database := testkit.NewDatabase(t)
	pool, err := pgxpool.New(t.Context(), database.DSN)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	const shards = 2
	for shard := range uint64(shards) {
		t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
			t.Parallel()
			user, steps := testkit.NewUser(t, database), 0
			for n := *seed + shard; n < *seed+uint64(*histories); n += shards {
				h := &history{t: t, pool: pool, random: rand.New(rand.NewPCG(n, 0)), seed: n, user: user, gone: map[string]bool{}}
				steps += h.run()
			}
			t.Logf("of %d histories every second, %d steps: no difference", *histories, steps)
		})
	}
}

type history struct {
	t      *testing.T
	pool   *pgxpool.Pool
	random *rand.Rand
	seed   uint64
	user   uuid.UUID
	chat   uuid.UUID
	tree   tree
	said   int
	gone   map[string]bool // words that nothing may say any more
	did    []string
}

func (h *history) run() (steps int) {
	h.chat = uuid.New()
	h.exec(`insert into chats (id, user_id) values ($1, $2)`, h.chat, h.user)
	h.turn()
	steps = 10 + h.random.IntN(50)
	for range steps {
		before := h.tree.words()
		h.did = append(h.did, h.step())
		h.tree.settle(before)
		h.forget(before)
		h.compare()
	}
	h.exec(`delete from chats where id = $1`, h.chat)
	return steps
}

// step makes one change, turns the most often.
func (h *history) step() string {
	line := h.tree.path(h.tree.clearedTo, end)
	switch choice := h.random.IntN(20); {
	case len(line) == 0 || choice < 6:
		return h.turn()
	case choice < 9:
		return h.fold()
	case choice < 11:
		return h.edit(line)
	case choice < 13:
		return h.regenerate(line)
	case choice < 16:
		return h.choose()
	case choice < 17:
		return h.remove()
	case choice < 18:
		return h.rewrite()
	case choice < 19:
		return h.read()
	case h.random.IntN(3) == 0:
		return h.clear()
	default:
		h.exec(`select throughline.index_chat($1, null)`, h.chat)
		return "index"
	}
}

func (h *history) turn() string {
	asked := h.insert(true, uuid.Nil)
	h.insert(false, asked)
	return "turn"
}

// insert adds a message to both.
func (h *history) insert(user bool, replyTo uuid.UUID) uuid.UUID {
	h.said++
	r := &row{id: uuid.New(), user: user, content: fmt.Sprintf("word%dx%d", h.seed, h.said)}
	role := "assistant"
	if user {
		role = "user"
	}
	r.seq = ask[int64](h, `insert into messages (id, chat_id, user_id, role, content, reply_to)
		values ($1, $2, $3, $4, $5, nullif($6::uuid, $7::uuid)) returning seq`,
		r.id, h.chat, h.user, role, r.content, replyTo, uuid.Nil)
	h.tree.insert(r)
	return r.id
}

// fold covers some of the path that is not covered, as a fold's commit does.
func (h *history) fold() string {
	covered := max(h.tree.standing().to, h.tree.clearedTo)
	line := h.tree.path(covered, end)
	if len(line) == 0 {
		return "nothing to fold"
	}
	to := line[h.random.IntN(len(line))].seq
	said := h.tree.says(h.tree.clearedTo, to)
	h.exec(`with written as (
		update conversation_briefs b set brief = jsonb_set(b.brief, '{global_summary}', to_jsonb($2::text)), brief_tokens = length($2), version = version + 1,
		       covered_seq = $3, pending_tokens = rest.tokens, pending_turns = rest.turns
		  from (select coalesce(sum(token_count), 0)::int as tokens, (count(*) filter (where role = 'user' and token_count > 0))::int as turns
		          from messages where chat_id = $1 and seq > $3) rest
		 where chat_id = $1 returning b.*)
		insert into conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary, input_tokens, output_tokens,
		       prompt_mode, prompt_ref, model, duration_ms, input_sha256, details)
		select chat_id, user_id, version, 'fold', $4, $3, 1, $2, 0, 0, 'none', '', '', 0, '', jsonb_build_object('tokens_after', brief_tokens) from written`,
		h.chat, said, to, covered+1)
	h.tree.revisions = append(h.tree.revisions, &revision{kind: "fold", from: covered + 1, to: to, said: said})
	return fmt.Sprintf("fold to %d", to)
}

// edit replaces a user's message and all after it.
func (h *history) edit(line []*row) string {
	asked := pick(h, slices.DeleteFunc(line, func(r *row) bool { return !r.user }))
	if asked == nil {
		return "nothing to edit"
	}
	h.supersede(asked.seq)
	h.turn()
	return fmt.Sprintf("edit %d", asked.seq)
}

// regenerate gives a message another reply.
func (h *history) regenerate(line []*row) string {
	asked := pick(h, slices.DeleteFunc(line, func(r *row) bool { return !r.user }))
	if asked == nil {
		return "nothing to regenerate"
	}
	h.supersede(asked.seq + 1)
	h.insert(false, asked.id)
	return fmt.Sprintf("regenerate %d", asked.seq)
}

// supersede names a message that is not there, as it is while the one that replaces is not inserted yet.
func (h *history) supersede(from int64) {
	by := uuid.New()
	h.exec(`update messages set superseded_by = $3, token_count = 0 where chat_id = $1 and seq >= $2 and superseded_by is null`, h.chat, from, by)
	h.tree.supersede(from, by)
}

// choose selects a version that is not on the path.
func (h *history) choose() string {
	off := pick(h, slices.DeleteFunc(slices.Clone(h.tree.rows), func(r *row) bool { return r.by == uuid.Nil || r.seq <= h.tree.clearedTo }))
	if off == nil {
		return "nothing to select"
	}
	before := h.tree.words()
	h.tree.selects(off.id)
	after, first := h.tree.words(), end
	for seq := range h.tree.lastSeq + 1 {
		if before[seq] != after[seq] {
			first = min(first, seq)
		}
	}
	// Nothing that came back was read, but for what is not to be.
	h.tree.readTo = min(h.tree.readTo, max(first-1, h.tree.skippedTo))
	last := ask[uuid.UUID](h, `select last_message_id from throughline.select_version($1) where from_seq = $2`, off.id, first)
	require.Equal(h.t, h.tree.last().id, last, "%s: the last message", h)
	return fmt.Sprintf("select %d", off.seq)
}

// remove deletes up to three messages in one statement.
func (h *history) remove() string {
	var ids []uuid.UUID
	var seqs []int64
	for range 1 + h.random.IntN(3) {
		if r := pick(h, h.tree.rows); r != nil && !slices.Contains(ids, r.id) {
			ids, seqs = append(ids, r.id), append(seqs, r.seq)
		}
	}
	h.exec(`delete from messages where id = any ($1)`, ids)
	h.gone[h.contents(ids)] = true
	h.tree.remove(ids)
	return fmt.Sprintf("delete %d", seqs)
}

func (h *history) contents(ids []uuid.UUID) string {
	var all []string
	for _, id := range ids {
		all = append(all, h.tree.find(id).content)
	}
	return strings.Join(all, "|")
}

// rewrite changes a message's text.
func (h *history) rewrite() string {
	r := pick(h, h.tree.rows)
	if r == nil {
		return "nothing to rewrite"
	}
	h.said++
	h.gone[r.content] = true
	r.content = fmt.Sprintf("word%dx%d", h.seed, h.said)
	h.exec(`update messages set content = $2 where id = $1`, r.id, r.content)
	return fmt.Sprintf("rewrite %d", r.seq)
}

// read notes in the ledger that some of the chat was read for memories, or was not to be.
func (h *history) read() string {
	to := h.tree.readTo + 1 + h.random.Int64N(6)
	if to > h.tree.lastSeq {
		return "nothing to read"
	}
	result := "done"
	if h.random.IntN(4) == 0 {
		result, h.tree.skippedTo = "skipped", to
	}
	for _, r := range h.tree.path(h.tree.readTo, to) {
		r.read = true
	}
	h.exec(`insert into memory_extractions (chat_id, user_id, seq_from, seq_to, result) values ($1, $2, $3, $4, $5)`, h.chat, h.user, h.tree.readTo+1, to, result)
	h.exec(`update conversation_briefs set extracted_seq = $2 where chat_id = $1`, h.chat, to)
	h.tree.readTo = to
	return fmt.Sprintf("read to %d: %s", to, result)
}

func (h *history) clear() string {
	if h.tree.clearedTo == h.tree.lastSeq {
		return "nothing to clear"
	}
	covered := max(h.tree.standing().to, h.tree.clearedTo)
	h.exec(`with cleared as (
		update conversation_briefs b set brief = '{"global_summary": "", "last_summarized_message_id": null}', brief_tokens = 0, version = b.version + 1,
		       covered_seq = c.last_seq, cleared_seq = c.last_seq, cleared_turns = c.turn_count, pending_tokens = 0, pending_turns = 0
		  from chats c where b.chat_id = $1 and c.id = $1 returning b.*)
		insert into conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary, input_tokens, output_tokens,
		       prompt_mode, prompt_ref, model, duration_ms, input_sha256)
		select chat_id, user_id, version, 'clear', $2, cleared_seq, 0, '', 0, 0, 'none', '', '', 0, '' from cleared`, h.chat, covered+1)
	for _, r := range h.tree.revisions {
		r.before = true
	}
	h.tree.clearedTo = h.tree.lastSeq
	h.tree.revisions = append(h.tree.revisions, &revision{kind: "clear", from: covered + 1, to: h.tree.lastSeq})
	return fmt.Sprintf("clear to %d", h.tree.lastSeq)
}

// forget notes words that left the path, and takes back those that returned.
func (h *history) forget(before map[int64]string) {
	for _, word := range before {
		h.gone[word] = true
	}
	for _, word := range h.tree.words() {
		delete(h.gone, word)
	}
}

const stateOf = `
select concat_ws(E'\n',
  (select format('brief: %s to %s, %s turns wait', to_json(brief ->> 'global_summary'), covered_seq, pending_turns)
     from conversation_briefs where chat_id = $1),
  (select format('chat: %s messages, %s turns, %s cleared', c.message_count, c.turn_count, b.cleared_turns)
     from chats c join conversation_briefs b on b.chat_id = c.id where c.id = $1),
  (select string_agg(format('%s %s: after %s, by %s, counted: %s', seq, left(id::text, 4), coalesce(left(parent_id::text, 4), '-'),
            coalesce(left(superseded_by::text, 4), '-'), (token_count > 0)::text), E'\n' order by seq) from messages where chat_id = $1),
  (select string_agg(format('version %s: %s %s..%s %s, undone: %s', version, kind, seq_from, seq_to, to_json(coalesce(global_summary, '')),
            (undone_by is not null)::text), E'\n' order by version) from conversation_brief_revisions where chat_id = $1), '')`

// everything that is derived from the chat's messages.
const derived = `
select concat_ws(' ', (select string_agg(r::text, ' ') from chats r where id = $1),
  (select string_agg(r::text, ' ') from conversation_briefs r where chat_id = $1),
  (select string_agg(r::text, ' ') from conversation_brief_revisions r where chat_id = $1),
  (select string_agg(tsv::text, ' ') from turn_index r where chat_id = $1))`

func (h *history) compare() {
	require.Equal(h.t, h.tree.state(), ask[string](h, stateOf, h.chat), "%s", h)
	said := ask[string](h, derived, h.chat)
	for _, word := range regexp.MustCompile(`word\d+x\d+`).FindAllString(said, -1) {
		require.Falsef(h.t, h.gone[word], "%s: %s is left in %s", h, word, said)
	}
	require.Equal(h.t, fmt.Sprintf("%d %t", h.tree.readTo, true), ask[string](h, `
		select format('%s %s', b.extracted_seq, (coalesce(max(e.seq_to), 0) = b.extracted_seq
		         and coalesce(sum(e.seq_to - e.seq_from + 1), 0) = b.extracted_seq)::text)
		  from conversation_briefs b left join memory_extractions e on e.chat_id = b.chat_id
		 where b.chat_id = $1 group by b.extracted_seq`, h.chat), "%s: the ledger", h)
	for _, r := range h.tree.path(h.tree.skippedTo, h.tree.readTo) {
		require.Truef(h.t, r.read, "%s: message %d came back and is not read", h, r.seq)
	}
	pending := ask[bool](h, `select b.pending_tokens = (select coalesce(sum(token_count), 0) from messages m where m.chat_id = $1 and m.seq > b.covered_seq)
		from conversation_briefs b where b.chat_id = $1`, h.chat)
	require.Truef(h.t, pending, "%s: pending_tokens", h)
}

func (h *history) String() string {
	return fmt.Sprintf("history of seed %d: %s", h.seed, strings.Join(h.did, ", "))
}

func (h *history) exec(sql string, args ...any) {
	_, err := h.pool.Exec(context.WithoutCancel(h.t.Context()), sql, args...)
	require.NoError(h.t, err, "%s", h)
}

func ask[T any](h *history, sql string, args ...any) T {
	rows, err := h.pool.Query(context.WithoutCancel(h.t.Context()), sql, args...)
	require.NoError(h.t, err, "%s", h)
	answer, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(h.t, err, "%s", h)
	return answer
}

func pick(h *history, among []*row) *row {
	if len(among) == 0 {
		return nil
	}
	return among[h.random.IntN(len(among))]
}
