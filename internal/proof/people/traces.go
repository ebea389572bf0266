package people

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// deletedMarks are the marks of messages that were certainly deleted. Not of a reply of which other tries are left: they
// begin with the same mark.
const deletedMarks = `
create temp table deleted_marks on commit drop as
  select substring(h.content from '^ask\d+') as mark from heard_messages h where h.deletion = 2
  union
  select substring(h.answer from '^said\d+') from heard_replies r join heard_messages h using (client_id) where r.deletion = 2
     and not exists (select from public.messages m where m.role = 'assistant' and substring(m.content from '^said\d+') = substring(h.answer from '^said\d+'));
create temp table traces (place text, mark text) on commit drop`

// searched is the statement that looks for those marks in every column of the database that can hold words.
const searched = `
select 'insert into traces ' || string_agg(format(
         'select %L, found.mark[1] from %I.%I t cross join lateral regexp_matches(%s, ''\y(?:ask|said)\d+\y'', ''g'') found (mark)
           where found.mark[1] in (select mark from deleted_marks)',
         n.nspname || '.' || c.relname || '.' || a.attname, n.nspname, c.relname,
         case when y.typname = 'bytea' then format('encode(t.%I, ''escape'')', a.attname) else format('t.%I::text', a.attname) end),
         ' union all ')
  from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace join pg_type y on y.oid = a.atttypid
 where n.nspname in ('public', 'throughline', 'river', 'auth') and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
   and y.typname in ('text', '_text', 'varchar', '_varchar', 'json', 'jsonb', '_jsonb', 'tsvector', 'bytea')
having exists (select from deleted_marks)`

// loadTraces looks for what is left of deleted messages. The evidence is loaded.
func loadTraces(ctx context.Context, tx pgx.Tx) {
	kit.Must(tx.Exec(ctx, deletedMarks))
	var search string
	err := tx.QueryRow(ctx, searched).Scan(&search)
	if errors.Is(err, pgx.ErrNoRows) {
		return // nothing was deleted
	}
	kit.Check(err)
	kit.Must(tx.Exec(ctx, search))
}

// topicRows finds the messages of each topic without our own function.
const topicRows = `create temp table topic_rows on commit drop as
  select t.id as topic_id, m.seq, m.role, m.content, m.created_at
    from public.topics t
    join public.turn_index i on i.topic_id = t.id and i.chat_id = t.chat_id
    join public.messages m on m.chat_id = i.chat_id and m.seq between i.seq and i.last_seq
     and m.role in ('user', 'assistant') and m.token_count > 0 and m.superseded_by is null;
create index on topic_rows (topic_id)`
