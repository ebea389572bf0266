/** A chat on one screen. */
import type { Api } from '@arcoscribe/throughline';
import { useChat } from '@arcoscribe/throughline/react';
import { useState } from 'react';

export function Conversation({ api, chatId }: { api: Api; chatId?: string }) {
  const { messages, status, send, stop, retry, hasOlder, loadOlder } = useChat({ api, chatId });
  const [text, setText] = useState('');
  return (
    <main>
      {hasOlder && <button onClick={loadOlder}>Earlier</button>}
      {messages.map(({ key, role, content }) => (
        <p key={key} className={role}>{content}</p>
      ))}
      {status === 'streaming' && <button onClick={stop}>Stop</button>}
      {status === 'failed' && <button onClick={retry}>Try again</button>}
      <input value={text} onChange={(event) => setText(event.currentTarget.value)} />
      <button disabled={!['ready', 'awaiting'].includes(status) || !text} onClick={() => send(text).then(() => setText(''))}>Send</button>
    </main>
  );
}
