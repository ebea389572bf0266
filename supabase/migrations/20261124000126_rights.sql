-- Who may call which function, and read which view for people. Only a trigger or a function with its owner's
-- rights calls the others, or the server as itself.

revoke all on all routines in schema throughline, inspect from public, anon, authenticated;

-- A check runs with the rights of who writes the row.
grant execute on function throughline.chat_is_valid, throughline.message_is_valid, throughline.brief_is_valid to public;
-- Policies ask whose rows they are as whoever reads, and may be the app's own.
grant execute on function throughline.uid to public;
-- Generated columns and indexes are computed with the rights of who writes the row.
grant execute on function throughline.content_key, throughline.folded, throughline.last_use, throughline.searchable, throughline.signs_of
  to service_role, throughline_app, throughline_worker;
-- The server and its jobs.
grant execute on function throughline.index_turns, throughline.is_put_off, throughline.merge_topics, throughline.note_change, throughline.similar_memories,
  throughline.skip_extraction, throughline.topic_messages, throughline.touch_memories to throughline_app, throughline_worker;
-- The server at work for a user.
grant execute on function throughline.close_parts, throughline.count_replaced, throughline.end_calls, throughline.find_memories,
  throughline.find_messages, throughline.first_memories, throughline.has_name, throughline.hold_account, throughline.index_rest,
  throughline.is_abandoned, throughline.is_user_name, throughline.keep_memories, throughline.recall_matches, throughline.recall_nearness,
  throughline.recall_size, throughline.recorded_after, throughline.roll_back, throughline.select_version, throughline.shown_after, throughline.title_of
  to throughline_app;
-- A transaction that names its user again.
grant execute on function throughline.admit_user to throughline_app;
-- What a user may spend is asked by the server at work for the user.
grant execute on function throughline.admit_turn, throughline.allow_turn, throughline.used to throughline_app;
-- A job.
grant execute on function throughline.hold_evidence, throughline.link_memory, throughline.recount_topic, throughline.renew_centroids
  to throughline_worker;
-- People, by the views of inspect.
grant execute on function throughline.fold_is_due to service_role;
grant execute on all functions in schema inspect to service_role;

revoke all on all tables in schema inspect from public, anon, authenticated;
grant select on all tables in schema inspect to service_role;
