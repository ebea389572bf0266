import { useRef, useState } from 'preact/hooks';
import { sayError } from '../api';
import type { Config } from '../config';
import { hasProject, sessionOfSupabase, sessionOfToken, supabaseOf, type Session } from '../session';

interface Props {
  config: Config;
  onSession: (session: Session) => void;
}

/** With a project: its user's password, or a link by mail. Without: an access token. */
export function SignIn({ config, onSession }: Props) {
  const [problem, setProblem] = useState('');
  const [notice, setNotice] = useState('');
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const field = (name: string) => String(new FormData(form.current!).get(name));
  const project = hasProject(config);

  async function attempt(deed: () => Promise<void>) {
    setBusy(true);
    setProblem('');
    setNotice('');
    await deed().catch((error) => setProblem(sayError(error)));
    setBusy(false);
  }

  async function byPassword() {
    const client = (await supabaseOf(config))!;
    const { data, error } = await client.auth.signInWithPassword({ email: field('email'), password: field('password') });
    if (error) throw error.name === 'AuthRetryableFetchError' ? new TypeError(error.message) : error;
    onSession(sessionOfSupabase(client, data.user));
  }

  async function byMail() {
    if (!form.current!.email.reportValidity()) return;
    const client = (await supabaseOf(config))!;
    const emailRedirectTo = location.origin + location.pathname + location.search; // what a program asked goes on there
    const { error } = await client.auth.signInWithOtp({ email: field('email'), options: { shouldCreateUser: false, emailRedirectTo } });
    if (error) throw error;
    setNotice(`A link is on its way to ${field('email')}. Open it in this browser.`);
  }

  function submit(event: SubmitEvent) {
    event.preventDefault();
    void attempt(project ? byPassword : async () => onSession(sessionOfToken(field('token'))));
  }

  return (
    <form class="sign-in" ref={form} onSubmit={submit}>
      {project ? (
        <>
          <label>Email <input name="email" type="email" required autocomplete="username" /></label>
          <label>Password <input name="password" type="password" required autocomplete="current-password" /></label>
        </>
      ) : (
        <>
          <p>Passwords and links by mail need a Supabase project, and this server names none: paste the access token of your app.</p>
          <label>Access token <textarea name="token" required autocomplete="off" spellcheck={false} rows={5} /></label>
        </>
      )}
      {problem && <p role="alert">{problem}</p>}
      {notice && <p role="status">{notice}</p>}
      <button class="primary" disabled={busy}>Sign in</button>
      {project && <button type="button" class="quiet" disabled={busy} onClick={() => void attempt(byMail)}>Send me a link instead</button>}
    </form>
  );
}
