import { useState } from 'preact/hooks';
import type { Config } from '../config';
import { sayError } from '../api';
import { sessionOfToken, type Session } from '../session';

export function SignIn({ onSession }: { config: Config; onSession: (session: Session) => void }) {
  const [problem, setProblem] = useState('');
  function enter(event: SubmitEvent) {
    event.preventDefault();
    try {
      onSession(sessionOfToken(new FormData(event.currentTarget as HTMLFormElement).get('token') as string));
    } catch (error) {
      setProblem(sayError(error));
    }
  }
  return (
    <main class="alone">
      <h1>Throughline</h1>
      <form onSubmit={enter}>
        <label>Access token <textarea name="token" required autocomplete="off" spellcheck={false} rows={4} /></label>
        {problem && <p role="alert">{problem}</p>}
        <button type="submit" class="primary">Sign in</button>
      </form>
    </main>
  );
}
