-- A chat's messages are one user's. Postgres took chat and user for independent, as if they had a message in common: so an
-- index of both looked as good as the primary key, and saving a reply read all messages of its chat.
create statistics throughline.messages_of_a_chat (dependencies) on chat_id, user_id from public.messages;

-- Not of an empty table: Postgres would plan for as few messages as it sees, until it analyzes the table by itself.
do $$
begin
  if exists (select from public.messages) then
    analyze public.messages (chat_id, user_id);
  end if;
end
$$;
