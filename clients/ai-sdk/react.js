/** Throughline in React: the AI SDK's `useChat`, which comes back by itself wherever it is cut. */
import { useChat } from '@ai-sdk/react';
import { useEffect } from 'react';

import { Disconnected } from './throughline.js';

/**
 * What useChat returns; only `stop` stops the reply itself, for all who read it. With the `id` of a stored chat and
 * its `messages` (see `historyOf`) it goes on with the reply that is running there.
 *
 * @param {import('./throughline.js').ThroughlineTransport} transport
 * @param {object} [options] useChat's
 */
export function useThroughline(transport, options = {}) {
  const chat = useChat({ ...options, transport });
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

/** Names the reply that had not ended when the messages were read, so that it comes also if it has ended since. */
function unfinished(messages) {
  const last = messages?.at(-1);
  return last?.metadata?.status === 'streaming' ? { metadata: { message_id: last.id } } : {};
}
