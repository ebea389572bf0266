-- name: IndexTurns :one
-- Indexes a piece of a chat's turns, up to a message or all. Whether there was one. As a job for the chat's owner, or as the
-- user. See throughline.index_chat.
select throughline.index_turns(sqlc.arg(chat_id), sqlc.narg(upto)::bigint)::bool as indexed;

-- name: IndexRestedChats :one
-- As the server itself. Returns the number of chats.
select throughline.index_rested(make_interval(secs => sqlc.arg(rest_seconds)::float8), sqlc.arg(most))::int as chats;

-- name: IndexRest :exec
-- As the user: of one chat, or of the latest ones, or of those beside one.
select throughline.index_rest(sqlc.narg(chat_id)::uuid, sqlc.narg(except_chat)::uuid);
