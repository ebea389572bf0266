/** Hooks for React 18 and 19, React Native, and Preact (preact/compat). */
import { useEffect, useMemo, useState, useSyncExternalStore } from 'react';

import type { Api } from './api.js';
import { ChatStore } from './chat.js';
import type { ChatOptions, ChatState } from './options.js';
import { MemoriesStore } from './memories.js';
import type { MemoriesState } from './memories.js';
import type { Store } from './store.js';

export type { Approval, CallContext, PendingCall, Tool, Tools } from './calls.js';
export type { ChatOptions, ChatState, SendOptions } from './options.js';
export type { MemoriesState } from './memories.js';
export type { ChatMessage } from './messages.js';
export type { Message, Part } from './parts.js';

/** A frame of a screen, in milliseconds. */
const FRAME = 16;

export interface Chat extends ChatState, Omit<ChatStore, keyof Store<ChatState> | 'open' | 'renew'> {}

/**
 * A chat: its messages, and what one does in it. It goes on with the reply that is running, from whichever device it
 * was asked for. With another `chatId` it is another chat; a new one may be given the id that it got.
 */
export function useChat(options: ChatOptions): Chat {
  const store = useChatStore(options);
  useEffect(() => store.renew(options));
  useEffect(() => store.open(), [store]);
  return { ...store, ...useStore(store) };
}

export interface Memories extends MemoriesState, Omit<MemoriesStore, keyof Store<MemoriesState>> {}

/** What the user is remembered for, and what they can do about it. */
export function useMemories(api: Api): Memories {
  const store = useMemo(() => new MemoriesStore(api), [api]);
  useEffect(() => void store.refresh(), [store]);
  return { ...store, ...useStore(store) };
}

function useStore<State>(store: Store<State>): State {
  const subscribe = useMemo(() => (draw: () => void) => paced(store, draw), [store]);
  return useSyncExternalStore(subscribe, store.state, store.state);
}

/** Draws at once, and then at most once per frame, and for at most a fifth of the time: a long reply takes longer. */
function paced<State>(store: Store<State>, draw: () => void): () => void {
  let next = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function go(): void {
    timer = undefined;
    const began = Date.now();
    next = began + FRAME;
    draw();
    setTimeout(() => (next = Math.max(next, Date.now() + 4 * (Date.now() - began)))); // when it is drawn
  }

  const end = store.subscribe(() => {
    if (timer) return;
    if (Date.now() >= next) go();
    else timer = setTimeout(go, next - Date.now());
  });
  return () => {
    end();
    clearTimeout(timer);
  };
}

/** The same store while it is the same chat, which gets its id after its first message. */
function useChatStore(options: ChatOptions): ChatStore {
  const [held, hold] = useState(() => ({ options, store: new ChatStore(options) }));
  const { api, outbox, chatId } = held.options;
  const sameCaller = api === options.api && outbox === options.outbox;
  if (sameCaller && chatId === options.chatId) return held.store;
  const sameChat = sameCaller && options.chatId !== undefined && held.store.state().chatId === options.chatId;
  const store = sameChat ? held.store : new ChatStore(options);
  hold({ options, store });
  return store;
}
