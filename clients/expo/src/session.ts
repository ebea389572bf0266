/** What one user has in the app: the chat that is open, and the unsent messages. Both survive the app. */
import { openOutbox } from '@arcoscribe/throughline';
import type { Api, Outbox } from '@arcoscribe/throughline';

import type { Device } from './account';

export interface Session {
  readonly outbox: Outbox;
  /** The chat that is open; undefined is a new one. */
  readonly chatId: () => string | undefined;
  /** Opens a chat, and notes it for the next start. */
  readonly open: (chatId?: string) => void;
  /** Tells when another chat is open. It returns a function that ends it. */
  readonly subscribe: (listener: () => void) => () => void;
  /** When the user signs out, or the app ends. Unsent messages stay stored. */
  readonly close: () => void;
}

export async function openSession(api: Api, { storage }: Device, user: string): Promise<Session> {
  const key = `chat.${user}`;
  const listeners = new Set<() => void>();
  let chatId = (await storage.getItem(key)) || undefined;
  const outbox = await openOutbox({ storage, api, key: `turns.${user}`, onChange: take });
  const nameless = chatId ? undefined : outbox.turns.find((turn) => !turn.chatId);

  function open(id?: string): void {
    if (id === chatId) return;
    chatId = id;
    void storage.setItem(key, id ?? '');
    for (const listener of listeners) listener();
  }

  /** The app ended while the first message of a chat was on its way: that is the open chat, now that it has an id. */
  function take(turn: Outbox['turns'][number]): void {
    if (turn === nameless && !chatId) open(turn.chatId);
  }

  function subscribe(listener: () => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  return { outbox, chatId: () => chatId, open, subscribe, close: outbox.close };
}
