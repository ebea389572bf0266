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
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// keeper is a way to remember a conversation. It is used by one goroutine. Close it.
type keeper interface {
	name() string
	// turn takes a message, and the reply that the model is to give.
	turn(ctx context.Context, content, reply string) (told, error)
	// spent is the memory work so far.
	spent() work
	close() error
}

// told is one turn.
type told struct {
	input string // what the main model is sent, instructions left out
	// waited runs from the message to where the model can be asked; standIn is what of it stand-ins slept.
	waited, standIn time.Duration
	after           time.Duration // memory work behind the reply, which the next message may still find at work
}

// remembering is how much of the conversation is played, and how long the stand-ins of models take.
type remembering struct {
	turns                      int // 0: all
	summaryTime, embeddingTime time.Duration
}

// standIn is a model that is as slow as it is told to be, and gives the reply that is set.
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

func (k *ours) turn(ctx context.Context, content, reply string) (told, error) {
	k.reply.Store(&reply)
	began := time.Now()
	whole, err := k.say(ctx, k.chatID, content)
	if err != nil {
		return told{}, err
	}
	k.chatID = whole.ChatID
	sent := k.asked.Load()
	t := told{input: sent.input, waited: sent.at.Sub(began)}
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

// transcript is a conversation in a table of its own, as an app would keep it that remembers by itself.
type transcript struct {
	*environment
	chatID uuid.UUID
	seq    int64
}

func (e *environment) newTranscript(ctx context.Context) (*transcript, error) {
	_, err := e.admin.Exec(ctx, `create table if not exists bench.transcript (chat_id uuid not null, seq bigint not null, role text not null,
		content text not null, tokens int not null, primary key (chat_id, seq)); grant all on bench.transcript to postgres`)
	return &transcript{environment: e, chatID: newID()}, err
}

// add keeps a message and gives what is before it: all of it, or the last turns.
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
				m := memory.Message{ID: newID(), Status: memory.StatusComplete}
				err := row.Scan(&m.Seq, &m.Role, &m.Content, &m.Tokens)
				return m, err
			})
			return err
		})
	err := t.pool.SendBatch(ctx, batch).Close()
	return memory.Turns(messages), err
}

// replied keeps the reply.
func (t *transcript) replied(ctx context.Context, reply string) error {
	_, err := t.add(ctx, memory.RoleAssistant, reply, 1)
	return err
}

// fullHistory sends everything that was said, each time.
type fullHistory struct{ *transcript }

func (e *environment) newFullHistory(ctx context.Context) (keeper, error) {
	t, err := e.newTranscript(ctx)
	return fullHistory{t}, err
}

func (fullHistory) name() string { return "full history" }
func (fullHistory) spent() work  { return work{} }
func (fullHistory) close() error { return nil }

func (k fullHistory) turn(ctx context.Context, content, reply string) (told, error) {
	began := time.Now()
	turns, err := k.add(ctx, memory.RoleUser, content, 0)
	if err != nil {
		return told{}, err
	}
	limits := memory.DefaultLimits()
	limits.MaxHistoryTokens = 1 << 30
	chat := memory.Chat{Settings: memory.Settings{Strategy: memory.StrategySimple}, Buffer: rowsOf(turns), TotalTurns: len(turns)}
	t := told{input: prompt.Build(chat, prompt.Question{Content: content}, limits).Input, waited: time.Since(began)}
	return t, k.replied(ctx, reply)
}

// everyTurn has each turn summarized before the next one is answered, and shows the last ones beside.
type everyTurn struct {
	*transcript
	meter
	listening *offline.Listening
	client    *llm.Client
	summary   string
}

func (e *environment) newEveryTurn(ctx context.Context) (keeper, error) {
	t, err := e.newTranscript(ctx)
	if err != nil {
		return nil, err
	}
	k := &everyTurn{transcript: t}
	if k.listening, err = offline.Start(e.remember.standIn(nil)); err != nil {
		return nil, err
	}
	k.meter.model = k.listening.Server
	k.client = llm.New(llm.Config{APIKey: "offline", BaseURL: k.listening.BaseURL(), IdleTimeout: time.Minute})
	return k, nil
}

func (k *everyTurn) name() string { return "summary per turn" }
func (k *everyTurn) spent() work  { return k.count() }

func (k *everyTurn) turn(ctx context.Context, content, reply string) (told, error) {
	began := time.Now()
	turns, err := k.add(ctx, memory.RoleUser, content, memory.DefaultLimits().KRawTurns)
	if err != nil {
		return told{}, err
	}
	t := told{}
	if len(turns) > 0 {
		t.standIn = k.remember.summaryTime
		if k.summary, err = summarize(ctx, k.client, k.summary, turns[len(turns)-1:]); err != nil {
			return told{}, err
		}
	}
	t.input, t.waited = shown(k.summary, turns, content), time.Since(began)
	return t, k.replied(ctx, reply)
}

func (k *everyTurn) close() error {
	k.client.Close()
	return k.listening.Close()
}

// shown is the prompt with a text in the place of the brief, and the last turns.
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

// summarize asks as a fold does, for one call: a summary of what there was and the turns.
func summarize(ctx context.Context, client *llm.Client, summary string, turns []memory.Turn) (string, error) {
	limit, piece := memory.DefaultLimits().SummaryTokenCap, brief.WholePiece(turns)
	answer, err := client.Summarize(ctx, brief.Call{
		Model: "offline", Instructions: brief.SummaryInstructions(brief.SummaryTask{Cap: limit, Piece: piece}),
		Input: brief.FoldInput(summary, piece), ChatID: newID(), UserID: newID(),
	})
	if err != nil {
		return "", fmt.Errorf("summarize: %w", err)
	}
	if strings.TrimSpace(answer.Text) == "" {
		return "", errors.New("the summary is empty")
	}
	return text.FitCap(answer.Text, limit), nil
}
