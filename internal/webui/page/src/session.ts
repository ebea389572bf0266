import type { SupabaseClient } from '@supabase/supabase-js';
import type { Config } from './config';

/** A signed-in user. */
export interface Session {
  userId: string;
  /** What to call them: the address they signed in with, or the beginning of their id. */
  name: string;
  accessToken(renew: boolean): Promise<string>;
  signOut(): Promise<void>;
}

const TOKEN = 'throughline.token';

/** The session has ended and cannot be renewed: the user signs in again. */
export class SessionOver extends Error {
  constructor() {
    super('Your session has ended. Sign in again to go on.');
  }
}

let supabase: Promise<SupabaseClient> | undefined;

/** Supabase's own client, which keeps and renews the session; undefined where no project is configured. */
export async function supabaseOf(config: Config): Promise<SupabaseClient | undefined> {
  const { supabase_url: url, supabase_key: key } = config;
  if (!url || !key) return undefined;
  supabase ??= import('@supabase/supabase-js').then(({ createClient }) => createClient(url, key));
  return supabase;
}

/**
 * Takes a token out of the address, as the link that `make run` prints has it. It is kept for this tab alone: it ends
 * with the tab and is in no file of the browser that outlives it.
 */
export function takeTokenFromAddress(): void {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (!token) return;
  sessionStorage.setItem(TOKEN, token);
  history.replaceState(null, '', location.pathname + location.search);
}

/** The session that this browser already has, if any. */
export async function findSession(config: Config): Promise<Session | undefined> {
  const pasted = sessionStorage.getItem(TOKEN);
  if (pasted) return sessionOfToken(pasted);
  const client = await supabaseOf(config);
  const { data } = (await client?.auth.getSession()) ?? {};
  return client && data?.session ? sessionOfSupabase(client, data.session.user) : undefined;
}

/** A session of a token that was pasted. It cannot be renewed. Throws what a person reads when it is no token. */
export function sessionOfToken(token: string): Session {
  const { sub, email } = readClaims(token.trim());
  sessionStorage.setItem(TOKEN, token.trim());
  return {
    userId: sub,
    name: email || `user ${sub.slice(0, 8)}`,
    async accessToken(renew) {
      if (renew) throw new SessionOver();
      return token.trim();
    },
    async signOut() {
      sessionStorage.removeItem(TOKEN);
    },
  };
}

export function sessionOfSupabase(client: SupabaseClient, user: { id: string; email?: string }): Session {
  return {
    userId: user.id,
    name: user.email || `user ${user.id.slice(0, 8)}`,
    async accessToken(renew) {
      const { data, error } = renew ? await client.auth.refreshSession() : await client.auth.getSession();
      if (data.session) return data.session.access_token;
      if (error && error.status === undefined) throw new TypeError(error.message); // no network: not the session's fault
      throw new SessionOver();
    },
    async signOut() {
      await client.auth.signOut({ scope: 'local' });
    },
  };
}

function readClaims(token: string): { sub: string; email?: string } {
  try {
    const bytes = Uint8Array.from(atob(token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes));
    if (typeof claims.sub === 'string') return claims;
  } catch {
    // said below
  }
  throw new Error('This is not an access token: it has three parts, separated by dots, and names a user.');
}
