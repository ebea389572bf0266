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
type keeper interface {
	name() string
	// turn takes a message, and the reply that the model gives.
	turn(ctx context.Context, content, reply string) (turnCost, error)
	// spent is the memory work so far.
	spent() work
	close() error
}

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
		case offline.KindSummary:
			return offline.Answer{Latency: r.summaryTime}
		case offline.KindEmbedding:
			return offline.Answer{Latency: r.embeddingTime}
		}
		return offline.Answer{Text: *reply.Load()}
	}}
}

// ours is the server without HTTP.
type ours struct {
	*drive
	meter
	reply  atomic.Pointer[string]
	chatID uuid.UUID
}

func (e *environment) newOurs(ctx context.Context) (keeper, error) {
	k := &ours{}
	var err error
	if k.drive, err = e.newDrive(e.remember.standIn(&k.reply)); err != nil {
		return nil, err
	}
	k.meter.model = k.drive.model.Server
	return k, k.worker.Start(context.WithoutCancel(ctx))
}

func (k *ours) name() string { return oursName }
func (k *ours) spent() work  { return k.count() }

func (k *ours) turn(ctx context.Context, content, reply string) (turnCost, error) {
	k.reply.Store(&reply)
	began := time.Now()
	whole, err := k.say(ctx, k.chatID, content)
	if err != nil {
		return turnCost{}, err
	}
	k.chatID = whole.ChatID
	sent := k.asked.Load()
	t := turnCost{input: sent.input, waited: sent.at.Sub(began)}
	if k.due.Load() {
		t.after = k.folded.took
	}
	return t, nil
}

func (k *ours) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	err := k.worker.Stop(ctx)
	k.drive.close()
	return err
}

// transcript is a conversation in a table of its own, as an app would store it.
type transcript struct {
	*environment
	chatID uuid.UUID
	seq    int64
}

func (e *environment) newTranscript(ctx context.Context) (*transcript, error) {
	_, err := e.admin.Exec(ctx, `create table if not exists bench.transcript (chat_id uuid not null, seq bigint not null, role text not null,
		content text not null, tokens int not null, primary key (chat_id, seq)); grant all on bench.transcript to postgres`)
	return &transcript{environment: e, chatID: kit.NewID()}, err
}

// add stores a message and returns the turns before it: the last ones, or all for 0.
func (t *transcript) add(ctx context.Context, role memory.Role, content string, turns int) ([]memory.Turn, error) {
	t.seq++
	batch := &pgx.Batch{}
	batch.Queue("insert into bench.transcript values ($1, $2, $3, $4, $5)", t.chatID, t.seq, role, content, text.Tokens(content))
	from := int64(0)
	if turns > 0 {
		from = t.seq - 2*int64(turns)
	}
	var messages []memory.Message
	batch.Queue("select seq, role, content, tokens from bench.transcript where chat_id = $1 and seq >= $2 and seq < $3 order by seq", t.chatID, from, t.seq).
		Query(func(rows pgx.Rows) (err error) {
			messages, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (memory.Message, error) {
				m := memory.Message{ID: kit.NewID(), Status: memory.StatusComplete}
				err := row.Scan(&m.Seq, &m.Role, &m.Content, &m.Tokens)
				return m, err
			})
			return err
		})
	err := t.pool.SendBatch(ctx, batch).Close()
	return memory.Turns(messages), err
}

// replied stores the reply.
func (t *transcript) replied(ctx context.Context, reply string) error {
	_, err := t.add(ctx, memory.RoleAssistant, reply, 1)
	return err
}

// fullHistory sends the whole conversation each time.
type fullHistory struct{ *transcript }

func (e *environment) newFullHistory(ctx context.Context) (keeper, error) {
	t, err := e.newTranscript(ctx)
	return fullHistory{t}, err
}

func (fullHistory) name() string { return "full history" }
func (fullHistory) spent() work  { return work{} }
func (fullHistory) close() error { return nil }

func (k fullHistory) turn(ctx context.Context, content, reply string) (turnCost, error) {
	began := time.Now()
	turns, err := k.add(ctx, memory.RoleUser, content, 0)
	if err != nil {
		return turnCost{}, err
	}
	limits := memory.DefaultLimits()
	limits.MaxHistoryTokens = 1 << 30
	chat := memory.Chat{Settings: memory.Settings{Strategy: memory.StrategySimple}, Buffer: rowsOf(turns), TotalTurns: len(turns)}
	t := turnCost{input: prompt.Build(chat, prompt.Question{Content: content}, limits).Input, waited: time.Since(began)}
	return t, k.replied(ctx, reply)
}

// everyTurn summarizes each turn before the next one is answered, and shows the last ones beside the summary.
type everyTurn struct {
	*transcript
	meter
	model   *model
	summary string
}

func (e *environment) newEveryTurn(ctx context.Context) (keeper, error) {
	t, err := e.newTranscript(ctx)
	if err != nil {
		return nil, err
	}
	k := &everyTurn{transcript: t}
	if k.model, err = startModel(e.remember.standIn(nil)); err != nil {
		return nil, err
	}
	k.meter.model = k.model.Server
	return k, nil
}

func (k *everyTurn) name() string { return "summary per turn" }
func (k *everyTurn) spent() work  { return k.count() }

func (k *everyTurn) turn(ctx context.Context, content, reply string) (turnCost, error) {
	began := time.Now()
	turns, err := k.add(ctx, memory.RoleUser, content, memory.DefaultLimits().KRawTurns)
	if err != nil {
		return turnCost{}, err
	}
	t := turnCost{}
	if len(turns) > 0 {
		t.standIn = k.remember.summaryTime
		if k.summary, err = summarize(ctx, k.model.client, k.summary, turns[len(turns)-1:]); err != nil {
			return turnCost{}, err
		}
	}
	t.input, t.waited = shown(k.summary, turns, content), time.Since(began)
	return t, k.replied(ctx, reply)
}

func (k *everyTurn) close() error { return k.model.close() }

// shown returns the prompt with a text in the place of the brief, and the last turns.
func shown(background string, turns []memory.Turn, content string) string {
	chat := memory.Chat{Brief: memory.Brief{Summary: background, Tokens: text.Tokens(background)}, Buffer: rowsOf(turns), TotalTurns: len(turns)}
	return prompt.Build(chat, prompt.Question{Content: content}, memory.DefaultLimits()).Input
}

// rowsOf returns the messages of turns.
func rowsOf(turns []memory.Turn) []memory.Message {
	var rows []memory.Message
	for _, t := range turns {
		rows = append(rows, t.Messages...)
	}
	return rows
}

// summarize asks for a summary of an earlier summary and turns, as a fold does.
func summarize(ctx context.Context, client *llm.Client, summary string, turns []memory.Turn) (string, error) {
	limit, piece := memory.DefaultLimits().SummaryTokenCap, brief.WholePiece(turns)
	answer, err := client.Summarize(ctx, brief.Call{
		Model: "offline", Instructions: brief.SummaryInstructions(brief.SummaryTask{Cap: limit, Piece: piece}),
		Input: brief.FoldInput(summary, piece), ChatID: kit.NewID(), UserID: kit.NewID(),
	})
	if err != nil {
		return "", fmt.Errorf("summarize: %w", err)
	}
	if strings.TrimSpace(answer.Text) == "" {
		return "", errors.New("the summary is empty")
	}
	return text.FitCap(answer.Text, limit), nil
}
