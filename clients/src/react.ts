/** Hooks for React 18 and 19, React Native, and Preact (preact/compat). */
import { useEffect, useMemo, useState, useSyncExternalStore } from 'react';

import type { Api } from './api.js';
import { ChatStore } from './chat.js';
import type { ChatOptions, ChatState } from './chat.js';
import { MemoriesStore } from './memories.js';
import type { MemoriesState } from './memories.js';
import type { Store } from './store.js';

export type { Approval, CallContext, PendingCall, Tool, Tools } from './calls.js';
export type { ChatOptions, ChatState } from './chat.js';
export type { MemoriesState } from './memories.js';
export type { ChatMessage } from './messages.js';
export type { Message, Part } from './parts.js';

export interface Chat extends ChatState, Omit<ChatStore, keyof Store<ChatState> | 'open' | 'setTools'> {}

/**
 * A chat: its messages, and what one does in it. It goes on with the reply that is running, from whichever device it
 * was asked for. With another `chatId` it is another chat; a new one may be given the id that it got.
 */
export function useChat(options: ChatOptions): Chat {
  const store = useChatStore(options);
  useEffect(() => store.setTools(options.tools));
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
  return useSyncExternalStore(store.subscribe, store.state, store.state);
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
