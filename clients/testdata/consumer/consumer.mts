/** An app whose types are checked. */
import { createClient, follow, newTurn, ThroughlineError } from '@arcoscribe/throughline';
import type { Api, Schemas, Turn } from '@arcoscribe/throughline';
import { useChat, useMemories } from '@arcoscribe/throughline/react';
import { supabaseApi } from '@arcoscribe/throughline/supabase';

declare const supabase: Parameters<typeof supabaseApi>[0];
const api: Api = supabaseApi(supabase, 'https://throughline.test', { silence: 60_000 });
const client = createClient(api);

export async function titleOf(chatId: string): Promise<string | null> {
  const { data } = await client.GET('/v1/chats/{chat_id}', { params: { path: { chat_id: chatId } } });
  const chat: Schemas['Chat'] = data;
  // @ts-expect-error a chat has no such field
  void data.name;
  // @ts-expect-error the chat is not named
  await client.GET('/v1/chats/{chat_id}');
  // @ts-expect-error there is no such call
  await client.GET('/v1/nothing');
  // @ts-expect-error whether it is pinned is no word
  await client.PATCH('/v1/memories/{memory_id}', { params: { path: { memory_id: chatId } }, body: { pinned: 'yes' } });
  return chat.title;
}

export function say(content: string): () => void {
  const turn: Turn = newTurn({ clientMessageId: crypto.randomUUID(), content });
  return follow(turn, api, ({ text, status }) => console.log(status, text));
}

export function Screen(): string {
  const { messages, send } = useChat({ api });
  const { memories, forget } = useMemories(api);
  void send('Hello').catch((error) => error instanceof ThroughlineError && error.retryAfter?.toFixed());
  void forget(memories[0]?.id ?? '');
  // @ts-expect-error a message has a status of its own
  const odd: 'read' = messages[0]?.status;
  return odd;
}
