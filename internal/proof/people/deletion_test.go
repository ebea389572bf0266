package people

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// Accounts are deleted as the auth server does it, while their people talk, are learned about, and change everything that they
// may: none of the deletions fails, and nothing is left of the accounts.
func TestAccountsAreDeletedWhileTheirPeopleTalk(t *testing.T) {
	t.Parallel()
	lasts := 30 * time.Second
	if testing.Short() {
		lasts = 6 * time.Second
	}
	talk := testTalk()
	talk.Pace, talk.Summary = [2]time.Duration{time.Millisecond, 4 * time.Millisecond}, 50*time.Millisecond
	s, err := Start(t.Context(), Plan{
		Source: "../../..", Commands: []string{"serve"}, Script: talk.Answer, Subjects: &talk.Subjects,
		Settings: map[string]string{
			"LONG_TERM_MEMORY": "true", "RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0", "MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "200",
			"MEMORY_K_RAW_TURNS": "2", "MEMORY_EXTRACT_DELAY": "1s", "TOPICS": "on", "TOPIC_MAX": "2", "TOPIC_MAX_MESSAGES": "6", "TOPIC_KEEP_MESSAGES": "2",
		},
		Postgres: map[string]string{"shared_buffers": "64MB", "fsync": "off"},
	}, t.Output())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(false)) })
	require.NoError(t, s.Run(t.Context()))

	m := meddling{t: t, record: &Record{Talk: talk}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wait sync.WaitGroup
	for n := range 8 {
		p, err := s.NewPerson(ctx, m.record, &Gauges{}, Habits{
			Pause: 5 * time.Millisecond, Away: 50 * time.Millisecond, Patience: 2 * time.Second, ChatsAtOnce: 3, TurnsPerChat: 8, Soon: 8,
			Stop: .05, Twice: .1, Erase: .2, Clear: .05, Edit: .1, Tend: .3, Revise: .3, Choose: .2,
		}, 1, n)
		require.NoError(t, err)
		device, other := p.Device(2, n), p.Device(3, n)
		for _, life := range []func(){
			func() { p.Live(ctx, ctx) }, func() { device.Live(ctx, ctx) },
			func() { m.meddle(ctx, other) }, func() { m.leave(ctx, p) },
		} {
			wait.Go(life)
		}
	}
	assert.NoError(t, kit.Sleep(ctx, lasts))
	const most = 2 * time.Minute // of a slow machine, on which few requests end before their account does
	assert.Eventually(t, m.allDone, most, 50*time.Millisecond, "no request of some kind succeeded")
	stop()
	wait.Wait()
	t.Logf("%d accounts deleted, %d failed", m.left.Load(), m.failed.Load())
	assert.Zero(t, m.failed.Load(), "deletions failed")
	assert.Greater(t, m.left.Load(), int64(lasts/time.Second), "accounts deleted")
	m.wantNothingLeft(s)
}

// meddling is what users do beside their talk.
type meddling struct {
	t            *testing.T
	record       *Record
	left, failed atomic.Int64
	done         sync.Map // the kinds that succeeded once
}

// allDone reports whether a request of each kind succeeded.
func (m *meddling) allDone() bool {
	for kind := range meddlers {
		if _, ok := m.done.Load(kind); !ok {
			return false
		}
	}
	return true
}

// leave deletes the account again and again, each time after another while.
func (m *meddling) leave(ctx context.Context, p *Person) {
	for kit.Sleep(ctx, 200*time.Millisecond+rand.N(1500*time.Millisecond)) == nil {
		if err := p.Unregister(context.WithoutCancel(ctx)); err != nil {
			m.failed.Add(1)
			m.t.Log(err)
			return
		}
		m.left.Add(1)
	}
}

// meddlers are requests about a chat and a message of it; what is answered depends on when the account is deleted.
var meddlers = map[string]func(ctx context.Context, p *Person, chat, message string) error{
	"edit": func(ctx context.Context, p *Person, _, message string) error {
		return p.Call(ctx, http.MethodPatch, "/v1/messages/"+message, map[string]any{"pinned": true, "importance": 0.9}, nil)
	},
	"switch": func(ctx context.Context, p *Person, _, _ string) error {
		err := p.Call(ctx, http.MethodPatch, "/v1/memories/settings", map[string]bool{"enabled": false}, nil)
		if err == nil {
			err = p.Call(ctx, http.MethodPatch, "/v1/memories/settings", map[string]bool{"enabled": true}, nil)
		}
		return err
	},
	"chat": func(ctx context.Context, p *Person, chat, _ string) error {
		err := p.Call(ctx, http.MethodPatch, "/v1/chats/"+chat, map[string]any{"remember": false, "topics": "off"}, nil)
		if err == nil {
			err = p.Call(ctx, http.MethodPatch, "/v1/chats/"+chat, map[string]any{"remember": true, "topics": "on", "title": "Again"}, nil)
		}
		return err
	},
	"extract": func(ctx context.Context, p *Person, chat, _ string) error {
		return p.Call(ctx, http.MethodPost, "/v1/chats/"+chat+"/extract", nil, nil)
	},
	"memory": func(ctx context.Context, p *Person, _, _ string) error {
		content := fmt.Sprintf("Has the number %d.", rand.IntN(9))
		return p.Call(ctx, http.MethodPost, "/v1/memories", map[string]any{"content": content, "pinned": true}, nil)
	},
	"import": func(ctx context.Context, p *Person, _, _ string) error {
		exported, err := p.Do(ctx, http.MethodGet, p.anyServer()+"/v1/export", nil, "")
		if err != nil {
			return err
		}
		defer func() { _ = exported.Body.Close() }()
		file, err := io.ReadAll(exported.Body)
		if err != nil {
			return err
		}
		client := p.Client
		client.Headers = map[string]string{"Content-Type": "application/x-ndjson"}
		client.Token, err = kit.Token(p.Account()) // perhaps of the account that came after
		if err != nil {
			return err
		}
		answer, err := client.Do(ctx, http.MethodPost, p.anyServer()+"/v1/import", file, "")
		if err == nil {
			defer func() { _ = answer.Body.Close() }()
			if answer.StatusCode != http.StatusOK {
				err = refusal(answer)
			}
		}
		return err
	},
}

// meddle makes the requests in turns.
func (m *meddling) meddle(ctx context.Context, device *Person) {
	for kit.Sleep(ctx, 20*time.Millisecond) == nil {
		for kind, request := range meddlers {
			device.follow()
			var chat, message string
			err := device.system.Admin.QueryRow(ctx, `select m.chat_id::text, m.id::text from public.messages m
				where m.user_id = $1 and m.role = 'user' order by random() limit 1`, device.ID).Scan(&chat, &message)
			if err == nil && request(ctx, device, chat, message) == nil {
				m.done.Store(kind, true)
			}
		}
	}
}

// wantNothingLeft looks in every table with a column user_id, and for jobs of what is gone.
func (m *meddling) wantNothingLeft(s *System) {
	ctx := m.t.Context()
	tables, err := s.Admin.Query(ctx, `select c.oid::regclass::text from pg_class c join pg_attribute a on a.attrelid = c.oid
		where c.relnamespace in ('public'::regnamespace, 'throughline'::regnamespace) and c.relkind = 'r' and a.attname = 'user_id'`)
	require.NoError(m.t, err)
	for _, table := range kit.Must(pgx.CollectRows(tables, pgx.RowTo[string])) {
		testkit.Await(m.t, s.Admin, "nothing is left in "+table, 0,
			"select count(*)::int from "+table+" t where not exists (select from auth.users u where u.id = t.user_id)")
	}
	testkit.Await(m.t, s.Admin, "no job of a chat that is gone is left", 0, `select count(*)::int from river.river_job j
		where j.args ? 'chat_id' and j.state not in ('completed', 'cancelled')
		  and not exists (select from public.chats c where c.id::text = j.args ->> 'chat_id')`)
}
