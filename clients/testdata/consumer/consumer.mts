/** An app whose types are checked. */
import { answerTurn, createClient, follow, newTurn, openCalls, ThroughlineError } from '@arcoscribe/throughline';
import type { Api, Schemas, Turn } from '@arcoscribe/throughline';
import { useChat, useMemories } from '@arcoscribe/throughline/react';
import type { Tools } from '@arcoscribe/throughline/react';
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

const tools: Tools = {
  get_date: { parameters: { type: 'object' }, execute: ({ zone }: { zone: string }, { signal }) => (signal.aborted ? zone : new Date()) },
  order_taxi: { approve: async ({ to }) => ({ approved: to === 'home', reason: 'Not there.' }) },
};

export function answerAll({ chatId = '', messageId = '', text, parts }: Turn): void {
  for (const { call_id: id } of openCalls(parts)) follow(answerTurn({ chatId, messageId, text, parts }, id, { output: 1 }), api, () => {});
  // @ts-expect-error an approval is yes or no
  answerTurn({ chatId, messageId }, 'id', { approved: 'yes' });
}

export function Screen(): string {
  const { messages, error, send, stop, retry, loadOlder, approve, deny } = useChat({ api, tools, onError: ({ code }) => void code.length });
  const why: Error | undefined = error;
  const deeds: (() => Promise<unknown>)[] = [stop, retry, loadOlder];
  void send('Hello', { model_variant: 'deep-dive', tool_choice: 'none', files: [{ path: 'a.txt', content: 'A' }], tags: ['a'], tools: [] });
  // @ts-expect-error there is no such field
  void send('Hello', { modelVariant: 'deep-dive' });
  // @ts-expect-error a variant has a name
  void send('Hello', { model_variant: 1 });
  for (const { callId, name } of messages.at(-1)?.calls ?? []) void (name === 'order_taxi' ? approve(callId) : deny(callId, 'No.'));
  const { memories, forget } = useMemories(api);
  void send('Hello').catch((error) => error instanceof ThroughlineError && error.retryAfter?.toFixed());
  void forget(memories[0]?.id ?? '');
  // @ts-expect-error a message has a status of its own
  const odd: 'read' = messages[0]?.status;
  return odd + String(why) + deeds.length;
}
