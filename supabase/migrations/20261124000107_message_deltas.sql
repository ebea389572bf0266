-- The text of running replies, so that any server can stream it and it survives the server that generates it.

create table public.message_deltas (
  message_id uuid not null,
  user_id    uuid not null,
  -- Characters (Unicode code points) of the reply before this piece. -1 for what no reader sees.
  start_char int  not null,
  delta      text not null,
  -- Where start_char is -1: what it takes to go on with a reply that has called tools (chat.State in Go). It is kept while the reply is
  -- open, and a day after it has failed or was interrupted.
  data       jsonb,

  -- Pieces never change and follow each other without gaps, so all readers assemble the same text, and a
  -- piece that is written twice is stored once.
  constraint message_deltas_pkey primary key (message_id, start_char)
)
-- Rows are deleted seconds after they were inserted, so almost all of the table is dead rows: vacuum after a
-- number of rows, for any size of the table.
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
      autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);

-- The text of a running reply that was recorded after a character: its row holds what came before. No piece is read in vain, however long
-- the reply is: the first of them may begin before that character.
create function throughline.recorded_after(message uuid, chars int) returns text
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off set enable_bitmapscan = off as $$
begin
  return coalesce((
    select string_agg(case when d.start_char < chars then substr(d.delta, chars - d.start_char + 1) else d.delta end, '' order by d.start_char)
      from public.message_deltas d
     where d.message_id = message
       and d.start_char >= coalesce((select f.start_char from public.message_deltas f
                                      where f.message_id = message and f.start_char between 0 and chars order by f.start_char desc limit 1), 0)), '');
end
$$;

-- No foreign keys: each piece would lock its message's row. A trigger on messages and the sweep delete the
-- rest. No index on user_id: the policy only checks rows that were found by their key.

call throughline.protect('public.message_deltas', server => 'select, insert, update (data), delete');
