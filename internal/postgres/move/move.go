// Package move takes a user from one database to another, with every row and its ids. Two tombstones in throughline.departed fence
// the user while both have rows: moving with a cell where the user leaves, moving without one where the user arrives. So never do
// two answer, a move that died is run again, and a copy that was not finished is known as one and made again.
//
// Rows of the app's own tables do not move, nor do logins, leases and jobs: the sweep of the other database finds what is due.
package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Move is one user's.
type Move struct {
	From, To *pgxpool.Pool // as the owners of the tables
	User     uuid.UUID
	Cell     string        // the name of To
	Wait     time.Duration // for the user's replies and jobs to end
	// Pending names the migrations of this program that a database lacks.
	Pending func(context.Context, *pgxpool.Pool) ([]string, error)

	// committing says that an error may come after a commit, so that nothing may be undone.
	committing bool
}

const (
	look        = 200 * time.Millisecond // how often it is looked whether the user's work has ended
	undoTimeout = 10 * time.Second
)

// Run moves the user, or ends a move that died. After an error the user is served where they were, unless it says that the move is to
// be run again.
func (m *Move) Run(ctx context.Context) error {
	err := m.run(ctx)
	if err == nil {
		return nil
	}
	if m.committing {
		return fmt.Errorf("the move has not ended, and the user is not served: run it again: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if failure := m.undo(ctx); failure != nil {
		return fmt.Errorf("%w; undoing failed, so run it again: %w", err, failure)
	}
	return err
}

func (m *Move) run(ctx context.Context) error {
	here, err := stateOf(ctx, m.From, m.User)
	if err != nil {
		return fmt.Errorf("DATABASE_DIRECT_URL: %w", err)
	}
	there, err := stateOf(ctx, m.To, m.User)
	if err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	if err := m.refusal(here, there); err != nil {
		return err
	}
	if here.why != "moved" {
		if err := m.leave(ctx, there); err != nil {
			return err
		}
	}
	m.committing = true
	_, err = m.To.Exec(ctx, "delete from throughline.departed where user_id = $1 and why = 'moving' and cell is null", m.User)
	return err
}

// state is what a database knows of a user.
type state struct {
	account       bool
	why, cell, at string // of the tombstone
}

func (s state) arriving() bool { return s.why == "moving" && s.cell == "" }

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func stateOf(ctx context.Context, db querier, user uuid.UUID) (s state, err error) {
	err = db.QueryRow(ctx, `select exists (select from throughline.accounts where user_id = $1),
		coalesce(d.why, ''), coalesce(d.cell, ''), coalesce(d.at::text, '')
		from (select) one left join throughline.departed d on d.user_id = $1`, user).Scan(&s.account, &s.why, &s.cell, &s.at)
	return s, err
}

// refusal says why a user in these states cannot move.
func (m *Move) refusal(here, there state) error {
	moved := here.why == "moved" && here.cell == m.Cell && !here.account
	switch {
	case here.why == "erased":
		return errors.New("the user was erased")
	case here.arriving():
		return errors.New("the user is arriving here from another cell, and that move has not ended: run it again first")
	case here.why != "" && here.cell != m.Cell:
		return fmt.Errorf("the user is %s to cell %s", here.why, here.cell)
	case moved && there.account:
		return nil
	case moved:
		return fmt.Errorf("the user moved to cell %s, and the target has no account of theirs: it is another database", m.Cell)
	case !here.account:
		return errors.New("there is no such user here")
	case there.why == "moving" && !there.arriving():
		return errors.New("the user is leaving the target: it is this database, or another move has not ended there")
	case there.account && !there.arriving():
		return errors.New("the target has an account of this user: it is this database, or the user began again there")
	}
	return nil
}

// leave fences the user, waits until nothing works for them, and carries their rows.
func (m *Move) leave(ctx context.Context, there state) error {
	tables, err := m.check(ctx)
	if err != nil {
		return err
	}
	fenced, err := m.From.Exec(ctx, `insert into throughline.departed as d (user_id, why, cell) values ($1, 'moving', $2)
		on conflict (user_id) do update set at = now() where d.why = 'moving' and d.cell = excluded.cell`, m.User, m.Cell)
	if err == nil && fenced.RowsAffected() == 0 {
		err = errChanged
	}
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(m.Wait); ; {
		busy, err := m.try(ctx, tables, there)
		if !busy || err != nil {
			return err
		}
		if !time.Now().Add(look).Before(deadline) {
			return fmt.Errorf("after %s a reply of the user still streams, or a job works for them", m.Wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
}

var errChanged = errors.New("the user was erased or moved by others meanwhile")

// try carries the rows if nothing works for the user. Locks that are not to be had count as work.
func (m *Move) try(ctx context.Context, tables []table, there state) (busy bool, err error) {
	if busy, err = m.busy(ctx, m.From); busy || err != nil {
		return busy, err
	}
	err = pgx.BeginFunc(ctx, m.From, func(from pgx.Tx) error {
		if busy, err = m.lock(ctx, from); busy || err != nil {
			return err
		}
		return m.carry(ctx, from, tables, there)
	})
	if lost, ok := errors.AsType[*pgconn.PgError](err); ok && !m.committing {
		if lost.Code == pgerrcode.LockNotAvailable || lost.Code == pgerrcode.DeadlockDetected {
			return true, nil
		}
	}
	return busy, err
}

func (m *Move) busy(ctx context.Context, db querier) (busy bool, err error) {
	err = db.QueryRow(ctx, `select exists (select from public.messages where user_id = $1 and status = 'streaming')
		or exists (select from throughline.work where user_id = $1 and lease_until > now())`, m.User).Scan(&busy)
	return busy, err
}

// lock holds the user still. A request or a job that was admitted before the fence waits for these locks, with what it would insert
// as well: every row hangs on a chat, on the user's row of memory_users or on the account. When the locks are gone, so are those rows.
// A claim of work locks none of them, and looks at the fence instead. The first lock is that of throughline.erase_account.
func (m *Move) lock(ctx context.Context, from pgx.Tx) (busy bool, err error) {
	if err := settle(ctx, from); err != nil {
		return false, err
	}
	for _, sql := range []string{
		"select pg_advisory_xact_lock(hashtextextended('account:' || $1::uuid, 0))",
		"select from throughline.departed where user_id = $1 for update",
		"select from throughline.accounts where user_id = $1 for update",
		"select from public.chats where user_id = $1 order by id for update",
		"select from public.memory_users where user_id = $1 for update",
	} {
		if _, err := from.Exec(ctx, sql, m.User); err != nil {
			return false, err
		}
	}
	here, err := stateOf(ctx, from, m.User)
	if err == nil && (here.why != "moving" || here.cell != m.Cell || !here.account) {
		err = errChanged
	}
	if err != nil {
		return false, err
	}
	return m.busy(ctx, from)
}

// carry copies the rows and deletes them here. It commits there first: until both have, both fence the user.
func (m *Move) carry(ctx context.Context, from pgx.Tx, tables []table, there state) error {
	return pgx.BeginFunc(ctx, m.To, func(to pgx.Tx) error {
		if err := errors.Join(settle(ctx, to), untrigger(ctx, to)); err != nil {
			return err
		}
		if err := m.arrive(ctx, to, there, tables); err != nil {
			return err
		}
		if err := m.copyAccount(ctx, from, to); err != nil {
			return err
		}
		for _, t := range tables {
			if err := t.move(ctx, from, to, m.User); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
		if err := copyDigests(ctx, from, to); err != nil {
			return err
		}
		if err := m.depart(ctx, from, tables); err != nil {
			return err
		}
		m.committing = true
		return nil
	})
}

// arrive fences the user there, in place of an older tombstone, and deletes what a move that died has left. Who was erased there
// since the move began stays so.
func (m *Move) arrive(ctx context.Context, to pgx.Tx, there state, tables []table) error {
	if _, err := to.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended('account:' || $1::uuid, 0))", m.User); err != nil {
		return err
	}
	now, err := stateOf(ctx, to, m.User)
	if err == nil && now != there {
		err = errChanged
	}
	if err != nil {
		return err
	}
	for _, t := range slices.Concat(tables, []table{{name: "throughline.accounts"}}) {
		if _, err := to.Exec(ctx, "delete from "+t.name+" where user_id = $1", m.User); err != nil {
			return err
		}
	}
	_, err = to.Exec(ctx, `insert into throughline.departed (user_id, why) values ($1, 'moving')
		on conflict (user_id) do update set why = 'moving', cell = null, at = now()`, m.User)
	return err
}

// depart deletes the user here as the end of an account does, and leaves word of where they are.
func (m *Move) depart(ctx context.Context, from pgx.Tx, tables []table) error {
	if err := refuseForeign(ctx, from, m.User); err != nil {
		return err
	}
	for _, sql := range []string{
		"delete from throughline.accounts where user_id = $1",
		"delete from throughline.work where user_id = $1",
		"update throughline.departed set why = 'moved', at = now() where user_id = $1",
	} {
		if _, err := from.Exec(ctx, sql, m.User); err != nil {
			return err
		}
	}
	if _, err := from.Exec(ctx, "set constraints all immediate"); err != nil { // an error must not come with the commit
		return err
	}
	for _, t := range tables {
		left, _, err := t.sum(ctx, from, m.User)
		if err == nil && left > 0 {
			err = fmt.Errorf("%d rows of %s would stay here", left, t.name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// undo ends the fence of a move to this cell, and deletes an unfinished copy. The fence is locked: another process may be about to
// commit the same move.
func (m *Move) undo(ctx context.Context) error {
	return pgx.BeginFunc(ctx, m.From, func(from pgx.Tx) error {
		ended, err := from.Exec(ctx, "delete from throughline.departed where user_id = $1 and why = 'moving' and cell = $2", m.User, m.Cell)
		if err != nil || ended.RowsAffected() == 0 {
			return err
		}
		// Fenced it does no harm, and the next move deletes it: so it is no error that the target is away.
		_ = pgx.BeginFunc(ctx, m.To, func(to pgx.Tx) error {
			const unfinished = " where user_id = $1 and exists (select from throughline.departed where user_id = $1 and why = 'moving' and cell is null)"
			if _, err := to.Exec(ctx, "delete from throughline.accounts"+unfinished, m.User); err != nil {
				return err
			}
			_, err := to.Exec(ctx, "delete from throughline.departed"+unfinished, m.User)
			return err
		})
		return nil
	})
}

// check finds out whether the rows of the one database fit the other, and returns their tables.
func (m *Move) check(ctx context.Context) ([]table, error) {
	for name, pool := range map[string]*pgxpool.Pool{"here": m.From, "at the target": m.To} {
		pending, err := m.Pending(ctx, pool)
		if err == nil && len(pending) > 0 {
			err = fmt.Errorf("migrations are pending %s: %s", name, strings.Join(pending, ", "))
		}
		if err != nil {
			return nil, err
		}
	}
	tables, err := tablesOf(ctx, m.From)
	if err != nil {
		return nil, err
	}
	others, err := tablesOf(ctx, m.To)
	if err != nil {
		return nil, err
	}
	if err := compare(tables, others); err != nil {
		return nil, err
	}
	if err := m.checkModels(ctx, tables); err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, m.To, func(to pgx.Tx) error { return untrigger(ctx, to) })
	if lacks, ok := errors.AsType[*pgconn.PgError](err); ok && lacks.Code == pgerrcode.InsufficientPrivilege {
		err = errors.New("the target's role may not set session_replication_role: as a superuser there, grant set on parameter session_replication_role to it")
	}
	return tables, err
}
