-- What is to be indexed is noted by the trigger that runs anyhow. Postgres reads the condition of another one again with each
-- statement that counts words. And a fold that had nothing to do is not due until the counters change: the chat is in neither
-- index of the sweep.
create or replace function throughline.keep_brief() returns trigger
language plpgsql security invoker set search_path = '' as $$
declare
  settled constant boolean := new.settled_tokens = new.pending_tokens and new.settled_turns = new.pending_turns;
begin
  if tg_op = 'INSERT' or new.brief is distinct from old.brief then
    new.readable := coalesce(jsonb_typeof(new.brief -> 'global_summary') = 'string' and (jsonb_typeof(new.brief -> 'last_summarized_message_id') = 'null'
      or new.brief ->> 'last_summarized_message_id' ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'), false);
  end if;
  new.thousands_to_fold := case when new.memory_strategy <> 'simple' and new.pending_turns > 1 and settled is not true
                                then (new.brief_tokens + new.pending_tokens) / 1000 end;
  new.over_max_turns := new.memory_strategy <> 'simple' and settled is not true and coalesce(new.pending_turns > new.max_turns, false);
  if tg_op = 'UPDATE' then
    -- Words that are added are words to index: those of a message, and those of a reply that ends.
    new.to_index := new.to_index or new.pending_tokens > old.pending_tokens;
    -- An edit may give words to a message beyond the index and take as many from another.
    if new.edit_count > old.edit_count and not new.to_index then
      new.to_index := exists (select from public.messages m where m.chat_id = new.chat_id and m.seq > new.indexed_seq and m.token_count > 0);
    end if;
    new.updated_at := now();
  end if;
  return new;
end
$$;

drop trigger conversation_briefs_note_words on public.conversation_briefs;
drop function throughline.note_words();

update public.conversation_briefs b set settled_tokens = b.settled_tokens where b.settled_tokens = b.pending_tokens and b.settled_turns = b.pending_turns;
