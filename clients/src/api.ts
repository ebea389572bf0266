/** Where the server is, and who calls. */
export interface Api {
  /** Without a slash at its end. */
  baseUrl: string;
  /** The user's Supabase access token; another one than `refused` if `renew`: the server took that for expired. */
  accessToken(renew: boolean, refused?: string): Promise<string>;
  /** Milliseconds without an event after which a stream is taken for dead; 45 000 without it. */
  silence?: number;
  /** In place of the platform's, such as `expo/fetch`. */
  fetch?: typeof globalThis.fetch;
  /** React Native's AppState: streams are let go in the background, and go on in the foreground. Web pages need none. */
  appState?: AppState;
  /**
   * Tells of changes of a chat, until the function that is returned is called: `told(true)` once it does and at each change,
   * `told(false)` when it cannot. `supabaseApi` has Realtime. Without it a chat that is shown is asked for every 15 seconds.
   */
  listen?(chatId: string, told: (live: boolean) => void): () => void;
}

/** As much of React Native's AppState as is used. */
export interface AppState {
  addEventListener(type: 'change', listener: (state: string) => void): { remove(): void };
}

/** Sends a request as the user; once more, with a new token, if the server takes the first one for expired. */
export async function authorized(api: Api, url: string, init: RequestInit): Promise<Response> {
  const fetch = api.fetch ?? globalThis.fetch;
  const send = (token: string) => {
    const headers = new Headers(init.headers);
    headers.set('Authorization', `Bearer ${token}`);
    return fetch(url, { ...init, headers });
  };
  const token = await api.accessToken(false);
  const response = await send(token);
  return response.status === 401 ? send(await api.accessToken(true, token)) : response;
}
