import { useCallback, useEffect, useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import type { Client, Schemas } from '../throughline';
import type { Memory, Message } from './turns';

export type Revision = Schemas['BriefRevision'];

export interface Loaded {
  chat: Schemas['Chat'];
  memory: Memory;
  /** The latest version first. */
  revisions: Revision[];
  /** The messages from the oldest that was read so far. */
  messages: Message[];
  /** Whether there are older ones, which are being read. */
  reading: boolean;
}

/** Reads what a chat remembers. Thousands of messages come page by page, the newest first; onPart is called for each. */
async function load(client: Client, chatId: string, signal: AbortSignal, onPart: (loaded: Loaded) => void): Promise<void> {
  const params = { path: { chat_id: chatId } };
  const page = (before?: number) => client.GET('/v1/chats/{chat_id}/messages', { params: { ...params, query: { limit: 200, before_seq: before } }, signal });
  const [chat, memory, revisions, newest] = await Promise.all([
    client.GET('/v1/chats/{chat_id}', { params, signal }),
    client.GET('/v1/chats/{chat_id}/memory', { params, signal }),
    readRevisions(client, chatId, signal),
    page(),
  ]);
  let { messages, has_more: reading } = newest.data;
  const show = () => onPart({ chat: chat.data, memory: memory.data, revisions, messages, reading });
  show();
  while (reading) {
    const older = await page(messages[0].seq);
    messages = [...older.data.messages, ...messages];
    reading = older.data.has_more && older.data.messages.length > 0;
    show();
  }
}

async function readRevisions(client: Client, chatId: string, signal: AbortSignal): Promise<Revision[]> {
  const all: Revision[] = [];
  for (;;) {
    const { data } = await client.GET('/v1/chats/{chat_id}/memory/revisions', {
      params: { path: { chat_id: chatId }, query: { limit: 200, before_version: all.at(-1)?.version } }, signal,
    });
    all.push(...data.revisions);
    if (!data.has_more || data.revisions.length === 0) return all;
  }
}

/** What a chat remembers, as far as it is read; again() reads it again. */
export function useRemembered(chatId: string): { loaded?: Loaded; problem: string; again: () => void } {
  const { client } = useClient();
  const [state, setState] = useState<{ chatId: string; loaded: Loaded }>();
  const [problem, setProblem] = useState('');
  const [round, setRound] = useState(0);
  const again = useCallback(() => setRound((n) => n + 1), []);

  useEffect(() => {
    const control = new AbortController();
    setProblem('');
    load(client, chatId, control.signal, (loaded) => setState({ chatId, loaded })).catch((error) => {
      if (!control.signal.aborted) setProblem(sayError(error));
    });
    return () => control.abort();
  }, [client, chatId, round]);
  return { loaded: state?.chatId === chatId ? state.loaded : undefined, problem, again };
}
