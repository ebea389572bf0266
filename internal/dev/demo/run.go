package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/arcoscribe/throughline/internal/client"
	"golang.org/x/sync/errgroup"
)

// runner is one run, with its options filled in.
type runner struct {
	Options
	script       script
	client       *client.Client
	foldPatience time.Duration
}

// run plays the chats, reads their memory and prints the report. An interrupt ends the playing; the reading
// then gets a little time of its own, so that the measurements are not lost.
func (r *runner) run(ctx context.Context) (Summary, error) {
	defer r.client.Close()
	if err := r.client.Reach(ctx); err != nil {
		return Summary{}, err
	}
	var s *store
	if r.DatabaseURL != "" {
		var err error
		if s, err = openStore(ctx, r.DatabaseURL); err != nil {
			return Summary{}, err
		}
		defer s.pool.Close()
	}
	bar := newProgress(r.Out, r.Interactive, width, len(r.script.turns)*r.Parallel)
	players := make([]*player, r.Parallel)
	for i := range players {
		players[i] = &player{client: r.client, bar: bar, store: s, hurry: r.Hurry, foldPatience: r.foldPatience}
	}
	r.introduce()
	elapsed, err := r.play(ctx, players)
	bar.status("waiting for folds")
	readErr := readMemory(ctx, players)
	if err == nil && readErr == nil && ctx.Err() == nil && r.Question != "" {
		err = players[0].recall(ctx, r.Question)
	}
	bar.end()
	return r.finish(ctx, players, elapsed, errors.Join(err, readErr))
}

// finish prints the report, also after a failure.
func (r *runner) finish(ctx context.Context, players []*player, elapsed time.Duration, err error) (Summary, error) {
	s := Summary{Chat: players[0].chat, Elapsed: elapsed, Interrupted: ctx.Err() != nil}
	for _, other := range players[1:] {
		s.Others = append(s.Others, other.chat)
	}
	if s.Interrupted && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		err = nil
	}
	return s, errors.Join(err, report(r.Out, s, r.Options))
}

// introduce prints what will be played.
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
		writeWrapped(r.Out, "  ", note, width)
	}
	fmt.Fprintln(r.Out)
}

// play plays all chats. A failure in one stops the others.
func (r *runner) play(ctx context.Context, players []*player) (elapsed time.Duration, err error) {
	began := time.Now()
	all, ctx := errgroup.WithContext(ctx)
	for _, p := range players {
		all.Go(func() error { return p.play(ctx, r.script.turns) })
	}
	err = all.Wait()
	return time.Since(began), err
}

func readMemory(ctx context.Context, players []*player) error {
	for _, p := range players {
		if err := p.readMemory(ctx); err != nil {
			return err
		}
	}
	return nil
}
