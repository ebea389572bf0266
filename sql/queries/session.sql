-- What a transaction is: whose work it does. Local to the transaction, so nothing is left on a
-- pooled connection, whatever pooler that belongs to.

-- name: ActAsUser :exec
-- The claims are those of the verified token; the policies read them with auth.uid().
select set_config('request.jwt.claims', sqlc.arg(claims)::text, true), set_config('role', 'throughline_app', true);

-- name: ActAsChatOwner :one
-- For workers, which know a chat and no token. No row: the chat is gone. The lock makes us wait here for
-- whoever deletes the chat, and them for us, before either holds anything that the other wants.
select c.user_id,
       set_config('request.jwt.claims', json_build_object('sub', c.user_id, 'role', 'authenticated')::text, true) as claims,
       set_config('role', 'throughline_app', true) as role
  from public.chats c
 where c.id = sqlc.arg(chat_id)
   for key share;

-- name: ActAsServer :exec
-- Back to the role of the connection, which may insert jobs.
select set_config('role', 'none', true);

-- name: LockBrief :one
-- One fold at a time per chat. False: another worker is at it.
select pg_try_advisory_xact_lock(hashtextextended('brief:' || sqlc.arg(chat_id)::text, 0));

-- name: AwaitBriefLock :exec
-- The same lock for whoever must have it: held by others for the length of a short transaction only.
select pg_advisory_xact_lock(hashtextextended('brief:' || sqlc.arg(chat_id)::text, 0));

-- name: LockClientMessage :exec
-- Copies of one message come one at a time: a copy that slipped in between the look for an earlier one and
-- the inserts would leave a chat without messages behind.
select pg_advisory_xact_lock(hashtextextended('message:' || sqlc.arg(user_id)::text || sqlc.arg(client_message_id)::text, 0));
