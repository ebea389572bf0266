package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// keeper is a way to remember a conversation. One goroutine uses it. Close it.
type keeper struct {
	name string
	turn turn
	// spent returns the memory work so far.
	spent func() work
	close func() error
}

// turn takes a message, and the reply that the model gives.
type turn func(ctx context.Context, content, reply string) (turnCost, error)

// turnCost is what one turn cost.
type turnCost struct {
	input string // what the main model is sent, instructions left out
	// waited is the time from the message to the call of the model; standIn is the part of it that stand-ins slept.
	waited, standIn time.Duration
	after           time.Duration // memory work after the reply, which may still run when the next message comes
}

// remembering is how much of the conversation is played, and how long the stand-ins of models take.
type remembering struct {
	turns                      int // 0: all
	summaryTime, embeddingTime time.Duration
}

// standIn configures a model with the given latencies, whose reply is what is set.
func (r remembering) standIn(reply *atomic.Pointer[string]) offline.Options {
	return offline.Options{Script: func(request *offline.Request) offline.Answer {
		switch request.Kind {
		case offline.KindSummary, offline.KindExtract, offline.KindConsolidate:
			return offline.Answer{Latency: r.summaryTime}
		case offline.KindEmbedding:
			return offline.Answer{Latency: r.embeddingTime}
		}
		return offline.Answer{Text: *reply.Load()}
	}}
}

// newOurs is the server without HTTP.
func (e *environment) newOurs(ctx context.Context) (keeper, error) {
	var said atomic.Pointer[string]
	d, err := e.newDrive(e.remember.standIn(&said), true)
	if err != nil {
		return keeper{}, err
	}
	var chatID uuid.UUID
	meter := &meter{model: d.model.Server}
	return keeper{
		name: roleServer,
		turn: func(ctx context.Context, content, reply string) (turnCost, error) {
			said.Store(&reply)
			began := time.Now()
			whole, folded, err := d.say(ctx, chatID, content)
			if err != nil {
				return turnCost{}, err
			}
			chatID = whole.ChatID
			sent := d.asked.Load()
			return turnCost{input: sent.input, waited: sent.at.Sub(began), after: folded}, nil
		},
		spent: meter.count,
		close: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
			defer cancel()
			err := d.worker.Stop(ctx)
			d.close()
			return err
		},
	}, d.worker.Start(context.WithoutCancel(ctx))
}

// transcript is a conversation in a table of its own, as an app would store it.
type transcript struct {
	*environment
	chatID uuid.UUID
	seq    int
}

// add stores a message and returns the last messages before it.
func (t *transcript) add(ctx context.Context, role memory.Role, content string, last int) (before []memory.Message, err error) {
	t.seq++
	batch := &pgx.Batch{}
	batch.Queue("insert into bench.transcript values ($1, $2, $3, $4, $5)", t.chatID, t.seq, role, content, text.Tokens(content))
	batch.Queue("select seq, role, content, tokens from bench.transcript where chat_id = $1 and seq >= $2 and seq < $3 order by seq", t.chatID, t.seq-last, t.seq).
		Query(func(rows pgx.Rows) (err error) {
			before, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (memory.Message, error) {
				m := memory.Message{ID: kit.NewID(), Status: memory.StatusComplete}
				err := row.Scan(&m.Seq, &m.Role, &m.Content, &m.Tokens)
				return m, err
			})
			return err
		})
	return before, t.pool.SendBatch(ctx, batch).Close()
}

// all is more messages than a transcript has; lastTurns are the messages that ours shows word for word at least.
const all = 1 << 30

func lastTurns() int { return 2 * memory.DefaultLimits().KRawTurns }

// transcribe returns the turn of who keeps a transcript, as an app would. recall makes the prompt from the last
// messages, and may tell what its stand-ins slept; remember, nil for none, works after the reply.
func (e *environment) transcribe(
	ctx context.Context, last int,
	recall func(ctx context.Context, before []memory.Message, content string) (input string, standIn time.Duration, err error),
	remember func(content, reply string) error,
) (turn, error) {
	_, err := e.admin.Exec(ctx, `create table if not exists bench.transcript (chat_id uuid not null, seq bigint not null, role text not null,
		content text not null, tokens int not null, primary key (chat_id, seq)); grant all on bench.transcript to postgres`)
	stored := &transcript{environment: e, chatID: kit.NewID()}
	return func(ctx context.Context, content, reply string) (t turnCost, err error) {
		began := time.Now()
		before, err := stored.add(ctx, memory.RoleUser, content, last)
		if err != nil {
			return t, err
		}
		if t.input, t.standIn, err = recall(ctx, before, content); err != nil {
			return t, err
		}
		t.waited = time.Since(began)
		if _, err := stored.add(ctx, memory.RoleAssistant, reply, 1); err != nil || remember == nil {
			return t, err
		}
		began = time.Now()
		err = remember(content, reply)
		t.after = time.Since(began)
		return t, err
	}, err
}

// newFullHistory sends the whole conversation each time.
func (e *environment) newFullHistory(ctx context.Context) (keeper, error) {
	limits := memory.DefaultLimits()
	limits.MaxHistoryTokens = 1 << 30
	recall := func(_ context.Context, before []memory.Message, content string) (string, time.Duration, error) {
		chat := memory.Chat{Settings: memory.Settings{Strategy: memory.StrategySimple}, Buffer: before, TotalTurns: len(before) / 2}
		return prompt.Build(chat, prompt.Question{Content: content}, limits).Input, 0, nil
	}
	turn, err := e.transcribe(ctx, all, recall, nil)
	return keeper{name: "full history", turn: turn, spent: func() work { return work{} }, close: func() error { return nil }}, err
}

// newEveryTurn summarizes each turn before the next one is answered, and shows the last ones beside the summary.
func (e *environment) newEveryTurn(ctx context.Context) (keeper, error) {
	model, err := startModel(e.remember.standIn(nil))
	if err != nil {
		return keeper{}, err
	}
	meter := &meter{model: model.Server}
	summary := ""
	recall := func(ctx context.Context, before []memory.Message, content string) (_ string, standIn time.Duration, err error) {
		if turns := memory.Turns(before); len(turns) > 0 {
			standIn = e.remember.summaryTime
			summary, err = summarize(ctx, model.client, summary, turns[len(turns)-1:])
		}
		return shown(summary, before, content), standIn, err
	}
	turn, err := e.transcribe(ctx, lastTurns(), recall, nil)
	return keeper{name: "summary per turn", turn: turn, spent: meter.count, close: model.close}, err
}

// shown returns the prompt with a text in the place of the brief, and the last messages.
func shown(background string, before []memory.Message, content string) string {
	chat := memory.Chat{Brief: memory.Brief{Summary: background, Tokens: text.Tokens(background)}, Buffer: before, TotalTurns: len(before) / 2}
	return prompt.Build(chat, prompt.Question{Content: content}, memory.DefaultLimits()).Input
}

// summarize asks for a summary of an earlier summary and turns, as a fold does.
func summarize(ctx context.Context, client *llm.Client, summary string, turns []memory.Turn) (string, error) {
	limit, piece := memory.DefaultLimits().SummaryTokenCap, brief.WholePiece(turns)
	answer, err := client.Summarize(ctx, brief.Call{
		Model: "offline", Instructions: brief.SummaryInstructions(brief.SummaryTask{Cap: limit, Piece: piece}),
		Input: brief.FoldInput(summary, piece), Kind: brief.KindFold, ChatID: kit.NewID(), UserID: kit.NewID(),
	})
	if err != nil {
		return "", fmt.Errorf("summarize: %w", err)
	}
	if strings.TrimSpace(answer.Text) == "" {
		return "", errors.New("the summary is empty")
	}
	return text.FitCap(answer.Text, limit), nil
}
