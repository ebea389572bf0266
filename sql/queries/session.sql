-- The role and user of a transaction. Local to the transaction, so that nothing stays on a pooled connection.

-- name: ActAsUser :exec
-- The claims are those of the verified token, as they were signed: the app's policies may read any. throughline.uid() reads
-- the older variable of sub first, so the user's id is set too: no policy has to parse the claims for it, and a value that
-- somebody left on a pooled connection does not count. Raises for who is not to be served here.
select set_config('request.jwt.claims', sqlc.arg(claims)::text, true),
       set_config('request.jwt.claim.sub', throughline.admit_user(
         nullif(sqlc.arg(claims)::text, '')::jsonb, nullif(sqlc.arg(cell)::text, ''), sqlc.arg(admits_new)::boolean, sqlc.arg(begun)::boolean)::text, true),
       set_config('role', 'throughline_app', true);

-- name: ActAsChatOwner :one
-- For jobs, which have a chat and no token: as throughline_worker, which sees its owner's rows through the views
-- throughline.own_…. Returns the nil id if the chat is deleted; the transaction then acts as no user. The lock makes this
-- wait for a deletion of the chat, and a deletion wait for this, before either holds other locks.
with owner as (select c.user_id from public.chats c where c.id = sqlc.arg(chat_id) for key share),
named as (select coalesce((select owner.user_id from owner), '00000000-0000-0000-0000-000000000000') as user_id)
select named.user_id::uuid as user_id,
       set_config('request.jwt.claims', json_build_object('sub', named.user_id, 'role', 'throughline_worker')::text, true) as claims,
       set_config('request.jwt.claim.sub', named.user_id::text, true) as sub,
       set_config('role', 'throughline_worker', true) as role
  from named;

-- name: ActAsServer :exec
-- Back to the role of the connection, which may insert jobs.
select set_config('role', 'none', true);

-- name: LimitStatements :exec
-- Ends the statements that follow after so many milliseconds.
select set_config('statement_timeout', sqlc.arg(milliseconds)::text, true);

-- name: LockClientMessage :exec
-- Serializes copies of one message: a copy between the search for an earlier one and the inserts would leave
-- a chat without messages.
select pg_advisory_xact_lock(hashtextextended('message:' || sqlc.arg(user_id)::text || sqlc.arg(client_message_id)::text, 0));

-- name: RolesNotGranted :one
-- Those of the roles that statements act as and that the connecting role is no member of.
select coalesce(array_agg(rolname::text order by rolname), '{}')::text[]
  from pg_catalog.pg_roles
 where rolname = any (sqlc.arg(needed)::text[])
   and not pg_catalog.pg_has_role(current_user, oid, 'member');

-- name: LookIsolated :one
-- What a statement of a transaction that names a user finds: as whom it acts, in which transaction, and whether it sees a chat, which a
-- user that does not exist has not. Without functions of ours, which a role that was granted nothing may not name.
select current_user::text as role, coalesce(current_setting('request.jwt.claims', true), '')::text as claims,
       coalesce(current_setting('request.jwt.claim.sub', true), '')::text as sub, pg_current_xact_id()::text as transaction,
       exists (select from public.chats)::bool as sees_chats;

-- name: BypassesPolicies :one
-- Whether the role of the connection sees all rows without naming a user.
select (r.rolsuper or r.rolbypassrls or pg_has_role(session_user, c.relowner, 'usage'))::bool
  from pg_catalog.pg_roles r, pg_catalog.pg_class c
 where r.rolname = session_user and c.oid = to_regclass('public.chats');
