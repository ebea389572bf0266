import type { Api } from '@arcoscribe/throughline';
import { useChat } from '@arcoscribe/throughline/react';

export function Chat({ api, chatId }: { api: Api; chatId?: string }) {
  const { messages, status, error, send, stop, retry } = useChat({ api, chatId });
  return (
    <form action={(form) => send(String(form.get('text')))}>
      {messages.map(({ key, role, content }) => <p key={key} className={role}>{content}</p>)}
      {status === 'failed' && <button type="button" onClick={retry}>{error?.message ?? 'That failed.'} Try again</button>}
      {status === 'streaming' && <button type="button" onClick={stop}>Stop</button>}
      <input name="text" required />
    </form>
  );
}
