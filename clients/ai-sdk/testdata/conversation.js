/** A screen of an app, with the recipe for React. */
import { useThroughline } from '../react.js';
import { Disconnected, historyOf } from '../throughline.js';

/** A new chat, or a stored one: its `id`, and its `rows` of the table `messages` in the order of `seq`. */
export function Conversation({ transport, id, rows }) {
  const options = { id, messages: rows && historyOf(rows) };
  const { messages, status, error, sendMessage, regenerate, stop } = useThroughline(transport, options);
  const failed = error && !(error instanceof Disconnected); // which mends itself
  return (
    <form action={(form) => void sendMessage({ text: form.get('text') })}>
      {messages.map(({ id: key, role, parts }) => (
        <p key={key} className={role}>
          {parts.map(({ text }) => text)}
        </p>
      ))}
      {status === 'streaming' && <button type="button" onClick={() => stop()}>Stop</button>}
      {failed && <button type="button" onClick={() => regenerate()}>Try again</button>}
      {status === 'ready' && <input name="text" required />}
    </form>
  );
}
