/** Who calls, by supabase-js: it keeps the session and renews its token before it expires. */
import type { Api } from './api.js';

interface Answer {
  data: { session: { access_token: string } | null };
  error: unknown;
}

/** As much of supabase-js's client as is used. */
export interface SupabaseSession {
  auth: { getSession(): Promise<Answer>; refreshSession(): Promise<Answer> };
  realtime?: { setAuth(): Promise<void> };
  channel?(topic: string, options: { config: { private: boolean } }): Channel;
  removeChannel?(channel: never): Promise<unknown>;
}

interface Channel {
  on(type: 'broadcast', filter: { event: string }, heard: () => void): { subscribe(callback: (status: string) => void): unknown };
}

/** The API for the user who is signed in with this client of supabase-js. Realtime tells of what other devices do. */
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
  const listen = supabase.channel && listenTo(supabase as Required<SupabaseSession>);
  return { listen, ...more, baseUrl, accessToken };
}

/** One after another: a channel that is still being left cannot be had again. */
function listenTo(supabase: Required<SupabaseSession>): Api['listen'] & {} {
  let last: Promise<unknown> = Promise.resolve();
  return (chatId, told) => {
    let channel: Channel | undefined;
    let over = false;
    async function join(): Promise<void> {
      if (over) return;
      await supabase.realtime.setAuth();
      channel = supabase.channel(`chat:${chatId}`, { config: { private: true } });
      channel.on('broadcast', { event: '*' }, () => told(true)).subscribe((status) => told(status === 'SUBSCRIBED'));
    }
    last = last.then(join).catch(() => {}); // then there is no Realtime
    return () => {
      over = true;
      last = last.then(() => channel && supabase.removeChannel(channel as never)).catch(() => {});
    };
  };
}
