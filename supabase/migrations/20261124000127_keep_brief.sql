-- What Postgres generated in a brief is computed by the trigger that runs anyhow. Postgres reads the text of all generated
-- expressions again with each statement that updates the table, and computes them all when there is a trigger: that took a
-- third of a counter's update, of which each turn has two.

alter table public.conversation_briefs
  alter column readable drop expression,
  alter column readable set default true,
  alter column thousands_to_fold drop expression,
  alter column over_max_turns drop expression,
  alter column over_max_turns set default false;

create function throughline.keep_brief() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if tg_op = 'INSERT' or new.brief is distinct from old.brief then
    new.readable := coalesce(jsonb_typeof(new.brief -> 'global_summary') = 'string' and (jsonb_typeof(new.brief -> 'last_summarized_message_id') = 'null'
      or new.brief ->> 'last_summarized_message_id' ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'), false);
  end if;
  new.thousands_to_fold := case when new.memory_strategy <> 'simple' and new.pending_turns > 1 then (new.brief_tokens + new.pending_tokens) / 1000 end;
  new.over_max_turns := new.memory_strategy <> 'simple' and coalesce(new.pending_turns > new.max_turns, false);
  if tg_op = 'UPDATE' then
    new.updated_at := now();
  end if;
  return new;
end
$$;

drop trigger conversation_briefs_touch_updated_at on public.conversation_briefs;
create trigger conversation_briefs_keep before insert or update on public.conversation_briefs
  for each row execute function throughline.keep_brief();
-- As a generated column is, also where other triggers are off.
alter table public.conversation_briefs enable always trigger conversation_briefs_keep;

revoke all on function throughline.keep_brief() from public, anon, authenticated;
