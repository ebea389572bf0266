/** Throughline in React: the AI SDK's `useChat`, which comes back by itself wherever it is cut. */
import { useChat } from '@ai-sdk/react';
import type { UseChatHelpers } from '@ai-sdk/react';
import type { ChatInit } from 'ai';
import { useEffect } from 'react';

import { Disconnected } from './ai-sdk.js';
import type { ThroughlineMessage, ThroughlineTransport } from './ai-sdk.js';

/** useChat's options. */
export type ThroughlineOptions = Omit<ChatInit<ThroughlineMessage>, 'transport'>;

/** What useChat returns; only `stop` stops the reply itself, for all who read it. */
export interface ThroughlineChat extends Omit<UseChatHelpers<ThroughlineMessage>, 'stop'> {
  stop: () => ReturnType<ThroughlineTransport['cancel']>;
}

/**
 * A chat that goes on wherever it was cut. With the `id` of a stored chat and its `messages` (see `historyOf`) it goes
 * on with the reply that is running there.
 */
export function useThroughline(transport: ThroughlineTransport, options: ThroughlineOptions = {}): ThroughlineChat {
  const chat = useChat<ThroughlineMessage>({ ...options, transport });
  const { id, error, resumeStream, stop: hangUp } = chat;
  const stored = options.id === id;

  useEffect(() => {
    if (stored) resumeStream(unfinished(options.messages));
    return () => {
      hangUp();
    };
  }, [id, stored]);

  useEffect(() => {
    if (!(error instanceof Disconnected)) return;
    const timer = setTimeout(resumeStream, error.retryIn);
    return () => clearTimeout(timer);
  }, [error]);

  return { ...chat, stop: () => transport.cancel(id) };
}

/** Names the reply that had not ended when the messages were read, so that it comes also if it has ended since; or its open calls. */
function unfinished(messages: ThroughlineMessage[] = []): { metadata?: { message_id: string } } {
  const last = messages.at(-1);
  const { status } = last?.metadata ?? {};
  return last && (status === 'streaming' || status === 'awaiting') ? { metadata: { message_id: last.id } } : {};
}
