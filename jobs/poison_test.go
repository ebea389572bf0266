package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/graph"
	"github.com/arcoscribe/throughline/internal/memory/longterm"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// reachable are the columns of numbers and times that a file, a user or a model's server can bring to the end of their range, with
// that end: "first" and "last" are the moments that may be stored.
var reachable = map[string]string{
	"chats.created_at": "moment", "chats.last_message_at": "moment", "chats.updated_at": "moment", "chats.max_turns": "100000",
	"chats.title_seq":     "9223372036854775807",
	"messages.created_at": "moment", "messages.updated_at": "moment", "messages.importance": "1", "messages.rating": "1",
	"conversation_briefs.pending_tokens": "2147483647", "conversation_briefs.max_turns": "100000",
	"turn_index.said_at": "moment", "turn_index.tokens": "2000000000",
	"topics.created_at": "moment", "topics.last_active_at": "moment", "topics.importance": "1",
	"memories.confidence": "1", "memories.access_count": "2147483647",
	"memories.valid_from": "moment", "memories.valid_to": "moment", "memories.recorded_at": "moment", "memories.retracted_at": "moment",
	"memories.last_accessed": "moment", "memories.created_at": "moment", "memory_sources.said_at": "moment",
	"memory_relationships.valid_from": "moment", "memory_relationships.valid_to": "moment",
	"usage_events.input_tokens": "2147483647", "usage_events.cached_tokens": "2147483647", "usage_events.output_tokens": "2147483647",
}

// unreachable are the others, by why nothing brings them there.
var unreachable = map[string][]string{
	"the server's clock": {
		"chat_files.created_at", "chats.revived_at", "conversation_brief_drafts.updated_at", "conversation_brief_revisions.created_at",
		"conversation_briefs.updated_at", "conversation_briefs.extract_due_at", "conversation_briefs.topics_fade_at", "embedding_models.measured_at",
		"memories.updated_at", "memories.decayed_on", "memory_entities.created_at", "memory_extractions.created_at", "memory_relationships.recorded_at",
		"memory_revisions.created_at", "memory_users.paused_at", "memory_users.created_at", "memory_users.updated_at", "messages.lease_until",
		"accounts.created_at", "departed.at", "usage_events.created_at", "deleted_messages.deleted_at", "servers.lease_until",
		"work.lease_until", "work.waiting_since", "work.failing_since", "work.retry_at",
	},
	"derived from a column of these, by the work itself": {
		"chats.active_on", "chats.expires_at", "conversation_briefs.settled_tokens", "conversation_briefs.settled_turns", "conversation_briefs.thousands_to_fold",
		"memory_users.fades_at", "memory_users.archived_from",
	},
	"one for each message, change or try": {
		"chats.last_seq", "chats.message_count", "chats.turn_count", "messages.seq", "conversation_briefs.version", "conversation_briefs.covered_seq",
		"conversation_briefs.pending_turns", "conversation_briefs.edit_count", "conversation_briefs.cleared_seq", "conversation_briefs.cleared_turns",
		"conversation_briefs.indexed_seq", "conversation_briefs.extracted_seq", "conversation_briefs.assigned_seq", "conversation_brief_revisions.version",
		"conversation_brief_revisions.seq_from", "conversation_brief_revisions.seq_to", "conversation_brief_revisions.turns",
		"conversation_brief_revisions.undone_by",
		"conversation_brief_drafts.pieces_done", "conversation_brief_drafts.pieces", "memories.version", "memories.graph_version", "memory_revisions.version",
		"memory_users.version", "memory_entities.mentions", "memory_sources.seq", "memory_extractions.seq_from", "memory_extractions.seq_to",
		"memory_extractions.turns", "memory_extractions.candidates", "memory_extractions.added", "memory_extractions.updated", "memory_extractions.superseded",
		"memory_extractions.noops", "memory_extractions.calls", "message_files.place", "topics.number", "topics.title_seq", "topics.summary_seq",
		"topics.access_count", "topics.message_count", "topics.centroid_turns", "topics.first_seq", "topics.last_seq", "topics.compacted_seq",
		"topics.compacted_messages", "topics.version", "turn_index.seq", "turn_index.last_seq", "turn_index.words_from", "turn_index.segment",
		"turn_index.second_seq", "work.waiting_job", "work.failures",
	},
	"counted by the server in a text of bounded length": {
		"chat_files.bytes", "chat_files.token_count", "messages.token_count", "conversation_briefs.brief_tokens", "conversation_brief_drafts.tokens",
		"message_deltas.start_char", "topics.summary_tokens", "turn_index.lexemes",
	},
	"bounded by the model's own dimensions": {
		"embedding_models.dims", "embedding_models.unrelated_p50", "embedding_models.unrelated_p99", "embedding_models.sentences",
	},
	"0, as no variant has a price":                {"usage_events.micro_usd"},
	"an hour limit, whose end is an expired chat": {"chats.ttl_hours"},
	"cut off where it is written": {
		"conversation_brief_revisions.input_tokens", "conversation_brief_revisions.output_tokens", "conversation_brief_revisions.duration_ms",
		"conversation_brief_drafts.duration_ms", "memory_extractions.input_tokens", "memory_extractions.output_tokens", "memory_extractions.duration_ms",
	},
}

// poison brings all reachable columns to the end of their range, as an import leaves them: no trigger has its say.
func (r *rig) poison(moment string) {
	known := []string{}
	for _, columns := range unreachable {
		known = append(known, columns...)
	}
	sets := map[string][]string{}
	for column, end := range reachable {
		known = append(known, column)
		table, name, _ := strings.Cut(column, ".")
		if end == "moment" {
			end = "case when " + name + " is null then null else '" + moment + "'::timestamptz end"
		}
		sets[table] = append(sets[table], name+" = "+end)
	}
	slices.Sort(known)
	columns := testkit.Ask[[]string](r.t, r.pool, `select array_agg(table_name || '.' || column_name order by (table_name || '.' || column_name) collate "C")
		from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
		where table_type = 'BASE TABLE' and table_schema in ('public', 'throughline')
		  and data_type in ('integer', 'bigint', 'smallint', 'real', 'double precision', 'numeric', 'date', 'interval', 'timestamp with time zone')`)
	require.Equal(r.t, columns, known, "each column of a number or a time is reachable, or it is said why not")
	require.NoError(r.t, pgx.BeginFunc(r.t.Context(), r.pool, func(tx pgx.Tx) error {
		for table, set := range sets {
			testkit.Exec(r.t, tx, "alter table "+table+" disable trigger user")
			testkit.Exec(r.t, tx, "update "+table+" set "+strings.Join(set, ", "))
			testkit.Exec(r.t, tx, "alter table "+table+" enable trigger user")
		}
		return nil
	}))
}

// answersAll is a model that proposes a move, uses what it is shown, and reports a usage beyond all measure.
func answersAll(request *offline.Request) offline.Answer {
	answer := offline.Answer{}
	switch request.Metadata["purpose"] {
	case "extract", "consolidate":
		answer = remembersMoves(request)
	case "entities":
		answer = jsonAnswer(map[string]any{"memories": []any{}})
	}
	answer.Usage = &offline.Usage{Input: 1 << 40, Output: 1 << 40}
	return answer
}

// graphing makes a worker keep the graph of memories.
func (r *rig) graphing(_ *brief.Config, c *WorkerConfig) {
	model := llm.New(llm.Settings{APIKey: "offline", BaseURL: r.model.BaseURL(), IdleTimeout: time.Minute})
	r.t.Cleanup(model.Close)
	c.Grapher = &graph.Engine{
		Store: &postgres.Graph{Pool: r.pool}, Leases: &postgres.Work{Pool: r.pool}, Asker: model, Model: "small", Metrics: metrics.New(), Logger: r.logs.Logger(),
	}
}

// Whatever numbers and times a file, a user or a model's server brings: turns are stored, and all work goes on.
func TestNoValueEndsTheWork(t *testing.T) {
	t.Parallel()
	for name, moment := range map[string]string{"last": "9999-12-31 23:59:59.999999Z", "first": "0001-01-01 00:00:00Z"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, answersAll)
			r.knowsLyon()
			told, long, packed, talked := r.told(movedToPorto, "Good night."), r.chat(20, 10), r.chat(30, 3), r.indexed(8)
			topic := r.topicOf(packed)
			testkit.Exec(t, r.pool, `update messages set content = 'As you live in Lyon, it is late.', metadata = jsonb_build_object('memory',
				jsonb_build_object('memories', (select jsonb_agg(id) from memories))) where chat_id = $1 and role = 'assistant'`, told)
			testkit.Exec(t, r.pool, "insert into memories (user_id, content, valid_from) values ($1, 'The user owns two cellos.', now())", r.user)
			testkit.Exec(t, r.pool, "insert into usage_events (user_id, chat_id, purpose) select $1, $2, 'extract' from generate_series(1, 3)", r.user, told)
			r.poison(moment)
			for _, chatID := range []uuid.UUID{told, long, packed, talked} {
				r.say(chatID, 31, 33, 3)
			}
			testkit.Exec(t, r.pool, "update conversation_briefs set extract_due_at = now() - interval '1 hour' where chat_id = $1", told)
			r.work(r.extracting(func(e *longterm.Extractor) { e.MostTurns = 4 }), r.keepsTopics(nil), r.graphing, func(_ *brief.Config, c *WorkerConfig) {
				c.Fade, c.SweepInterval = true, 200*time.Millisecond
			})
			for _, job := range []work.Job{
				{Name: work.ExtractMemories, ChatID: told}, {Name: work.FoldBrief, ChatID: long}, {Name: work.CompactTopic, ChatID: packed, TopicID: topic},
				{Name: work.AssignTopics, ChatID: talked}, {Name: work.DecayMemories}, {Name: work.UpdateMemoryGraph}, {Name: work.MergeTopics},
			} {
				r.insertJob(job)
			}
			for what, done := range map[string]string{
				"the chat is read":   "select extracted_seq = last_seq from conversation_briefs b join chats c on c.id = b.chat_id where c.id = '%s'",
				"a memory is used":   "select exists (select from memories where access_count = 2147483647 and last_accessed between now() - interval '1 hour' and now())",
				"the move is known":  "select exists (select from memories where content ~ 'Porto' and status = 'active')",
				"the graph is whole": "select not exists (select from memories where graph_version is null and status = 'active')",
			} {
				if strings.Contains(done, "%s") {
					done = fmt.Sprintf(done, told)
				}
				testkit.Await(t, r.pool, what, true, done)
			}
			r.awaitVersion(long, 1)
			testkit.Await(t, r.pool, "the topic is packed", true, "select compacted_seq > 0 from topics where id = $1", topic)
			testkit.Await(t, r.pool, "turns have topics", 0, "select count(*) from turn_index where chat_id = $1 and topic_id is null", talked)
			testkit.Await(t, r.pool, "memories fade", true, "select exists (select from river.river_job where kind = 'decay_memories' and state = 'completed')")
			errors := testkit.Ask[[]string](t, r.pool,
				`select coalesce(array_agg(kind || ': ' || (errors[1] ->> 'error')), '{}') from river.river_job where errors is not null`)
			assert.Empty(t, errors)
			testkit.Want(t, r.pool, 0, "select count(*) from throughline.work where failures > 0")
		})
	}
}
