import { useEffect, useState } from 'react';

import type { Account, Device } from './account';
import { openSession } from './session';
import type { Session } from './session';
import { SignIn } from './SignIn';
import { Talk } from './Talk';

interface Props {
  account: Account;
  device: Device;
  /** The names of those that the model may call. */
  serverTools: readonly string[];
}

/** The app's one screen, for whoever is signed in. */
export function Screen(props: Props) {
  const { account } = props;
  const [user, setUser] = useState<string | null>();
  useEffect(() => account.watch(setUser), [account]);
  if (user === undefined) return null; // it is being read
  return user ? <SignedIn key={user} {...{ ...props, user }} /> : <SignIn account={account} />;
}

function SignedIn({ user, ...props }: Props & { user: string }) {
  const { account, device } = props;
  const [session, setSession] = useState<Session>();
  useEffect(() => {
    const opening = openSession(account.api, device, user);
    void opening.then(setSession);
    return () => void opening.then(({ close }) => close());
  }, [account, device, user]);
  return session ? <Talk {...{ ...props, session }} /> : null;
}
