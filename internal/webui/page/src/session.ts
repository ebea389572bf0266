import type { SupabaseClient } from '@supabase/supabase-js';
import type { Config } from './config';

/** A signed-in user. */
export interface Session {
  userId: string;
  /** What to call them: the address they signed in with, or the beginning of their id. */
  name: string;
  /** Whether they are signed in with an account, and not with a token alone. */
  account: boolean;
  /**
   * Another token than the one that was refused, if any. Throws SessionOver when there is none any more, a TypeError when
   * nothing could be reached.
   */
  accessToken(refused?: string): Promise<string>;
  signOut(): Promise<void>;
}

/** The session has ended and cannot be renewed: the user signs in again. */
export class SessionOver extends Error {
  constructor() {
    super('Your session has ended. Sign in again to go on.');
  }
}

const TOKEN = 'throughline.token';
const SIGNED_OUT = 'throughline.signed-out';

/** Whether users sign in with a Supabase project. */
export const hasProject = ({ supabase_url: url, supabase_key: key }: Config): boolean => Boolean(url && key);

let supabase: Promise<SupabaseClient> | undefined;

/** Supabase's own client, which keeps and renews the session; undefined where no project is configured. */
export async function supabaseOf(config: Config): Promise<SupabaseClient | undefined> {
  if (!hasProject(config)) return undefined;
  supabase ??= import('@supabase/supabase-js').then(({ createClient }) =>
    createClient(config.supabase_url!, config.supabase_key!, { auth: { flowType: 'pkce' } }));
  return supabase;
}

/**
 * Takes a token out of the address, as the link that `make run` prints has it. It is kept for this tab alone: it ends
 * with the tab, and no page that is opened later finds it. Where users have accounts a link signs no one in: it could be
 * somebody else's, who would read the messages.
 */
export function takeTokenFromAddress(config: Config): void {
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (!token) return;
  if (!hasProject(config)) sessionStorage.setItem(TOKEN, token);
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
export function sessionOfToken(pasted: string): Session {
  const token = pasted.trim();
  const { sub, email } = readClaims(token);
  sessionStorage.setItem(TOKEN, token);
  return {
    userId: sub,
    name: nameOf(sub, email),
    account: false,
    async accessToken(refused) {
      if (refused === token) throw new SessionOver();
      return token;
    },
    async signOut() {
      sessionStorage.removeItem(TOKEN);
      forget(sub);
    },
  };
}

export function sessionOfSupabase(client: SupabaseClient, user: { id: string; email?: string }): Session {
  return {
    userId: user.id,
    name: nameOf(user.id, user.email),
    account: true,
    async accessToken(refused) {
      let { data, error } = await client.auth.getSession();
      if (refused && data.session?.access_token === refused) ({ data, error } = await client.auth.refreshSession());
      if (data.session?.user.id === user.id) return data.session.access_token;
      if (error?.name === 'AuthRetryableFetchError') throw new TypeError(error.message);
      throw new SessionOver();
    },
    async signOut() {
      await client.auth.signOut({ scope: 'local' }); // without a network, too, the session is gone from here
      forget(user.id);
    },
  };
}

function nameOf(id: string, email?: string): string {
  return email || `user ${id.slice(0, 8)}`;
}

function readClaims(token: string): { sub: string; email?: string } {
  try {
    const [, payload] = token.split('.');
    const bytes = Uint8Array.from(atob(payload.replace(/-/g, '+').replace(/_/g, '/')), (character) => character.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes));
    if (typeof claims.sub === 'string') return claims;
  } catch {
    // said below
  }
  sessionStorage.removeItem(TOKEN);
  throw new Error('This is no access token: one has three parts with dots between them, and names a user.');
}

/** What the page stores for a user is under this: drafts, messages that are not sent yet. */
export function storageKey(userId: string, name: string): string {
  return `throughline.${userId}.${name}`;
}

/** Deletes what the page stored for a user, and has the other tabs of this browser leave as well. */
function forget(userId: string): void {
  for (const key of Object.keys(localStorage)) {
    if (key.startsWith(storageKey(userId, ''))) localStorage.removeItem(key);
  }
  localStorage.setItem(SIGNED_OUT, userId);
  localStorage.removeItem(SIGNED_OUT);
}

/** Tells when the user signs out in another tab. It returns a function that ends that. */
export function onSignedOutElsewhere(userId: string, leave: () => void): () => void {
  const heard = (event: StorageEvent) => {
    if (event.key !== SIGNED_OUT || event.newValue !== userId) return;
    sessionStorage.removeItem(TOKEN);
    leave();
  };
  addEventListener('storage', heard);
  return () => removeEventListener('storage', heard);
}
