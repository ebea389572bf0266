-- The text of running replies, so that any server can stream it and it survives the server that generates it.

create table public.message_deltas (
  message_id uuid not null,
  user_id    uuid not null,
  -- Characters (Unicode code points) of the reply before this piece.
  start_char int  not null,
  delta      text not null,

  -- Pieces never change and follow each other without gaps, so all readers assemble the same text, and a
  -- piece that is written twice is stored once.
  constraint message_deltas_pkey primary key (message_id, start_char)
)
-- Rows are deleted seconds after they were inserted, so almost all of the table is dead rows: vacuum after a
-- number of rows, for any size of the table.
with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
      autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000);

-- No foreign keys: each piece would lock its message's row. A trigger on messages and the sweep delete the
-- rest. No index on user_id: the policy only checks rows that were found by their key.

call throughline.protect('public.message_deltas', server => 'select, delete');
