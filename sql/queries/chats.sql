-- name: LockChat :one
-- Whoever adds a message to a chat waits here for whoever does so already. Not "for update": a revision's
-- foreign key locks the chat as well, and whoever writes one holds the brief that we want next.
select id, system_prompt from public.chats where id = sqlc.arg(chat_id) for no key update;

-- name: InsertChat :exec
-- Does nothing when the client sent this message before: the chat it started then is the chat.
insert into public.chats (id, user_id, title)
select sqlc.arg(id)::uuid, sqlc.arg(user_id)::uuid, sqlc.arg(title)::text
 where not exists (select from public.messages m
                    where m.user_id = sqlc.arg(user_id) and m.client_message_id = sqlc.narg(client_message_id));

-- name: ChatExists :one
select exists (select from public.chats where id = sqlc.arg(chat_id));
