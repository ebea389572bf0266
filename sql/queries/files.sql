-- name: InsertFiles :exec
-- The contents that came with a message, if the message was stored. Contents that the chat has are kept.
insert into public.chat_files (chat_id, user_id, sha256, content, token_count)
select m.chat_id, m.user_id, new.sha256, new.content, new.token_count
  from public.messages m
 cross join (select unnest(sqlc.arg(hashes)::bytea[]) as sha256, unnest(sqlc.arg(contents)::text[]) as content,
                    unnest(sqlc.arg(token_counts)::int[]) as token_count) new
 where m.id = sqlc.arg(message_id)
on conflict do nothing;

-- name: InsertMessageFiles :exec
insert into public.message_files (message_id, place, chat_id, user_id, path, sha256)
select m.id, new.place, m.chat_id, m.user_id, new.path, new.sha256
  from public.messages m
 cross join (select unnest(sqlc.arg(hashes)::bytea[]) as sha256, unnest(sqlc.arg(paths)::text[]) as path,
                    generate_series(1, cardinality(sqlc.arg(hashes)::bytea[])) as place) new
 where m.id = sqlc.arg(message_id);

-- name: ReadFiles :many
-- The files of a chat's path since its context was cleared, newest first, so that of two contents under one path in one message the
-- later one is the latest. Files that fit max_tokens have their content; a content counts once.
select listed.path, listed.sha256, listed.token_count,
       (case when listed.tokens <= sqlc.arg(max_tokens)::int then f.content else '' end)::text as content
  from (select sent.chat_id, sent.path, sent.sha256, sent.token_count, sent.seq, sent.place,
               sum(case when sent.nth = 1 then sent.token_count else 0 end) over (order by sent.seq desc, sent.place desc) as tokens
          from (select mf.chat_id, mf.path, mf.sha256, f.token_count, m.seq, mf.place,
                       row_number() over (partition by mf.sha256 order by m.seq desc, mf.place desc) as nth
                  from public.message_files mf
                  join public.chat_files f on f.chat_id = mf.chat_id and f.sha256 = mf.sha256
                  join public.messages m on m.id = mf.message_id and m.superseded_by is null
                 where mf.chat_id = sqlc.arg(chat_id)
                   and m.seq > (select b.cleared_seq from public.conversation_briefs b where b.chat_id = sqlc.arg(chat_id))
                 order by m.seq desc, mf.place desc
                 limit 1000) sent) listed
  join public.chat_files f on f.chat_id = listed.chat_id and f.sha256 = listed.sha256
 order by listed.seq desc, listed.place desc;
