-- Which memories of this user may say the same twice?
--
--   psql "$DATABASE_URL" -v user=UUID -f sql/inspect/near_duplicates.sql
\if :{?user} \else \warn 'usage: psql "$DATABASE_URL" -v user=UUID -f sql/inspect/near_duplicates.sql' \quit \endif
\x auto

select round(cosine::numeric, 2) as cosine, round(common_words::numeric, 2) as common_words, content, other_content, status, other_status,
       memory_id, other_id
  from inspect.near_duplicates
 where user_id = :'user'
 order by greatest(cosine, common_words) desc;
