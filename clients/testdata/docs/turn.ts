/** A turn, and the rest of the API. */
import { createClient, follow, newTurn } from '@arcoscribe/throughline';
import { supabaseApi } from '@arcoscribe/throughline/supabase';
import type { SupabaseSession } from '@arcoscribe/throughline/supabase';

export function ask(supabase: SupabaseSession, content: string, show: (text: string, status: string) => void) {
  const api = supabaseApi(supabase, 'https://throughline.example.com');
  const turn = newTurn({ clientMessageId: crypto.randomUUID(), content });
  return follow(turn, api, ({ text, status }) => show(text, status)); // a function that lets go
}

export async function latestChats(supabase: SupabaseSession) {
  const client = createClient(supabaseApi(supabase, 'https://throughline.example.com'));
  const { data } = await client.GET('/v1/chats', { params: { query: { limit: 20 } } });
  return data.chats.map(({ id, title }) => ({ id, title }));
}
