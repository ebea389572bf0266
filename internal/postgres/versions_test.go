package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/streaming"
)

// talk is a shelf with two servers that answer.
type talk struct {
	shelf
	servers [2]*chat.Service
	model   *answers
}

// answers is the model of both servers: it numbers its answers, and breaks off when it is told to.
type answers struct {
	mu     sync.Mutex
	inputs []string
	fails  atomic.Bool
	hold   chan struct{} // answers wait for it; nil for no waiting
}

func (m *answers) Stream(_ context.Context, request chat.ModelRequest) (chat.ModelStream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inputs = append(m.inputs, request.Input)
	return &answer{model: m, text: fmt.Sprintf("Answer %d.", len(m.inputs)), hold: m.hold}, nil
}

func (m *answers) lastInput() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inputs[len(m.inputs)-1]
}

type answer struct {
	model *answers
	text  string
	hold  chan struct{}
	said  bool
}

func (a *answer) Next() bool {
	if a.said {
		return false
	}
	if a.hold != nil {
		<-a.hold
	}
	a.said = true
	return true
}
func (a *answer) Delta() string { return a.text }
func (a *answer) Err() error {
	if a.model.fails.Load() {
		return fault.New(fault.UpstreamFailed, "It broke off.")
	}
	return nil
}
func (*answer) Close() error { return nil }
func (*answer) Result() chat.ModelResult {
	return chat.ModelResult{Model: "m", FinishReason: "stop", Usage: streaming.Usage{InputTokens: 1, OutputTokens: 1}}
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	return talkOn(newBed(t))
}

func talkOn(b *bed) *talk {
	t := b.t
	t.Helper()
	s := &talk{shelf: shelfOf(b), model: &answers{}}
	for n := range s.servers {
		pool := openPool(t, b.db, b.db.ServerDSN, 10)
		t.Cleanup(pool.Close)
		s.servers[n] = chat.New(chat.Config{
			Store: NewTurns(pool, b.limits, b.turns.enqueue), Model: s.model, Logger: slog.New(slog.DiscardHandler), Metrics: metrics.New(),
			Variants: []chat.Variant{{Name: "arco", Model: "small"}, {Name: "pro", Model: "large"}}, Limits: b.limits, ReplyTimeout: time.Minute,
		})
		t.Cleanup(func() { s.servers[n].Close(context.WithoutCancel(t.Context())) })
	}
	return s
}

// send sends a message to a server and waits for the whole reply.
func (s *talk) send(server int, message chat.Message) (chat.Whole, error) {
	reply, err := s.servers[server].Send(s.t.Context(), s.user, message)
	if err != nil {
		return chat.Whole{}, err
	}
	defer reply.Close()
	return reply.Wait(s.t.Context())
}

func (s *talk) mustSend(message chat.Message) chat.Whole {
	return must(s.send(0, message))(s.t)
}

// begin is a chat with these messages of the user, each with its answer.
func (s *talk) begin(contents ...string) uuid.UUID {
	chatID := uuid.Nil
	for _, content := range contents {
		chatID = s.mustSend(chat.Message{ChatID: chatID, Content: content}).ChatID
	}
	return chatID
}

// path is what a chat says, by the API.
func (s *talk) path(chatID uuid.UUID) string {
	var said []string
	for _, m := range s.list(chatID, "") {
		said = append(said, fmt.Sprintf("%s %d/%d", m.Content, m.Version, m.Versions))
	}
	return strings.Join(said, " | ")
}

func (s *talk) list(chatID uuid.UUID, versions string) []api.Message {
	return must(s.Store.ListMessages(s.t.Context(), s.user, chatID, api.MessagesQuery{Limit: 200, Versions: versions}))(s.t).Messages
}

func (s *talk) last(chatID uuid.UUID) uuid.UUID {
	return ask[uuid.UUID](s, "select id from messages where chat_id = $1 and superseded_by is null order by seq desc limit 1", chatID)
}

// checkTree looks that all chats are trees of which one line is the path, with their counters.
func (s *talk) checkTree() {
	s.t.Helper()
	wrong := ask[string](s, `select coalesce(string_agg(distinct problem, ', '), '') from (
		select 'the path leaves out a parent' as problem from (
			select parent_id, lag(id) over (partition by chat_id order by seq) as before from messages where superseded_by is null) p
		 where parent_id is distinct from before
		union all
		select 'a parent is not before its child' from messages m where parent_id is not null
		   and not exists (select from messages p where p.id = m.parent_id and p.chat_id = m.chat_id and p.seq < m.seq)
		union all
		select 'a superseded message counts' from messages where superseded_by is not null and (token_count > 0 or status = 'streaming')) found`)
	is(s.t, wrong, "", "the trees")
	s.checkCounters()
}

// An edit takes the message and all after it off the path and out of the prompt. Files and the time zone stay, a pin and a rating do not.
func TestAnEditReplacesTheRest(t *testing.T) {
	t.Parallel()
	s := newTalk(t)
	chatID := s.begin("One.")
	second := chat.Message{ChatID: chatID, Content: "The second.", ClientMessageID: uuid.New(), Metadata: map[string]any{"time_zone": "Europe/Berlin"},
		Files: []memory.File{{Path: "a.txt", Content: "alpha"}}, Importance: new(0.9)}
	s.mustSend(second)
	s.mustSend(chat.Message{ChatID: chatID, Content: "The third."})
	s.exec("update messages set pinned = true where content = 'The second.'")
	edited := s.mustSend(chat.Message{Replaces: second.ClientMessageID, Content: "Number two.", Last: new(s.last(chatID))})
	is(t, edited.ChatID, chatID, "the chat is the message's")
	is(t, s.path(chatID), "One. 1/1 | Answer 1. 1/1 | Number two. 2/2 | Answer 4. 1/1", "the path")
	assert.NotRegexp(t, "second|third|Answer [23]", s.model.lastInput())
	assert.Contains(t, s.model.lastInput(), "alpha")
	got := s.list(chatID, "")[2]
	is(t, tuple(got.Pinned, got.Importance == nil, string(got.Metadata), len(got.Files)), tuple(false, true, `{"time_zone": "Europe/Berlin"}`, 1), "%+v", got)
	all := s.list(chatID, "all")
	is(t, len(all), 8, "with all versions")
	for _, gone := range all[2:6] {
		is(t, tuple(*gone.SupersededBy, gone.TokenCount), tuple(got.ID, 0), "%s", gone.Content)
	}
	s.mustSend(chat.Message{Replaces: got.ID, Content: "Without a file.", Files: []memory.File{}, Metadata: map[string]any{"time_zone": "UTC"}})
	got = s.list(chatID, "")[2]
	is(t, tuple(string(got.Metadata), len(got.Files)), tuple(`{"time_zone": "UTC"}`, 0), "%+v", got)
	assert.NotContains(t, s.model.lastInput(), "alpha")
	s.checkTree()
}

// A reply, or a message of the user, gets another reply, of another model where one is named.
func TestAnotherReply(t *testing.T) {
	t.Parallel()
	s := newTalk(t)
	chatID := s.begin("One.", "Two.")
	asked := s.list(chatID, "")[0]
	second := s.mustSend(chat.Message{Replaces: s.list(chatID, "")[1].ID, Regenerate: true, Variant: "pro", ChatID: chatID})
	is(t, tuple(second.Content, second.ModelVariant), tuple("Answer 3.", "pro"), "%+v", second)
	is(t, s.path(chatID), "One. 1/1 | Answer 3. 2/2", "the path")
	assert.NotRegexp(t, "Two|Answer [12]", s.model.lastInput())
	again := chat.Message{Replaces: asked.ID, Regenerate: true, ClientMessageID: uuid.New()}
	third := s.mustSend(again)
	is(t, tuple(s.path(chatID), third.ModelVariant), tuple("One. 1/1 | Answer 4. 3/3", "arco"), "the path")
	is(t, must(s.send(1, again))(t).MessageID, third.MessageID, "the same again, at another server")
	named := s.mustSend(chat.Message{Replaces: again.ClientMessageID, Regenerate: true})
	is(t, tuple(s.path(chatID), named.Content), tuple("One. 1/1 | Answer 5. 4/4", "Answer 5."), "by the client's id")
	is(t, must(s.send(1, again))(t).MessageID, third.MessageID, "a reply that was replaced since is replayed")
	old := must(s.servers[1].Resume(t.Context(), s.user, chatID, &chat.Cursor{MessageID: third.MessageID, After: 7}))(t)
	is(t, must(old.Wait(t.Context()))(t).Content, "4.", "its stream goes on at a place")
	old.Close()
	unanswered := s.say(chatID, "user", "Anyone?")
	s.mustSend(chat.Message{Replaces: unanswered, Regenerate: true})
	is(t, s.path(chatID), "One. 1/1 | Answer 5. 4/4 | Anyone? 1/1 | Answer 6. 1/1", "a message without a reply gets one")
	s.checkTree()
}

// What failed is retried by the client's id while the path ends with it: an edit, and another reply, whose id the next one has then.
func TestWhatReplacesIsRetried(t *testing.T) {
	t.Parallel()
	s := newTalk(t)
	chatID := s.begin("One.", "Two.")
	for name, message := range map[string]chat.Message{"another reply": {Regenerate: true}, "an edit": {Content: "Zwei."}} {
		message.Replaces, message.ClientMessageID, message.Last = s.list(chatID, "")[2].ID, uuid.New(), new(s.last(chatID))
		s.model.fails.Store(true)
		_, err := s.send(0, message)
		wantFault(t, err, fault.UpstreamFailed, "%s", name)
		s.model.fails.Store(false)
		whole := must(s.send(1, message))(t)
		is(t, tuple(s.last(chatID), must(s.send(0, message))(t).MessageID), tuple(whole.MessageID, whole.MessageID), "%s: one reply", name)
		other := message
		other.Replaces = s.list(chatID, "")[0].ID
		wantFault(t, errOf(s.send(0, other)), fault.IdempotencyMismatch, "%s: of another message", name)
		other = message
		other.Replaces, other.Regenerate, other.Content, other.ChatID = uuid.Nil, false, "Two.", chatID
		wantFault(t, errOf(s.send(0, other)), fault.IdempotencyMismatch, "%s: of none", name)
	}
	failing := chat.Message{ChatID: chatID, Content: "Fails.", ClientMessageID: uuid.New()}
	s.model.fails.Store(true)
	wantFault(t, errOf(s.send(0, failing)), fault.UpstreamFailed, "")
	s.model.fails.Store(false)
	s.mustSend(chat.Message{ChatID: chatID, Content: "Go on."})
	before := s.path(chatID)
	wantFault(t, errOf(s.send(1, failing)), fault.UpstreamFailed, "what failed before is replayed as it ended")
	is(t, s.path(chatID), before, "and nothing is thrown away")
	s.checkTree()
}

// Another reply whose server died is retried by the next who asks for it.
func TestAnotherReplyOutlivesItsServer(t *testing.T) {
	t.Parallel()
	s := newTalk(t)
	chatID := s.begin("One.")
	asked, last := s.list(chatID, "")[0].ID, s.last(chatID)
	lost := turnIn(chatID, "One.")
	lost.UserMessageID, lost.ClientMessageID, lost.Last = asked, uuid.New(), &last
	lost.Replacement = &chat.Replacement{MessageID: asked, Replaces: asked, FromSeq: 2, Again: true, ReplyClientID: lost.ClientMessageID}
	s.start(lost)
	s.exec("update messages set lease_until = now() - interval '1 second' where id = $1", lost.MessageID)
	whole := s.mustSend(chat.Message{Replaces: asked, Regenerate: true, ClientMessageID: lost.ClientMessageID})
	is(t, ask[string](s, "select string_agg(concat_ws(' ', status, client_message_id), ', ' order by seq) from messages where role = 'assistant'"),
		"complete, interrupted, complete "+lost.ClientMessageID.String(), "the replies")
	is(t, tuple(s.last(chatID), s.path(chatID)), tuple(whole.MessageID, "One. 1/1 | Answer 2. 3/3"), "the path")
	s.checkTree()
}

// What cannot be replaced is refused with the reason, and nothing changes.
func TestWhatCannotBeReplaced(t *testing.T) {
	t.Parallel()
	s := talkOn(newOwnBed(t))
	chatID := s.begin("Old.")
	old := s.list(chatID, "")[0]
	s.clear(chatID)
	s.begin("Elsewhere.")
	s.mustSend(chat.Message{ChatID: chatID, Content: "One."})
	s.mustSend(chat.Message{ChatID: chatID, Content: "Two."})
	edited := s.list(chatID, "")[4]
	s.mustSend(chat.Message{Replaces: edited.ID, Content: "Zwei."})
	path := s.list(chatID, "")
	now, last := path[4].ID, s.last(chatID)
	system := s.say(s.begin("A chat."), "system", "Be kind.")
	state := func() string {
		return ask[string](s, `select md5(string_agg(m::text, '' order by m.chat_id, m.seq)) || (select sum(version + edit_count) from conversation_briefs)
			from messages m`)
	}
	endsWith := map[string]any{"last_message_id": last}
	for name, c := range map[string]struct {
		message chat.Message
		code    fault.Code
		details map[string]any
	}{
		"superseded":      {chat.Message{Replaces: edited.ID, Content: "x"}, fault.MessageSuperseded, map[string]any{"superseded_by": now}},
		"its reply":       {chat.Message{Replaces: *path[5].ReplyTo, Content: "x", Last: new(now)}, fault.ConversationChanged, endsWith},
		"an empty path":   {chat.Message{Replaces: now, Regenerate: true, Last: new(uuid.Nil)}, fault.ConversationChanged, endsWith},
		"a message after": {chat.Message{ChatID: chatID, Content: "x", Last: new(now)}, fault.ConversationChanged, endsWith},
		"cleared":         {chat.Message{Replaces: old.ID, Content: "x"}, fault.ConversationChanged, endsWith},
		"cleared, again":  {chat.Message{Replaces: old.ID, Regenerate: true, Last: new(last)}, fault.ConversationChanged, endsWith},
		"none":            {chat.Message{Replaces: uuid.New(), Content: "x"}, fault.MessageNotFound, nil},
		"a reply's words": {chat.Message{Replaces: path[5].ID, Content: "x"}, fault.MessageNotFound, nil},
		"a system's":      {chat.Message{Replaces: system, Regenerate: true}, fault.MessageNotFound, nil},
		"another chat's":  {chat.Message{Replaces: now, Content: "x", ChatID: uuid.New()}, fault.MessageNotFound, nil},
		"no chat":         {chat.Message{ChatID: uuid.New(), Content: "x", Last: new(last)}, fault.ChatNotFound, nil},
	} {
		before := state()
		_, err := s.send(0, c.message)
		details := faultOf(t, err, c.code)
		is(t, details, c.details, "%s", name)
		is(t, state(), before, "%s: what is stored", name)
	}
	before := state()
	says := func(verdict string) {
		s.exec("create or replace function throughline.allow_turn(user_id uuid, purpose text, model_variant text) returns table (verdict text, reason text, " +
			"resets_at timestamptz, variant text) language sql stable as $$ select '" + verdict + "', 'plan', null::timestamptz, 'pro' $$")
	}
	says("deny")
	for _, message := range []chat.Message{{Replaces: now, Content: "x"}, {Replaces: now, Regenerate: true}} {
		wantFault(t, errOf(s.send(0, message)), fault.QuotaExceeded, "denied")
	}
	is(t, state(), before, "after denials")
	says("downgrade")
	other := s.mustSend(chat.Message{Replaces: now, Regenerate: true})
	is(t, tuple(other.ModelVariant, ask[string](s, "select metadata ->> 'asked_variant' from messages where id = $1", other.MessageID)), tuple("pro", "arco"),
		"another reply is downgraded as any")
}

// While a reply runs nothing is replaced or selected. A chat that has expired is revived by an edit as by any message.
func TestReplacingWaitsItsTurn(t *testing.T) {
	t.Parallel()
	s := newTalk(t)
	chatID := s.begin("One.", "Two.")
	first := s.list(chatID, "")[0]
	s.mustSend(chat.Message{Replaces: first.ID, Content: "Eins."})
	s.model.hold = make(chan struct{})
	running := must(s.servers[0].Send(t.Context(), s.user, chat.Message{ChatID: chatID, Content: "Wait."}))(t)
	for _, message := range []chat.Message{{Replaces: first.ID, Content: "x"}, {Replaces: s.last(chatID), Regenerate: true, Last: new(uuid.New())}} {
		_, err := s.send(1, message)
		is(t, faultOf(t, err, fault.GenerationInProgress)["message_id"], any(running.Started.MessageID), "running")
	}
	_, err := s.SelectVersion(t.Context(), s.user, first.ID, api.Selection{})
	is(t, faultOf(t, err, fault.GenerationInProgress)["message_id"], any(running.Started.MessageID), "running")
	close(s.model.hold)
	must(running.Wait(t.Context()))(t)
	running.Close()
	s.expire(chatID)
	edit := chat.Message{Replaces: ask[uuid.UUID](s, "select id from messages where content = 'Eins.'"), Content: "Uno."}
	wantFault(t, errOf(s.send(0, edit)), fault.ChatExpired, "expired")
	wantFault(t, errOf(s.SelectVersion(t.Context(), s.user, first.ID, api.Selection{})), fault.ChatExpired, "expired")
	edit.Revive = true
	s.mustSend(edit)
	is(t, ask[string](s, "select string_agg(content, ' ' order by seq) from messages where superseded_by is null"), "Uno. Answer 5.", "revived")
	s.checkTree()
}

// Going back to a version: the path leads through it, its jobs are enqueued, and a version that is read already changes nothing.
func TestSelectingAVersion(t *testing.T) {
	t.Parallel()
	s := newTalk(t)
	chatID := s.begin("One.", "Two.", "Three.")
	two := s.list(chatID, "")[2]
	last := s.last(chatID)
	s.mustSend(chat.Message{Replaces: two.ID, Content: "Zwei."})
	zwei := s.list(chatID, "")[2]
	versions := must(s.ListVersions(t.Context(), s.user, two.ID))(t)
	is(t, tuple(len(versions.Versions), versions.Versions[0].ID, versions.Versions[1].ID, *versions.Selected), tuple(2, two.ID, zwei.ID, zwei.ID), "versions")
	nothing := must(s.SelectVersion(t.Context(), s.user, zwei.ID, api.Selection{LastMessageID: api.To(uuid.NewString())}))(t)
	is(t, tuple(nothing.ChatID, nothing.FromSeq == nil, nothing.LastMessageID), tuple(chatID, true, s.last(chatID)), "on the path: %+v", nothing)
	for _, wrong := range []api.Field[string]{api.To(two.ID.String()), api.None[string]()} {
		_, err := s.SelectVersion(t.Context(), s.user, two.ID, api.Selection{LastMessageID: wrong})
		is(t, faultOf(t, err, fault.ConversationChanged), map[string]any{"last_message_id": s.last(chatID)}, "after %v", wrong)
	}
	limits := s.limits
	limits.ChunkThreshold, limits.KRawTurns = 1, 1
	history := NewHistory(s.server, limits, s.turns.enqueue)
	back := must(history.SelectVersion(t.Context(), s.user, two.ID, api.Selection{LastMessageID: api.To(s.last(chatID).String())}))(t)
	is(t, tuple(back.ChatID, back.Selected, *back.FromSeq, back.LastMessageID), tuple(chatID, two.ID, 3, last), "%+v", back)
	is(t, s.path(chatID), "One. 1/1 | Answer 1. 1/1 | Two. 1/2 | Answer 2. 1/1 | Three. 1/1 | Answer 3. 1/1", "the path")
	is(t, len(s.folds), 1, "folds enqueued")
	latest, _, err := s.turns.FindReply(t.Context(), s.user, chatID, uuid.Nil, 0)
	is(t, tuple(err, latest.MessageID), tuple(nil, last), "the latest reply")
	s.clear(chatID)
	_, err = s.SelectVersion(t.Context(), s.user, zwei.ID, api.Selection{})
	is(t, faultOf(t, err, fault.ConversationChanged), map[string]any{"last_message_id": last}, "before the clear")
	stranger := s.newUser()
	wantFault(t, errOf(s.SelectVersion(t.Context(), stranger, two.ID, api.Selection{})), fault.MessageNotFound, "another user's")
	wantFault(t, errOf(s.ListVersions(t.Context(), stranger, two.ID)), fault.MessageNotFound, "another user's")
	s.checkTree()
}

// Two devices at two servers, which show the same conversation, change it at once: one wins, and the other is told that it changed,
// or that the winner's reply runs. What names no last message, deleting and clearing, may happen before or after.
func TestOneOfTwoChangesWins(t *testing.T) {
	t.Parallel()
	s, random := newTalk(t), seeded(t)
	for n := range races(120) {
		chatID := s.begin("One.", "Two.")
		s.mustSend(chat.Message{Replaces: s.list(chatID, "")[2].ID, Content: "Zwei."})
		var two uuid.UUID
		for _, m := range s.list(chatID, "all") {
			if m.Content == "Two." {
				two = m.ID
			}
		}
		path, last := s.list(chatID, ""), new(s.last(chatID))
		sends := func(message chat.Message) func(int) error {
			message.Last = last
			return func(server int) error { return errOf(s.send(server, message)) }
		}
		changes := []func(int) error{
			sends(chat.Message{Replaces: path[0].ID, Content: "Eins."}),
			sends(chat.Message{Replaces: path[2].ID, Content: "Deux.", ClientMessageID: uuid.New()}),
			sends(chat.Message{Replaces: path[3].ID, Regenerate: true}),
			sends(chat.Message{ChatID: chatID, Content: "Three."}),
			func(int) error {
				return errOf(s.SelectVersion(t.Context(), s.user, two, api.Selection{LastMessageID: api.To(last.String())}))
			},
		}
		others := []func(int) error{
			func(int) error { return s.DeleteMessage(t.Context(), s.user, path[1].ID) },
			func(int) error { return errOf(s.ClearChat(t.Context(), s.user, chatID)) },
		}
		random.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
		work := changes[:2]
		if n%3 == 0 {
			work[1] = others[random.IntN(len(others))]
		}
		var won, lost atomic.Int64
		together(t, len(work), func(n int) error {
			switch err := work[n](n); fault.CodeOf(err) {
			case "":
				won.Add(1)
			case fault.ConversationChanged, fault.GenerationInProgress, fault.MessageSuperseded:
				lost.Add(1)
			default:
				return err
			}
			return nil
		})
		if n%3 != 0 {
			mustBe(t, tuple(won.Load(), lost.Load()), tuple(1, 1), "round %d: won, lost", n)
		}
	}
	s.checkTree()
}
