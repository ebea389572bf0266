package demo

import (
	"context"
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

// Turn is one user message and the reply to it, as they went over the wire.
type Turn struct {
	// Number counts the messages that were sent, from 1.
	Number int
	// At is when the message was written, by the file; zero where unknown.
	At                       time.Time
	UserMessageID, MessageID uuid.UUID
	// UserSeq is the user message's place in the chat; 0 when Postgres was not asked.
	UserSeq int64
	Receipt prompt.Receipt
	Usage   streaming.Usage
	// HistoryTokens counts all messages before this one: what it would have cost to send them.
	HistoryTokens int
	// UnseenTurns counts earlier turns that were neither in the brief nor in the prompt.
	UnseenTurns int
	// FirstDelta is the time from sending to the first words, Took to the end of the reply.
	FirstDelta, Took time.Duration
}

// MemoryTokens is what the reply was given of the past: brief, bridge and tail.
func (t Turn) MemoryTokens() int {
	return t.Receipt.BriefTokens + t.Receipt.BridgeTokens + t.Receipt.TailTokens
}

// failuresInARow end the playing: whatever it is, it does not go away.
const failuresInARow = 3

// player plays one chat.
type player struct {
	client *client.Client
	bar    *progress
	store  *store // nil when Postgres is not asked
	hurry  bool
	// foldPatience is how long one wait for a fold may take.
	foldPatience time.Duration
	// late: a fold was waited for in vain. It is looked for, but not waited for again until it is done.
	late bool
	chat Chat
	// spoken counts the tokens of all that was said so far, by both.
	spoken int
	// failing counts failed replies since the last good one.
	failing int
}

// play sends the messages one after the other. It stops at the first error, with what it has.
func (p *player) play(ctx context.Context, lines []Line) error {
	for n, line := range lines {
		if err := p.letFold(ctx); err != nil {
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
		turn := turnOf(n+1, line, a)
		turn.HistoryTokens = p.spoken
		p.heard(line.Content, a)
		p.chat.Turns = append(p.chat.Turns, turn)
		p.bar.played(line.CreatedAt, turn, p.spoken)
	}
	return nil
}

// letFold waits for a fold of the chat that is due. Between two messages of a person pass minutes or
// days; to play them within a second of each other would measure folds that are late by our doing.
func (p *player) letFold(ctx context.Context) error {
	if p.store == nil || p.hurry || p.chat.ID == uuid.Nil {
		return nil
	}
	patience := p.foldPatience
	if p.late {
		patience = 0
	}
	began := time.Now()
	looks, state, err := p.store.settle(ctx, p.chat.ID, patience, func() {
		p.bar.note("Folds run beside the conversation. Between messages of the file pass minutes or days, so the next one waits for a fold.")
	})
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	if p.late = state != ""; p.late {
		p.bar.note(fmt.Sprintf("A fold has not come about in %s (its job is %s): the conversation goes on without it.", p.foldPatience, state))
	}
	if looks > 1 {
		p.chat.FoldWaits++
		p.chat.FoldWaited += time.Since(began)
	}
	return nil
}

// ask sends one message to the chat, or starts it.
func (p *player) ask(ctx context.Context, content string) (*answer, error) {
	a := &answer{begun: time.Now()}
	hear := func(piece string) {
		a.hear(piece)
		p.bar.says(piece)
	}
	var err error
	m := client.Message{ChatID: p.chat.ID, Content: content, WaitWhileBusy: true}
	a.Reply, err = p.client.Send(ctx, m, client.Listener{Text: hear, Waiting: p.waits})
	if a.Started.ChatID != uuid.Nil {
		p.chat.ID = a.Started.ChatID
	}
	if err == nil {
		err = a.readReceipt()
	}
	return a, err
}

// waits counts what the server asked for; a broken connection is none of that.
func (p *player) waits(reason error, d time.Duration) {
	if _, asked := errors.AsType[*client.Error](reason); !asked {
		return
	}
	p.chat.Waits++
	p.chat.Waited += d
	if client.IsCode(reason, fault.OverRequestRateLimit) {
		p.bar.note("The server takes only so many messages a minute (RATE_LIMIT_MESSAGES_PER_MINUTE): waiting as it asks.")
	}
}

// heard counts what the turn added to the history.
func (p *player) heard(content string, a *answer) {
	p.spoken += text.Tokens(content) + text.Tokens(a.text.String())
}

// failed takes note of a reply that broke off. The conversation goes on: the message is stored.
func (p *player) failed(number int, failure *streaming.Failed) error {
	p.chat.FailedTurns++
	p.failing++
	text := fmt.Sprintf("The reply to message %d failed (%s).", number, clean(failure.Code))
	if p.failing >= failuresInARow || p.chat.ID == uuid.Nil {
		return fmt.Errorf("message %d: %s, %d in a row: %s", number, clean(failure.Code), p.failing, strings.TrimSuffix(clean(failure.Message), "."))
	}
	p.bar.note(text)
	return nil
}

func turnOf(number int, line Line, a *answer) Turn {
	return Turn{
		Number: number, At: line.CreatedAt, UserMessageID: a.Started.UserMessageID, MessageID: a.Started.MessageID,
		Receipt: a.receipt, Usage: a.End.Completed.Usage, FirstDelta: a.firstDelta, Took: time.Since(a.begun),
	}
}
