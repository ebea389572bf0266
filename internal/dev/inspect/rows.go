package inspect

import "time"

// Each row type names its columns as the query does; ages are in seconds, because a person reads them.

const selectChats = `
select chat_id::text as id, title, last_seq as messages, version, pending_turns, pending_tokens, stale,
       extract(epoch from now() - last_message_at)::float8 as quiet
  from inspect.briefs
 order by last_message_at desc nulls last, chat_id
 limit $1`

type chatRow struct {
	ID            string
	Title         string
	Messages      int64
	Version       int64
	PendingTurns  int
	PendingTokens int
	Stale         bool
	Quiet         *float64
}

const selectBrief = `
select b.title, b.last_seq as messages, b.version, b.global_summary as summary, b.brief_tokens, b.covered_seq, b.covered_turns,
       b.pending_turns, b.pending_tokens, b.stale, b.folding_now, b.pieces_done, b.pieces, f.counters_agree,
       b.fold_failures, b.fold_failure, extract(epoch from b.retry_at - now())::float8 as retry_in,
       extract(epoch from b.age)::float8 as age, extract(epoch from f.oldest_age)::float8 as oldest,
       b.memory_strategy as strategy, b.max_turns, b.cleared_seq, b.expired
  from inspect.briefs b
  join inspect.buffers f using (chat_id)
 where chat_id = $1::uuid`

type briefRow struct {
	Title         string
	Messages      int64
	Version       int64
	Summary       string
	BriefTokens   int
	CoveredSeq    int64
	CoveredTurns  int64
	PendingTurns  int
	PendingTokens int
	Stale         bool
	FoldingNow    bool
	PiecesDone    *int // of a change of several pieces; nil for none
	Pieces        *int
	CountersAgree bool
	FoldFailures  int
	FoldFailure   *string
	RetryIn       *float64 // negative once it may be tried again; nil if nothing failed
	Age           *float64 // of the latest change; nil before the first
	Oldest        *float64 // of the buffer's first message; nil without any
	Strategy      string
	MaxTurns      *int // turn limit; nil for none
	ClearedSeq    int64
	Expired       bool
}

const selectJob = `
select kind, state::text as state, attempt::int as attempt, errors[array_upper(errors, 1)] ->> 'error' as failure
  from river.river_job
 where kind in ('fold_brief', 'rebuild_brief') and args @> jsonb_build_object('chat_id', $1::text) and finalized_at is null
 order by id`

// jobRow is a job of the chat that is not over.
type jobRow struct {
	Kind    string
	State   string
	Attempt int
	Failure *string
}

const selectRevisions = `
select version, kind, created_at, seq_from, seq_to, turns, coalesce(tokens_before, 0) as tokens_before,
       coalesce(tokens_after, 0) as tokens_after, model, prompt_ref, duration_ms, redacted,
       coalesce(sentences_added, '{}') as added, coalesce(sentences_removed, '{}') as removed
  from inspect.revisions
 where chat_id = $1::uuid
 order by version desc
 limit $2`

type revisionRow struct {
	Version      int64
	Kind         string
	CreatedAt    time.Time
	SeqFrom      int64
	SeqTo        int64
	Turns        int
	TokensBefore int64
	TokensAfter  int64
	Model        string
	PromptRef    string
	DurationMs   int
	Redacted     bool
	Added        []string
	Removed      []string
}

const selectReplies = `
select message_id::text as id, turn, status, coalesce(model_variant, '') as variant, brief_version, brief_tokens,
       bridge_turns, bridge_tokens, tail_turns, tail_tokens, dropped_turns, coalesce(truncated, false) as truncated,
       input_tokens, cached_tokens, output_tokens
  from inspect.turns
 where chat_id = $1::uuid and message_id is not null
 order by turn desc
 limit $2`

// replyRow is a reply with its receipt and its usage, both nil where the reply has none.
type replyRow struct {
	ID           string
	Turn         int64
	Status       string
	Variant      string
	BriefVersion *int64
	BriefTokens  *int64
	BridgeTurns  *int64
	BridgeTokens *int64
	TailTurns    *int64
	TailTokens   *int64
	DroppedTurns *int64
	Truncated    bool
	InputTokens  *int64
	CachedTokens *int64
	OutputTokens *int64
}

const selectMemories = `
select m.content, m.memory_type as kind, m.status, m.confidence, m.pinned, m.edited, m.valid_from, m.valid_to, m.valid_precision, m.times_said as said,
       m.superseded_by_content as successor
  from inspect.memories m
 where m.memory_id in (select s.memory_id from public.messages said join public.memory_sources s on s.message_id = said.id where said.chat_id = $1::uuid)
 order by m.first_said_at, m.memory_id
 limit $2`

// memoryRow is a memory that was said in the chat.
type memoryRow struct {
	Content        string
	Kind           string
	Status         string
	Confidence     float64
	Pinned, Edited bool
	ValidFrom      *time.Time
	ValidTo        *time.Time
	ValidPrecision *string
	Said           int64
	Successor      *string
}

const selectUnread = `select unread_turns as turns, reason from inspect.unextracted where chat_id = $1::uuid`

// unreadRow says why some of the chat was not read for memories. A chat that is read has none.
type unreadRow struct {
	Turns  int64
	Reason string
}
