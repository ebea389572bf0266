package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/google/uuid"
)

// runner is one run, with its options filled in.
type runner struct {
	Options
	script       script
	client       *client.Client
	foldPatience time.Duration
}

// run plays, looks and prints. An interrupt ends the playing; the looking then gets a little time of
// its own, so that what was measured is not lost.
func (r *runner) run(ctx context.Context) (Summary, error) {
	defer r.client.Close()
	if err := r.client.Reach(ctx); err != nil {
		return Summary{}, err
	}
	bar := newProgress(r.Out, r.Interactive, r.Width, len(r.script.turns)*r.Parallel)
	players, err := r.players(ctx, bar)
	defer func() { closeStores(ctx, players) }()
	if err != nil {
		return Summary{}, err
	}
	r.introduce()
	elapsed, err := r.play(ctx, players)
	bar.settling()
	lookErr := r.look(ctx, players)
	if err == nil && lookErr == nil && ctx.Err() == nil && r.Question != "" {
		err = r.recall(ctx, players[0], bar)
	}
	bar.end()
	return r.finish(ctx, players, elapsed, errors.Join(err, lookErr))
}

// finish prints the report, also after a failure.
func (r *runner) finish(ctx context.Context, players []*player, elapsed time.Duration, err error) (Summary, error) {
	s := Summary{Chat: players[0].chat, Elapsed: elapsed, Interrupted: ctx.Err() != nil}
	for _, other := range players[1:] {
		s.Others = append(s.Others, other.chat)
	}
	if s.Interrupted {
		err = withoutEnd(err)
	}
	return s, errors.Join(err, report(r.Out, s, r.Options))
}

// players makes one player per chat, each with a connection of its own.
func (r *runner) players(ctx context.Context, bar *progress) ([]*player, error) {
	var players []*player
	for range r.Parallel {
		p := &player{client: r.client, bar: bar, hurry: r.Hurry, foldPatience: r.foldPatience}
		players = append(players, p)
		if r.DatabaseURL == "" {
			continue
		}
		var err error
		if p.store, err = openStore(ctx, r.DatabaseURL); err != nil {
			return players, err
		}
	}
	return players, nil
}

func closeStores(ctx context.Context, players []*player) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	for _, p := range players {
		if p.store != nil {
			p.store.close(ctx)
		}
	}
}

// withoutEnd forgets an error that only says that we were stopped.
func withoutEnd(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// introduce tells what is about to be played.
func (r *runner) introduce() {
	name := "the built-in conversation"
	if r.Conversation != nil {
		name = "a conversation"
	}
	fmt.Fprintf(r.Out, "Playing %s of %s to %s\n", name, count(len(r.script.turns), "user message"), r.URL)
	if r.Parallel > 1 {
		fmt.Fprintf(r.Out, "in %d chats at once; the report is about the first\n", r.Parallel)
	}
	for _, note := range r.script.notes() {
		writeWrapped(r.Out, "  ", note, r.Width)
	}
	fmt.Fprintln(r.Out)
}

// play plays all chats. One that fails stops the others.
func (r *runner) play(ctx context.Context, players []*player) (elapsed time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	errs := make([]error, len(players))
	var all sync.WaitGroup
	for i, p := range players {
		all.Go(func() {
			if errs[i] = p.play(ctx, r.script.turns); errs[i] != nil {
				stop()
			}
		})
	}
	all.Wait()
	return time.Since(began), firstCause(errs)
}

// firstCause prefers the failure that stopped the others to their being stopped.
func firstCause(errs []error) error {
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return errors.Join(errs...)
}

// look asks Postgres what became of the chats, after waiting for their folds. An interrupt ends the
// waiting, not the looking.
func (r *runner) look(ctx context.Context, players []*player) error {
	for _, p := range players {
		if err := p.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) look(ctx context.Context) error {
	if p.store == nil || p.chat.ID == uuid.Nil {
		trust(p.chat.Turns)
		return nil
	}
	_, state, err := p.store.settle(ctx, p.chat.ID, p.foldPatience, func() {})
	if err != nil {
		return err
	}
	p.chat.PendingFold = state
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	rows, err := p.store.messages(ctx, p.chat.ID)
	if err != nil {
		return err
	}
	p.chat.CoverageChecked = account(p.chat.Turns, rows)
	if p.chat.Brief, err = p.store.brief(ctx, p.chat.ID); err != nil {
		return err
	}
	p.chat.Revisions, err = p.store.revisions(ctx, p.chat.ID)
	return err
}

// recall asks the question at the end, after the folds, so that the brief has to know.
func (r *runner) recall(ctx context.Context, p *player, bar *progress) error {
	bar.asking(r.Question)
	answer, err := p.ask(ctx, r.Question)
	if err != nil {
		return fmt.Errorf("the question at the end: %w", err)
	}
	if failure := answer.failure(); failure != nil {
		return fmt.Errorf("the question at the end: the reply failed (%s)", clean(failure.Code))
	}
	p.chat.Recall = Recall{
		Question: r.Question, Answer: answer.text.String(),
		Turn: turnOf(len(p.chat.Turns)+p.chat.FailedTurns+1, Line{}, answer),
	}
	return nil
}
