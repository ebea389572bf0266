package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory/assign"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/pack"
	"github.com/arcoscribe/throughline/internal/memory/recall"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// instruments is an embedder for which texts are the same that name the same subject, and all others as unrelated as sentences are
// that have nothing in common.
type instruments struct{}

func (instruments) Model() string { return "subjects" }

func (instruments) Embed(_ context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for n, text := range texts {
		if axis := slices.IndexFunc(subjectWords, func(word string) bool { return strings.Contains(text, word) }); axis >= 0 {
			vectors[n] = make([]float32, recall.VectorSize)
			vectors[n][axis] = 1
			continue
		}
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(text)) // never fails
		random := rand.New(rand.NewPCG(hash.Sum64(), 0))
		noise := []float32{2.2}
		for range 20 {
			noise = append(noise, float32(random.NormFloat64()))
		}
		vectors[n] = unit(append(make([]float32, len(subjectWords)), noise...))
	}
	return vectors, nil
}

func unit(numbers []float32) []float32 {
	length := 0.
	for _, number := range numbers {
		length += float64(number) * float64(number)
	}
	vector := make([]float32, recall.VectorSize)
	for n, number := range numbers {
		vector[n] = float32(float64(number) / math.Sqrt(length))
	}
	return vector
}

var subjectWords = []string{"spinnaker", "gherkin", "sextant"}

// listing is a model whose summary says how long what it read was, so that no two are alike.
type listing struct{}

func (listing) Summarize(_ context.Context, call brief.Call) (brief.Answer, error) {
	return brief.Answer{Text: fmt.Sprintf("They talked about it in %d words.", len(strings.Fields(call.Input))), Model: "m"}, nil
}

// straying is a bed whose chats wander between subjects, with two of everything that works on their topics.
type straying struct {
	*bed
	admin   *pgx.Conn
	vectors *recall.Vectors
	keepers [2]*assign.Engine
	packers [2]*pack.Engine
	users   [2]*UserTopics
}

func newStraying(t *testing.T) *straying {
	t.Helper()
	b := newBed(t)
	s := &straying{bed: b, admin: testkit.Connect(t, b.db.AdminDSN)}
	second, _, err := Open(t.Context(), b.db.DSN, 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	quiet, numbers := slog.New(slog.DiscardHandler), metrics.New()
	settings := topics.Defaults()
	settings.Max, settings.MaxMessages, settings.KeepMessages = 1, 6, 2
	s.vectors = recall.NewVectors(recall.VectorsConfig{Store: NewEmbeddings(b.pool, recall.VectorSize), Embedder: instruments{}, Topics: true, Metrics: numbers, Logger: quiet})
	for n, pool := range []*pgxpool.Pool{b.pool, second} {
		s.keepers[n] = assign.New(assign.Config{
			Store: NewAssignments(pool), Settings: settings, Mode: "on", Model: instruments{}.Model(),
			Scales: recall.NewTurnScales(NewEmbeddings(pool, recall.VectorSize), instruments{}), Metrics: numbers, Logger: quiet,
		})
		s.packers[n] = pack.New(pack.Config{
			Store: NewPacks(pool), Summarizer: listing{}, Prompt: brief.PromptConfig{Mode: brief.ModeInline, Model: "m"}, InputTokens: 8000,
			Settings: settings, Logger: quiet, Metrics: numbers,
		})
		s.users[n] = NewUserTopics(pool, UserTopicsOptions{Settings: settings})
	}
	return s
}

// says stores turns, the n-th about the n-th of some subjects, and has them indexed and their vectors made.
func (s *straying) says(chatID uuid.UUID, about ...int) error {
	for _, subject := range about {
		err := inTx(s.t.Context(), s.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(s.t.Context(), `insert into public.messages (chat_id, role, content, token_count) values
				($1, 'user', $2, 9), ($1, 'assistant', $3, 5)`, chatID, "Which varnish, rope and hammer would repair my broken "+subjectWords[subject]+"?", "Well, that depends.")
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.embed(chatID)
}

func (s *straying) embed(chatID uuid.UUID) error {
	if err := s.index.IndexTurns(s.t.Context(), chatID); err != nil {
		return err
	}
	_, err := s.vectors.EmbedTurns(s.t.Context(), chatID)
	return err
}

// sort gives the turns of a chat their topics, as a job does.
func (s *straying) sort(keeper *assign.Engine, chatID uuid.UUID) error {
	nothing := func(context.Context, pgx.Tx) error { return nil }
	job := assign.Job{EnqueueNext: nothing, EnqueueDecay: nothing, EnqueueCompact: func(context.Context, pgx.Tx, uuid.UUID) error { return nil }}
	for ctx := s.t.Context(); ; {
		report, err := keeper.Assign(ctx, chatID, job)
		if err != nil || !report.Busy {
			return err
		}
		if !pause(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
}

// packAll compacts each topic of a chat once, as jobs do.
func (s *straying) packAll(packer *pack.Engine, chatID uuid.UUID) error {
	rows, err := s.pool.Query(s.t.Context(), "select id from public.topics where chat_id = $1 order by random()", chatID)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	for _, id := range ids {
		next := func(context.Context, pgx.Tx) error { return nil }
		if _, err := packer.Compact(s.t.Context(), chatID, id, pack.Job{EnqueueNext: next}); err != nil {
			return err
		}
	}
	return nil
}

// asUser lets a user do something with two topics of a chat. A topic that is gone, or was merged, is refused.
func (s *straying) asUser(n int, chatID uuid.UUID, do func(ctx context.Context, u *UserTopics, one, other history.TopicRef) error) func() error {
	return func() error {
		ctx := s.t.Context()
		page, err := s.users[n].ListTopics(ctx, s.user, chatID, history.TopicsQuery{Limit: 10})
		if err != nil || len(page.Topics) < 2 {
			return err
		}
		one, other := history.TopicRef{ChatID: chatID, ID: page.Topics[n].ID}, history.TopicRef{ChatID: chatID, ID: page.Topics[1-n].ID}
		err = do(ctx, s.users[n], one, other)
		if refused, ok := errors.AsType[*fault.Error](err); ok && (refused.Code == fault.TopicNotFound || refused.Code == fault.ValidationFailed) {
			return nil
		}
		return err
	}
}

// Two workers and two servers at one chat: they give turns topics, pack, let fade and merge them, while the user talks on,
// deletes, edits, renames, rates and merges. Nobody fails, no turn is lost or has two topics, and each archive is what the
// messages say.
func TestTopicsBesideEachOther(t *testing.T) {
	t.Parallel()
	s, random := newStraying(t), seeded(t)
	for n := range max(races(t, 100), 50) { // so that all of it happens
		chatID := ask[uuid.UUID](s.bed, "insert into chats (user_id, topics) values ($1, 'on') returning id", s.user.UserID)
		wander := []int{0, 0, 0, 0, 1, 1, 1, 1, 0, 2, 2, 2, 0, 0}
		if err := errors.Join(s.says(chatID, wander...), s.sort(s.keepers[0], chatID)); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 { // there is something packed to come back to
			if err := s.packAll(s.packers[0], chatID); err != nil {
				t.Fatal(err)
			}
		}
		s.exec("update topics set last_active_at = now() - interval '1 year' where chat_id = $1 and number > 1", chatID)
		deleted, edited := int64(2*random.IntN(len(wander))+1), int64(2*random.IntN(len(wander))+1)
		work := []func() error{
			func() error { return s.says(chatID, 1, 1, random.IntN(3)) },
			s.asUser(0, chatID, func(ctx context.Context, u *UserTopics, one, other history.TopicRef) error {
				_, err := u.MergeTopic(ctx, s.user, one, other.ID)
				return err
			}),
			s.asUser(1, chatID, func(ctx context.Context, u *UserTopics, one, _ history.TopicRef) error {
				_, err := u.ChangeTopic(ctx, s.user, one, history.TopicChange{Title: new("What matters"), Importance: new(0.5)})
				return err
			}),
			func() error {
				id := ask[uuid.UUID](s.bed, "select id from messages where chat_id = $1 and seq = 2", chatID)
				_, err := s.users[0].RateMessage(t.Context(), s.user, id, history.Feedback{Rating: new(1)})
				return err
			},
			s.inTx("delete from public.messages where chat_id = $1 and seq = $2", chatID, deleted),
			s.inTx("update public.messages set content = 'I have nothing more to say about my gherkin' where chat_id = $1 and seq = $2", chatID, edited),
		}
		for i := range s.keepers {
			work = append(work,
				func() error { return s.sort(s.keepers[i], chatID) },
				func() error { return s.packAll(s.packers[i], chatID) },
				func() error { _, err := s.keepers[i].Decay(t.Context(), testkit.Patience); return err },
				func() error {
					_, err := s.keepers[i].Merge(t.Context(), testkit.Patience, func(context.Context, pgx.Tx, uuid.UUID, uuid.UUID) error { return nil })
					return err
				},
			)
		}
		s.atOnce(n, random, work)
		s.settle(chatID)
		s.checkTopics(n, chatID)
	}
	for what, which := range map[string]string{
		"merged": "state = 'merged'", "archived": "state = 'archived'", "packed": "compacted_messages > 0", "named": "title_seq is null", "unpacked again": "rehydrated",
	} { // a race in which nothing happened would prove nothing
		n := testkit.Ask[int](t, s.admin, "select count(*) from public.topics where "+which)
		if t.Logf("%d topics are %s", n, what); n == 0 {
			t.Errorf("no topic is %s", what)
		}
	}
	s.wantNoDeadlock()
}

func (s *straying) inTx(sql string, args ...any) func() error {
	return func() error {
		return inTx(s.t.Context(), s.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(s.t.Context(), sql, args...)
			return err
		})
	}
}

// settle does what the jobs do that are due when everybody has ended.
func (s *straying) settle(chatID uuid.UUID) {
	s.t.Helper()
	for range 3 { // a topic that was unpacked again has turns without vectors
		if err := errors.Join(s.embed(chatID), s.sort(s.keepers[0], chatID), s.packAll(s.packers[0], chatID)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// checkTopics checks what holds of a chat's topics when nothing is left to do.
func (s *straying) checkTopics(round int, chatID uuid.UUID) {
	s.t.Helper()
	for what, wrong := range map[string]string{
		"a turn has one topic of its chat that is not merged": `select count(*) from public.turn_index i left join public.topics t on t.id = i.topic_id and t.chat_id = i.chat_id and t.state <> 'merged'
			where i.chat_id = $1 and t.id is null`,
		"every message is in a topic": `select abs((select count(*) from public.messages m where m.chat_id = $1 and m.token_count > 0)
			- (select coalesce(sum(t.message_count), 0) from public.topics t where t.chat_id = $1 and t.state <> 'merged'))`,
		"a topic counts its messages": `select count(*) from public.topics t where t.chat_id = $1
			and t.message_count <> (select count(*) from throughline.messages_of_topics m where m.topic_id = t.id)`,
		"a topic counts its packed messages": `select count(*) from public.topics t where t.chat_id = $1
			and t.compacted_messages <> (select count(*) from throughline.messages_of_topics m where m.topic_id = t.id and m.seq <= t.compacted_seq)`,
		"a topic has turns, and says where they are": `select count(*) from public.topics t
			cross join lateral (select min(i.seq) as first_seq, max(i.last_seq) as last_seq from public.turn_index i where i.chat_id = $1 and i.topic_id = t.id) turns
			where t.chat_id = $1 and t.state <> 'merged' and (t.first_seq, t.last_seq) is distinct from (turns.first_seq, turns.last_seq)`,
		"what is merged has nothing left": `select count(*) from public.topics t where t.chat_id = $1 and t.state = 'merged'
			and (t.summary is not null or t.compacted_seq <> 0 or t.centroid is not null or exists (select from public.turn_index i where i.topic_id = t.id))`,
		"nothing waits and no lease is left": "select count(*) from public.topics t where t.chat_id = $1 and (t.stale or t.lease_token is not null)",
		"turns of an archived topic rest, others do not": `select count(*) from public.turn_index i join public.topics t on t.id = i.topic_id
			where i.chat_id = $1 and (i.resting <> (t.state = 'archived') or i.resting and i.embedding is not null)`,
	} {
		if n := testkit.Ask[int](s.t, s.admin, wrong, chatID); n != 0 {
			s.t.Errorf("round %d, chat %s: not so: %s (%d)", round, chatID, what, n)
		}
	}
	if s.t.Failed() {
		s.t.FailNow()
	}
}
