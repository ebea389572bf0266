package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/topics"

	"github.com/arcoscribe/throughline/internal/memory/recall"

	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
)

// chatter is a chat that goes to and fro between subjects. The first message and one later reply are erased.
type chatter struct {
	*bed

	who     auth.Principal
	chat    uuid.UUID
	erased  [2]uuid.UUID
	assigns *topics.Assigner
	packs   *topics.Compactor
	random  *rand.Rand
}

// subjects points a text along one axis for each subject that it names: the canary and the drum are one.
type subjects struct{}

func (subjects) Model() string { return "subjects" }

func (subjects) Embed(_ context.Context, _ recall.For, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for n, text := range texts {
		vectors[n] = make([]float32, recall.VectorSize)
		for axis, word := range []string{canary, "drum", "harp", "oaks", "tides"} {
			if strings.Contains(text, word) {
				vectors[n][max(axis, 1)] = 1
				break
			}
		}
	}
	return vectors, nil
}

// tells is a model that repeats what it reads, after a moment.
type tells struct{ pause time.Duration }

func (m tells) Summarize(_ context.Context, call brief.Call) (work.Answer, error) {
	time.Sleep(m.pause)
	said := "The user plays the harp."
	if strings.Contains(call.Input, canary) {
		said = "The user plays the " + canary + " every morning."
	}
	return work.Answer{Text: said}, nil
}

// newChatter tells a chat to everything that topics are made by.
func (b *bed) newChatter(random *rand.Rand) *chatter {
	c := &chatter{bed: b, who: b.newUser(), chat: uuid.New(), random: random}
	settings := topics.Defaults()
	settings.Max, settings.MaxMessages, settings.KeepMessages = 1, 4, 2
	settings.Continuity = -2 // one turn is enough for a topic
	store, registry, log := &Embeddings{Pool: b.pool}, metrics.New(), &testkit.Log{}
	b.exec(`insert into embedding_models (model, dims, unrelated_p50, unrelated_p99, languages, sentences) values ('subjects', 512, 0, 0.3, '', $1)
		on conflict do nothing`, recall.SentenceList)
	c.assigns = &topics.Assigner{
		Store: &Assignments{Pool: b.pool, Insert: noJob}, Settings: settings, Mode: "on", Model: "subjects", Scales: recall.NewScales(store,
			subjects{}), Metrics: registry, Logger: log.Logger(),
	}
	c.packs = topics.NewCompactor(topics.CompactorConfig{
		Store: &Packs{Pool: b.pool, Insert: noJob}, Leases: b.work, Summarizer: tells{time.Duration(random.IntN(4)) * time.Millisecond},
		Prompt: brief.PromptConfig{Model: "small"}, InputTokens: 8000, Settings: settings, Metrics: registry, Logger: log.Logger(),
	})
	b.exec("insert into chats (id, user_id, title) values ($1, $2, 'a chat')", c.chat, c.who.UserID)
	for turn, subject := range []string{canary, "harp", canary, "oaks", "harp", canary, canary, "tides", "harp", "oaks"} {
		question, reply := uuid.New(), uuid.New()
		asks, answers := "How do people usually tune a drum before concerts?", "They tune the drum by ear."
		switch {
		case turn == 0:
			asks, c.erased[0] = fmt.Sprintf("Why does the loud %s I play every morning rattle?", canary), question
		case turn == 5:
			answers, c.erased[1] = fmt.Sprintf("Because the %s has no strings, and the drum neither.", canary), reply
		case subject != canary:
			asks, answers = fmt.Sprintf("Which famous %s stories do Portuguese gardeners remember %d?", subject, turn), fmt.Sprintf("Much is known about %s.", subject)
		}
		b.exec("insert into messages (id, chat_id, role, content, created_at) values ($1, $2, 'user', $3, now() - interval '40 days')", question, c.chat, asks)
		b.exec("insert into messages (id, chat_id, role, content, reply_to, created_at) values ($1, $2, 'assistant', $3, $4, now() - interval '40 days')",
			reply, c.chat, answers, question)
	}
	b.exec("select throughline.index_chat($1, null)", c.chat)
	return c
}

// embed does what embed_turns does.
func (c *chatter) embed() error {
	ctx, store := c.t.Context(), &TurnVectors{Pool: c.pool}
	bare, _, err := store.Bare(ctx, c.chat, "subjects", recall.Bare{}, 100)
	if err != nil {
		return err
	}
	var made []recall.Made
	for _, turn := range bare {
		vectors, err := subjects{}.Embed(ctx, recall.For{}, []string{turn.Text})
		if err != nil {
			return err
		}
		made = append(made, recall.Made{Bare: turn, Vector: vectors[0]})
	}
	_, err = store.Save(ctx, c.chat, "subjects", made)
	return err
}

func (c *chatter) assign() error {
	_, err := c.assigns.Assign(c.t.Context(), c.chat, work.Attempt{})
	return err
}

// pack compacts every topic of the chat.
func (c *chatter) pack() error {
	rows, err := c.pool.Query(c.t.Context(), "select id from topics where chat_id = $1", c.chat)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for _, id := range ids {
		_, failed := c.packs.Compact(c.t.Context(), c.chat, id, work.Attempt{})
		err = errors.Join(err, failed)
	}
	return err
}

// fade archives topics of the chat, of any age.
func (c *chatter) fade() error {
	_, err := (&Assignments{Pool: c.pool, Insert: noJob}).Archive(c.t.Context(), c.chat, func(all []topics.Topic) ([]uuid.UUID, *time.Time) {
		var faded []uuid.UUID
		for n := range all {
			if all[n].State == topics.Active && n > 0 {
				faded = append(faded, all[n].ID)
			}
		}
		return faded, nil
	})
	return err
}

// merge makes two topics of the chat one.
func (c *chatter) merge() error {
	_, err := (&Assignments{Pool: c.pool, Insert: noJob}).Merge(c.t.Context(), c.chat, func(all []topics.Topic) []topics.Merge {
		if len(all) < 3 {
			return nil
		}
		return []topics.Merge{{From: all[2].ID, Into: all[0].ID}}
	})
	return err
}

// checkTopics checks what holds of topics at any time.
func (b *bed) checkTopics() {
	b.t.Helper()
	for what, wrong := range map[string]string{
		"messages are counted": `select count(*) from topics t where state <> 'merged' and message_count <> (select count(*)
			from throughline.messages_of_topics m where m.topic_id = t.id)`,
		"packed messages are counted": `select count(*) from topics t where compacted_messages <>
			(select count(*) from throughline.messages_of_topics m where m.topic_id = t.id and m.seq <= t.compacted_seq)`,
		"a turn's topic exists": `select count(*) from turn_index i where topic_id is not null and not exists (select from topics t
			where t.id = i.topic_id and t.chat_id = i.chat_id and t.state <> 'merged')`,
		"a topic has turns": `select count(*) from topics t where state <> 'merged' and (first_seq, last_seq) is distinct from
			(select (min(seq), max(last_seq)) from turn_index i where i.topic_id = t.id)`,
		"a title is of one of its messages": `select count(*) from topics t where state <> 'merged' and title_seq > 0 and not exists (select
			from throughline.messages_of_topics m where m.topic_id = t.id and m.seq = t.title_seq)`,
		"what it was merged into exists": `select count(*) from topics t where merged_into is not null and not exists (select from topics o
			where o.id = t.merged_into and o.chat_id = t.chat_id)`,
		"turns that rest are archived": `select count(*) from turn_index i where resting and (embedding is not null or not exists (select from topics t
			where t.id = i.topic_id and t.state = 'archived'))`,
		"the mean is of turns that exist": `select count(*) from topics t where state = 'active' and centroid_turns > (select count(*) from turn_index i
			where i.topic_id = t.id)`,
	} {
		is(b.t, ask[int](b, wrong), 0, "not so: %s (… rows)", what)
	}
}

// Turns get their vectors and topics, topics are packed by a model, archived and merged, the user talks on, renames, rates, pins and
// merges, and messages, chats or the account go at the same moment, in every order: none waits for another without end, no word
// of a message outlives it, and every turn that is left has one topic, which says what it is made of.
func TestNoWordOutlivesItsMessageInTopics(t *testing.T) {
	t.Parallel()
	for name, erasures := range map[string][]string{ // of the messages $1 and $2 and the chat $3; none: of the account
		"messages": {"delete from messages where id = '$1'", "delete from messages where id = '$2'"},
		"edits": {
			"update messages set content = 'Why is the harp so loud?', importance = 0.5 where id = '$1'",
			"update messages set role = 'user', content = 'x' where id = '$2'",
		},
		"retries": {
			"update messages set superseded_by = gen_random_uuid(), token_count = 0, content = '' where id = '$2'",
			"delete from messages where id = '$1'",
		},
		"chat":    {"delete from chats where id = '$3'"},
		"account": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, random, happened := newOwnBed(t), seeded(t), map[string]int{"merged": 0, "archived": 0, "active": 0}
			// A race in which nothing happened would prove nothing: more rounds follow until each has.
			happen := func() bool {
				return len(erasures) != 2 || min(happened["merged"], happened["archived"], happened["active"]) > 0
			}
			rounds := races(60) // 15 in short mode
			for n := 0; n < rounds || n < 4*rounds && !happen(); n++ {
				c := b.newChatter(random)
				named := strings.NewReplacer("$1", c.erased[0].String(), "$2", c.erased[1].String(), "$3", c.chat.String())
				// How far topics are before.
				for _, step := range []func() error{c.embed, c.assign, c.pack, c.fade}[:random.IntN(5)] {
					noError(t, step())
				}
				work := append(b.erase(c.who, erasures, named), c.embed, c.assign, c.assign, c.pack, c.pack, c.fade, c.merge,
					func() error {
						return c.as(c.who, "update messages set pinned = true where seq = 3; update topics set title = 'Mine', tags = '{mine}' where number = 2")
					},
					func() error { return b.index.RunIndexTurns(t.Context(), c.chat, 0) })
				if len(erasures) == 2 { // the chat stays: with its deletion, what the user does to it can deadlock
					work = append(work, c.talkOn, c.mergeTwo, c.rateAndRename)
				}
				b.atOnce(n, random, work)
				mustBe(t, c.holders(canary), nil, "round %d: who holds words of messages that are gone", n)
				// The rest comes to its end.
				noError(t, b.index.RunIndexTurns(t.Context(), c.chat, 0))
				for _, step := range []func() error{c.embed, c.assign, c.embed, c.assign, c.pack} {
					noError(t, step())
				}
				b.checkTopics()
				mustBe(t, c.holders(canary), nil, "round %d: who holds them later", n)
				is(t, b.count("turn_index where chat_id = $1 and topic_id is null", c.chat), 0, "round %d: turns without a topic", n)
				for state := range happened {
					happened[state] += b.count("topics where state = $1", state)
				}
				b.exec("delete from auth.users where id = $1", c.who.UserID)
				if t.Failed() {
					t.FailNow()
				}
			}
			assert.Truef(t, happen(), "the states of topics: %v", happened)
			is(t, b.count("topics"), 0, "topics are left")
			if len(erasures) == 2 {
				b.wantNoDeadlock()
			}
		})
	}
}

// talkOn adds a turn about another subject.
func (c *chatter) talkOn() error {
	return errOf(c.pool.Exec(c.t.Context(), `insert into messages (chat_id, role, content)
		values ($1, 'user', 'Which harp or oaks would you choose?'), ($1, 'assistant', 'An old one.')`, c.chat))
}

// mergeTwo and rateAndRename act as users do. A topic that is gone by then, or was merged, is refused.
func (c *chatter) mergeTwo() error {
	store := &UserTopics{Pool: c.server, Options: UserTopicsOptions{Settings: topics.Defaults()}}
	page, err := store.ListTopics(c.t.Context(), c.who, c.chat, api.TopicsQuery{Limit: 10})
	if err == nil && len(page.Topics) > 1 {
		_, err = store.MergeTopic(c.t.Context(), c.who, api.TopicRef{ChatID: c.chat, ID: page.Topics[0].ID}, page.Topics[1].ID)
	}
	return unlessRefused(err)
}

func (c *chatter) rateAndRename() error {
	store := &UserTopics{Pool: c.server, Options: UserTopicsOptions{Settings: topics.Defaults()}}
	_, errRate := store.RateMessage(c.t.Context(), c.who, c.erased[1], api.Feedback{Rating: new(1)})
	_, errRename := store.ChangeTopic(c.t.Context(), c.who, api.TopicRef{ChatID: c.chat, Current: true},
		api.TopicChange{Title: new("What matters"), Importance: new(0.5)})
	return errors.Join(unlessRefused(errRate), unlessRefused(errRename))
}

func unlessRefused(err error) error {
	if refused, ok := errors.AsType[*fault.Error](err); ok && refused.Code != fault.Internal && refused.Code != fault.NotReady {
		return nil
	}
	return err
}

// A reply whose question is deleted stays in its topic: it is no visit.
func TestDeletedQuestionIsNoVisit(t *testing.T) {
	t.Parallel()
	for name, erased := range map[string]string{"first": "seq = 1", "middle": "seq = 9", "own turn": "seq = 15", "many": "role = 'user' and seq < 14"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newBed(t).newChatter(seeded(t))
			for _, step := range []func() error{c.embed, c.assign, c.pack} {
				noError(t, step())
			}
			visits := func() string {
				return ask[string](c, `select (select string_agg(format('%s: %s', number, access_count), ', ' order by number) from topics) || '; '
					|| (select string_agg(format('%s in %s', m.seq, t.number), ', ' order by m.seq) from messages m
					left join turn_index i on i.chat_id = m.chat_id and m.seq between i.seq and i.last_seq left join topics t on t.id = i.topic_id
					where m.role = 'assistant')`)
			}
			before := visits()
			c.exec("delete from messages where chat_id = $1 and "+erased, c.chat)
			for _, step := range []func() error{c.assign, c.embed, c.assign, c.pack} {
				noError(t, step())
				is(t, visits(), before, "visits, and the topics of replies")
			}
			is(t, c.count(`topics t where (created_at, last_active_at) is distinct from (select (min(said_at), max(said_at)) from turn_index i
				where i.topic_id = t.id)`), 0, "topics have times of none of their turns")
			c.checkTopics()
		})
	}
}
