package move

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// table is a table of ours with rows of users.
type table struct {
	name    string   // with its schema
	columns []string // that can be written, quoted
	types   []string // of these
}

// tablesOf reads the catalogue. Ours are the tables that throughline.protect was called for; those of the app are its own.
func tablesOf(ctx context.Context, db *pgxpool.Pool) ([]table, error) {
	rows, err := db.Query(ctx, `
		select format('%I.%I', c.relnamespace::regnamespace, c.relname), array_agg(quote_ident(a.attname) order by a.attname),
		       array_agg(format_type(a.atttypid, a.atttypmod) order by a.attname)
		  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
		 where exists (select from pg_policy p where p.polrelid = c.oid and p.polname = c.relname || '_confined')
		   and exists (select from pg_attribute u where u.attrelid = c.oid and u.attname = 'user_id')
		 group by c.oid order by 1`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t table, err error) {
		return t, row.Scan(&t.name, &t.columns, &t.types)
	})
}

// compare says which table is another one.
func compare(tables, others []table) error {
	for _, t := range tables {
		at := slices.IndexFunc(others, func(o table) bool { return o.name == t.name })
		if at < 0 || !slices.Equal(t.columns, others[at].columns) || !slices.Equal(t.types, others[at].types) {
			return fmt.Errorf("%s has other columns at the target", t.name)
		}
	}
	return nil
}

// checkModels refuses vectors of a model that the target never used.
func (m *Move) checkModels(ctx context.Context, tables []table) error {
	var used []string
	for _, t := range tables {
		if slices.Contains(t.columns, "embedding_model") {
			used = append(used, "select embedding_model from "+t.name+" where user_id = $1 and embedding_model is not null")
		}
	}
	var models, unknown []string
	err := m.From.QueryRow(ctx, "select coalesce(array_agg(embedding_model), '{}') from ("+strings.Join(used, " union ")+") u", m.User).Scan(&models)
	if err != nil {
		return err
	}
	err = m.To.QueryRow(ctx, `select coalesce(array_agg(u), '{}') from unnest($1::text[]) u
		where not exists (select from public.embedding_models e where e.model = u)`, models).Scan(&unknown)
	if err == nil && len(unknown) > 0 {
		err = fmt.Errorf("the target has another EMBEDDING_MODEL than %s", strings.Join(unknown, ", "))
	}
	return err
}

// settle begins a transaction that may last but waits for no lock for long, and in which values have the same text in both databases.
func settle(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `select set_config(name, value, true) from (values ('statement_timeout', '0'), ('lock_timeout', '5s'),
		('idle_in_transaction_session_timeout', '0'), ('timezone', 'UTC'), ('datestyle', 'ISO'), ('intervalstyle', 'postgres'),
		('extra_float_digits', '1'), ('bytea_output', 'hex')) s (name, value)`)
	return err
}

// untrigger ends what triggers do in a transaction: rows come with what they made of them.
func untrigger(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "select set_config('session_replication_role', 'replica', true)")
	return err
}

// copyAccount writes the account, with the login that the user has there.
func (m *Move) copyAccount(ctx context.Context, from, to pgx.Tx) error {
	var issuer, subject *string
	var created any
	err := from.QueryRow(ctx, "select issuer, subject, created_at from throughline.accounts where user_id = $1", m.User).Scan(&issuer, &subject, &created)
	if err != nil {
		return err
	}
	_, err = to.Exec(ctx, `insert into throughline.accounts (user_id, auth_id, issuer, subject, created_at)
		values ($1, (select id from auth.users where id = $1), $2, $3, $4)`, m.User, issuer, subject, created)
	return err
}

// move copies the rows of a user, and compares both sides. The rows are locked: what is not inserted or deleted may still be changed
// by who needs no lock of their chat.
func (t table) move(ctx context.Context, from, to pgx.Tx, user uuid.UUID) error {
	columns := strings.Join(t.columns, ", ")
	reader, writer := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		_, err := from.Conn().PgConn().CopyTo(ctx, writer,
			fmt.Sprintf("copy (select %s from %s where user_id = '%s' for update) to stdout (format binary)", columns, t.name, user))
		_ = writer.CloseWithError(err) // never fails
		sent <- err
	}()
	_, err := to.Conn().PgConn().CopyFrom(ctx, reader, fmt.Sprintf("copy %s (%s) from stdin (format binary)", t.name, columns))
	_ = reader.CloseWithError(err) // never fails
	if err := errors.Join(<-sent, err); err != nil {
		return err
	}
	there, sumThere, err := t.sum(ctx, to, user)
	if err != nil {
		return err
	}
	here, sumHere, err := t.sum(ctx, from, user)
	if err == nil && (here != there || sumHere != sumThere) {
		err = fmt.Errorf("%d rows are not the %d that arrived", here, there)
	}
	return err
}

// sum counts rows of a user, and adds up what they hash to.
func (t table) sum(ctx context.Context, tx pgx.Tx, user uuid.UUID) (rows int64, sum string, err error) {
	err = tx.QueryRow(ctx, fmt.Sprintf("select count(*), coalesce(sum(hashtextextended(r::text, 0)), 0)::text from (select %s from %s where user_id = $1) r",
		strings.Join(t.columns, ", "), t.name), user).Scan(&rows, &sum)
	return rows, sum, err
}

// copyDigests takes the digests of messages that were deleted along, of all users: they do not say whose they are. Without, a late
// copy of a request would store a deleted message again.
func copyDigests(ctx context.Context, from, to pgx.Tx) error {
	var keys, times any
	err := from.QueryRow(ctx, "select array_agg(key), array_agg(deleted_at) from throughline.deleted_messages").Scan(&keys, &times)
	if err != nil {
		return err
	}
	_, err = to.Exec(ctx, `insert into throughline.deleted_messages (key, deleted_at) select * from unnest($1::uuid[], $2::timestamptz[])
		on conflict do nothing`, keys, times)
	return err
}

// refuseForeign names a table of the app's with rows that refer to the user's: they would be deleted here, and not be there.
func refuseForeign(ctx context.Context, from pgx.Tx, user uuid.UUID) error {
	rows, err := from.Query(ctx, `
		select f.conrelid::regclass::text,
		       format('select exists (select from %s x join %s o on %s where o.user_id = $1)', f.conrelid::regclass, f.confrelid::regclass,
		         (select string_agg(format('x.%I = o.%I', x.attname, o.attname), ' and ')
		            from unnest(f.conkey, f.confkey) k (x, o)
		            join pg_attribute x on x.attrelid = f.conrelid and x.attnum = k.x join pg_attribute o on o.attrelid = f.confrelid and o.attnum = k.o))
		  from pg_constraint f join pg_class c on c.oid = f.conrelid join pg_class o on o.oid = f.confrelid
		 where f.contype = 'f' and not exists (select from pg_policy p where p.polrelid = c.oid and p.polname = c.relname || '_confined')
		   and (o.oid = 'throughline.accounts'::regclass or exists (select from pg_policy p where p.polrelid = o.oid and p.polname = o.relname || '_confined'))`)
	if err != nil {
		return err
	}
	foreign, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Table, Refer string }])
	if err != nil {
		return err
	}
	for _, f := range foreign {
		var refer bool
		if err := from.QueryRow(ctx, f.Refer, user).Scan(&refer); err != nil {
			return err
		}
		if refer {
			return fmt.Errorf("rows of %s, which is not Throughline's, refer to the user's, and would be lost: delete them first, or move them yourself", f.Table)
		}
	}
	return nil
}
