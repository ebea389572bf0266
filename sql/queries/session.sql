-- What a transaction is: whose work it does. Local to the transaction, so nothing is left on a
-- pooled connection, whatever pooler that belongs to.

-- name: ActAsUser :exec
-- The claims are those of the verified token; the policies read them with auth.uid().
select set_config('request.jwt.claims', sqlc.arg(claims)::text, true), set_config('role', 'throughline_app', true);

-- name: ActAsChatOwner :one
-- For workers, which know a chat and no token. The nil id: the chat is gone, and what follows acts as nobody. The
-- lock makes us wait here for whoever deletes the chat, and them for us, before either holds anything that
-- the other wants.
with owner as (select c.user_id from public.chats c where c.id = sqlc.arg(chat_id) for key share)
select coalesce((select owner.user_id from owner), '00000000-0000-0000-0000-000000000000')::uuid as user_id,
       set_config('request.jwt.claims', json_build_object('sub', (select owner.user_id from owner), 'role', 'authenticated')::text, true) as claims,
       set_config('role', 'throughline_app', true) as role;

-- name: ActAsServer :exec
-- Back to the role of the connection, which may insert jobs.
select set_config('role', 'none', true);

-- name: LockClientMessage :exec
-- Copies of one message come one at a time: a copy that slipped in between the look for an earlier one and
-- the inserts would leave a chat without messages behind.
select pg_advisory_xact_lock(hashtextextended('message:' || sqlc.arg(user_id)::text || sqlc.arg(client_message_id)::text, 0));
