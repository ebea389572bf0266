/** What the user is remembered for, by a supabase-js client of the signed-in user. Changes go through the API. */
export async function remembered(supabase) {
  const { data, error } = await supabase
    .from('memories')
    .select('id, content, memory_type, status, pinned, updated_at, memory_sources(chat_id, seq, quote)')
    .in('status', ['active', 'inbox'])
    .order('updated_at', { ascending: false });
  if (error) throw error;
  return data;
}

/** A switch in the app's settings: false stops everything from being remembered, and shown to the model. */
export async function setRemembering(supabase, enabled) {
  const { error } = await supabase.from('memory_users').upsert({ enabled });
  if (error) throw error;
}
