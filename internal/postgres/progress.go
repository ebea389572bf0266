package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// lookEvery is how often it is looked how far chats are read while anybody waits.
	lookEvery = 100 * time.Millisecond
	// longestLook is for how long a caller waits for a chat to move until it looks by itself: what it waits for may have been
	// deleted.
	longestLook = 2 * time.Second
)

// progress waits until chats are read further. It looks for all callers in one statement, and not at all while none waits.
type progress struct {
	pool *pgxpool.Pool

	mu      sync.Mutex
	waiting map[readPlace]*waiters
	looks   bool
}

// readPlace is how far a chat was read when a caller looked.
type readPlace struct {
	chatID    uuid.UUID
	extracted int64
}

type waiters struct {
	callers int
	moved   chan struct{} // closed when the chat is not there any more
}

// wait waits until a chat is not at the place any more, but no longer than longestLook. It reports false if ctx has ended.
func (p *progress) wait(ctx context.Context, at readPlace) bool {
	w := p.join(at)
	defer p.leave(at, w)
	timer := time.NewTimer(longestLook)
	defer timer.Stop()
	select {
	case <-w.moved:
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func (p *progress) join(at readPlace) *waiters {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = map[readPlace]*waiters{}
	}
	if !p.looks {
		p.looks = true
		go p.look()
	}
	w := p.waiting[at]
	if w == nil {
		w = &waiters{moved: make(chan struct{})}
		p.waiting[at] = w
	}
	w.callers++
	return w
}

func (p *progress) leave(at readPlace, w *waiters) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.callers--; w.callers == 0 && p.waiting[at] == w {
		delete(p.waiting, at)
	}
}

// look looks until no caller waits. A look that fails is made again.
func (p *progress) look() {
	for {
		time.Sleep(lookEvery)
		chats := p.chats()
		if chats == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), longestLook)
		rows, err := dbsqlc.ReadExtracted.All(ctx, p.pool, chats)
		cancel()
		if err == nil {
			p.compare(rows)
		}
	}
}

// chats returns the chats that callers wait for; nil ends the looks, until the next caller.
func (p *progress) chats() (chats []uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at := range p.waiting {
		chats = append(chats, at.chatID)
	}
	p.looks = chats != nil
	return chats
}

func (p *progress) compare(rows []dbsqlc.ReadExtractedRow) {
	there := map[readPlace]bool{}
	for _, row := range rows {
		there[readPlace{row.ChatID, row.ExtractedSeq}] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, w := range p.waiting {
		if !there[at] {
			close(w.moved)
			delete(p.waiting, at)
		}
	}
}
