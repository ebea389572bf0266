package postgres

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/topics"
)

// topical is a bed with the topics of a chat of eight turns. The first four are about bows, the fifth and sixth about rosin;
// the last two have no topic yet.
type topical struct {
	*bed
	store       *UserTopics
	chat        uuid.UUID
	messages    []uuid.UUID // by seq, from 0
	bows, rosin uuid.UUID
	// indexed are the chats for which the job was inserted, packed the topics that are to be packed again.
	indexed, packed chan uuid.UUID
}

func newTopical(t *testing.T) *topical {
	t.Helper()
	return topicalOf(newBed(t))
}

func topicalOf(b *bed) *topical {
	b.t.Helper()
	p := &topical{bed: b, indexed: make(chan uuid.UUID, 1000), packed: make(chan uuid.UUID, 1000)}
	asServer := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select 1 from river.river_job limit 1") // what only the server itself may read
		return err
	}
	p.store = &UserTopics{Pool: p.server, Options: UserTopicsOptions{
		Settings: topics.Defaults(),
		Index: func(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error {
			p.indexed <- chatID
			return asServer(ctx, tx)
		},
		Compact: func(ctx context.Context, tx pgx.Tx, _, topicID uuid.UUID) error {
			p.packed <- topicID
			return asServer(ctx, tx)
		},
	}}
	p.chat = p.talk(8)
	p.exec("select throughline.index_chat($1, 12)", p.chat)
	p.bows, p.rosin = p.topic(1, "Bows", 1, 8), p.topic(2, "Rosin, dark or light", 9, 12)
	return p
}

// talk makes a chat of so many turns.
func (p *topical) talk(turns int) uuid.UUID {
	p.t.Helper()
	first := firstTurn("Question 1")
	for n := 1; n <= turns; n++ {
		turn := first
		if n > 1 {
			turn = turnIn(first.ChatID, fmt.Sprint("Question ", n))
		}
		p.start(turn)
		p.reply(turn, fmt.Sprint("Answer ", n))
		p.messages = append(p.messages, turn.UserMessageID, turn.MessageID)
	}
	return first.ChatID
}

// topic gives the turns from one message to another a topic.
func (p *topical) topic(number int, title string, first, last int64) uuid.UUID {
	id := uuid.New()
	p.exec("update turn_index set topic_id = $1 where chat_id = $2 and seq between $3 and $4", id, p.chat, first, last)
	p.exec(`insert into topics (id, chat_id, user_id, number, title, title_seq, message_count, created_at, last_active_at, first_seq, last_seq)
		select $1, chat_id, user_id, $2, $3, min(seq), count(*), min(created_at), max(created_at), min(seq), max(seq)
		  from messages where chat_id = $4 and seq between $5 and $6 group by chat_id, user_id`, id, number, title, p.chat, first, last)
	return id
}

// pack packs the messages of the topic of bows up to one of them, with a summary.
func (p *topical) pack(upto int64) {
	p.exec(`update topics set compacted_seq = $2, compacted_messages = $2::bigint, summary_seq = $2, summary = 'They compared bows.', summary_tokens = 5
		where id = $1`, p.bows, upto)
}

func (p *topical) ref(id uuid.UUID) api.TopicRef {
	return api.TopicRef{ChatID: p.chat, ID: id}
}

func (p *topical) current() api.TopicRef { return api.TopicRef{ChatID: p.chat, Current: true} }

func (p *topical) history(ref api.TopicRef, all bool) []api.TopicMessage {
	found := must(p.store.TopicHistory(p.t.Context(), p.user, ref, api.TopicHistoryQuery{IncludeCompressed: all}))(p.t)
	return found.Messages
}

// saidIn are what messages say, with a letter for the role: "u:Question 1".
func saidIn(messages []api.TopicMessage) (said []string) {
	for _, m := range messages {
		said = append(said, m.Role[:1]+":"+m.Content)
	}
	return said
}

// list returns the titles that a query finds.
func (p *topical) list(query api.TopicsQuery) ([]string, api.TopicPage) {
	noError(p.t, api.Check(&query))
	page := must(p.store.ListTopics(p.t.Context(), p.user, p.chat, query))(p.t)
	titles := []string{}
	for _, topic := range page.Topics {
		titles = append(titles, topic.Title)
	}
	return titles, page
}

func TestTopicsAreShownWithTheirPriorityNow(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.exec(`update topics set access_count = 17, importance = 0.8, tags = '{cello}', summary = 'A summary.',
		created_at = now() - interval '20 days', last_active_at = now() - interval '8 days' where id = $1`, p.bows)
	titles, page := p.list(api.TopicsQuery{})
	mustBe(t, titles, []string{"Rosin, dark or light", "Bows"}, "the result")
	bows := page.Topics[1]
	if math.Abs(bows.Priority-.4) > .001 { // one half-life
		t.Errorf("the priority is %v", bows.Priority)
	}
	want := api.Topic{
		ID: p.bows, Number: 1, Title: "Bows", Summary: new("A summary."), Tags: []string{"cello"}, Importance: .8, AccessCount: 17, MessageCount: 8, State: "active",
		MemoryType: "long-term", HalfLifeDays: 8, Priority: bows.Priority, CreatedAt: bows.CreatedAt, LastActiveAt: bows.LastActiveAt,
	}
	is(t, bows, want, "the result")
	rosin := page.Topics[0]
	assert.Truef(t, rosin.MemoryType == "short-term" && rosin.HalfLifeDays == 1 && rosin.Summary == nil && rosin.Tags != nil,
		"a new topic is %+v", rosin)
	assert.Truef(t, page.Next == nil, "there is no next page: %v", page.Next)

	// A topic that began before what a time.Duration reaches has faded.
	p.exec("update topics set created_at = '0001-01-01 00:00Z', last_active_at = '0001-01-01 00:00Z' where id = $1", p.bows)
	found, stats := must(p.store.FindTopic(t.Context(), p.user, p.ref(p.bows)))(t), must(p.store.TopicStats(t.Context(), p.user, p.ref(p.bows)))(t)
	is(t, tuple(found.Priority, found.CreatedAt.Year(), stats.AgeSeconds > 2000*365*24*60*60), tuple(0, 1, true), "%+v, %+v", found, stats)

	for _, ref := range []api.TopicRef{p.ref(p.rosin), p.current()} {
		if found, err := p.store.FindTopic(t.Context(), p.user, ref); err != nil || found.ID != p.rosin || found.MergedInto != nil {
			t.Errorf("%+v: %+v, %v", ref, found, err)
		}
	}
}

func TestTopicsAreFoundByStateTagAndWords(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.exec("update topics set state = 'archived', tags = '{cello,gear}', summary = 'The carbon bow bounces well.' where id = $1", p.bows)
	p.exec("update topics set tags = '{gear}' where id = $1", p.rosin)
	for _, c := range []struct {
		query api.TopicsQuery
		want  []string
	}{
		{api.TopicsQuery{State: "active"}, []string{"Rosin, dark or light"}},
		{api.TopicsQuery{State: "archived"}, []string{"Bows"}},
		{api.TopicsQuery{State: "merged"}, []string{}},
		{api.TopicsQuery{Tag: "cello"}, []string{"Bows"}},
		{api.TopicsQuery{Tag: "gear", State: "active"}, []string{"Rosin, dark or light"}},
		{api.TopicsQuery{Text: "bouncing carbon"}, []string{"Bows"}},
		{api.TopicsQuery{Text: "which dark bow and rosin"}, []string{"Rosin, dark or light", "Bows"}},
		{api.TopicsQuery{Text: "gear cello"}, []string{"Bows", "Rosin, dark or light"}},
		{api.TopicsQuery{Text: "bow", State: "active"}, []string{}},
		{api.TopicsQuery{Text: "metronome"}, []string{}},
		{api.TopicsQuery{Text: "& | ! :* '"}, []string{}},
	} {
		if titles, _ := p.list(c.query); !slices.Equal(titles, c.want) {
			t.Errorf("%+v: %q, want %q", c.query, titles, c.want)
		}
	}
	p.exec("update topics set state = 'merged', merged_into = $1 where id = $2", p.rosin, p.bows)
	for _, query := range []api.TopicsQuery{{}, {Text: "which dark bow and rosin"}} {
		titles, _ := p.list(query)
		mustBe(t, titles, []string{"Rosin, dark or light"}, "the merged one is in no list")
	}
	titles, _ := p.list(api.TopicsQuery{State: "merged"})
	mustBe(t, titles, []string{"Bows"}, "unless it is asked for")
	p.exec("update topics set state = 'archived', merged_into = null where id = $1", p.bows)
	first, page := p.list(api.TopicsQuery{Limit: 1})
	second, last := p.list(api.TopicsQuery{Limit: 1, After: page.Next})
	got := slices.Concat(first, second)
	assert.Truef(t, slices.Equal(got, []string{"Rosin, dark or light", "Bows"}) && last.Next == nil,
		"two pages hold %q", got)
}

// Who lists topics has the turns indexed that are not, and with that assigned, and does not wait for it.
func TestListingTopicsHasTurnsIndexed(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	wantJobs := func(want int, what string) {
		t.Helper()
		p.list(api.TopicsQuery{Text: "bows"})
		is(t, len(p.indexed), want, "jobs %s", what)
		for len(p.indexed) > 0 {
			is(t, <-p.indexed, p.chat, "the job's chat")
		}
	}
	wantJobs(1, "at first")
	p.exec("select throughline.index_chat($1, 16)", p.chat)
	wantJobs(0, "although all turns are indexed")
	running := turnIn(p.chat, "Question 9")
	p.start(running)
	wantJobs(0, "although the reply runs")
	p.reply(running, "Answer 9")
	wantJobs(1, "after the reply")
	p.exec("update chats set topics = 'off' where id = $1", p.chat)
	wantJobs(0, "for a chat without topics")
	p.chat = p.talk(1) // auto, without a brief
	wantJobs(0, "for a short chat")
	p.exec("update chats set topics = 'on' where id = $1", p.chat)
	wantJobs(1, "for a chat that has topics from the first turn")
}

func TestTopicMessagesComeFromTheArchive(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	before := p.history(p.ref(p.bows), false)
	if archive, err := p.store.TopicArchive(t.Context(), p.user, p.ref(p.bows)); err != nil || archive.CompressedMessages != nil {
		t.Errorf("nothing is packed, the archive is %+v, %v", archive, err)
	}
	p.pack(4)
	want := []string{"u:Question 1", "a:Answer 1", "u:Question 2", "a:Answer 2", "u:Question 3", "a:Answer 3", "u:Question 4", "a:Answer 4"}
	is(t, saidIn(p.history(p.ref(p.bows), true)), want, "all messages")
	is(t, saidIn(p.history(p.ref(p.bows), false)), want[4:], "the active messages")
	is(t, p.history(p.ref(p.bows), true), before, "packing changed the messages")
	is(t, ask[float64](p, "select extract(epoch from created_at)::float8 from messages where id = $1", p.messages[0]), before[0].Timestamp, "the timestamp")
	archive, err := p.store.TopicArchive(t.Context(), p.user, p.ref(p.bows))
	require.Truef(t, err == nil && strings.HasPrefix(*archive.CompressedMessages, "H4sI"),
		"the archive is %+v, %v", archive, err)
	is(t, unpacked(t, *archive.CompressedMessages), before[:4], "the archive holds")
	stats, err := p.store.TopicStats(t.Context(), p.user, p.ref(p.bows))
	wanted := api.TopicStats{
		TopicID: p.bows, TopicTitle: "Bows", ActiveMessages: 4, CompressedMessages: 4, TotalMessages: 8, HasSummary: true, ImportanceScore: 1,
		MemoryType: "short-term", HalfLifeDays: 1, AgeSeconds: stats.AgeSeconds, InactiveSeconds: stats.InactiveSeconds,
	}
	diff := cmp.Diff(wanted, stats)
	assert.Truef(t, err == nil && diff == "" && (stats.AgeSeconds > stats.InactiveSeconds && stats.InactiveSeconds > 0),
		"the figures are %+v, %v\n%s", stats, err, diff)
}

// unpacked reads an archive as an app does.
func unpacked(t *testing.T, archive string) (entries []api.TopicMessage) {
	zip, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(archive)))
	if err == nil {
		err = json.NewDecoder(zip).Decode(&entries)
	}
	require.NoError(t, err)
	return entries
}

func TestTopicContext(t *testing.T) {
	t.Parallel()
	p := newTopical(t)
	p.pack(4)
	said := func(ref api.TopicRef) string {
		said := []string{}
		for _, m := range must(p.store.TopicContext(t.Context(), p.user, ref))(t).Messages {
			said = append(said, m.Role[:1]+":"+m.Content)
		}
		return strings.Join(said, " ")
	}
	is(t, said(p.ref(p.bows)), "s:Topic summary: They compared bows. u:Question 3 a:Answer 3 u:Question 4 a:Answer 4", "a topic")
	const current = "u:Question 5 a:Answer 5 u:Question 6 a:Answer 6 u:Question 7 a:Answer 7 u:Question 8 a:Answer 8"
	is(t, said(p.current()), current, "the current topic")
	running := turnIn(p.chat, "Question 9")
	p.start(running)
	is(t, said(p.current()), current+" u:Question 9", "while a reply runs")
	p.reply(running, "Answer 9")

	p.exec("update conversation_briefs set cleared_seq = 14, covered_seq = 14 where chat_id = $1", p.chat)
	is(t, said(p.current()), "u:Question 8 a:Answer 8 u:Question 9 a:Answer 9", "after a clear")
	p.exec("delete from topics where chat_id = $1", p.chat)
	p.exec("update turn_index set topic_id = null")
	p.exec("update conversation_briefs set cleared_seq = 0, covered_seq = 0 where chat_id = $1", p.chat)
	is(t, said(p.current()), "u:Question 4 a:Answer 4 "+current+" u:Question 9 a:Answer 9", "without a topic")
	p.chat = p.create(p.user)
	is(t, said(p.current()), "", "an empty chat")
}

// create makes a chat without messages.
func (p *topical) create(user auth.Principal) uuid.UUID {
	made := must(shelfOf(p.bed).CreateChat(p.t.Context(), user, api.NewChat{}))(p.t)
	return made.ID
}
