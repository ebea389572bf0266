/** What the user is remembered for, and the switch. */
import type { Api } from '@arcoscribe/throughline';
import { useMemories } from '@arcoscribe/throughline/react';

export function Remembered({ api }: { api: Api }) {
  const { memories, inbox, remembering, setRemembering, confirm, forget } = useMemories(api);
  return (
    <ul>
      <button onClick={() => setRemembering(!remembering)}>{remembering ? 'Remember nothing' : 'Remember'}</button>
      {inbox.map(({ id, content }) => (
        <li key={id}>{content} <button onClick={() => confirm(id)}>That is right</button></li>
      ))}
      {memories.map(({ id, content, sources }) => (
        <li key={id}>{content} <q>{sources[0]?.quote}</q> <button onClick={() => forget(id)}>Forget</button></li>
      ))}
    </ul>
  );
}
