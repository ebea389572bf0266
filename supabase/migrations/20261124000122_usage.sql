-- What calls of models cost: a row for each call that was made for a user, replies and the embedding model as well, however it
-- ended and whether or not anything came of it. A call that the provider refused costs nothing. No words.

create table public.usage_events (
  -- That of a reply is its message's, so that saving it twice charges once.
  id            uuid        not null default gen_random_uuid(),
  user_id       uuid        not null,
  -- No foreign keys: usage stays when the chat goes. Null for calls of no chat, and of no reply.
  chat_id       uuid,
  message_id    uuid,
  purpose       text        not null,
  -- Null for what is no reply.
  model_variant text,
  model         text        not null default '',
  input_tokens  int         not null default 0,
  -- Within input_tokens.
  cached_tokens int         not null default 0,
  output_tokens int         not null default 0,
  -- Millionths of a dollar; 0 as long as variants have no prices.
  micro_usd     bigint      not null default 0,
  -- The call broke off, or said nothing of its cost: a guess of the server.
  estimated     boolean     not null default false,
  created_at    timestamptz not null default now(),

  constraint usage_events_pkey primary key (id),
  constraint usage_events_user_id_fkey foreign key (user_id) references throughline.accounts (user_id) on delete cascade,
  constraint usage_events_tokens check (least(input_tokens, cached_tokens, output_tokens) >= 0)
);

-- For the policies, and for what a user has spent since when.
create index usage_events_user_id_created_at_idx on public.usage_events (user_id, created_at);
-- For the deletion of old rows.
create index usage_events_created_at_idx on public.usage_events (created_at);

create trigger usage_events_account before insert on public.usage_events for each row execute function throughline.open_account();

create view throughline.own_usage_events as select * from public.usage_events where user_id = (select throughline.uid()) with check option;

call throughline.protect('public.usage_events', clients => 'select', server => 'select', jobs => 'select', per_user => -0.01);

-- What a user has spent since when: turns (the replies that were charged, and those that run), tokens in both directions, and
-- millionths of a dollar. Deleting chats brings nothing back. The tokens of a reply count when it has ended, or with its steps: its first
-- call has its id, the others are of the same turn.
create function throughline.used(user_id uuid, since timestamptz) returns table (turns bigint, tokens bigint, micro_usd bigint)
language sql stable security invoker set search_path = '' as $$
  select count(*) filter (where e.purpose = 'reply' and e.id = e.message_id)
           + (select count(*) from public.messages m
               where m.status = 'streaming' and m.user_id = used.user_id and m.created_at >= used.since
                 and not exists (select from public.usage_events c where c.id = m.id)),
         coalesce(sum(e.input_tokens::bigint + e.output_tokens), 0)::bigint, coalesce(sum(e.micro_usd), 0)::bigint
    from public.usage_events e
   where e.user_id = used.user_id and e.created_at >= used.since
$$;

-- Whether a call for a user may be made: verdict is allow, deny, or downgrade to the variant named. The reason is shown to the
-- user, and so is resets_at; null where nothing but another plan helps. An app puts its own in place of this with "create or
-- replace". That stays: migrations run once, and no later one makes this function again.
--
-- By default all replies are allowed, and of what the server does by itself 500 000 tokens in 24 hours. Nothing asks about folds.
create function throughline.allow_turn(user_id uuid, purpose text, model_variant text)
  returns table (verdict text, reason text, resets_at timestamptz, variant text)
language plpgsql stable security invoker set search_path = '' as $$
declare
  -- When enough of what was spent is a day old; null while there is room.
  free_at timestamptz;
begin
  if purpose <> 'reply' then
    select max(spent.created_at) + interval '24 hours' into free_at
      from (select e.created_at, sum(e.input_tokens::bigint + e.output_tokens) over (order by e.created_at desc, e.id) as since
              from public.usage_events e
             where e.user_id = allow_turn.user_id and e.created_at > now() - interval '24 hours'
               and e.purpose in ('extract', 'consolidate', 'topic', 'entities', 'embed', 'rewrite')) spent
     where spent.since >= 500000;
  end if;
  if free_at is null then
    return query select 'allow', null::text, null::timestamptz, null::text;
  else
    return query select 'deny', 'upkeep of the day', free_at, null::text;
  end if;
end
$$;

-- Admits a turn of a user, or raises TL003: then nothing of its transaction is stored. Returns the variant that answers, and leaves it
-- to the inserts of the transaction. The turns of a user pass one after the other, on all servers: each is counted by the next.
-- known are the variants there are, client_id is the message's id of the client, reply that of the reply.
create function throughline.admit_turn(asking uuid, asked text, known text[], client_id uuid, reply uuid) returns text
language plpgsql volatile security invoker set search_path = '' as $$
declare
  said record;
  granted text := asked;
  stored text;
begin
  perform pg_advisory_xact_lock(hashtextextended('turns:' || asking, 0));
  select a.* into said from throughline.allow_turn(asking, 'reply', asked) a;
  if said.verdict is distinct from 'allow' then
    -- A turn that is stored, because its answer was lost or its client sends it again, was asked about before.
    select coalesce((select m.metadata ->> 'model_variant' from public.messages m where m.id = reply),
                    (select asked from public.messages m where m.user_id = asking and m.client_message_id = client_id)) into stored;
    if stored is not null then
      granted := stored;
    elsif said.verdict = 'deny' then
      raise exception using errcode = 'TL003', message = 'the quota is used up',
        detail = jsonb_build_object('reason', coalesce(said.reason, ''), 'resets_at', said.resets_at);
    elsif said.verdict = 'downgrade' and said.variant = any (known) then
      granted := said.variant;
    else
      raise exception 'throughline.allow_turn says neither allow nor deny, nor downgrade to a variant that there is';
    end if;
  end if;
  perform set_config('throughline.variant', granted, true);
  return granted;
end
$$;
