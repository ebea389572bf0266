package app

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/supabase"
)

const (
	// isolationEvery is how often a server looks whether its transactions keep their user, and isolationTimeout bounds a look.
	isolationEvery   = 5 * time.Second
	isolationTimeout = 3 * time.Second
)

// isolation is what the latest look found that Postgres answered. Until there was one nothing is served.
type isolation struct {
	looking sync.Mutex
	found   atomic.Int32
}

const (
	isolationUnknown = iota
	isolationKept
	isolationLost
)

const notIsolated = "What is before Postgres does not keep a transaction and its user together: see docs/operations.md, Postgres."

// lookIsolated returns an error unless transactions keep their user. After one that says that Postgres did not answer, the latest finding
// stands.
func (a *App) lookIsolated(ctx context.Context) error {
	a.isolation.looking.Lock()
	defer a.isolation.looking.Unlock()
	kept, err := postgres.Isolated(ctx, a.pool)
	if err == nil && a.isolation.found.Load() == isolationUnknown {
		err = a.warnOfBypass(ctx)
	}
	if err != nil {
		return err
	}
	now := int32(isolationLost)
	if kept {
		now = isolationKept
	}
	if before := a.isolation.found.Swap(now); !kept && before != now {
		a.logger.Error("nothing is served: " + notIsolated)
	} else if kept && before == isolationLost {
		a.logger.Info("transactions keep their user again")
	}
	if !kept {
		return notReady(fault.SessionNotIsolated, notIsolated, "isolation", nil, nil)
	}
	return nil
}

// isolated returns an error, for every request of a user, unless the latest look was good.
func (a *App) isolated(ctx context.Context) error {
	if a.isolation.found.Load() == isolationUnknown {
		if err := a.lookIsolated(ctx); fault.CodeOf(err) == fault.NotReady {
			return err
		}
	}
	if a.isolation.found.Load() == isolationKept {
		return nil
	}
	return &fault.Error{Code: fault.NotReady, Message: "The server is not ready.", RetryAfter: isolationEvery}
}

// warnOfBypass says, with the first look, when the connection could read everybody.
func (a *App) warnOfBypass(ctx context.Context) error {
	bypasses, err := postgres.BypassesPolicies(ctx, a.pool)
	if err == nil && bypasses {
		a.logger.Warn("DATABASE_URL connects as a role that row-level security does not bind: use " + supabase.ServerRole)
		a.bypasses.Store(true)
	}
	return err
}

// watchIsolation looks until ctx ends.
func (a *App) watchIsolation(ctx context.Context) {
	for {
		looking, cancel := context.WithTimeout(ctx, isolationTimeout)
		_ = a.lookIsolated(looking) // it logs what it finds
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(isolationEvery):
		}
	}
}

// mayWork refuses a connection of workers that could do nothing: they act for all users.
func mayWork(user string) error {
	if name, _, _ := strings.Cut(user, "."); name == supabase.ServerRole { // Supavisor's names end with the project
		return &config.Error{Problems: []string{"DATABASE_DIRECT_URL, which is DATABASE_URL where it is not set, connects as " + supabase.ServerRole +
			", which can do no background work: set it to the role that migrated"}}
	}
	return nil
}
