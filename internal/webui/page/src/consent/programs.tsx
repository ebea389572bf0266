import type { OAuthGrant } from '@supabase/supabase-js';
import { useEffect, useState } from 'preact/hooks';
import { sayError } from '../api';
import { Name, Plain, type OAuth } from './parts';

/** The programs that the user has connected, each with the way to disconnect it. */
export function Programs({ oauth }: { oauth: OAuth }) {
  const [grants, setGrants] = useState<OAuthGrant[]>();
  const [said, setSaid] = useState('');
  const [problem, setProblem] = useState('');

  async function load() {
    const { data, error } = await oauth.listGrants();
    if (error) throw error;
    setGrants(data);
  }

  async function disconnect({ client }: OAuthGrant) {
    const { error } = await oauth.revokeGrant({ clientId: client.id });
    if (error) throw error;
    await load();
    setSaid(`${client.name || 'The program'} is disconnected. What it holds ends within the hour.`);
  }

  const attempt = (deed: Promise<void>) => {
    setProblem('');
    deed.catch((error) => setProblem(sayError(error)));
  };
  useEffect(() => attempt(load()), []);

  return (
    <Plain title="Connected programs">
      <p>Programs that act for you, such as assistants and editors.</p>
      {problem && <p role="alert">{problem}</p>}
      <p role="status">{said}</p>
      {grants?.length === 0 && <p>None is connected.</p>}
      <ul class="programs">
        {grants?.map((grant) => (
          <li key={grant.client.id}>
            <span>
              <Name of={grant.client.name} /><br />
              <small>since <time dateTime={grant.granted_at}>{new Date(grant.granted_at).toLocaleDateString()}</time></small>
            </span>
            <button class="danger" aria-label={`Disconnect ${grant.client.name}`} onClick={() => attempt(disconnect(grant))}>Disconnect</button>
          </li>
        ))}
      </ul>
    </Plain>
  );
}
