package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// layout is how messages are kept.
type layout struct {
	name string
	// by is the clause that divides the table, "" for the table that the migrations make; key is its column.
	by, key string
	// partitions are the bounds of each.
	partitions []string
}

const mostPartitions = 256

// monthsBack is how far back the oldest message was written, and with it the oldest month's partition.
const monthsBack = 12

func layoutNamed(name string) (layout, error) {
	if name == "plain" {
		return layout{name: name}, nil
	}
	if name == "months" {
		return byMonths(), nil
	}
	n, err := strconv.Atoi(strings.TrimPrefix(name, "hash"))
	if err != nil || n < 1 || n > mostPartitions || !strings.HasPrefix(name, "hash") {
		return layout{}, fmt.Errorf("there is no layout %q, only plain, months, and hash1 to hash%d", name, mostPartitions)
	}
	l := layout{name: name, by: "hash (chat_id)", key: "chat_id"}
	for i := range n {
		l.partitions = append(l.partitions, fmt.Sprintf("for values with (modulus %d, remainder %d)", n, i))
	}
	return l, nil
}

// byMonths divides by the time of writing. Postgres computes the bounds.
func byMonths() layout {
	l := layout{name: "months", by: "range (created_at)", key: "created_at"}
	for n := -monthsBack; n <= 1; n++ {
		l.partitions = append(l.partitions, fmt.Sprintf("for values from (current_date + %d * 30) to (current_date + %d * 30)", n, n+1))
	}
	l.partitions = append(l.partitions, "default")
	return l
}

// dependents are the statements that make what the migrations made for messages.
type dependents struct{ indexes, foreignKeys, others []string }

const selectPolicies = `
select format('create policy %I on public.messages for %s to %s using (%s)%s', policyname, cmd, array_to_string(roles, ', '),
         qual, coalesce(' with check (' || with_check || ')', ''))
  from pg_policies where schemaname = 'public' and tablename = 'messages'`

const selectGrants = `
select format('grant %s on public.messages to %I', string_agg(privilege_type, ', '), grantee)
  from information_schema.role_table_grants where table_schema = 'public' and table_name = 'messages' and grantee <> 'postgres'
 group by grantee`

func readDependents(ctx context.Context, conn *pgx.Conn) (dependents, error) {
	var d dependents
	for _, look := range []struct {
		into  *[]string
		query string
	}{
		{&d.indexes, `select indexdef from pg_indexes where schemaname = 'public' and tablename = 'messages' order by indexname`},
		{&d.foreignKeys, `select format('alter table public.messages add constraint %I %s', conname, pg_get_constraintdef(oid))
			from pg_constraint where conrelid = 'public.messages'::regclass and contype = 'f' order by conname`},
		{&d.others, `select pg_get_triggerdef(oid) from pg_trigger where tgrelid = 'public.messages'::regclass and not tgisinternal`},
		{&d.others, selectPolicies},
		{&d.others, selectGrants},
	} {
		rows, _ := conn.Query(ctx, look.query) // CollectRows has the error
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return d, err
		}
		*look.into = append(*look.into, found...)
	}
	return d, nil
}

// unique finds the columns of a unique index.
var unique = regexp.MustCompile(`^CREATE UNIQUE INDEX .* USING btree \(([^)]*)\)`)

// withKey adds the partitions' key to a unique index that lacks it, as Postgres requires. The index then
// guarantees less: the id is unique within one chat, or one moment.
func withKey(index, key string) string {
	found := unique.FindStringSubmatchIndex(index)
	if found == nil || key == "" {
		return index
	}
	columns := index[found[2]:found[3]]
	if regexp.MustCompile(`\b` + key + `\b`).MatchString(columns) {
		return index
	}
	return index[:found[3]] + ", " + key + index[found[3]:]
}

// apply puts the empty table messages into this layout and returns the indexes and foreign keys to make once it
// is filled. It drops the views on messages.
func (l layout) apply(ctx context.Context, d *database) (later []string, err error) {
	found, err := readDependents(ctx, d.admin)
	if err != nil {
		return nil, err
	}
	statements := []string{"set role postgres", "alter table public.messages rename to messages_before"}
	statements = append(statements, l.create()...)
	statements = append(statements, "drop table public.messages_before cascade", "alter table public.messages enable row level security",
		"revoke all on public.messages from anon, authenticated")
	statements = append(append(statements, found.others...), "reset role")
	if err := d.do(ctx, statements...); err != nil {
		return nil, err
	}
	later = append(later, "set role postgres")
	for _, index := range found.indexes {
		later = append(later, withKey(index, l.key))
	}
	return append(append(later, found.foreignKeys...), "reset role"), nil
}

func (l layout) create() []string {
	const like = "create table public.messages (like public.messages_before including defaults including constraints including generated)"
	if l.by == "" {
		return []string{like}
	}
	statements := []string{like + " partition by " + l.by, "create schema parts"}
	for i, bounds := range l.partitions {
		statements = append(statements, fmt.Sprintf("create table parts.messages_%d partition of public.messages %s", i, bounds))
	}
	return statements
}
