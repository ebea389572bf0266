import { useEffect, useState } from 'preact/hooks';
import { sayError } from '../api';
import { loadConfig } from '../config';
import { supabaseOf } from '../session';
import { Plain, type OAuth } from './parts';
import { Programs } from './programs';
import { Question } from './question';
import './consent.css';

/** Asks whether a program may act as the user. Where none asks, lists the ones that may. */
export function Consent() {
  const id = new URLSearchParams(location.search).get('authorization_id');
  const [oauth, setOAuth] = useState<OAuth | 'none'>();
  const [problem, setProblem] = useState('');
  useEffect(() => {
    findOAuth().then(setOAuth, (error) => setProblem(sayError(error)));
  }, []);

  if (problem) return <Plain title="Programs"><p role="alert">{problem}</p></Plain>;
  if (!oauth) return <Plain title="Programs"><p role="status">One moment…</p></Plain>;
  if (oauth === 'none') {
    return (
      <Plain title="Programs">
        <p>Only an account can connect programs. You are signed in with a token: sign out, then sign in with your account.</p>
      </Plain>
    );
  }
  return id ? <Question oauth={oauth} id={id} /> : <Programs oauth={oauth} />;
}

/** What Supabase lets a signed-in user decide, if the user is signed in there and not with a token that was pasted. */
async function findOAuth(): Promise<OAuth | 'none'> {
  const client = await supabaseOf(await loadConfig());
  const { data } = (await client?.auth.getSession()) ?? {};
  return client && data?.session ? client.auth.oauth : 'none';
}
