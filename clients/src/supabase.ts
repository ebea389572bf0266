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
  const tokenOf = ({ data, error }: Answer): string => {
    if (error) throw error;
    if (!data.session) throw new Error('No user is signed in.'); // unsent messages wait for a user
    return data.session.access_token;
  };
  async function accessToken(renew: boolean, refused?: string): Promise<string> {
    const token = tokenOf(await supabase.auth.getSession());
    const renewed = refused !== undefined && refused !== token; // meanwhile, for another request
    return renew && !renewed ? tokenOf(await supabase.auth.refreshSession()) : token;
  }
  return { ...more, baseUrl, accessToken };
}
