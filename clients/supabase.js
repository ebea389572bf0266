/** Who calls, by supabase-js: it keeps the session and renews its token before it expires. */

/**
 * @param {{auth: {getSession: Function, refreshSession: Function}}} supabase the app's client of supabase-js
 * @param {string} baseUrl of Throughline, without a slash at its end
 * @returns {import('./turn.js').Api}
 */
export function supabaseApi(supabase, baseUrl) {
  async function accessToken(renew) {
    const { data, error } = await (renew ? supabase.auth.refreshSession() : supabase.auth.getSession());
    if (error) throw error;
    if (!data.session) throw new Error('Nobody is signed in.'); // what is unsent waits until somebody is
    return data.session.access_token;
  }
  return { baseUrl, accessToken };
}
