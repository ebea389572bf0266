/** The SDK's own hook with the transport, and what type its messages have. */
import { useChat } from '@ai-sdk/react';
import { ThroughlineTransport } from '@arcoscribe/throughline/ai-sdk';
import type { Disconnected, ThroughlineMessage } from '@arcoscribe/throughline/ai-sdk';

export function usePlainly(transport: ThroughlineTransport, options: { id?: string; messages?: ThroughlineMessage[] }) {
  const chat = useChat({
    ...options,
    transport,
    resume: Boolean(options.id),
    onError(error: Partial<Disconnected>) {
      if (error.retryIn) setTimeout(chat.resumeStream, error.retryIn);
    },
  });
  return { ...chat, stop: () => transport.cancel(chat.id) };
}
