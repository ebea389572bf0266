-- Has a chat's turns indexed again: psql "$DATABASE_DIRECT_URL" -v chat=UUID -f sql/operate/index_again.sql
-- Only needed when somebody deleted rows of turn_index, as inspect.unindexed says. The next sweeps do it.
update public.conversation_briefs set indexed_seq = 0, to_index = true where chat_id = :'chat';
