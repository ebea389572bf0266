-- Listing, changing and deleting chats and messages, with the user's rights: other users' rows are invisible.
-- A chat is expired from expires_at on.

-- name: ReadChat :one
-- row: api.Chat
select c.id, c.title, c.system_prompt, c.metadata, c.tags, c.memory_strategy, c.ttl_hours, c.max_turns, c.remember, c.topics, c.recall, c.tool_name,
       c.message_count, c.turn_count, c.last_message_at, c.expires_at, coalesce(c.expires_at <= now(), false)::bool as expired, c.created_at, c.updated_at
  from public.chats c
 where c.id = sqlc.arg(chat_id);

-- name: ListChats :many
-- row: api.Chat + activity, as_of
-- Pages of a user's chats by last activity. There is no index on it, because every message would have to update it; each page
-- reads and sorts all of the user's chats, which takes about 20 ms for 10 000 of them. All pages use the order at the time of
-- the first page (as_of): the messages tell the activity at that time of a chat that was active later. Newer chats come first.
with placed as (
  select c.id, case
           when greatest(c.last_message_at, c.created_at) <= at.as_of then greatest(c.last_message_at, c.created_at)
           else greatest(c.created_at, (select m.created_at from public.messages m
                                         where m.chat_id = c.id and m.created_at <= at.as_of order by m.seq desc limit 1))
         end as activity, at.as_of
    from public.chats c, (select coalesce(sqlc.narg(as_of)::timestamptz, now()) as as_of) at
   where (sqlc.arg(include_expired)::bool or c.expires_at is null or c.expires_at > now())
     and (sqlc.arg(tag)::text = '' or c.tags @> array[sqlc.arg(tag)::text])
     and (sqlc.arg(words)::text = '' or strpos(lower(c.title), lower(sqlc.arg(words)::text)) > 0)),
page as (
  select p.id, p.activity, p.as_of from placed p
   where sqlc.narg(as_of)::timestamptz is null or (p.activity, p.id) < (sqlc.narg(activity)::timestamptz, sqlc.narg(chat_id)::uuid)
   order by p.activity desc, p.id desc
   limit sqlc.arg(most)::int)
select c.id, c.title, c.system_prompt, c.metadata, c.tags, c.memory_strategy, c.ttl_hours, c.max_turns, c.remember, c.topics, c.recall, c.tool_name,
       c.message_count, c.turn_count, c.last_message_at, c.expires_at, coalesce(c.expires_at <= now(), false)::bool as expired, c.created_at, c.updated_at,
       p.activity::timestamptz as activity, p.as_of::timestamptz as as_of
  from page p join public.chats c on c.id = p.id
 order by p.activity desc, p.id desc;

-- name: ChangeChat :execrows
-- Null keeps a column that cannot be null; nullable columns have a set_ argument.
update public.chats c
   set title = coalesce(sqlc.narg(title), c.title), title_seq = case when sqlc.narg(title) is null then c.title_seq end,
       metadata = coalesce(sqlc.narg(metadata), c.metadata),
       tags = coalesce(sqlc.narg(tags), c.tags),
       memory_strategy = coalesce(sqlc.narg(memory_strategy), c.memory_strategy),
       remember = coalesce(sqlc.narg(remember), c.remember),
       topics = coalesce(sqlc.narg(topics), c.topics),
       recall = coalesce(sqlc.narg(recall), c.recall),
       system_prompt = case when sqlc.arg(set_system_prompt)::bool then sqlc.narg(system_prompt) else c.system_prompt end,
       ttl_hours = case when sqlc.arg(set_ttl_hours)::bool then sqlc.narg(ttl_hours) else c.ttl_hours end,
       max_turns = case when sqlc.arg(set_max_turns)::bool then sqlc.narg(max_turns) else c.max_turns end,
       revived_at = case when c.expires_at <= now() then now() else c.revived_at end
 where c.id = sqlc.arg(chat_id) and (sqlc.arg(revive)::bool or c.expires_at is null or c.expires_at > now());

-- name: DeleteChat :execrows
delete from public.chats where id = sqlc.arg(chat_id);

-- name: CountOldChats :one
-- row: api.Pruned
-- What PruneChats would delete.
with old as (
  select c.id, c.message_count, greatest(c.last_message_at, c.created_at) as activity
    from public.chats c
   where greatest(c.last_message_at, c.created_at) < now() - make_interval(days => sqlc.arg(days)::int)
     and not exists (select from public.messages m where m.chat_id = c.id and m.status = 'streaming'))
select count(*) as chats, coalesce(sum(old.message_count), 0)::bigint as messages,
       coalesce((array_agg(old.id order by old.activity, old.id))[:sqlc.arg(most_ids)::int], '{}')::uuid[] as chat_ids
  from old;

-- name: PruneChats :one
-- row: api.Pruned
-- If a turn holds a chat's row, Postgres waits for it and then checks the chat's activity again.
with gone as (
  delete from public.chats c
   where greatest(c.last_message_at, c.created_at) < now() - make_interval(days => sqlc.arg(days)::int)
     and not exists (select from public.messages m where m.chat_id = c.id and m.status = 'streaming')
  returning c.id, c.message_count, greatest(c.last_message_at, c.created_at) as activity)
select count(*) as chats, coalesce(sum(gone.message_count), 0)::bigint as messages,
       coalesce((array_agg(gone.id order by gone.activity, gone.id))[:sqlc.arg(most_ids)::int], '{}')::uuid[] as chat_ids
  from gone;

-- name: ChatState :one
-- Whether the user has the chat, and whether it is expired.
select c.id, c.expires_at, coalesce(c.expires_at <= now(), false)::bool as expired
  from public.chats c where c.id = sqlc.arg(chat_id);

-- name: ClearBrief :exec
-- Removes everything up to the chat's last message from the context, and records a revision. Does nothing if
-- there is nothing to remove, while a reply runs, if the chat is expired, or if a policy of the app's keeps its
-- user from changing it, which only asking for the lock, held already, tells. A running fold loses
-- its result. A title that the model made is the first message's again.
with cleared as (
  update public.conversation_briefs b
     set brief = '{"global_summary": "", "last_summarized_message_id": null}', brief_tokens = 0, version = b.version + 1,
         covered_seq = c.last_seq, cleared_seq = c.last_seq, cleared_turns = c.turn_count, pending_tokens = 0, pending_turns = 0
    from (select id, last_seq, turn_count, expires_at from public.chats where id = sqlc.arg(chat_id) for no key update) c,
         (select old.covered_seq, old.pending_turns from public.conversation_briefs old where old.chat_id = sqlc.arg(chat_id)) old
   where b.chat_id = sqlc.arg(chat_id) and c.id = b.chat_id and b.cleared_seq < c.last_seq
     and (c.expires_at is null or c.expires_at > now())
     and not exists (select from public.messages m where m.chat_id = b.chat_id and m.status = 'streaming')
  returning b.chat_id, b.user_id, b.version, b.cleared_seq, old.covered_seq, old.pending_turns),
renamed as (
  update public.chats c
     set title = coalesce((select throughline.title_of(m.content) from public.messages m
                            where m.chat_id = c.id and m.role = 'user' and m.token_count > 0 order by m.seq limit 1), ''), title_seq = -1
    from cleared where c.id = cleared.chat_id and c.title_seq > 0)
insert into public.conversation_brief_revisions (chat_id, user_id, version, kind, seq_from, seq_to, turns, global_summary,
       input_tokens, output_tokens, prompt_mode, prompt_ref, model, duration_ms, input_sha256)
select cleared.chat_id, cleared.user_id, cleared.version, 'clear', cleared.covered_seq + 1, cleared.cleared_seq, cleared.pending_turns, '',
       0, 0, 'none', 'none', '', 0, ''
  from cleared;

-- name: ReadBriefState :one
select version, cleared_seq from public.conversation_briefs where chat_id = sqlc.arg(chat_id);

-- name: ListFiles :many
-- row: api.File
-- Each content once, with the last message that brought it, the latest first. The contents themselves are
-- included until max_bytes is reached.
with brought as (
  select f.sha256, f.path, f.message_id, m.seq, f.place, m.created_at,
         row_number() over (partition by f.sha256 order by m.seq desc, f.place desc) as nth
    from public.message_files f join public.messages m on m.id = f.message_id
   where f.chat_id = sqlc.arg(chat_id) and (sqlc.narg(sha256)::bytea is null or f.sha256 = sqlc.narg(sha256)::bytea)),
paths as (
  select named.sha256, array_agg(named.path order by named.seq desc, named.place desc)::text[] as paths
    from (select distinct on (sha256, path) sha256, path, seq, place from brought order by sha256, path, seq desc, place desc) named
   group by named.sha256),
once as (
  select b.sha256, b.path, p.paths, f.bytes, f.token_count, b.message_id, b.created_at, b.seq, b.place,
         sqlc.arg(with_content)::bool and sum(f.bytes) over (order by b.seq desc, b.place desc) <= sqlc.arg(max_bytes)::bigint as with_content
    from brought b
    join paths p on p.sha256 = b.sha256
    join public.chat_files f on f.chat_id = sqlc.arg(chat_id) and f.sha256 = b.sha256
   where b.nth = 1)
select encode(o.sha256, 'hex')::text as sha256, o.path, o.paths::text[] as paths, o.bytes, o.token_count, o.message_id, o.created_at,
       f.content
  from once o
  left join public.chat_files f on o.with_content and f.chat_id = sqlc.arg(chat_id) and f.sha256 = o.sha256
 order by o.seq desc, o.place desc;

-- name: ListMessagesBefore :many
-- row: api.Message
-- The newest messages before a seq, newest first: an index range, read backwards.
select m.*
  from throughline.listed_messages m
 where m.chat_id = sqlc.arg(chat_id) and m.seq < sqlc.arg(before_seq) and (m.superseded_by is null or sqlc.arg(all_versions)::bool)
 order by m.seq desc
 limit sqlc.arg(most)::int;

-- name: ListMessagesAfter :many
-- row: api.Message
-- The oldest messages after a seq, oldest first.
select m.*
  from throughline.listed_messages m
 where m.chat_id = sqlc.arg(chat_id) and m.seq > sqlc.arg(after_seq) and (m.superseded_by is null or sqlc.arg(all_versions)::bool)
 order by m.seq
 limit sqlc.arg(most)::int;

-- name: StoreMessages :exec
-- In the order of places, in which the trigger assigns seq; '' and the nil id are null. Stores nothing if the chat is not the
-- user's or is expired, or before the latest reply has ended. A message that the client has sent before is not stored again; reply_place is
-- that of the message that a reply answers, 0 for none. A message whose id exists was stored before the connection broke.
with new as (
  select n.id, n.place, n.role, n.content, n.token_count, n.metadata, nullif(n.client_id, '00000000-0000-0000-0000-000000000000') as client_id,
         nullif(n.tool_calls, '')::jsonb as tool_calls, nullif(n.tool_call_id, '') as tool_call_id, nullif(n.name, '') as name, n.reply_place
    from (select unnest(sqlc.arg(ids)::uuid[]) as id, unnest(sqlc.arg(places)::int[]) as place, unnest(sqlc.arg(roles)::text[]) as role,
                 unnest(sqlc.arg(contents)::text[]) as content, unnest(sqlc.arg(token_counts)::int[]) as token_count,
                 unnest(sqlc.arg(metadatas)::text[])::jsonb as metadata, unnest(sqlc.arg(client_ids)::uuid[]) as client_id,
                 unnest(sqlc.arg(tool_calls)::text[]) as tool_calls, unnest(sqlc.arg(tool_call_ids)::text[]) as tool_call_id,
                 unnest(sqlc.arg(names)::text[]) as name, unnest(sqlc.arg(reply_places)::int[]) as reply_place) n
), known as (
  select new.place, new.id, (select m.id from public.messages m where m.user_id = sqlc.arg(user_id) and m.client_message_id = new.client_id) as stored_id
    from new
)
insert into public.messages (id, chat_id, user_id, role, content, reply_to, token_count, metadata, client_message_id, tool_calls, tool_call_id, name)
select new.id, c.id, c.user_id, new.role, new.content, coalesce(asked.stored_id, asked.id), new.token_count, new.metadata, new.client_id, new.tool_calls,
  new.tool_call_id, new.name
  from public.chats c
 cross join new
  join known on known.place = new.place and known.stored_id is null
  left join known asked on asked.place = new.reply_place
 where c.id = sqlc.arg(chat_id)
   and (c.expires_at is null or c.expires_at > now())
   and not exists (select from public.messages m where m.chat_id = c.id and m.status in ('streaming', 'awaiting'))
 order by new.place
on conflict (id) do nothing;

-- name: FindStoredMessages :many
-- row: api.Message + place
-- Those of a request that are stored, by the client's ids or else by ours, with their places in it. The limit
-- and the subselect keep Postgres from reading all of the user's messages to join them, see FindReply.
select m.*, sent.place::int as place
  from (select coalesce((select e.id from public.messages e where e.user_id = sqlc.arg(user_id)
    and e.client_message_id = nullif(n.client_id, '00000000-0000-0000-0000-000000000000')), n.new_id)::uuid as id, n.place
          from (select unnest(sqlc.arg(ids)::uuid[]) as new_id, unnest(sqlc.arg(client_ids)::uuid[]) as client_id,
            unnest(sqlc.arg(places)::int[]) as place) n) sent
 cross join lateral (select x.* from throughline.listed_messages x where x.id = (select sent.id) limit 1) m
 order by sent.place;

-- name: FindMessagesChat :one
-- row: ChatStateRow
-- The state of the chat that a message belongs to.
select c.id, c.expires_at, coalesce(c.expires_at <= now(), false)::bool as expired
  from public.messages m join public.chats c on c.id = m.chat_id
 where m.id = sqlc.arg(message_id);

-- name: ChangeMessage :execrows
-- Not in an expired chat; a rating only where it is a change.
update public.messages m
   set pinned = coalesce(sqlc.narg(pinned), m.pinned), rating = coalesce(sqlc.narg(rating)::int, m.rating),
       importance = case when sqlc.arg(set_importance)::bool then sqlc.narg(importance)::real else m.importance end
  from public.chats c
 where m.id = sqlc.arg(message_id) and c.id = m.chat_id and (c.expires_at is null or c.expires_at > now())
   and (sqlc.narg(rating)::int is null or m.rating is distinct from sqlc.narg(rating)::int);

-- name: FindMessage :one
-- row: api.Message
select m.*
  from throughline.listed_messages m
 where m.id = sqlc.arg(message_id);

-- name: ListVersions :many
-- row: api.Message
-- The oldest first.
select m.*
  from throughline.message_versions v
  join throughline.listed_messages m on m.id = v.version_id
 where v.message_id = sqlc.arg(message_id)
 order by m.seq;

-- name: LockMessagesChat :one
-- Locks the chat's row before its messages, as a turn does.
select c.id from public.chats c
 where c.id = (select m.chat_id from public.messages m where m.id = sqlc.arg(message_id))
   for no key update;

-- name: DeleteMessage :execrows
-- Not a running reply, unless its server died: see ReleaseAbandonedReplies.
delete from public.messages m
 where m.id = sqlc.arg(message_id)
   and (m.status <> 'streaming' or throughline.is_abandoned(m.server_id, m.lease_until, m.updated_at));

-- name: MessageStatus :one
select status from public.messages where id = sqlc.arg(message_id);
