/** Who calls, by supabase-js: it keeps the session and renews its token before it expires. */
import type { Api } from './api.js';

interface Answer {
  data: { session: { access_token: string } | null };
  error: unknown;
}

/** As much of supabase-js's client as is used. */
export interface SupabaseSession {
  auth: { getSession(): Promise<Answer>; refreshSession(): Promise<Answer> };
}

/** The API for the user who is signed in with this client of supabase-js. */
export function supabaseApi(supabase: SupabaseSession, baseUrl: string, more: Partial<Api> = {}): Api {
  async function accessToken(renew: boolean): Promise<string> {
    const { data, error } = await (renew ? supabase.auth.refreshSession() : supabase.auth.getSession());
    if (error) throw error;
    if (!data.session) throw new Error('Nobody is signed in.'); // what is unsent waits until somebody is
    return data.session.access_token;
  }
  return { ...more, baseUrl, accessToken };
}
