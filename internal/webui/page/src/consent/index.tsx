import { useEffect, useState } from 'preact/hooks';
import { sayError } from '../api';
import { loadConfig } from '../config';
import { hasProject, supabaseOf } from '../session';
import { Plain, type OAuth } from './parts';
import { Programs } from './programs';
import { Question } from './question';
import './consent.css';

/** Asks whether a program may act as the user. Where none asks, lists the ones that may. */
export function Consent() {
  const id = new URLSearchParams(location.search).get('authorization_id');
  const [oauth, setOAuth] = useState<OAuth | 'none' | 'nowhere'>();
  const [problem, setProblem] = useState('');
  useEffect(() => {
    findOAuth().then(setOAuth, (error) => setProblem(sayError(error)));
  }, []);

  if (problem) return <Plain title="Programs"><p role="alert">{problem}</p></Plain>;
  if (!oauth) return <Plain title="Programs"><p role="status">One moment…</p></Plain>;
  if (oauth === 'nowhere') {
    return (
      <Plain title="Programs">
        <p>No programs can be connected here: that takes the sign-in of a Supabase project, and this server names none.</p>
      </Plain>
    );
  }
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
async function findOAuth(): Promise<OAuth | 'none' | 'nowhere'> {
  const config = await loadConfig();
  if (!hasProject(config)) return 'nowhere';
  const client = (await supabaseOf(config))!;
  const { data } = await client.auth.getSession();
  return data.session ? client.auth.oauth : 'none';
}
