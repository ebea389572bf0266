package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// clients talk at once where the rate of turns is measured.
const clients = 8

// talker makes turns with the server's own store.
type talker struct {
	turns   *postgres.Turns
	pool    *pgxpool.Pool
	size    size
	replies []string
	mu      sync.Mutex
	dice    dice
}

// steps are what the parts of turns took.
type steps struct{ start, save, find []time.Duration }

func newTalker(ctx context.Context, d *database, s size) (*talker, func(), error) {
	pool, _, err := postgres.Open(ctx, d.server, clients)
	if err != nil {
		return nil, nil, err
	}
	noFolds := func(context.Context, pgx.Tx, uuid.UUID) error { return nil }
	t := &talker{pool: pool, turns: postgres.NewTurns(pool, memory.DefaultLimits(), noFolds), size: s, replies: texts(), dice: dice{state: 1}}
	return t, pool.Close, nil
}

// pick gives any chat but the long one, and its owner.
func (t *talker) pick() (chatID uuid.UUID, owner auth.Principal, err error) {
	t.mu.Lock()
	n := 1 + t.dice.intn(t.size.chats()-1)
	t.mu.Unlock()
	owner, err = t.size.ownerOf(n)
	return named("chat", n), owner, err
}

// ownerOf is the user of a chat, as the server knows them.
func (s size) ownerOf(chat int) (auth.Principal, error) {
	id := named("user", chat%s.owners())
	claims, err := json.Marshal(map[string]string{"sub": id.String(), "role": "authenticated"})
	return auth.Principal{UserID: id, Claims: string(claims)}, err
}

// once is one turn in a chat: start it, look for its reply as another replica does, save it.
func (t *talker) once(ctx context.Context, chatID uuid.UUID, owner auth.Principal) (start, find, save time.Duration, err error) {
	text := t.replies[0]
	turn := chat.NewTurn{
		ChatID: chatID, UserMessageID: newID(), MessageID: newID(), Content: text, ContentTokens: tokensOf(text),
		ClientMessageID: newID(), Variant: "arco", Lease: 15 * time.Second,
	}
	began := time.Now()
	started, err := t.turns.StartTurn(ctx, owner, turn)
	start = time.Since(began)
	if err == nil && started.Running != uuid.Nil {
		err = errMet
	}
	if err == nil && (!started.Started || len(started.Buffer) == 0) {
		err = errors.New("the turn did not start, or found no memory")
	}
	if err != nil {
		return 0, 0, 0, err
	}
	began = time.Now()
	_, found, err := t.turns.FindReply(ctx, owner, chatID, uuid.Nil, 0)
	find = time.Since(began)
	if err == nil && !found {
		err = errors.New("the reply was not found")
	}
	if err != nil {
		return 0, 0, 0, err
	}
	began = time.Now()
	saved, err := t.turns.SaveReply(ctx, owner, chat.FinishedReply{
		ChatID: chatID, MessageID: turn.MessageID, Status: memory.StatusComplete, Content: text + " " + t.replies[1], Tokens: 2 * tokensOf(text),
		Metadata: chat.ReplyMetadata{ModelVariant: "arco"},
	})
	if err == nil && !saved {
		err = errors.New("the reply was not saved")
	}
	return start, find, time.Since(began), err
}

// errMet: another client has a turn in this chat at the moment.
var errMet = errors.New("a reply is running in this chat")

// newID makes ids as the server does.
func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// oneByOne makes turns of one client.
func (t *talker) oneByOne(ctx context.Context, n int) (steps, error) {
	var took steps
	for range n {
		chatID, owner, err := t.pick()
		if err != nil {
			return took, err
		}
		start, find, save, err := t.once(ctx, chatID, owner)
		if err != nil {
			return took, err
		}
		took.start, took.find, took.save = append(took.start, start), append(took.find, find), append(took.save, save)
	}
	return took, nil
}

// atOnce makes turns of several clients and gives their rate. Two that meet in one chat are no failure: one of
// them waits for its next chat.
func (t *talker) atOnce(ctx context.Context, n int) (perSecond float64, err error) {
	began := time.Now()
	failed := make(chan error, clients)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range n / clients {
				chatID, owner, err := t.pick()
				if err == nil {
					_, _, _, err = t.once(ctx, chatID, owner)
				}
				if err != nil && !errors.Is(err, errMet) {
					failed <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return float64(n/clients*clients) / time.Since(began).Seconds(), <-failed
}

// tell lets every connection add what it has counted to Postgres's statistics, which it does once a second otherwise.
func (t *talker) tell(ctx context.Context) error {
	for _, conn := range t.pool.AcquireAllIdle(ctx) {
		_, err := conn.Exec(ctx, "select pg_stat_force_next_flush()")
		conn.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// quantile of times in milliseconds.
func quantile(took []time.Duration, q float64) float64 {
	sorted := slices.Sorted(slices.Values(took))
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]) / float64(time.Millisecond)
}

// dice give the same numbers in every run (splitmix64, Steele, Lea and Flood 2014).
type dice struct{ state uint64 }

func (d *dice) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	return mix(d.state)
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (d *dice) intn(n int) int { return int(d.next() % uint64(n)) }

// float is from 0 to less than 1.
func (d *dice) float() float64 { return float64(d.next()>>11) / (1 << 53) }
