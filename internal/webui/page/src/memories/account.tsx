import { useState } from 'preact/hooks';

import { useClient } from '../api';
import { ThroughlineError } from '../throughline';
import { useAction } from './hooks';
import { Confirm } from './parts';

/** What has to be typed before an account goes. */
const WORD = 'delete';

/** Why an account is still there, for a person. */
const kept: Record<string, string> = {
  account_deletion_unavailable: 'Accounts cannot be deleted here, and nothing was. Ask those who run this server.',
  upstream_failed: 'Your login could not be deleted, so nothing was. Try again in a moment.',
};

/** Ends the account, and the session with it. */
export function DeleteAccount() {
  const { client, leave, session } = useClient();
  const [asking, setAsking] = useState(false);
  const [typed, setTyped] = useState('');
  const { busy, error, run } = useAction();
  const remove = () => run(async () => {
    try {
      await client.DELETE('/v1/account');
    } catch (failure) {
      throw failure instanceof ThroughlineError && kept[failure.code] ? new Error(kept[failure.code]) : failure;
    }
    await leave('Your account is deleted, with everything that was stored of you.');
  });
  const ready = typed.trim().toLowerCase() === WORD;
  return (
    <>
      <button type="button" class="danger" onClick={() => { setTyped(''); setAsking(true); }}>Delete my account</button>
      {asking && (
        <Confirm title="Delete your account for good?" action="Delete my account" busy={busy || !ready} error={error} onConfirm={remove}
          onCancel={() => setAsking(false)}>
          <p>Your chats, memories and files go, on all your devices{session.account && ', and so does your login'}. No one can bring them back.</p>
          <label>Type “{WORD}” to go on
            <input autocomplete="off" autocapitalize="none" spellcheck={false} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
        </Confirm>
      )}
    </>
  );
}
