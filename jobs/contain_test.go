package jobs

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// A text at which the embedder fails has no vector. It costs no other its vector, neither of its chat nor of other users, and the
// embedder is not left alone for it. What fails is a breakdown (500), and what the server does not say of a text (401).
func TestAPoisonedTextCostsNoOtherItsVector(t *testing.T) {
	t.Parallel()
	for _, fault := range []offline.Fault{offline.Fault500, offline.Fault401} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(request *offline.Request) offline.Answer {
				if strings.Contains(request.Text, mark("user", 13)) {
					return offline.Answer{Fault: fault}
				}
				return offline.Answer{}
			})
			poisoned, other := r.indexed(30), r.chatOf(testkit.NewUser(t, r.db), 5, 3)
			r.index(other)
			r.work(r.embedding(nil))
			testkit.Await(t, r.pool, "all turns are looked at", 0, "select count(*) from turn_index where embedding_model is null")
			// Zeros stand for no vector.
			testkit.Want(t, r.pool, true, `select count(*) = 35 and bool_and(v.length > 0.9 or i.chat_id = $1 and i.seq = 25) and min(v.length) = 0
				from turn_index i cross join lateral (select -(i.embedding operator(throughline.<#>) i.embedding) as length) v`, poisoned)
			assert.Empty(t, r.logs.Lines(t, "the embedding model fails, turns are found by their words alone meanwhile"))
		})
	}
}

// While all models hang, and each queue that asks one is full of the work of several users, what asks no model goes on.
func TestNothingElseWaitsForAHangingModel(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Gate: never} })
	// A scale of older sentences is to be measured again.
	testkit.Exec(t, r.pool, "insert into embedding_models (model, dims, unrelated_p50, unrelated_p99, sentences) values ($1, 512, 0.1, 0.2, 0)", embeddingModel)
	var long []uuid.UUID
	for range 6 {
		chatID := r.chatOf(testkit.NewUser(t, r.db), 30, 10)
		long = append(long, chatID)
		testkit.Exec(t, r.pool, "update conversation_briefs set extract_due_at = '-infinity' where chat_id = $1", chatID)
		for _, job := range []work.Job{
			{Name: work.FoldBrief, ChatID: chatID}, {Name: work.ExtractMemories, ChatID: chatID}, {Name: work.EmbedTurns, ChatID: chatID},
			{Name: work.CompactTopic, ChatID: chatID, TopicID: r.topicOf(chatID)},
		} {
			r.insertJob(job)
		}
	}
	testkit.Exec(t, r.pool, "insert into memory_users (user_id) values ($1)", r.user)
	testkit.Exec(t, r.pool, "insert into memories (user_id, content) values ($1, 'The user plays the cello.')", r.user)
	r.work(r.extracting(nil), r.keepsTopics(r.embedder()), r.graphing, sweeping, func(_ *brief.Config, c *WorkerConfig) { c.Concurrency, c.Fade = 4, true })
	testkit.Eventually(t, "both queues are full and the embedder is asked", func() bool {
		return testkit.Ask[bool](t, r.pool, `select count(*) filter (where queue = 'memory') = 4 and count(*) filter (where queue = 'memories') >= 2
			and count(*) filter (where queue = 'vectors') > 0 from river.river_job where state = 'running'`)
	})
	chatID := r.chat(6, 3)
	for _, job := range []work.Job{
		{Name: work.IndexTurns, ChatID: chatID}, {Name: work.AssignTopics, ChatID: long[0]}, {Name: work.DecayMemories}, {Name: work.DecayTopics},
		{Name: work.ExpireChats}, {Name: work.Reembed}, {Name: work.MergeTopics},
	} {
		before := testkit.Ask[int](t, r.pool, "select count(*) from river.river_job where kind = $1 and state = 'completed'", job.Name)
		r.insertJob(job)
		testkit.Await(t, r.pool, job.Name+" is done", true, "select count(*) > $2 from river.river_job where kind = $1 and state = 'completed'", job.Name, before)
	}
	r.awaitRuns(work.SweepBriefs, 3)
	testkit.Want(t, r.pool, 6, "select count(*) from turn_index where chat_id = $1", chatID)
}
