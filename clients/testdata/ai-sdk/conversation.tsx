/** A screen of an app, with the AI SDK. */
import { Disconnected, historyOf } from '@arcoscribe/throughline/ai-sdk';
import type { StoredMessage, ThroughlineTransport } from '@arcoscribe/throughline/ai-sdk';
import { useThroughline } from '@arcoscribe/throughline/ai-sdk/react';

type Props = { transport: ThroughlineTransport; id?: string; rows?: StoredMessage[] };

/** A new chat, or a stored one: its `id`, and its `rows` of the table `messages` in the order of `seq`. */
export function Conversation({ transport, id, rows }: Props) {
  const options = { id, messages: rows && historyOf(rows) };
  const { messages, status, error, sendMessage, regenerate, stop } = useThroughline(transport, options);
  const failed = error && !(error instanceof Disconnected); // which mends itself
  return (
    <form action={(form: FormData) => void sendMessage({ text: String(form.get('text')) })}>
      {messages.map(({ id: key, role, parts }) => (
        <p key={key} className={role}>
          {parts.map((part) => part.type === 'text' && part.text)}
        </p>
      ))}
      {status === 'streaming' && <button type="button" onClick={() => stop()}>Stop</button>}
      {failed && <button type="button" onClick={() => regenerate()}>Try again</button>}
      {status === 'ready' && <input name="text" required />}
    </form>
  );
}
