/** Who uses the app: with Supabase, or with a token that was pasted. */
import { supabaseApi } from '@arcoscribe/throughline/supabase';
import type { Api } from '@arcoscribe/throughline';
import type { SupabaseClient } from '@supabase/supabase-js';

/** What the phone gives an app. */
export interface Device extends Pick<Api, 'appState' | 'fetch'> {
  /** AsyncStorage. */
  storage: {
    getItem(key: string): Promise<string | null>;
    setItem(key: string, value: string): Promise<void>;
    removeItem(key: string): Promise<void>;
  };
  randomUUID(): string;
}

export interface Credentials {
  email: string;
  password: string;
  /** In place of both. */
  token: string;
}

export interface Account {
  /** The answers that a person gives to sign in. */
  readonly asks: ReadonlyArray<keyof Credentials>;
  readonly api: Api;
  /** Tells who is signed in, now and whenever that changes: the user's id, or null. Returns a function that ends it. */
  watch(onUser: (id: string | null) => void): () => void;
  signIn(credentials: Partial<Credentials>): Promise<void>;
  signOut(): Promise<void>;
}

/** supabase-js keeps the session, and renews its token while the app is in the foreground. */
export function supabaseAccount(supabase: SupabaseClient, baseUrl: string, { appState, fetch }: Device): Account {
  const { auth } = supabase;
  return {
    asks: ['email', 'password'],
    api: supabaseApi(supabase, baseUrl, { appState, fetch }),
    watch(onUser) {
      const { data } = auth.onAuthStateChange((_, session) => onUser(session?.user.id ?? null));
      const states = appState?.addEventListener('change', (state) => {
        if (state === 'active') auth.startAutoRefresh();
        else auth.stopAutoRefresh();
      });
      return () => {
        data.subscription.unsubscribe();
        states?.remove();
      };
    },
    async signIn({ email = '', password = '' }) {
      const { error } = await auth.signInWithPassword({ email, password });
      if (error) throw error;
    },
    async signOut() {
      const { error } = await auth.signOut({ scope: 'local' });
      if (error) throw error;
    },
  };
}

const TOKEN = 'token';

/** For a server without Supabase, as `make run` starts one: it prints a token. */
export function tokenAccount(baseUrl: string, { storage, appState, fetch }: Device): Account {
  let told: (id: string | null) => void = () => {};

  async function accessToken(): Promise<string> {
    const token = await storage.getItem(TOKEN);
    if (!token) throw new Error('No user is signed in.');
    return token;
  }

  return {
    asks: ['token'],
    api: { baseUrl, appState, fetch, accessToken },
    watch(onUser) {
      told = onUser;
      void storage.getItem(TOKEN).then((token) => told(token && userOf(token)));
      return () => (told = () => {});
    },
    async signIn({ token = '' }) {
      const id = userOf(token.trim());
      await storage.setItem(TOKEN, token.trim());
      told(id);
    },
    async signOut() {
      await storage.removeItem(TOKEN);
      told(null);
    },
  };
}

/** The subject of a token, which only the server checks. */
function userOf(token: string): string {
  try {
    const [, payload = ''] = token.split('.');
    return JSON.parse(atob(payload.replaceAll('-', '+').replaceAll('_', '/'))).sub;
  } catch {
    throw new Error('This is no token.');
  }
}
