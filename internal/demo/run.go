package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

// runner is one run, with its options filled in.
type runner struct {
	Options
	script       script
	client       *client
	foldPatience time.Duration
}

// run plays, looks and prints. An interrupt ends the playing; the looking then gets a little time of
// its own, so that what was measured is not lost.
func (r *runner) run(ctx context.Context) (Summary, error) {
	defer r.client.close()
	if err := r.client.reach(ctx); err != nil {
		return Summary{}, err
	}
	r.introduce()
	bar := newProgress(r.Out, r.Interactive, r.Width, len(r.script.turns)*r.Parallel)
	players, elapsed, err := r.play(ctx, bar)
	bar.settling()
	lookErr := r.look(ctx, players)
	if err == nil && lookErr == nil && ctx.Err() == nil && r.Question != "" {
		err = r.recall(ctx, players[0], bar)
	}
	bar.end()
	s := Summary{Chat: players[0].chat, Elapsed: elapsed, Interrupted: ctx.Err() != nil}
	for _, other := range players[1:] {
		s.Others = append(s.Others, other.chat)
	}
	if s.Interrupted {
		err, lookErr = withoutEnd(err), withoutEnd(lookErr)
	}
	return s, errors.Join(err, lookErr, report(r.Out, s, r.Options))
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
func (r *runner) play(ctx context.Context, bar *progress) ([]*player, time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	began := time.Now()
	players := make([]*player, r.Parallel)
	errs := make([]error, r.Parallel)
	var all sync.WaitGroup
	for i := range players {
		players[i] = &player{client: r.client, bar: bar}
		all.Go(func() {
			if errs[i] = players[i].play(ctx, r.script.turns); errs[i] != nil {
				stop()
			}
		})
	}
	all.Wait()
	return players, time.Since(began), firstCause(errs)
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
	if r.DatabaseURL == "" {
		for _, p := range players {
			trust(p.chat.Turns)
		}
		return nil
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	s, err := openStore(look, r.DatabaseURL)
	if err != nil {
		return err
	}
	defer s.close(look)
	for _, p := range players {
		if err := r.lookAt(ctx, s, &p.chat); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) lookAt(ctx context.Context, s *store, c *Chat) error {
	if c.ID == uuid.Nil {
		return nil
	}
	settled, err := s.settle(ctx, c.ID, r.foldPatience)
	if err != nil {
		return err
	}
	c.FoldPending = !settled
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	rows, err := s.messages(look, c.ID)
	if err != nil {
		return err
	}
	c.CoverageChecked = account(c.Turns, rows)
	if c.Brief, err = s.brief(look, c.ID); err != nil {
		return err
	}
	c.Revisions, err = s.revisions(look, c.ID)
	return err
}

// recall asks the question at the end, after the folds, so that the brief has to know.
func (r *runner) recall(ctx context.Context, p *player, bar *progress) error {
	bar.asking(r.Question)
	answer, err := p.ask(ctx, r.Question)
	switch {
	case err != nil:
		return fmt.Errorf("the question at the end: %w", err)
	case answer.completed == nil:
		return fmt.Errorf("the question at the end: the reply failed (%s)", answer.failed.Code)
	}
	p.chat.Recall = Recall{
		Question: r.Question, Answer: answer.text.String(),
		Turn: turnOf(len(p.chat.Turns)+p.chat.FailedTurns+1, Line{}, answer),
	}
	return nil
}
