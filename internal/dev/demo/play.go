package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/terminal"
)

// Answer is a complete reply.
type Answer struct {
	UserMessageID uuid.UUID
	Text          string
	Receipt       prompt.Receipt
	// Tokens of the memory and of the input as the model counted it. History is the size of all messages before.
	Tokens Bill
}

// Answered is a question at the end, and the reply to it.
type Answered struct {
	Question string
	Answer
}

// Turn is one user message and the reply to it.
type Turn struct {
	// Number counts the messages that were sent, from 1.
	Number int
	Answer
}

const (
	// maxFailuresInARow end the run: such a failure does not go away.
	maxFailuresInARow = 3
	foldPoll          = 200 * time.Millisecond
)

// player plays one chat.
type player struct {
	Options
	Summary
	// questions are asked at the end.
	questions []string
	client    *client.Client
	database  *pgx.Conn // nil without Postgres
	bar       *progress
	// history is the size of all messages so far, in tokens.
	history int
	// foldOverdue is set after a wait in vain. The player does not wait again until that fold is done.
	foldOverdue bool
}

// playAll sends the messages one after the other, waits for the last fold and asks the questions. It stops at the first
// error.
func (p *player) playAll(ctx context.Context, lines []Line) error {
	failing := 0 // replies since the last good one
	for n, line := range lines {
		if err := p.awaitFold(ctx); err != nil {
			return err
		}
		answer, failure, err := p.ask(ctx, line.Content)
		if err != nil {
			return fmt.Errorf("message %d: %w", n+1, err)
		}
		if failure != "" {
			p.FailedTurns++
			if failing++; failing >= maxFailuresInARow || p.ChatID == uuid.Nil {
				return fmt.Errorf("message %d: %s, %d in a row", n+1, failure, failing)
			}
			p.bar.note(fmt.Sprintf("The reply to message %d failed (%s).", n+1, failure))
			continue
		}
		failing = 0
		p.Summary.Turns = append(p.Summary.Turns, Turn{n + 1, answer})
		p.history += text.Tokens(line.Content) + text.Tokens(answer.Text)
		state := fmt.Sprintf("brief v%d, memory %s of %s tokens", answer.Receipt.BriefVersion, grouped(answer.Tokens.Memory), grouped(p.history))
		if !line.CreatedAt.IsZero() {
			state = line.CreatedAt.Format(time.DateOnly) + ", " + state
		}
		p.bar.turnDone(state)
	}
	p.bar.status("waiting for folds")
	if err := p.awaitFold(ctx); err != nil {
		return err
	}
	for _, question := range p.questions {
		p.bar.status("asking: " + question)
		answer, failure, err := p.ask(ctx, question)
		if failure != "" {
			err = fmt.Errorf("the reply failed (%s)", failure)
		}
		if err != nil {
			return fmt.Errorf("the question at the end: %w", err)
		}
		p.Answers = append(p.Answers, Answered{question, answer})
	}
	return nil
}

// awaitFold waits for a fold of the chat that is due. Minutes or days pass between two messages of a person; without
// the wait the demo would measure folds that are late only because it is fast.
func (p *player) awaitFold(ctx context.Context) error {
	if p.database == nil || p.ChatID == uuid.Nil {
		return nil
	}
	for began := time.Now(); ; {
		var state string
		err := p.database.QueryRow(ctx, `select coalesce((select state::text from river.river_job
			where kind = 'fold_brief' and args ->> 'chat_id' = $1::uuid::text and finalized_at is null limit 1), '')`, p.ChatID.String()).Scan(&state)
		switch {
		case err != nil:
			return fmt.Errorf("look for folds: %w", errors.Join(err, ctx.Err()))
		case state == "":
			p.foldOverdue = false
			return nil
		case p.foldOverdue:
			return nil
		case time.Since(began) > p.foldPatience:
			p.foldOverdue = true
			p.bar.note(fmt.Sprintf("A fold has not come about in %s (its job is %s): the conversation goes on without it.", p.foldPatience, state))
			return nil
		}
		p.bar.note("Folds run beside the conversation. Between messages of the file pass minutes or days, so the next one waits for a fold.")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(foldPoll):
		}
	}
}

// ask sends one message to the chat, or starts it. failure is the code of a reply that is not complete. The message is
// stored then, and the conversation can go on.
func (p *player) ask(ctx context.Context, content string) (answer Answer, failure string, err error) {
	var words strings.Builder
	reply, err := p.client.Send(ctx, client.Message{ChatID: p.ChatID, Content: content, WaitWhileBusy: true}, client.Listener{
		Text: func(piece string) {
			words.WriteString(piece)
			p.bar.showText(piece)
		},
		Waiting: func(reason error, _ time.Duration) {
			if client.IsCode(reason, fault.OverRequestRateLimit) {
				p.bar.note("The server takes only so many messages a minute (RATE_LIMIT_MESSAGES_PER_MINUTE): waiting as it asks.")
			}
		},
	})
	if reply.Started.ChatID != uuid.Nil {
		p.ChatID = reply.Started.ChatID
	}
	switch {
	case err != nil:
		return answer, "", err
	case reply.End.Cancelled != nil:
		return answer, "cancelled", nil
	case reply.End.Failed != nil:
		return answer, terminal.OneLine(reply.End.Failed.Code), nil
	}
	answer.UserMessageID, answer.Text = reply.Started.UserMessageID, words.String()
	if err := json.Unmarshal(reply.End.Completed.Memory, &answer.Receipt); err != nil {
		return answer, "", fmt.Errorf("the receipt cannot be read: %w", err)
	}
	receipt, usage := answer.Receipt, reply.End.Completed.Usage
	answer.Tokens = Bill{
		Memory: receipt.BriefTokens + receipt.BridgeTokens + receipt.TailTokens, History: p.history,
		Input: usage.InputTokens, Cached: usage.CachedTokens,
	}
	return answer, "", nil
}
