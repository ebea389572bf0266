import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Config } from './config';
import { watchedFetch } from './reach';
import { SessionOver, storageKey, type Session } from './session';
import { createClient, openOutbox, ThroughlineError, type Api, type Client, type Outbox } from './throughline';

/** Who is signed in, and what calls the API for them. */
export interface SignedIn {
  api: Api;
  client: Client;
  /** The names of the model variants. */
  models: string[];
  /** Another one of the same user after they signed in again. */
  session: Session;
  outbox: Promise<Outbox>;
  /** Signs out, and says why where the user signs in. */
  leave(why: string): Promise<void>;
}

export const SignedInContext = createContext<SignedIn | undefined>(undefined);

/** The client of the user who is signed in. The areas are shown to no one else. */
export function useClient(): SignedIn {
  const signedIn = useContext(SignedInContext);
  if (!signedIn) throw new Error('useClient outside of the signed-in page');
  return signedIn;
}

/** A client whose calls go to the server that the page came from. onOver is called when the session cannot go on. */
export function connect(config: Config, session: Session, onOver: () => void, leave: SignedIn['leave']): SignedIn {
  const api: Api = {
    baseUrl: location.origin,
    fetch: watchedFetch,
    accessToken: (_, refused) =>
      signedIn.session.accessToken(refused).catch((error) => {
        if (error instanceof SessionOver) onOver();
        throw error;
      }),
  };
  const outbox = openOutbox({ storage: localStorage, api, key: storageKey(session.userId, 'turns') });
  const signedIn: SignedIn = { api, client: createClient(api), models: config.model_variants, session, outbox, leave };
  return signedIn;
}

/** One sentence that says to a person what went wrong. */
export function sayError(error: unknown): string {
  if (error instanceof TypeError) return 'The server cannot be reached.';
  const code = codeOf(error);
  if (code === 'call_settled') return 'It was answered already. Here it is as it is now.';
  if (code === 'call_claimed') return 'Another device is answering it. If nothing comes of that within a minute, it can be answered here.';
  if (isConflict(error)) return 'The conversation was changed on another device. Here it is as it is now.';
  if (error instanceof ThroughlineError && error.code.startsWith('http_')) return `Something between here and the server answered ${error.status}.`;
  return (error as Partial<Error>).message ?? String(error);
}

const codeOf = (failure: unknown) => (failure as ThroughlineError | undefined)?.code ?? '';

/** Whether something was asked about messages that are no longer the conversation's. */
export function isConflict(failure: unknown): boolean {
  return ['conversation_changed', 'message_superseded'].includes(codeOf(failure));
}
