package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// expiring makes a worker look for expired chats all the time.
func expiring(days int) func(*brief.Config, *WorkerConfig) {
	return func(_ *brief.Config, config *WorkerConfig) {
		config.ExpireInterval, config.ExpiredDays = 200*time.Millisecond, days
	}
}

// expire makes a chat expired for the given time.
func (r *rig) expire(chatID uuid.UUID, ago string) {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, `update chats set ttl_hours = 1, created_at = now() - $2::interval - interval '1 hour', last_message_at = now() - $2::interval - interval '1 hour'
		where id = $1`, chatID, ago)
}

// run starts a reply in a chat and leaves it running.
func (r *rig) run(chatID uuid.UUID) {
	r.t.Helper()
	testkit.Exec(r.t, r.pool, "insert into messages (chat_id, role, status, content, lease_until) values ($1, 'assistant', 'streaming', '', now() + interval '1 hour')", chatID)
}

// awaitOutput waits for a job of a kind that did something, and returns its output.
func (r *rig) awaitOutput(kind, key string) map[string]int {
	r.t.Helper()
	const done = "kind = $1 and (metadata -> 'output' ->> $2)::int > 0"
	testkit.Eventually(r.t, kind+" says what it did", func() bool {
		return testkit.Ask[int](r.t, r.pool, "select count(*) from river.river_job where "+done, kind, key) > 0
	})
	var output map[string]int
	raw := testkit.Ask[string](r.t, r.pool, "select metadata ->> 'output' from river.river_job where "+done+" order by id limit 1", kind, key)
	if err := json.Unmarshal([]byte(raw), &output); err != nil {
		r.t.Fatal(err)
	}
	return output
}

// awaitRuns waits until a periodic job has run that many more times.
func (r *rig) awaitRuns(kind string, times int) {
	r.t.Helper()
	const count = "select count(*) from river.river_job where kind = $1 and state = 'completed'"
	before := testkit.Ask[int](r.t, r.pool, count, kind)
	testkit.Eventually(r.t, kind+" runs", func() bool { return testkit.Ask[int](r.t, r.pool, count, kind) >= before+times })
}

// chats returns the ids of the chats that are left.
func (r *rig) chats() []uuid.UUID {
	r.t.Helper()
	return testkit.Ask[[]uuid.UUID](r.t, r.pool, "select coalesce(array_agg(id), '{}') from chats")
}

// revive starts a turn in an expired chat and returns what its prompt is made of.
func (r *rig) revive(chatID uuid.UUID) memory.Chat {
	r.t.Helper()
	turns := postgres.NewTurns(r.pool, r.limits, postgres.Enqueue{Fold: EnqueueFold(r.insert)})
	started, err := turns.StartTurn(r.t.Context(), auth.Principal{UserID: r.user, Claims: fmt.Sprintf(`{"sub": "%s", "role": "authenticated"}`, r.user)}, chat.NewTurn{
		ChatID: chatID, UserMessageID: uuid.New(), MessageID: uuid.New(), Content: "Where were we?", ContentTokens: 4, Variant: "arco", Lease: time.Minute, Revive: true, SystemPromptRoom: 1 << 20,
	})
	if err != nil || !started.Started {
		r.t.Fatalf("%+v, %v", started, err)
	}
	return started.Chat
}

// Expiry alone makes no fold due: a chat that ends after one turn costs no model call, and comes back with its turn
// word for word.
func TestShortChatComesBackAsItWas(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	chatID := r.chat(1, 5)
	r.expire(chatID, "1 minute")
	r.work(func(b *brief.Config, w *WorkerConfig) { expiring(30)(b, w); sweeping(b, w) })
	r.awaitRuns("expire_chats", 2)
	r.awaitRuns("sweep_briefs", 2)
	if folds := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'fold_brief'"); folds != 0 {
		t.Errorf("%d folds", folds)
	}
	m := r.revive(chatID)
	p := prompt.Build(m, prompt.Question{Content: "Where were we?"}, r.limits)
	if p.Receipt.TailTurns != 1 || p.Receipt.BriefVersion != 0 || p.Receipt.DroppedTurns != 0 {
		t.Errorf("it remembers %+v in\n%s", p.Receipt, p.Input)
	}
}

// A chat whose buffer is over the threshold is folded whether it has expired or not, and keeps its tail.
func TestLongChatIsFoldedAfterItExpired(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const turns = 40
	chatID := r.chat(turns, 5)
	r.expire(chatID, "1 minute")
	r.work(sweeping)
	testkit.Eventually(t, "what is due is folded", func() bool {
		return testkit.Ask[int](t, r.pool, "select pending_turns from conversation_briefs where chat_id = $1", chatID) < turns
	})
	r.awaitIdle()
	r.checkFoldedOnce(chatID, turns)
	m := r.revive(chatID)
	p := prompt.Build(m, prompt.Question{Content: "Where were we?"}, r.limits)
	if m.TotalTurns != turns || p.Receipt.TailTurns < r.limits.KRawTurns || p.Receipt.DroppedTurns != 0 || m.Brief.Summary == "" {
		t.Errorf("it remembers %+v of %d turns", p.Receipt, m.TotalTurns)
	}
}

// checkNoMore checks that a job which inserts work inserts no more. One that began before the work was done
// may insert it once more, without effect.
func (r *rig) checkNoMore(kind, looking string) {
	r.t.Helper()
	count := func(kind string) int {
		return testkit.Ask[int](r.t, r.pool, "select count(*) from river.river_job where kind = $1", kind)
	}
	r.awaitRuns(looking, 2)
	asked := count(kind)
	r.awaitRuns(looking, 2)
	if n := count(kind); n != asked {
		r.t.Errorf("%d jobs %s were asked for after everything was done", n-asked, kind)
	}
}

// Expired chats are kept for ExpiredDays, for ever if that is 0. A chat with a running reply is kept in any
// case.
func TestExpiredChatsAreDeletedAfterTheirDays(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	never, recent, old, busy := r.chat(1, 1), r.chat(1, 1), r.chat(1, 1), r.chat(1, 1)
	r.run(busy)
	r.expire(recent, "29 days")
	r.expire(old, "31 days")
	r.expire(busy, "31 days")
	forever := r.work(expiring(0))
	r.awaitRuns("expire_chats", 2)
	forever.stop()
	if got := r.chats(); len(got) != 4 {
		t.Fatalf("without any days to keep them %d of 4 chats are left", len(got))
	}
	r.work(expiring(30))
	if got := r.awaitOutput("expire_chats", "deleted_chats"); got["deleted_chats"] != 1 {
		t.Errorf("the job says %v", got)
	}
	r.awaitRuns("expire_chats", 2)
	if got := r.chats(); len(got) != 3 || slices.Contains(got, old) || !slices.Contains(got, never) {
		t.Errorf("left are %v", got)
	}
	if logs := r.logs.String(); !strings.Contains(logs, `"deleted_chats":1`) || strings.Contains(logs, "practise") {
		t.Errorf("the log is %s", logs)
	}
}

// Idle chats are deleted only if PruneDays is set, even if the job was inserted by hand.
func TestPruneOnlyWhereAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	active, idle, busy := r.chat(1, 1), r.chat(1, 1), r.chat(1, 1)
	r.run(busy)
	testkit.Exec(t, r.pool, "update chats set created_at = now() - interval '11 days', last_message_at = now() - interval '11 days' where id = any($1)", []uuid.UUID{idle, busy})
	unasked := r.work(nil)
	if _, err := unasked.Insert(t.Context(), PruneChats{}, nil); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the job has run", func() bool {
		return testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = 'prune_chats' and metadata -> 'output' ->> 'deleted_chats' = '0'") == 1
	})
	unasked.stop()
	if got := r.chats(); len(got) != 3 {
		t.Fatalf("%d of 3 chats are left", len(got))
	}
	r.work(func(_ *brief.Config, c *WorkerConfig) { c.PruneDays = 10 })
	if got := r.awaitOutput("prune_chats", "deleted_chats"); got["deleted_chats"] != 1 {
		t.Errorf("the job says %v", got)
	}
	if got := r.chats(); len(got) != 2 || slices.Contains(got, idle) || !slices.Contains(got, active) {
		t.Errorf("left are %v", got)
	}
}

// The sweep finds chats with more turns than max_turns, however short they are.
func TestSweepFindsChatsOverTheirTurnLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	over, within := r.chat(4, 0), r.chat(4, 0)
	testkit.Exec(t, r.pool, "update chats set max_turns = case when id = $1 then 3 else 4 end", over)
	r.work(sweeping)
	r.awaitVersion(over, 1)
	r.awaitIdle()
	r.awaitRuns("sweep_briefs", 2)
	r.checkFoldedOnce(over, 4)
	if got := testkit.Ask[int](t, r.pool, "select pending_turns from conversation_briefs where chat_id = $1", over); got != r.limits.KRawTurns {
		t.Errorf("%d turns are left", got)
	}
	if got := testkit.Ask[int64](t, r.pool, "select version from conversation_briefs where chat_id = $1", within); got != 0 {
		t.Error("a chat within its limit was folded")
	}
}

// A brief that was damaged by hand is rebuilt, even if the chat is too small to be due.
func TestSweepHealsUnreadableBriefs(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	folded, small := r.chat(7, 10), r.chat(1, 1)
	r.enqueue(folded)
	first := r.work(nil)
	r.awaitVersion(folded, 1)
	r.awaitIdle()
	first.stop()
	covered := testkit.Ask[int64](t, r.pool, "select covered_seq from conversation_briefs where chat_id = $1", folded)
	testkit.Exec(t, r.pool, "alter table conversation_briefs drop constraint conversation_briefs_valid")
	testkit.Exec(t, r.pool, `update conversation_briefs set brief = '{"global_summary": ["rubbish"], "last_summarized_message_id": 7}'`)
	r.work(sweeping)
	r.awaitVersion(folded, 2)
	r.awaitVersion(small, 1)
	r.awaitIdle()
	r.awaitRuns("sweep_briefs", 2)
	if got := testkit.Ask[int](t, r.pool, "select count(*) from conversation_briefs where readable"); got != 2 {
		t.Errorf("%d of 2 briefs can be read", got)
	}
	if got := testkit.Ask[string](t, r.pool, "select covered_seq || (brief ->> 'global_summary' like '%etude%')::text from conversation_briefs where chat_id = $1", folded); got != fmt.Sprintf("%dtrue", covered) {
		t.Errorf("the brief is %s", got)
	}
	r.checkNoMore("rebuild_brief", "sweep_briefs")
}
