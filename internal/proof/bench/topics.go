package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/demo"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/assign"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// wandering is the size of measureTopics.
type wandering struct {
	turns   int           // of the conversation that wanders
	stay    int           // turns until it comes to another subject
	summary time.Duration // that the model takes for one
}

// whatTheyTalkAbout are the subjects of the conversation that wanders.
var whatTheyTalkAbout = kit.Subjects{Words: []string{"spinnaker", "gherkin", "sextant", "zither", "quarry", "tandem", "alpaca", "mosaic"}}

const printed = "S0, as printed"

// measureTopics prints what the topic memory that ours began with promises, beside what ours does.
func measureTopics(ctx context.Context, e *environment) (group, error) {
	g := group{Title: "topics, beside the tables of S0"}
	entries, err := ordinaryChat()
	if err != nil {
		return g, err
	}
	if err := packed(&g, entries); err != nil {
		return g, err
	}
	if err := matched(&g); err != nil {
		return g, err
	}
	if err := e.wander(ctx, &g); err != nil {
		return g, fmt.Errorf("wander: %w", err)
	}
	return g, e.clearJobs(ctx)
}

// ordinaryChat is the user's part of the demo's conversation, as a topic would keep it: real replies are longer, and those of
// a model of rules repeat each other.
func ordinaryChat() ([]topics.Entry, error) {
	lines, err := demo.BuiltinConversation()
	if err != nil {
		return nil, err
	}
	entries := make([]topics.Entry, len(lines))
	for n, line := range lines {
		entries[n] = topics.NewEntry(line.Role, line.Content, line.CreatedAt)
	}
	return entries, nil
}

// packed adds S0's three rows of compression, by what is stored, and how long it takes to unpack the longest.
func packed(g *group, entries []topics.Entry) error {
	const perCent, kilobyte = 100, 1024
	var longest topics.Archive
	for _, row0 := range []struct {
		messages int
		saves    float64 // as S0 prints it
	}{{10, 86.6}, {20, 86.1}, {50, 85.9}} {
		if row0.messages > len(entries) {
			return fmt.Errorf("the conversation has %d messages", len(entries))
		}
		a, err := topics.Pack(entries[:row0.messages])
		if err != nil {
			return err
		}
		saved := func(size int) float64 { return perCent * (1 - float64(size)/float64(a.RawBytes)) }
		g.add(row{What: fmt.Sprintf("%d messages, packed: saved", row0.messages), Unit: "%", Value: saved(len(a.Data)), Baseline: row0.saves, Against: printed})
		g.note("%d messages: %.1f KB of JSON, %.1f KB packed; %.1f KB as base64 (%.0f %% saved), on the way out", row0.messages,
			float64(a.RawBytes)/kilobyte, float64(len(a.Data))/kilobyte, float64(len(a.Base64()))/kilobyte, saved(len(a.Base64())))
		longest = a
	}
	unpack, pack, err := compare(func() { _, _ = topics.Unpack(longest) }, func() { _, _ = topics.Pack(entries[:longest.Messages]) }) // it was packed a moment ago
	if err != nil {
		return err
	}
	const nsPerMS = 1e6
	g.add(
		row{What: "unpack 50 messages, verified", Unit: "ms", Value: unpack.ns / nsPerMS, Target: atMost(5)},
		row{What: "pack 50 messages", Unit: "ms", Value: pack.ns / nsPerMS},
	)
	return nil
}

// matched adds how long it takes to find the topic of a turn, of as many as a chat may have.
func matched(g *group) error {
	by := topics.ByMeaning{Model: "subjects", Scale: recall.Scale{P50: .2, P99: .6}}
	settings := topics.Defaults()
	known := make([]topics.Topic, settings.Max)
	for n := range known {
		text := whatTheyTalkAbout.Of(n) + strings.Repeat("!", n)
		known[n] = topics.Topic{
			ID: uuid.New(), Number: n + 1, State: topics.Active, Importance: 1, MessageCount: 2, CentroidTurns: 1, Model: by.Model,
			Centroid: whatTheyTalkAbout.Vector(text), FirstSeq: int64(2*n + 1), LastSeq: int64(2*n + 2),
		}
	}
	turn := topics.Turn{
		Seq: 1001, LastSeq: 1002, SaidAt: time.Now(), Messages: 2, Question: "Which rope holds a spinnaker in a strong wind best?",
		Vector: whatTheyTalkAbout.Vector("a spinnaker in a strong wind"),
	}
	match, alone, err := compare(func() {
		chat := topics.Chat{Settings: settings, ByMeaning: by, LastNumber: len(known)}
		for n := range known {
			copied := known[n]
			chat.Topics = append(chat.Topics, &copied)
		}
		chat.Assign(turn, known[3].ID)
	}, func() {
		for n := range known {
			_, _ = by.Similarity(turn.Vector, known[n].Centroid)
		}
	})
	if err != nil {
		return err
	}
	const nsPerMS = 1e6
	g.add(row{What: fmt.Sprintf("match a turn with %d topics", len(known)), Unit: "ms", Value: match.ns / nsPerMS, Baseline: alone.ns / nsPerMS, Against: "cosines alone", Target: atMost(2)})
	return nil
}

// wanderer is a conversation that goes from subject to subject and comes back, with a server and a model. What its topics
// need is done here, in the place of the server's worker, to be timed.
type wanderer struct {
	*environment
	talk   conversation
	server endpoint
	model  *model
	keeper *assign.Engine
	packer *pack.Engine
	// assigned are the times that turns took to get their topics, each; packed those of compactions, the model apart.
	assigned, packed kit.Times
	due              []uuid.UUID // topics
}

// wander counts what the topics of such a conversation cost.
func (e *environment) wander(ctx context.Context, g *group) (err error) {
	embedder, stop, err := kit.Serve(ctx, whatTheyTalkAbout, 0)
	if err != nil {
		return err
	}
	defer stop()
	w := &wanderer{environment: e, talk: conversation{id: kit.NewID(), owner: e.owners[0]}}
	if w.model, err = startModel(offline.Options{Script: e.wandering.script}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.model.close()) }()
	const pause = `insert into river.river_queue (name, paused_at, updated_at) values ('topics', now(), now())
		on conflict (name) do update set paused_at = now()`
	if err := kit.Exec(ctx, e.admin, pause); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, kit.Exec(context.WithoutCancel(ctx), e.admin, "delete from river.river_queue where name = 'topics'"))
	}()
	helper, err := startRole(ctx, role{Kind: roleServer, Database: e.at.server, Model: strings.TrimSuffix(w.model.BaseURL(), "/v1"), Settings: map[string]string{
		"TOPICS": "on", "MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "6000", "EMBEDDING_MODEL": "subjects", "EMBEDDING_BASE_URL": embedder + "/v1",
	}})
	if err != nil {
		return err
	}
	w.server = endpoint{Helper: helper, name: roleServer, ours: true}
	defer func() { err = errors.Join(err, w.server.Stop()) }()
	if _, err := e.admin.Exec(ctx, "insert into public.chats (id, user_id, topics) values ($1, $2, 'on')", w.talk.id, w.talk.principal.UserID); err != nil {
		return err
	}
	w.makeEngines()
	for n := range e.wandering.turns {
		if err := w.turn(ctx, n); err != nil {
			return fmt.Errorf("turn %d: %w", n+1, err)
		}
	}
	return errors.Join(w.addWork(ctx, g), w.addTimes(g), e.addTopicSizes(ctx, g, w.talk))
}

func (w *wanderer) makeEngines() {
	numbers, settings := metrics.New(), topics.Defaults()
	w.keeper = assign.New(assign.Config{
		Store: postgres.NewAssignments(w.pool), Settings: settings, Mode: "on", Model: "subjects", Metrics: numbers, Logger: quiet(),
		Scales: recall.NewTurnScales(postgres.NewEmbeddings(w.pool, recall.VectorSize), whatTheyTalkAbout),
	})
	w.packer = pack.New(pack.Config{
		Store: postgres.NewPacks(w.pool), Summarizer: w.model.client, Prompt: brief.PromptConfig{Mode: brief.ModeInline, Model: "offline"},
		InputTokens: 12_000, Settings: settings, Logger: quiet(), Metrics: numbers,
	})
}

// script answers with replies of real length, and takes its time for summaries.
func (w wandering) script(r *offline.Request) offline.Answer {
	switch r.Kind {
	case offline.KindTopic, offline.KindSummary:
		return offline.Answer{Latency: w.summary}
	case offline.KindEmbedding:
		return offline.Answer{}
	}
	return offline.Answer{Text: replyTo(len(r.Current))}
}

// turn sends a message. A person takes longer to write than the jobs take that it makes due; here it waits for them.
func (w *wanderer) turn(ctx context.Context, n int) error {
	word := whatTheyTalkAbout.Of(n / w.wandering.stay)
	c := newClient(w.talk)
	if _, err := c.receive(ctx, w.server, c.post(fmt.Sprintf("About the %s: %s", word, kit.Sentences[n%len(kit.Sentences)])), nil); err != nil {
		return err
	}
	if err := w.jobsDone(ctx); err != nil {
		return err
	}
	done, err := w.admin.Exec(ctx, "delete from river.river_job where kind = 'assign_topics' and args ->> 'chat_id' = $1 and state = 'available'", w.talk.id.String())
	if err != nil || done.RowsAffected() == 0 {
		return err
	}
	if err := w.assign(ctx); err != nil {
		return err
	}
	for _, id := range w.due {
		if err := w.compact(ctx, id); err != nil {
			return err
		}
	}
	w.due = nil
	return nil
}

// assign does what assign_topics does.
func (w *wanderer) assign(ctx context.Context) error {
	nothing := func(context.Context, pgx.Tx) error { return nil }
	began := time.Now()
	report, err := w.keeper.Assign(ctx, w.talk.id, assign.Job{
		EnqueueNext: nothing, EnqueueDecay: nothing,
		EnqueueCompact: func(_ context.Context, _ pgx.Tx, id uuid.UUID) error { w.due = append(w.due, id); return nil },
	})
	took := time.Since(began)
	for range report.Turns {
		w.assigned = append(w.assigned, took/time.Duration(report.Turns))
	}
	return err
}

// compact does what compact_topic does.
func (w *wanderer) compact(ctx context.Context, id uuid.UUID) error {
	began := time.Now()
	report, err := w.packer.Compact(ctx, w.talk.id, id, pack.Job{EnqueueNext: func(context.Context, pgx.Tx) error { return nil }})
	if report.Calls > 0 {
		w.packed = append(w.packed, time.Since(began)-time.Duration(report.Calls)*w.wandering.summary)
	}
	return err
}

// jobsDone waits until no job is due or at work that a turn makes due, but for those of topics.
func (w *wanderer) jobsDone(ctx context.Context) error {
	for {
		var left int
		err := w.admin.QueryRow(ctx, `select count(*) from river.river_job
			where kind in ('fold_brief', 'index_turns', 'embed_turns') and args ->> 'chat_id' = $1 and state in ('available', 'running', 'retryable')`, w.talk.id.String()).Scan(&left)
		if err != nil || left == 0 {
			return err
		}
		const pause = 2 * time.Millisecond
		if err := kit.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// addWork adds the model's work for topics, beside that for folds of the same chat.
func (w *wanderer) addWork(ctx context.Context, g *group) error {
	var work bill
	for _, r := range w.model.Requests() {
		if r.Kind == offline.KindTopic {
			work.add(r.Instructions+"\n"+r.Text, r.Sent)
		}
	}
	var topicCount, accesses, folds, input, output int
	err := w.admin.QueryRow(ctx, `select (select count(*) from public.topics t where t.chat_id = $1), (select sum(t.access_count) from public.topics t where t.chat_id = $1),
		count(*), coalesce(sum(r.input_tokens), 0), coalesce(sum(r.output_tokens), 0) from public.conversation_brief_revisions r where r.chat_id = $1`, w.talk.id).
		Scan(&topicCount, &accesses, &folds, &input, &output)
	if err != nil {
		return err
	}
	perTurn := func(n int) float64 { return float64(n) / float64(w.wandering.turns) }
	g.add(
		row{What: "model calls a turn for topics", Unit: "calls", Value: perTurn(work.calls), Baseline: perTurn(folds), Against: "folds", Target: atMost(.125)},
		row{What: "input tokens a turn for topics", Unit: "tokens", Value: perTurn(work.input), Baseline: perTurn(input), Against: "folds"},
		row{What: "output tokens a turn for topics", Unit: "tokens", Value: perTurn(work.output), Baseline: perTurn(output), Against: "folds"},
	)
	g.note("%d turns, %d subjects, another after %d turns: %d topics, %d accesses, %d summaries and %d folds",
		w.wandering.turns, len(whatTheyTalkAbout.Words), w.wandering.stay, topicCount, accesses, work.calls, folds)
	return nil
}

// addTimes adds how long the work took that S0 has a message wait for.
func (w *wanderer) addTimes(g *group) error {
	if len(w.assigned) == 0 || len(w.packed) == 0 {
		return fmt.Errorf("%d turns got a topic, %d topics were packed", len(w.assigned), len(w.packed))
	}
	g.add(
		row{What: "add a turn to its topic, p50", Unit: "ms", Value: w.assigned.MS(.5), Target: atMost(1)},
		row{What: "add a turn to its topic, p95", Unit: "ms", Value: w.assigned.MS(.95)},
		row{What: "compact a topic, the model apart, p50", Unit: "ms", Value: w.packed.MS(.5), Target: atMost(2000)},
		row{What: "compact a topic, the model apart, p95", Unit: "ms", Value: w.packed.MS(.95)},
	)
	g.note("targets: S0's upper ends, for a message < 1 ms, with compaction 500 to 2000, unpacking 1 to 5, matching 1 to 2")
	g.note("add and compact are jobs after the reply, durable; four turns come at once, a summary takes %v more", w.wandering.summary)
	return nil
}

// addTopicSizes adds what a topic takes, on average of those that have an archive.
func (e *environment) addTopicSizes(ctx context.Context, g *group, talk conversation) error {
	var active, archive, summary, vector float64
	err := e.admin.QueryRow(ctx, `
		select avg((select coalesce(sum(octet_length(m.content)), 0) from throughline.messages_of_topics m where m.topic_id = t.id and m.seq > t.compacted_seq)),
		       avg(octet_length(t.archive)), avg(octet_length(t.summary)), avg(pg_column_size(t.centroid))
		  from public.topics t where t.chat_id = $1 and t.archive is not null`, talk.id).Scan(&active, &archive, &summary, &vector)
	if err != nil {
		return fmt.Errorf("sizes of packed topics: %w", err)
	}
	const kilobyte, manyTopics = 1024, 20
	total := active + archive + summary + vector
	for _, size := range []struct {
		what  string
		bytes float64
		upTo  float64 // as S0 prints it, in KB
	}{
		{"a topic's active messages", active, 10}, {"its archive", archive, 5}, {"its summary", summary, .5},
		{"its vector", vector, 4}, {"together", total, 20}, {"20 topics", manyTopics * total, 400},
	} {
		g.add(row{What: size.what, Unit: "KB", Value: size.bytes / kilobyte, Target: atMost(size.upTo)})
	}
	g.note("sizes: targets are S0's upper ends; the active messages are those of their table, and take nothing more")
	return nil
}
