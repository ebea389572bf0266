package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/llm"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/jobs"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// measureMemory drives one chat from its first turn to its last, with everything real but the model, and measures
// what each prompt remembered.
func measureMemory(ctx context.Context, e *environment) (group, error) {
	d, err := e.newDrive(offline.Options{}, false)
	if err != nil {
		return group{}, err
	}
	defer d.close()
	talk, err := working(ctx, d.worker, func() ([]remembered, error) { return d.talk(ctx, e.turns) })
	if err != nil {
		return group{}, err
	}
	return memoryRows(talk), e.clearJobs(ctx)
}

// remembered is the memory in the prompt of one turn.
type remembered struct {
	prompt.Receipt
	text    string // brief and recent turns, to the letter
	history int    // tokens of the whole conversation before this turn
}

func (r remembered) tokens() int { return r.BriefTokens + r.BridgeTokens + r.TailTokens }

func memoryRows(talk []remembered) group {
	last := talk[len(talk)-1]
	early, late := cycles(talk)
	g := group{Title: fmt.Sprintf("one chat of %d turns, driven through chat, Postgres, River and folds", len(talk))}
	g.add(
		row{What: "memory per turn, " + late.name(), Unit: "tokens", Value: late.mean, Baseline: early.mean, Against: early.name(), Target: ratioAtMost(1.1)},
		row{What: fmt.Sprintf("memory at turn %d", len(talk)), Unit: "tokens", Value: float64(last.tokens()), Baseline: float64(last.history), Against: "the whole history"},
		row{What: "previous memory kept to the byte", Unit: "%", Value: keptBetweenFolds(talk), Target: atLeast(100)},
	)
	dropped := 0
	for _, r := range talk {
		dropped += r.DroppedTurns
	}
	g.note("memory per turn: the mean from one fold to the next, the first time and the last; %d folds, %d turns dropped", last.BriefVersion, dropped)
	g.note("kept: share of a turn's memory that begins the next turn's, where no fold came between")
	return g
}

// cycle is the turns from one fold to the next: memory grows with each and shrinks at the end.
type cycle struct {
	from, to int // turns, from 1
	mean     float64
}

func (c cycle) name() string { return fmt.Sprintf("turns %d-%d", c.from, c.to) }

// cycles returns the first and the last whole cycle. Turns before the first fold and after the last belong to none.
func cycles(talk []remembered) (first, last cycle) {
	for begin := 0; begin < len(talk); {
		end, sum := begin, 0
		for ; end < len(talk) && talk[end].BriefVersion == talk[begin].BriefVersion; end++ {
			sum += talk[end].tokens()
		}
		if talk[begin].BriefVersion > 0 && end < len(talk) {
			last = cycle{from: begin + 1, to: end, mean: float64(sum) / float64(end-begin)}
			if first.to == 0 {
				first = last
			}
		}
		begin = end
	}
	return first, last
}

func keptBetweenFolds(talk []remembered) float64 {
	kept, all := 0, 0
	for i := 1; i < len(talk); i++ {
		before, after := talk[i-1], talk[i]
		if before.BriefVersion == after.BriefVersion {
			all += len(before.text)
			kept += commonPrefix(before.text, after.text)
		}
	}
	return 100 * float64(kept) / float64(max(1, all))
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// model is the offline model, with a client of it. Close it.
type model struct {
	*offline.Listening
	client *llm.Client
}

func startModel(options offline.Options) (*model, error) {
	listening, err := offline.Start(options)
	if err != nil {
		return nil, err
	}
	return &model{listening, llm.New(llm.Config{APIKey: "offline", BaseURL: listening.BaseURL(), IdleTimeout: time.Minute})}, nil
}

func (m *model) close() error {
	m.client.Close()
	return m.Close()
}

// drive is a server without HTTP, and the model behind it.
type drive struct {
	model   *model
	service *chat.Service
	worker  *jobs.Client
	folds   chan ran
	reads   chan ran // extractions of memories
	owner   auth.Principal
	// asked is the latest prompt; due and unread are whether the latest reply enqueued a fold, and an extraction.
	asked       atomic.Pointer[asked]
	due, unread atomic.Bool
}

// asked is a prompt, and when the model was asked.
type asked struct {
	input string
	at    time.Time
}

// newDrive makes one; with memories, what is said is also read for them.
func (e *environment) newDrive(options offline.Options, memories bool) (*drive, error) {
	d := &drive{owner: e.owners[0].principal, folds: make(chan ran, 1), reads: make(chan ran, 1)}
	var err error
	if d.model, err = startModel(options); err != nil {
		return nil, err
	}
	numbers, limits := metrics.New(), memory.DefaultLimits()
	folder := watched{e.folder(postgres.NewBriefs(e.pool), d.model.client, numbers), d.folds}
	if d.worker, err = e.worker(folder, reading{e.learner(d.model.client, numbers), d.reads}, numbers); err != nil {
		return nil, errors.Join(err, d.model.close())
	}
	enqueue := postgres.Enqueue{Fold: d.enqueueFold}
	if memories {
		enqueue.Extract, enqueue.ExtractDelay = d.enqueueExtract, extractDelay
	}
	d.service = chat.New(chat.Config{
		Store: postgres.NewTurns(e.pool, limits, enqueue),
		Model: recordingModel{d}, Logger: quiet(), Metrics: numbers, Variants: []chat.Variant{{Name: "arco", Model: "offline"}},
		Instructions: chat.DefaultInstructions, Limits: limits, ReplyTimeout: time.Minute,
	})
	return d, nil
}

func (d *drive) enqueueFold(ctx context.Context, tx pgx.Tx, chatID uuid.UUID) error {
	d.due.Store(true)
	return jobs.EnqueueFold(d.worker)(ctx, tx, chatID)
}

func (d *drive) enqueueExtract(ctx context.Context, tx pgx.Tx, chatID uuid.UUID, at time.Time) error {
	d.unread.Store(at.IsZero())
	return jobs.EnqueueExtract(d.worker)(ctx, tx, chatID, at)
}

func (d *drive) close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	d.service.Close(ctx)
	_ = d.model.close() // nothing is lost with it
}

// recordingModel is the model, and records the latest prompt.
type recordingModel struct{ *drive }

func (l recordingModel) Stream(ctx context.Context, request chat.ModelRequest) (chat.ModelStream, error) {
	l.asked.Store(&asked{input: request.Input, at: time.Now()})
	return l.model.client.Stream(ctx, request)
}

// talk sends one message after another. A person takes longer to write than a fold takes; here it waits for the fold.
func (d *drive) talk(ctx context.Context, turns int) ([]remembered, error) {
	var chatID uuid.UUID
	var history int
	talk := make([]remembered, 0, turns)
	for n := range turns {
		content := fmt.Sprintf("%s Write 90 words about lesson %d.", kit.Sentences[n%len(kit.Sentences)], n+1)
		whole, _, err := d.say(ctx, chatID, content)
		if err != nil {
			return nil, fmt.Errorf("turn %d: %w", n+1, err)
		}
		chatID = whole.ChatID
		r := remembered{history: history, text: memoryOf(d.asked.Load().input)}
		if err := json.Unmarshal(whole.Memory, &r.Receipt); err != nil {
			return nil, err
		}
		talk = append(talk, r)
		history += text.Tokens(content) + text.Tokens(whole.Content)
	}
	return talk, nil
}

// say sends a message, and returns the reply and how long the fold and the extraction took that it made due; 0 without one.
func (d *drive) say(ctx context.Context, chatID uuid.UUID, content string) (whole chat.Whole, folded time.Duration, err error) {
	d.due.Store(false)
	d.unread.Store(false)
	reply, err := d.service.Send(ctx, d.owner, chat.Message{ChatID: chatID, Content: content})
	if err != nil {
		return whole, 0, err
	}
	defer reply.Close()
	if whole, err = reply.Wait(ctx); err != nil {
		return whole, 0, err
	}
	for _, work := range []struct {
		due  bool
		done <-chan ran
	}{{d.due.Load(), d.folds}, {d.unread.Load(), d.reads}} {
		if !work.due || err != nil {
			continue
		}
		var one ran
		one, err = next(ctx, work.done)
		folded += one.ended.Sub(one.began)
	}
	return whole, folded, err
}

// memoryOf returns a prompt without the question at its end.
func memoryOf(prompt string) string {
	at := strings.LastIndex(prompt, "CURRENT MESSAGE:\n")
	return strings.TrimRight(prompt[:max(at, 0)], "\n")
}
