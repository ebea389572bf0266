import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import { createClient, type Api, ThroughlineError } from './throughline';
import type { Session } from './session';

type Client = ReturnType<typeof createClient>;

/** Who is signed in, and the client that calls the API for them. */
export interface SignedIn {
  api: Api;
  client: Client;
  session: Session;
}

export const SignedInContext = createContext<SignedIn | undefined>(undefined);

/** The client of the user who is signed in. The shell shows nothing of the areas before. */
export function useClient(): SignedIn {
  const signedIn = useContext(SignedInContext);
  if (!signedIn) throw new Error('useClient outside of the signed-in page');
  return signedIn;
}

/** A client whose calls go to the server that serves the page. */
export function connect(session: Session): SignedIn {
  const api: Api = { baseUrl: location.origin, accessToken: (renew) => session.accessToken(renew) };
  return { api, client: createClient(api), session };
}

/** One sentence that says to a person what went wrong. */
export function sayError(error: unknown): string {
  if (error instanceof ThroughlineError) return error.message;
  if (error instanceof TypeError) return 'The server cannot be reached. Is this device online?';
  return error instanceof Error ? error.message : String(error);
}
