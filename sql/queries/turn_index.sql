-- name: IndexTurns :exec
-- Indexes a chat's turns up to a message, or all. As a job, for the chat's owner. See throughline.index_chat.
select throughline.index_turns(sqlc.arg(chat_id), sqlc.narg(upto)::bigint);

-- name: IndexRestedChats :one
-- As the server itself. Returns the number of chats.
select throughline.index_rested(make_interval(secs => sqlc.arg(rest_seconds)::float8), sqlc.arg(most))::int as chats;

-- name: IndexRest :exec
-- As the user: of one chat, or of the latest ones, or of those beside one.
select throughline.index_rest(sqlc.narg(chat_id)::uuid, sqlc.narg(except_chat)::uuid);

-- name: IndexImported :one
-- As the user: the next piece of a chat. Whether there was one.
select throughline.index_turns(sqlc.arg(chat_id)::uuid, null)::bool as indexed;
