package people

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

var (
	canaries = flag.Int("canaries", 8, "in how many chats words are taken back")
	races    = flag.Int("races", 50, "how many times two devices change the same chat at once")
)

// Words are derived everywhere: to a title, brief, draft, index, topic, memory, vector. Then they are edited, deleted, superseded or
// deselected, while jobs read them and a server is killed: no column has them any more, and no prompt.
func TestWordsTakenBack(t *testing.T) {
	t.Parallel()
	c := &canary{t: t, record: &Record{Talk: testTalk()}}
	c.record.Talk.Subjects.Words = []string{"spinnaker"} // one topic, which is packed
	c.record.Talk.Summary, c.record.Talk.Article = 300*time.Millisecond, Range{Least: 1000, Most: 1000, Every: 3}
	c.System = startTwo(t, c.record.Talk, map[string]string{"MEMORY_FOLD_INPUT_TOKENS": "900", "MEMORY_PROMPT_TOKEN_BUDGET": "3000"})
	const atOnce = 16
	for first := 0; first < *canaries; first += atOnce {
		c.wave(first, min(first+atOnce, *canaries))
	}
	t.Logf("in %d chats %d messages taken back, %d servers killed, %d drafts of folds: 0 words left", *canaries, c.gone, c.Kills, c.drafts.Load())
	assert.Positive(t, c.gone)
}

// startTwo starts two servers that fold, learn and sort after a few turns.
func startTwo(t *testing.T, talk *Talk, settings map[string]string) *System {
	for name, value := range map[string]string{
		"LONG_TERM_MEMORY": "true", "RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0", "MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "200",
		"MEMORY_K_RAW_TURNS": "1", "MEMORY_EXTRACT_DELAY": "1s", "MEMORY_SUMMARY_TOKEN_CAP": "4000", "TOPICS": "on", "TOPIC_MAX": "2",
		"TOPIC_MAX_MESSAGES": "6", "TOPIC_KEEP_MESSAGES": "2", "CHAT_TITLES": "1s",
	} {
		settings[name] = cmp.Or(settings[name], value)
	}
	s, err := Start(t.Context(), Plan{
		Source: "../../..", Commands: []string{"serve", "serve"}, Script: talk.Answer, Subjects: &talk.Subjects, Settings: settings,
		Postgres: map[string]string{"shared_buffers": "64MB", "fsync": "off"},
	}, t.Output())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(t.Failed())) })
	require.NoError(t, s.Run(t.Context()))
	return s
}

type canary struct {
	*System
	t      *testing.T
	record *Record
	drafts atomic.Int64 // of folds, when words were taken back
	gone   int
}

// wave takes words back in some chats at once.
func (c *canary) wave(first, end int) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	all, prompts := make([]*Person, end-first), make([][]Prompt, end-first)
	c.each(all, func(n int) {
		all[n] = kit.Must(c.NewPerson(ctx, c.record, &Gauges{}, Habits{Patience: time.Minute, Away: time.Second, ChatsAtOnce: 1, Soon: 1}, 1, first+n))
		chat := &conversation{turns: 1000}
		all[n].chats = []*conversation{chat}
		c.derive(ctx, all[n], message{parent: chat.last})
		if (first+n)%len(takeBack) == 0 { // the words of the other version are to be derived as well
			c.derive(ctx, all[n], message{replaces: chat.said[0].id})
		}
	})
	killed := make(chan error, 1)
	time.AfterFunc(upTo(all[0].dice, 2*time.Second), func() { killed <- c.Kill(c.Parts[c.Kills%2]) })
	c.each(all, func(n int) {
		chat := all[n].chats[0]
		all[n].say(ctx, message{parent: chat.last})
		c.awaitDraft(ctx, chat)
		takeBack[(first+n)%len(takeBack)](ctx, all[n], chat)
	})
	kit.Check(errors.Join(<-killed, c.look(ctx, nil), c.Run(ctx)))
	for c.count(ctx, "inspect.due_folds(200, 1)") > 0 { // a prompt has no room for all that is to be folded
		kit.Check(kit.Sleep(ctx, 100*time.Millisecond))
	}
	c.each(all, func(n int) { prompts[n] = all[n].Greet(ctx) })
	c.gone = c.count(ctx, "public.messages where superseded_by is not null") + c.record.Tally().Deleted
	kit.Check(c.look(ctx, slices.Concat(prompts...)))
	assert.Positive(c.t, c.count(ctx, "public.conversation_brief_revisions where kind = 'rollback'"), "briefs taken back")
}

// derive says a message and six more, and waits until its mark is in all that is derived of it. The title comes first: what the
// model makes it of are the last six turns.
func (c *canary) derive(ctx context.Context, p *Person, m message) {
	p.say(ctx, m)
	chat := p.chats[0]
	marked := chat.said[len(chat.said)-1]
	for n := range 6 {
		p.say(ctx, message{parent: chat.last})
		if n == 1 {
			c.awaitDerived(ctx, chat, marked, titled)
		}
	}
	c.awaitDerived(ctx, chat, marked, derived)
}

// awaitDraft waits a moment for a fold that has asked once and asks again.
func (c *canary) awaitDraft(ctx context.Context, chat *conversation) {
	for until := time.Now().Add(time.Second); time.Now().Before(until); kit.Check(kit.Sleep(ctx, 20*time.Millisecond)) {
		if n := c.count(ctx, "public.conversation_brief_drafts where chat_id = '"+chat.id.String()+"'"); n > 0 {
			c.drafts.Add(1)
			return
		}
	}
}

// takeBack are the ways in which words are taken back.
var takeBack = []func(ctx context.Context, p *Person, chat *conversation){
	func(ctx context.Context, p *Person, chat *conversation) { // deselected
		v, err := p.versions(chat)[0], errors.New("not yet")
		for before := p.record.lastReply(chat.last); err != nil; kit.Check(ctx.Err()) {
			err = p.selectVersion(ctx, p.anyServer(), v, before)
		}
		chat.last = v.last
		p.record.lead(chat.said, chat.last)
	},
	func(ctx context.Context, p *Person, chat *conversation) { // edited
		p.say(ctx, message{replaces: chat.said[0].id})
	},
	func(ctx context.Context, p *Person, chat *conversation) { // superseded
		p.say(ctx, message{replaces: p.record.lastReply(chat.said[0]), again: chat.said[0]})
	},
	func(ctx context.Context, p *Person, chat *conversation) { // deleted
		for n, m := range chat.said[:4] {
			id, state := p.record.deletable(m, n%2 == 1)
			p.record.deleting(state, asked)
			for {
				err := p.Call(ctx, http.MethodDelete, "/v1/messages/"+id.String(), nil, nil)
				if refused, is := errors.AsType[*RefusedError](err); err == nil || is && refused.Code == fault.MessageNotFound {
					break
				}
				kit.Check(ctx.Err())
			}
			p.record.deleting(state, done)
		}
	},
}

// each does something for all persons at once.
func (c *canary) each(all []*Person, do func(n int)) {
	var wait errgroup.Group
	for n := range all {
		wait.Go(func() (err error) {
			defer kit.Catch(&err)
			do(n)
			return nil
		})
	}
	require.NoError(c.t, wait.Wait())
}

// say sends a message and waits for its whole reply, whatever is killed meanwhile.
func (p *Person) say(ctx context.Context, m message) {
	chat := p.chats[0]
	p.send(chat, m)
	p.finish(ctx)
}

// derived are the places in which a mark must be before it is taken back: else it would prove nothing that it is not there.
var (
	titled  = []string{"public.chats.title", "a title of the model"}
	derived = append([]string{
		"public.conversation_briefs.brief", "public.conversation_brief_revisions.global_summary", "public.turn_index.tsv", "public.topics.summary",
		"a memory", "a vector",
	}, titled...)
)

// awaitDerived waits until the mark of a message is in all of some places, and what the chat says is remembered.
func (c *canary) awaitDerived(ctx context.Context, chat *conversation, m *message, places []string) {
	for {
		var missing []string
		err := pgx.BeginFunc(ctx, c.Admin, func(tx pgx.Tx) (err error) {
			defer kit.Catch(&err)
			kit.Must(tx.Exec(ctx, fmt.Sprintf("create temp table gone_marks on commit drop as select 'ask%d' as mark, true as deleted, true as superseded", m.number)))
			kit.Must(tx.Exec(ctx, tracesSQL))
			rows, _ := tx.Query(ctx, `select unnest($3::text[]) except select place from traces
				except select 'a title of the model' from public.chats where id = $1 and title_seq > 0
				except select 'a memory' from public.memory_sources where chat_id = $1
				except select 'a vector' from public.turn_index i join public.messages m using (chat_id, seq) where m.id = $2 and i.embedding is not null`,
				chat.id, m.id, places)
			missing = kit.Must(pgx.CollectRows(rows, pgx.RowTo[string]))
			return nil
		})
		if err == nil && len(missing) == 0 {
			return
		}
		if kit.Sleep(ctx, 300*time.Millisecond) != nil {
			kit.Fail("ask%d of chat %s is not in %s: %v", m.number, chat.id, missing, err)
		}
	}
}

func (c *canary) count(ctx context.Context, rows string) (n int) {
	kit.Check(c.Admin.QueryRow(ctx, "select count(*) from "+rows).Scan(&n))
	return n
}

// look wants every check to hold that needs no quiet; of prompts, those of what they showed.
func (c *canary) look(ctx context.Context, prompts []Prompt) error {
	when := []string{Always}
	if prompts != nil {
		when = append(when, Greeted)
	}
	found, err := c.Examine(ctx, c.record, limits, prompts, Chosen(Checks(), when...))
	if len(found) > 0 {
		err = fmt.Errorf("%+v", found)
	}
	return err
}

// Of two requests that change a chat at once, both from what they show of it, one wins: from two devices, through two servers. The
// message that is replaced may be deleted as well, once it is off the path.
func TestOneWinner(t *testing.T) {
	t.Parallel()
	record := &Record{Talk: testTalk()}
	s := startTwo(t, record.Talk, map[string]string{"LONG_TERM_MEMORY": "false", "TOPICS": "off", "MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "100000"})
	const devices = 4
	var done atomic.Int64
	wins := make([]atomic.Int64, len(rivals))
	var all errgroup.Group
	for n := range devices {
		all.Go(func() (err error) {
			defer kit.Catch(&err)
			r := &rival{Person: kit.Must(s.NewPerson(t.Context(), record, &Gauges{}, Habits{Soon: 1}, 1, n))}
			for i := done.Add(1) - 1; i < int64(*races); i = done.Add(1) - 1 {
				if kind := int(i) % len(rivals); r.race(t.Context(), rivals[kind]) {
					wins[kind].Add(1)
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	require.Empty(t, record.now().broken)
	found, err := s.Examine(t.Context(), &Record{}, limits, nil, slices.DeleteFunc(Checks(), func(c Check) bool {
		return !slices.Contains([]string{"path_is_a_line", "one_winner", "superseded_by_another", "chat_counters", "brief_counters", "token_counts"}, c.Name)
	}))
	require.NoError(t, err)
	require.Empty(t, found)
	for kind := range rivals {
		t.Logf("replace won %d times against %s", wins[kind].Load(), rivals[kind].name)
	}
}

// rivals are what another device does while a message is replaced.
var rivals = []struct {
	name string
	do   func(ctx context.Context, r *rival, server string) error
}{
	{"replace", func(ctx context.Context, r *rival, server string) error { return r.send(ctx, server, r.asked) }},
	{"replace of the first", func(ctx context.Context, r *rival, server string) error { return r.send(ctx, server, r.first) }},
	{"send", func(ctx context.Context, r *rival, server string) error { return r.send(ctx, server, uuid.Nil) }},
	{"select", func(ctx context.Context, r *rival, server string) error {
		return r.callAt(ctx, server, http.MethodPost, "/v1/messages/"+r.other.String()+"/select", map[string]any{"last_message_id": r.last}, nil)
	}},
	{"delete", func(ctx context.Context, r *rival, server string) error {
		return r.callAt(ctx, server, http.MethodDelete, "/v1/messages/"+r.asked.String(), nil, nil)
	}},
}

// rival is a user in a chat of two turns and another version of the first.
type rival struct {
	*Person

	chat, first, asked, last, other uuid.UUID
}

// race reports whether the replacement won.
func (r *rival) race(ctx context.Context, against struct {
	name string
	do   func(ctx context.Context, r *rival, server string) error
},
) bool {
	r.chats = []*conversation{{}}
	chat := r.chats[0]
	r.say(ctx, message{})
	r.say(ctx, message{replaces: chat.said[0].id})
	r.say(ctx, message{parent: chat.last})
	r.chat, r.other, r.first, r.asked, r.last = chat.id, chat.said[0].id, chat.said[1].id, chat.said[2].id, r.record.lastReply(chat.last)

	servers := r.system.Servers()
	errs := make([]error, 2)
	var wait sync.WaitGroup
	wait.Go(func() { errs[0] = r.send(ctx, servers[0], r.asked) })
	wait.Go(func() { errs[1] = against.do(ctx, r, servers[1]) })
	wait.Wait()
	lost := 0
	for _, err := range errs {
		refused, is := errors.AsType[*RefusedError](err)
		if err != nil && (!is || !refusals[refused.Code]) {
			kit.Fail("replace × %s: %w", against.name, err)
		}
		lost += btoi(err != nil)
	}
	if lost != 1 && (against.name != "delete" || lost == 2) {
		kit.Fail("replace × %s: %v and %v", against.name, errs[0], errs[1])
	}
	return errs[0] == nil
}

// refusals are what is said to who comes too late.
var refusals = map[fault.Code]bool{
	fault.ConversationChanged: true, fault.MessageSuperseded: true, fault.GenerationInProgress: true, fault.MessageNotFound: true,
}

// send sends a message from what the path shows, in place of another one or as the next.
func (r *rival) send(ctx context.Context, server string, replaces uuid.UUID) error {
	body := map[string]any{"content": "ask1 and so on", "chat_id": r.chat, "last_message_id": r.last}
	if replaces != uuid.Nil {
		body["replaces"] = replaces
	}
	return r.callAt(ctx, server, http.MethodPost, "/v1/message", body, nil)
}
