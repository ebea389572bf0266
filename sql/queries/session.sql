-- The role and user of a transaction. Local to the transaction, so that nothing stays on a pooled connection.

-- name: ActAsUser :exec
-- The claims are those of the verified token; the policies read them.
select set_config('request.jwt.claims', sqlc.arg(claims)::text, true), set_config('role', 'throughline_app', true);

-- name: ActAsChatOwner :one
-- For workers, which have a chat and no token. Returns the nil id if the chat is deleted; what follows then
-- acts as nobody. The lock makes this wait for a deletion of the chat, and a deletion wait for this, before
-- either holds other locks.
with owner as (select c.user_id from public.chats c where c.id = sqlc.arg(chat_id) for key share)
select coalesce((select owner.user_id from owner), '00000000-0000-0000-0000-000000000000')::uuid as user_id,
       set_config('request.jwt.claims', json_build_object('sub', (select owner.user_id from owner), 'role', 'authenticated')::text, true) as claims,
       set_config('role', 'throughline_app', true) as role;

-- name: ActAsServer :exec
-- Back to the role of the connection, which may insert jobs.
select set_config('role', 'none', true);

-- name: LockClientMessage :exec
-- Serializes copies of one message: a copy between the search for an earlier one and the inserts would leave
-- a chat without messages.
select pg_advisory_xact_lock(hashtextextended('message:' || sqlc.arg(user_id)::text || sqlc.arg(client_message_id)::text, 0));
