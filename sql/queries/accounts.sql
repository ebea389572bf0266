-- Accounts as a whole: as the server itself.

-- name: EraseAccount :exec
-- Waits for what runs in the user's chats.
select throughline.erase_account(sqlc.arg(user_id)::uuid);

-- name: ListedIssuers :one
select coalesce(array_agg(issuer order by issuer collate "C"), '{}')::text[] from throughline.issuers;

-- name: ListIssuers :one
-- Makes the list equal to the one given. Returns how many lines changed.
with gone as (delete from throughline.issuers where issuer <> all (sqlc.arg(issuers)::text[]) returning 1),
     new as (insert into throughline.issuers select unnest(sqlc.arg(issuers)::text[]) on conflict do nothing returning 1)
select ((select count(*) from gone) + (select count(*) from new))::bigint;
