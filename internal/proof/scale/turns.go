package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// clients talk at once where the rate of turns is measured.
const clients = 8

// talker makes turns with the server's own store.
type talker struct {
	turns  *postgres.Turns
	pool   *pgxpool.Pool
	size   size
	mu     sync.Mutex
	random *rand.Rand
}

// steps are the times that the parts of turns took.
type steps struct{ start, save, find kit.Times }

func newTalker(ctx context.Context, d *database, s size) (*talker, func(), error) {
	pool, _, err := postgres.Open(ctx, d.server, clients)
	if err != nil {
		return nil, nil, err
	}
	noFolds := func(context.Context, pgx.Tx, uuid.UUID) error { return nil }
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the same chats in each run
	return &talker{pool: pool, turns: postgres.NewTurns(pool, memory.DefaultLimits(), postgres.Enqueue{Fold: noFolds}), size: s, random: random}, pool.Close, nil
}

// ownerOf returns the user of a chat.
func (s size) ownerOf(chat int) (auth.Principal, error) {
	id := kit.ID("user", chat%s.owners())
	claims, err := json.Marshal(map[string]string{"sub": id.String(), "role": "authenticated"})
	return auth.Principal{UserID: id, Claims: string(claims)}, err
}

// turn is one turn in a random chat, but not the long one: start it, find its reply as another replica does, save it.
func (t *talker) turn(ctx context.Context) (start, find, save time.Duration, err error) {
	t.mu.Lock()
	n := 1 + t.random.IntN(t.size.chats()-1)
	t.mu.Unlock()
	chatID := kit.ID("chat", n)
	owner, err := t.size.ownerOf(n)
	if err != nil {
		return 0, 0, 0, err
	}
	reply, start, err := kit.StartTurn(ctx, t.turns, owner, chatID, kit.Text(0))
	if err != nil {
		return 0, 0, 0, err
	}
	began := time.Now()
	_, found, err := t.turns.FindReply(ctx, owner, chatID, uuid.Nil, 0)
	find = time.Since(began)
	if err == nil && !found {
		err = errors.New("the reply was not found")
	}
	if err != nil {
		return 0, 0, 0, err
	}
	save, err = kit.SaveReply(ctx, t.turns, owner, chatID, reply, kit.Text(0)+" "+kit.Text(1))
	return start, find, save, err
}

// oneByOne makes turns, one after another.
func (t *talker) oneByOne(ctx context.Context, n int) (took steps, err error) {
	for range n {
		start, find, save, err := t.turn(ctx)
		if err != nil {
			return took, err
		}
		took.start, took.find, took.save = append(took.start, start), append(took.find, find), append(took.save, save)
	}
	return took, nil
}

// atOnce makes turns of several clients and returns their rate. Two that meet in one chat are no failure: the
// second one goes on with its next chat.
func (t *talker) atOnce(ctx context.Context, n int) (perSecond float64, err error) {
	began := time.Now()
	var all errgroup.Group
	for range clients {
		all.Go(func() error {
			for range n / clients {
				if _, _, _, err := t.turn(ctx); err != nil && !errors.Is(err, kit.ErrRunning) {
					return err
				}
			}
			return nil
		})
	}
	err = all.Wait()
	return float64(n/clients*clients) / time.Since(began).Seconds(), err
}

// usage is what Postgres has used since its start, and what it read of messages.
type usage struct {
	kit.Usage
	wal         int64
	hits, reads float64
}

const selectReads = `
select sum(heap_blks_hit + coalesce(idx_blks_hit, 0))::float8, sum(heap_blks_read + coalesce(idx_blks_read, 0))::float8
  from pg_statio_user_tables where relid in (` + messageTables + `)`

// usage reads what Postgres has used, after the talker's connections have reported their statistics.
func (t *talker) usage(ctx context.Context, d *database) (u usage, err error) {
	for _, conn := range t.pool.AcquireAllIdle(ctx) { // by itself each reports them once a second
		_, err := conn.Exec(ctx, "select pg_stat_force_next_flush()")
		conn.Release()
		if err != nil {
			return u, err
		}
	}
	if err := d.do(ctx, "select pg_stat_clear_snapshot()"); err != nil {
		return u, err
	}
	if u.Usage, u.wal, err = kit.UsageOfPostgres(ctx, d.admin); err != nil {
		return u, err
	}
	return u, d.admin.QueryRow(ctx, selectReads).Scan(&u.hits, &u.reads)
}
