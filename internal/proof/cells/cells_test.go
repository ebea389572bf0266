// Package cells proves that a cell whose Postgres fails takes no other one along: two cells behind HAProxy with
// deploy/haproxy/cells.cfg, of which one loses its Postgres while 40 people talk.
package cells

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/haproxy"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	root     = "../../.."
	talkers  = 20 // of each cell
	pace     = 3 * time.Second
	phase    = 24 * time.Second
	mapped   = 200_000 // lines of the map
	patience = 15 * time.Second
)

// turn is an answer that somebody waited for; without one the status is 0.
type turn struct {
	home, from string // the user's cell, and the one that answered
	status     int
	took       time.Duration
}

// party is both cells and who talks there.
type party struct {
	t     *testing.T
	cells map[string]*people.System
	base  string

	mu    sync.Mutex
	turns []turn
}

func TestAFailingPostgresIsItsCellsAlone(t *testing.T) {
	t.Parallel()
	p := start(t)
	users := map[string]string{} // token: cell
	var lines strings.Builder
	var ofB []uuid.UUID
	for range mapped - talkers {
		fmt.Fprintf(&lines, "%s b\n", uuid.NewString())
	}
	for name, system := range p.cells {
		for range talkers {
			id, token, err := kit.NewUser(t.Context(), system.Admin)
			require.NoError(t, err)
			users[token] = name
			if name == "b" {
				ofB = append(ofB, id)
				fmt.Fprintf(&lines, "%s b\n", id)
			}
		}
	}
	p.proxy(lines.String())
	ctx, stop := context.WithCancel(t.Context())
	var talking sync.WaitGroup
	for token, home := range users {
		talking.Go(func() { p.talk(ctx, token, home) })
	}
	t.Cleanup(talking.Wait)
	t.Cleanup(stop)

	p.phase("warm", nil)
	before := p.phase("before", nil)
	b := p.cells["b"].Postgres
	frozen := p.phase("frozen", func() error { return b.Signal(syscall.SIGSTOP) })
	p.phase("back", func() error { return b.Signal(syscall.SIGCONT) })
	again := p.phase("served", nil)
	killed := p.phase("killed", b.Kill)

	for name, turns := range map[string][]turn{"before": before, "frozen": frozen, "killed": killed} {
		assert.Equal(t, []int{200}, statuses(turns, "a"), "a while b is %s", name)
		assert.LessOrEqual(t, p95(turns), 2*p95(before), "a while b is %s", name)
	}
	assert.Contains(t, statuses(again, "b"), 200, "it is back")
	assert.Contains(t, statuses(killed, "b"), 503)
	for _, each := range p.turns {
		assert.Contains(t, []int{0, 200, 503}, each.status)
		assert.True(t, each.from == "" || each.from == each.home, "%s answers a user of %s", each.from, each.home)
	}
	testkit.Want(t, p.cells["a"].Admin, 0, "select count(*) from throughline.accounts where user_id = any($1)", ofB)
}

func start(t *testing.T) *party {
	p := &party{t: t, cells: map[string]*people.System{}}
	for _, name := range []string{"a", "b"} {
		// Both would take any user, so that a request that goes astray leaves an account.
		system, err := people.Start(t.Context(), people.Plan{
			Source: root, Commands: []string{"serve"}, NoVector: true,
			Settings: map[string]string{"CELL": name, "CELL_ADMITS_NEW": "true", "RATE_LIMIT_MESSAGES_PER_MINUTE": "0"},
		}, t.Output())
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, system.Close(false)) })
		require.NoError(t, system.Run(t.Context()))
		p.cells[name] = system
	}
	return p
}

// proxy starts HAProxy with a map.
func (p *party) proxy(lines string) {
	dir, address := p.t.TempDir(), testkit.FreeAddress(p.t)
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, "cells.map"), []byte(lines), 0o600))
	config, err := haproxy.Cells(root, dir, address, testkit.HostOf(p.cells["a"].Servers()[0]), testkit.HostOf(p.cells["b"].Servers()[0]))
	require.NoError(p.t, err)
	proxy, err := haproxy.Start(p.t.Context(), dir, config, address)
	require.NoError(p.t, err)
	p.t.Cleanup(proxy.Stop)
	p.base = "http://" + address
}

// talk begins a chat at each pace.
func (p *party) talk(ctx context.Context, token, home string) {
	connections := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	client := kit.Client{HTTP: connections, Token: token, Headers: map[string]string{"Accept": "application/json"}}
	defer connections.CloseIdleConnections()
	for ticker := time.Tick(pace); ctx.Err() == nil; {
		began := time.Now()
		response, err := client.Do(ctx, http.MethodPost, p.base+"/v1/message/first", []byte(`{"content": "Hello?"}`), "")
		heard := turn{home: home}
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body) // the status is what counts
			_ = response.Body.Close()
			heard.status, heard.from = response.StatusCode, response.Header.Get("X-Throughline-Cell")
		}
		heard.took = time.Since(began)
		if ctx.Err() == nil {
			p.mu.Lock()
			p.turns = append(p.turns, heard)
			p.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-ticker:
		}
	}
}

// phase does something, and returns the turns of the time after.
func (p *party) phase(name string, do func() error) []turn {
	p.t.Helper()
	p.mu.Lock()
	first := len(p.turns)
	p.mu.Unlock()
	if do != nil {
		require.NoError(p.t, do())
	}
	require.NoError(p.t, kit.Sleep(p.t.Context(), phase))
	p.mu.Lock()
	defer p.mu.Unlock()
	turns := p.turns[first:]
	p.t.Logf("%s: %d turns, a %v p95 %s, b %v", name, len(turns), statuses(turns, "a"), p95(turns), statuses(turns, "b"))
	return turns
}

// statuses are the different ones of a cell's users.
func statuses(turns []turn, home string) (all []int) {
	seen := map[int]bool{}
	for _, each := range turns {
		if each.home == home && !seen[each.status] {
			seen[each.status] = true
			all = append(all, each.status)
		}
	}
	return all
}

// p95 is that of users of a.
func p95(turns []turn) time.Duration {
	var took kit.Times
	for _, each := range turns {
		if each.home == "a" {
			took = append(took, each.took)
		}
	}
	return kit.Percentile(took, .95)
}
