import { useEffect, useState } from 'react';

import type { Account, Device } from './account';
import { openSession } from './session';
import type { Session } from './session';
import { SignIn } from './SignIn';
import { Talk } from './Talk';

/** The app's one screen, for whoever is signed in. */
export function Screen({ account, device }: { account: Account; device: Device }) {
  const [user, setUser] = useState<string | null>();
  useEffect(() => account.watch(setUser), [account]);
  if (user === undefined) return null; // it is being read
  return user ? <SignedIn key={user} {...{ account, device, user }} /> : <SignIn account={account} />;
}

function SignedIn({ account, device, user }: { account: Account; device: Device; user: string }) {
  const [session, setSession] = useState<Session>();
  useEffect(() => {
    const opening = openSession(account.api, device, user);
    void opening.then(setSession);
    return () => void opening.then(({ close }) => close());
  }, [account, device, user]);
  return session ? <Talk {...{ account, device, session }} /> : null;
}
