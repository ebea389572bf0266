-- Topics of an imported chat, as its file had them, until its turns are indexed and have their topics: [{"topic_id", "title",
-- "tags", "importance", "rated", "turns"}]. turns are the seqs that they begin at. topic_id is null until the first of them has
-- made the topic; title and tags are what a person chose, and are only here until then. Null where there is nothing to do.
alter table public.conversation_briefs
  add column imported_topics jsonb,
  add constraint conversation_briefs_imported_topics_is_array check (jsonb_typeof(imported_topics) = 'array');

-- With the new column.
create or replace view throughline.own_briefs as
select * from public.conversation_briefs where user_id = (select auth.uid())
  with check option;
