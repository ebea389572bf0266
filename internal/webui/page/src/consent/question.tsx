import type { OAuthAuthorizationDetails } from '@supabase/supabase-js';
import { useEffect, useState } from 'preact/hooks';
import { sayError } from '../api';
import { Name, Plain, type OAuth } from './parts';

const learns: Record<string, string> = {
  openid: 'your user id', email: 'your email address', profile: 'your name and picture', phone: 'your phone number',
};

/** One program's question. The answer leads back to the program. */
export function Question({ oauth, id }: { oauth: OAuth; id: string }) {
  const [asked, setAsked] = useState<OAuthAuthorizationDetails>();
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const [left, setLeft] = useState(false);

  async function decide(deed: () => Promise<Awaited<ReturnType<OAuth['approveAuthorization']>> | Awaited<ReturnType<OAuth['getAuthorizationDetails']>>>) {
    setBusy(true);
    setProblem('');
    try {
      const { data, error } = await deed();
      if (error) throw error;
      if ('redirect_url' in data) leave(data.redirect_url);
      else setAsked(data);
    } catch (error) {
      setProblem(sayRefusal(error));
    }
    setBusy(false);
  }

  function leave(to: string) {
    setLeft(true);
    location.assign(to);
  }

  useEffect(() => void decide(() => oauth.getAuthorizationDetails(id)), [id]);

  if (left) {
    return (
      <Plain title="Going back">
        <p role="status">You are sent back to the program. If nothing happens here, it has its answer: close this tab.</p>
      </Plain>
    );
  }
  if (!asked) return <Plain title="Connect a program">{problem ? <p role="alert">{problem}</p> : <p role="status">One moment…</p>}</Plain>;
  return (
    <Plain title={<>Let <Name of={asked.client.name} /> act for you?</>}>
      <p>You are signed in as <strong>{asked.user.email || asked.user.id}</strong>. The program chose its name itself. Check where it takes you back:</p>
      <p class="destination">{destination(asked.redirect_uri)}</p>
      <h2>It can then</h2>
      <ul>
        <li>read your chats, search them and go on with them</li>
        <li>see what is remembered of you, add to it and forget it</li>
        <li>delete chats</li>
        <li>do what else this app lets programs do with your account</li>
        {asked.scope.split(' ').filter((scope) => learns[scope]).map((scope) => <li key={scope}>learn {learns[scope]}</li>)}
      </ul>
      <p>It stays connected until you <a href="/app/oauth/consent">disconnect it</a>.</p>
      {problem && <p role="alert">{problem}</p>}
      <div class="choices">
        <button disabled={busy} onClick={() => void decide(() => oauth.denyAuthorization(id, { skipBrowserRedirect: true }))}>Do not allow</button>
        <button class="primary" disabled={busy} onClick={() => void decide(() => oauth.approveAuthorization(id, { skipBrowserRedirect: true }))}>Allow</button>
      </div>
    </Plain>
  );
}

/** Where an address leads, as a person can judge it. */
function destination(address: string): string {
  const { protocol, host, hostname, origin } = new URL(address);
  if (['localhost', '127.0.0.1', '[::1]'].includes(hostname)) return `a program on this device (${host})`;
  if (protocol === 'http:') return origin;
  return protocol === 'https:' ? host : `the program ${protocol.slice(0, -1)} on this device`;
}

function sayRefusal(error: unknown): string {
  const { status, message } = error as { status?: number; message: string };
  if (status === 404 || message.includes('cannot be processed') || message.includes('no longer pending')) {
    return 'This request has expired, or it was answered already. Go back to the program and connect again.';
  }
  return sayError((error as Error).name === 'AuthRetryableFetchError' ? new TypeError() : error);
}
