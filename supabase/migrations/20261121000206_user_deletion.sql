-- Deleting a user no longer runs into those who work for the user at that moment.
--
-- Whoever deletes a user holds the user's row and wants the chats' next. A turn or a fold holds a chat's row (or keeps it
-- from going) and had to lock the user's next, because what it wrote referred to the user: each waited for the other, and
-- Postgres ended one of the two. Now chats alone refer to the user. All else belongs to a chat or a message and goes with it; that
-- its user_id is the chat's owner is seen to by the triggers and policies that put it there.
alter table public.messages drop constraint messages_user_id_fkey;
alter table public.conversation_briefs drop constraint conversation_briefs_user_id_fkey;
alter table public.conversation_brief_revisions drop constraint conversation_brief_revisions_user_id_fkey;
alter table public.chat_files drop constraint chat_files_user_id_fkey;
alter table public.message_files drop constraint message_files_user_id_fkey;
