package postgres

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/api"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
)

// call is a part: a call of a tool of the client.
func call(at int, id string) memory.Part {
	return memory.Part{
		Type: memory.PartCall, At: at, CallID: id, Name: "look_up", Arguments: json.RawMessage(`{"name": "Ada"}`), Run: memory.RunClient, Approval: new(false),
	}
}

func result(at int, id, output string) memory.Part {
	return memory.Part{Type: memory.PartResult, At: at, CallID: id, Status: memory.ResultDone, Output: json.RawMessage(output)}
}

// unanswered is the result that the database gives a call.
func unanswered(at int, id string, how memory.ResultStatus) memory.Part {
	part := result(at, id, "null")
	part.Status = how
	return part
}

// asJSON is how parts are stored.
func asJSON(t *testing.T, parts ...memory.Part) string {
	return string(must(json.Marshal(parts))(t))
}

// change changes a turn's reply, and returns what it was.
func (b *bed) change(turn chat.NewTurn, change chat.ReplyChange) (was chat.LockedReply) {
	noError(b.t, b.turns.ChangeReply(b.t.Context(), b.user, turn.MessageID, func(locked *chat.LockedReply) (chat.ReplyChange, error) {
		was = *locked
		return change, nil
	}))
	return was
}

// step is the commit of a step that said content in all and made calls at its end.
func step(turn chat.NewTurn, content string, ids ...string) chat.ReplyChange {
	change := chat.ReplyChange{
		Step: true, Content: content, Tokens: 10 + len([]rune(content)), Metadata: chat.ReplyMetadata{ModelVariant: turn.Variant},
		State: &chat.State{Variant: turn.Variant, Steps: [][]chat.Item{{{Type: chat.ItemMessage, Text: content}}}},
	}
	for _, id := range ids {
		change.Parts = append(change.Parts, call(len([]rune(content)), id))
	}
	return change
}

// wait is a step after which the reply waits for the results.
func wait(turn chat.NewTurn, content string, ids ...string) chat.ReplyChange {
	change := step(turn, content, ids...)
	change.Status, change.WaitUntil = memory.StatusAwaiting, time.Now().Add(time.Hour)
	return change
}

// goOn says that a server generates the reply from now on.
func goOn(server uuid.UUID) chat.ReplyChange {
	return chat.ReplyChange{Status: memory.StatusStreaming, Server: server, Lease: time.Minute}
}

// counters are those that a reply counts in: its tokens, those pending, the edits, up to where the chat is indexed, and the hidden rows.
func (b *bed) counters(turn chat.NewTurn) string {
	return ask[string](b, `select format('tokens %s, pending %s, edits %s, indexed %s, hidden %s',
		  (select token_count from messages where id = $1),
		  b.pending_tokens - (select sum(token_count) from messages where chat_id = b.chat_id and id <> $1 and superseded_by is null),
		  b.edit_count, b.indexed_seq, (select count(*) from message_deltas where start_char = -1))
		from conversation_briefs b where chat_id = $2`, turn.MessageID, turn.ChatID)
}

// A reply with tools counts what it holds, from its first step to its end, is indexed when it has ended, and is no edit.
func TestALifeWithTools(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := b.startTwoTurns()
	index := func(want string) {
		t.Helper()
		b.exec("select throughline.index_chat($1, null)", turn.ChatID)
		is(t, b.counters(turn), want, "the counters")
	}
	index("tokens 0, pending 0, edits 0, indexed 3, hidden 0")
	b.record([]chat.Delta{b.said(turn, 0, "Ich schaue nach. "), b.said(turn, 17, "…")})
	was := b.change(turn, step(turn, "Ich schaue nach. ", "call_1"))
	is(t, tuple(was.Content, was.Server, was.Ends, was.Covered, was.State), tuple("Ich schaue nach. …", turn.Server, true, false, (*chat.State)(nil)), "before")
	index("tokens 27, pending 27, edits 0, indexed 3, hidden 1")
	is(t, b.find(turn, 4).Content, "schaue nach. …", "the text of a running reply")
	was = b.change(turn, wait(turn, "Ich schaue nach. …", "call_2"))
	is(t, was.State.Steps, [][]chat.Item{{{Type: chat.ItemMessage, Text: "Ich schaue nach. "}}}, "the steps")
	index("tokens 28, pending 28, edits 0, indexed 3, hidden 1")
	found := b.find(turn, 0)
	is(t, tuple(found.Status, found.Content, len(found.Parts), found.Expires.After(time.Now())),
		tuple(memory.StatusAwaiting, "Ich schaue nach. …", 2, true), "found")
	b.change(turn, chat.ReplyChange{Parts: []memory.Part{result(18, "call_1", `"`+strings.Repeat("x", 3000)+`"`)}})
	index("tokens 563, pending 563, edits 0, indexed 3, hidden 1")
	b.change(turn, chat.ReplyChange{Parts: []memory.Part{result(18, "call_2", "7")}})
	was = b.change(turn, goOn(turn.Server))
	is(t, was.Status, memory.StatusAwaiting, "the reply that waited")
	index("tokens 565, pending 565, edits 0, indexed 3, hidden 1")
	b.record([]chat.Delta{b.said(turn, 18, " Gut."), b.said(turn, 23, " Ja.")})
	is(t, tuple(b.find(turn, 20).Content, b.find(turn, 0).Content), tuple("ut. Ja.", "Ich schaue nach. … Gut. Ja."), "after both commits")
	last := finished(turn, "Ich schaue nach. … Gut. Ja.")
	last.Tokens, last.Server = 600, turn.Server
	is(t, must(b.turns.SaveReply(t.Context(), b.user, last))(t), true, "saved")
	index("tokens 600, pending 600, edits 0, indexed 4, hidden 0")
	is(t, len(b.find(turn, 0).Parts), 4, "parts")
}

// startTwoTurns is a chat with a turn and another whose reply is generated.
func (b *bed) startTwoTurns() chat.NewTurn {
	b.t.Helper()
	first := b.exchange(firstTurn("Hello."), "Hello to you.")
	turn := turnIn(first.ChatID, "Who is Ada?")
	b.start(turn)
	return turn
}

// Of several answers at once one is recorded, whichever server they reach; nothing is stored where the caller finds an error.
func TestOneResultForACall(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := b.startTwoTurns()
	b.change(turn, wait(turn, "", "call_1"))
	settled := errors.New("settled")
	answer := func(turns *Turns) error {
		return turns.ChangeReply(t.Context(), b.user, turn.MessageID, func(locked *chat.LockedReply) (chat.ReplyChange, error) {
			if locked.Parts[len(locked.Parts)-1].Type == memory.PartResult {
				return goOn(uuid.New()), settled
			}
			return chat.ReplyChange{Parts: []memory.Part{result(0, "call_1", "1")}}, nil
		})
	}
	servers := []*Turns{b.turns, NewTurns(b.server, b.limits, Enqueue{})}
	errs := make([]error, 8)
	var all sync.WaitGroup
	for n := range errs {
		all.Go(func() { errs[n] = answer(servers[n%2]) })
	}
	all.Wait()
	lost := 0
	for _, err := range errs {
		if errors.Is(err, settled) {
			lost++
		} else {
			noError(t, err)
		}
	}
	found := b.find(turn, 0)
	is(t, tuple(lost, len(found.Parts), found.Status), tuple(7, 2, memory.StatusAwaiting), "answers that came late, parts, status")
	other := b.newUser()
	for _, err := range []error{
		b.turns.ChangeReply(t.Context(), other, turn.MessageID, nil),
		b.turns.ChangeReply(t.Context(), b.user, turn.UserMessageID, nil),
		b.turns.ChangeReply(t.Context(), b.user, uuid.New(), nil),
	} {
		is(t, fault.CodeOf(err), fault.MessageNotFound, "no reply of the user's")
	}
}

// A server that lost a reply neither records nor saves it: not while another one goes on with it, and not afterwards.
func TestAReplyIsOfTheServerThatWentOnWithIt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := b.startTwoTurns()
	turn.ClientMessageID = uuid.New()
	b.exec("update messages set client_message_id = $1 where id = $2", turn.ClientMessageID, turn.UserMessageID)
	b.change(turn, step(turn, "One.", "call_1"))
	b.record([]chat.Delta{b.said(turn, 4, " Two")})
	stale := finished(turn, "One. Two and three.")
	stale.Server, stale.Parts = turn.Server, []memory.Part{call(4, "call_1"), result(4, "call_1", "1")}
	saves := func(want bool, when string) {
		t.Helper()
		is(t, must(b.turns.SaveReply(t.Context(), b.user, stale))(t), want, "saved by the server that lost it: %s", when)
	}
	b.exec("update messages set lease_until = clock_timestamp() where status = 'streaming'")
	is(t, must(b.turns.InterruptAbandoned(t.Context()))(t), 1, "interrupted")
	found := b.find(turn, 0)
	is(t, tuple(found.Status, found.Content, len(found.Parts)), tuple(memory.StatusInterrupted, "One. Two", 1), "interrupted in its second step")
	_, earlier, err := b.turns.FindReplaced(t.Context(), b.user, turn.UserMessageID, turn.ClientMessageID)
	noError(t, err)
	is(t, tuple(earlier.Continues, earlier.Ends, asJSON(t, earlier.Parts...)), tuple(true, true, asJSON(t, found.Parts...)), "the turn found")
	other := turn
	other.Server = uuid.New()
	was := b.change(turn, goOn(other.Server))
	is(t, tuple(was.Server, was.State.Variant, was.Content), tuple(uuid.Nil, "arco", "One. Two"), "taken over")
	b.record([]chat.Delta{b.said(turn, 8, " and"), b.said(other, 8, " or")})
	is(t, b.find(turn, 0).Content, "One. Two or", "the text")
	saves(false, "while another goes on")
	b.record(nil, turn.MessageID)
	b.exec("update messages set lease_until = clock_timestamp() where status = 'streaming'")
	must(b.turns.InterruptAbandoned(t.Context()))(t)
	saves(false, "after that one was interrupted, too")
	b.change(turn, goOn(other.Server))
	last := finished(turn, "One. Two or four.")
	last.Server, last.Parts = other.Server, stale.Parts
	is(t, must(b.turns.SaveReply(t.Context(), b.user, last))(t), true, "saved by its server")
	saves(false, "after its end")
	is(t, must(b.turns.SaveReply(t.Context(), b.user, last))(t), true, "saved by its server again")
	is(t, b.deltas(), 0, "what it takes to go on is gone")
}

// A reply that waits is ended by what goes on without it, and by nothing that is refused.
func TestWhatEndsAReplyThatWaits(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	history := NewHistory(b.server, b.limits, b.turns.enqueue)
	for _, ends := range []struct {
		what string
		do   func(turn chat.NewTurn) error
		how  memory.ResultStatus // "" where it waits on
	}{
		{"the next message", func(turn chat.NewTurn) error {
			return errOf(b.turns.StartTurn(t.Context(), b.user, turnIn(turn.ChatID, "Never mind.")))
		}, memory.ResultSkipped},
		{"a message that follows another", func(turn chat.NewTurn) error {
			next := turnIn(turn.ChatID, "Never mind.")
			next.Last = &turn.UserMessageID
			return errOf(b.turns.StartTurn(t.Context(), b.user, next))
		}, ""},
		{"its user", func(turn chat.NewTurn) error {
			is(t, must(b.turns.SkipCalls(t.Context(), b.newUser(), turn.MessageID))(t), false, "another user skips it")
			ok, err := b.turns.SkipCalls(t.Context(), b.user, turn.MessageID)
			is(t, tuple(ok, must(b.turns.SkipCalls(t.Context(), b.user, turn.MessageID))(t)), tuple(true, false), "skipped, and again")
			return err
		}, memory.ResultSkipped},
		{"clearing the chat", func(turn chat.NewTurn) error { return errOf(history.ClearChat(t.Context(), b.user, turn.ChatID)) }, memory.ResultSkipped},
		{"its time", func(turn chat.NewTurn) error {
			b.exec("update messages set lease_until = clock_timestamp() where id = $1", turn.MessageID)
			return errOf(b.turns.InterruptAbandoned(t.Context()))
		}, memory.ResultExpired},
		{"another reply", func(turn chat.NewTurn) error {
			again := turnIn(turn.ChatID, "")
			again.UserMessageID, again.Last = turn.UserMessageID, &turn.MessageID
			again.Replacement = &chat.Replacement{MessageID: turn.MessageID, FromSeq: 4, Again: true}
			return errOf(b.turns.StartTurn(t.Context(), b.user, again))
		}, memory.ResultSkipped},
		{"messages to be stored", func(turn chat.NewTurn) error {
			_, err := history.StoreMessages(t.Context(), b.user, turn.ChatID, api.NewMessages{Messages: []api.NewMessage{{Role: "user", Content: "x"}}})
			is(t, fault.CodeOf(err), fault.GenerationInProgress, "refused")
			return nil
		}, ""},
	} {
		turn := b.startTwoTurns()
		b.change(turn, wait(turn, "One.", "call_1"))
		noError(t, ends.do(turn))
		want := tuple(memory.StatusCancelled, asJSON(t, call(4, "call_1"), unanswered(4, "call_1", ends.how)), 0)
		if ends.how == "" {
			want = tuple(memory.StatusAwaiting, asJSON(t, call(4, "call_1")), 1)
		}
		found := b.find(turn, 0)
		is(t, tuple(found.Status, asJSON(t, found.Parts...), b.count("message_deltas where message_id = $1", turn.MessageID)), want, "after %s", ends.what)
		is(t, asJSON(t, b.change(turn, chat.ReplyChange{}).Parts...), asJSON(t, found.Parts...), "an answer that comes too late learns of %s", ends.what)
	}
}

// A reply whose server died after its user had stopped it has a result of each call, whoever ends it. One that was not stopped may go on.
func TestAStoppedReplyOfADeadServerHasAResultOfEachCall(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, end := range map[string]func(turn chat.NewTurn) error{
		"the sweep": func(chat.NewTurn) error { return errOf(b.turns.InterruptAbandoned(t.Context())) },
		"the next message": func(turn chat.NewTurn) error {
			return errOf(b.turns.StartTurn(t.Context(), b.user, turnIn(turn.ChatID, "Never mind.")))
		},
	} {
		for stopped, want := range map[bool][]memory.Part{true: {call(4, "call_1"), unanswered(8, "call_1", memory.ResultSkipped)}, false: {call(4, "call_1")}} {
			turn := b.startTwoTurns()
			b.change(turn, step(turn, "One.", "call_1"))
			b.record([]chat.Delta{b.said(turn, 4, " Two")})
			b.exec("update messages set cancel_requested = $2, lease_until = clock_timestamp() where id = $1", turn.MessageID, stopped)
			noError(t, end(turn))
			found := b.find(turn, 0)
			status := map[bool]memory.Status{true: memory.StatusCancelled, false: memory.StatusInterrupted}[stopped]
			is(t, tuple(found.Status, found.Content, asJSON(t, found.Parts...)), tuple(status, "One. Two", asJSON(t, want...)), "%s, stopped: %t", name, stopped)
		}
	}
}

// A reply that goes on gets the prompt of its turn: what came before it, without its own messages.
func TestReadTurnIsTheReadingOfItsStart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.exchange(firstTurn("Hello."), "Hello to you.")
	turn := turnIn(first.ChatID, "Who is Ada?")
	started := b.start(turn)
	b.change(turn, wait(turn, "One.", "call_1"))
	read, question, err := b.turns.ReadTurn(t.Context(), b.user, turn.ChatID, turn.UserMessageID, turn.MessageID)
	noError(t, err)
	is(t, tuple(question.Content, read), tuple("Who is Ada?", started.Chat), "the turn")
	_, _, err = b.turns.ReadTurn(t.Context(), b.user, turn.ChatID, uuid.New(), turn.MessageID)
	is(t, fault.CodeOf(err), fault.MessageNotFound, "without its question")
	_, _, err = b.turns.ReadTurn(t.Context(), b.newUser(), turn.ChatID, turn.UserMessageID, turn.MessageID)
	is(t, fault.CodeOf(err), fault.ChatNotFound, "of another user")
}

// Each call of the model is charged once, also where a commit is repeated; a turn is a turn, however many calls it made. A reply of an
// account that is being deleted waits for that, and is not there.
func TestStepsAreCharged(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	turn := b.startTwoTurns()
	used := func() [2]int64 {
		return ask[[2]int64](b, "select array[turns, tokens] from throughline.used($1, now() - interval '1 day')", b.user.UserID)
	}
	first := step(turn, "One.", "call_1")
	first.Spent = charged(b.user.UserID, turn).Spent
	b.change(turn, first)
	second := chat.ReplyChange{Spent: new(*first.Spent)}
	second.Spent.ID = uuid.New()
	b.change(turn, second)
	b.change(turn, second)
	each := int64(first.Spent.InputTokens + first.Spent.OutputTokens)
	is(t, used(), [2]int64{1, 2 * each}, "turns and tokens")
	deleting := b.begin()
	mustExec(t, deleting, "delete from auth.users where id = $1", b.user.UserID)
	err := b.waitsFor(deleting, func() error {
		return b.turns.ChangeReply(t.Context(), b.user, turn.MessageID, func(*chat.LockedReply) (chat.ReplyChange, error) { return second, nil })
	})
	is(t, fault.CodeOf(err), fault.MessageNotFound, "of a deleted account")
}

// Of an answer and the next message at once one is first: the reply goes on and the message is refused, or the reply has ended.
func TestAnAnswerAndTheNextMessageAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ended := errors.New("it has ended")
	for round := range 20 {
		turn := b.startTwoTurns()
		b.change(turn, wait(turn, "One.", "call_1"))
		var started chat.StartedTurn
		var errNext, errAnswer error
		var both sync.WaitGroup
		both.Go(func() { started, errNext = b.turns.StartTurn(t.Context(), b.user, turnIn(turn.ChatID, "Never mind.")) })
		both.Go(func() {
			errAnswer = b.turns.ChangeReply(t.Context(), b.user, turn.MessageID, func(locked *chat.LockedReply) (chat.ReplyChange, error) {
				if locked.Status != memory.StatusAwaiting {
					return chat.ReplyChange{}, ended
				}
				change := goOn(turn.Server)
				change.Parts = []memory.Part{result(4, "call_1", "1")}
				return change, nil
			})
		})
		both.Wait()
		noError(t, errNext)
		want := tuple(true, uuid.Nil, memory.StatusCancelled, true)
		if errAnswer == nil {
			want = tuple(false, turn.MessageID, memory.StatusStreaming, false)
		}
		found := b.find(turn, 0)
		is(t, tuple(started.Started, started.Running, found.Status, errors.Is(errAnswer, ended)), want, "round %d", round)
	}
	b.checkCounters()
}

// A reply that waits travels as it will be if the conversation goes on without the result.
func TestAReplyThatWaitsIsExportedAsSkipped(t *testing.T) {
	t.Parallel()
	p := newPort(t)
	turn := p.startTwoTurns()
	p.change(turn, wait(turn, "One.", "call_1"))
	p.mustImport(p.newUser(), p.mustExport(p.user, turn.ChatID, "jsonl"))
	got := ask[string](p, `select string_agg(concat_ws(' ', status, parts #>> '{1,status}'), ', ' order by status)
		from messages where role = 'assistant' and content = 'One.'`)
	is(t, got, "awaiting, cancelled skipped", "the reply and its copy")
	is(t, p.count("message_deltas where start_char = -1"), 1, "what it takes to go on")
}
