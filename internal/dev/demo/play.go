package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
)

// Turn is one user message and the reply to it.
type Turn struct {
	// Number counts the messages that were sent, from 1.
	Number int
	// At is when the message was written, according to the file; zero if unknown.
	At                       time.Time
	UserMessageID, MessageID uuid.UUID
	// UserSeq is the user message's seq in the chat; 0 without Postgres.
	UserSeq int64
	Receipt prompt.Receipt
	Usage   streaming.Usage
	// HistoryTokens counts all messages before this one: the cost of sending them all.
	HistoryTokens int
	// UnseenTurns counts earlier turns that were neither in the brief nor in the prompt.
	UnseenTurns int
	// FirstDelta is the time from sending to the first text, Took to the end of the reply.
	FirstDelta, Took time.Duration
}

// MemoryTokens is the memory in the prompt: brief, bridge and tail.
func (t Turn) MemoryTokens() int {
	return t.Receipt.BriefTokens + t.Receipt.BridgeTokens + t.Receipt.TailTokens
}

// maxFailuresInARow end the run: such a failure does not go away.
const maxFailuresInARow = 3

// player plays one chat.
type player struct {
	client *client.Client
	bar    *progress
	store  *store // nil without Postgres
	hurry  bool
	// foldPatience is the longest wait for a fold.
	foldPatience time.Duration
	// foldOverdue is set after a wait in vain. The player does not wait again until that fold is done.
	foldOverdue bool
	chat        Chat
	// historyTokens counts all messages of the chat so far.
	historyTokens int
	// failing counts failed replies since the last good one.
	failing int
}

// play sends the messages one after the other. It stops at the first error and keeps the turns before it.
func (p *player) play(ctx context.Context, lines []Line) error {
	for n, line := range lines {
		if err := p.awaitFold(ctx); err != nil {
			return err
		}
		a, err := p.ask(ctx, line.Content)
		if err != nil {
			return fmt.Errorf("message %d: %w", n+1, err)
		}
		if failure := a.failure(); failure != nil {
			if err := p.failed(n+1, failure); err != nil {
				return err
			}
			continue
		}
		p.failing = 0
		turn := a.turn(n + 1)
		turn.At, turn.HistoryTokens = line.CreatedAt, p.historyTokens
		p.historyTokens += text.Tokens(line.Content) + text.Tokens(a.text.String())
		p.chat.Turns = append(p.chat.Turns, turn)
		p.bar.turnDone(turn, p.historyTokens)
	}
	return nil
}

// awaitFold waits for a fold of the chat that is due. Minutes or days pass between two messages of a person; without
// the wait the demo would measure folds that are late only because it is fast.
func (p *player) awaitFold(ctx context.Context) error {
	if p.store == nil || p.hurry || p.chat.ID == uuid.Nil {
		return nil
	}
	patience := p.foldPatience
	if p.foldOverdue {
		patience = 0
	}
	began := time.Now()
	looks, state, err := p.store.awaitFolds(ctx, p.chat.ID, patience, func() {
		p.bar.note("Folds run beside the conversation. Between messages of the file pass minutes or days, so the next one waits for a fold.")
	})
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	if p.foldOverdue = state != ""; p.foldOverdue {
		p.bar.note(fmt.Sprintf("A fold has not come about in %s (its job is %s): the conversation goes on without it.", p.foldPatience, state))
	}
	if looks > 1 {
		p.chat.FoldWaits++
		p.chat.FoldWaited += time.Since(began)
	}
	return nil
}

// answer is the reply to one message, with its text and timing.
type answer struct {
	client.Reply
	text    strings.Builder
	receipt prompt.Receipt // of a complete reply
	// sent is when the message was sent. firstDelta is the time to the first text, took to the end.
	sent             time.Time
	firstDelta, took time.Duration
}

// ask sends one message to the chat, or starts it.
func (p *player) ask(ctx context.Context, content string) (*answer, error) {
	a := &answer{sent: time.Now()}
	onText := func(piece string) {
		if a.text.Len() == 0 {
			a.firstDelta = time.Since(a.sent)
		}
		a.text.WriteString(piece)
		p.bar.showText(piece)
	}
	var err error
	m := client.Message{ChatID: p.chat.ID, Content: content, WaitWhileBusy: true}
	a.Reply, err = p.client.Send(ctx, m, client.Listener{Text: onText, Waiting: p.onWait})
	a.took = time.Since(a.sent)
	if a.Started.ChatID != uuid.Nil {
		p.chat.ID = a.Started.ChatID
	}
	if err == nil && a.End.Completed != nil {
		if err = json.Unmarshal(a.End.Completed.Memory, &a.receipt); err != nil {
			err = fmt.Errorf("the receipt cannot be read: %w", err)
		}
	}
	return a, err
}

// failure returns why the reply is not complete, nil when it is.
func (a *answer) failure() *streaming.Failed {
	if a.End.Cancelled != nil {
		return &streaming.Failed{Code: "cancelled", Message: "The reply was stopped."}
	}
	return a.End.Failed
}

// turn is the turn of a complete reply.
func (a *answer) turn(number int) Turn {
	return Turn{
		Number: number, UserMessageID: a.Started.UserMessageID, MessageID: a.Started.MessageID,
		Receipt: a.receipt, Usage: a.End.Completed.Usage, FirstDelta: a.firstDelta, Took: a.took,
	}
}

// onWait counts the waits that the server asked for. A broken connection is not one.
func (p *player) onWait(reason error, d time.Duration) {
	if _, asked := errors.AsType[*client.Error](reason); !asked {
		return
	}
	p.chat.Waits++
	p.chat.Waited += d
	if client.IsCode(reason, fault.OverRequestRateLimit) {
		p.bar.note("The server takes only so many messages a minute (RATE_LIMIT_MESSAGES_PER_MINUTE): waiting as it asks.")
	}
}

// failed records a reply that failed. The conversation goes on, because the message is stored.
func (p *player) failed(number int, failure *streaming.Failed) error {
	p.chat.FailedTurns++
	p.failing++
	code := clean(failure.Code)
	if p.failing >= maxFailuresInARow || p.chat.ID == uuid.Nil {
		return fmt.Errorf("message %d: %s, %d in a row: %s", number, code, p.failing, strings.TrimSuffix(clean(failure.Message), "."))
	}
	p.bar.note(fmt.Sprintf("The reply to message %d failed (%s).", number, code))
	return nil
}

// readMemory reads what Postgres holds of the chat, after waiting for its folds. An interrupt ends the wait, not the
// reading.
func (p *player) readMemory(ctx context.Context) error {
	if p.store == nil || p.chat.ID == uuid.Nil {
		trustReceipts(p.chat.Turns)
		return nil
	}
	_, state, err := p.store.awaitFolds(ctx, p.chat.ID, p.foldPatience, func() {})
	if err != nil {
		return err
	}
	p.chat.PendingFold = state
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
	defer cancel()
	rows, err := p.store.messages(ctx, p.chat.ID)
	if err != nil {
		return err
	}
	p.chat.CoverageChecked = checkCoverage(p.chat.Turns, rows)
	if p.chat.Brief, err = p.store.brief(ctx, p.chat.ID); err != nil {
		return err
	}
	p.chat.Revisions, err = p.store.revisions(ctx, p.chat.ID)
	return err
}

// recall asks the question at the end, after the folds, so that the answer has to come from the brief.
func (p *player) recall(ctx context.Context, question string) error {
	p.bar.status("asking: " + question)
	a, err := p.ask(ctx, question)
	if err != nil {
		return fmt.Errorf("the question at the end: %w", err)
	}
	if failure := a.failure(); failure != nil {
		return fmt.Errorf("the question at the end: the reply failed (%s)", clean(failure.Code))
	}
	p.chat.Recall = Recall{Question: question, Answer: a.text.String(), Turn: a.turn(len(p.chat.Turns) + p.chat.FailedTurns + 1)}
	return nil
}
