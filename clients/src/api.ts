/** Where the server is, and who calls. */
export interface Api {
  /** Without a slash at its end. */
  baseUrl: string;
  /** The user's Supabase access token; a new one if `renew`. */
  accessToken(renew: boolean): Promise<string>;
  /** Milliseconds without an event after which a stream is taken for dead; 45 000 without it. */
  silence?: number;
  /** In place of the platform's, such as `expo/fetch`. */
  fetch?: typeof globalThis.fetch;
  /** React Native's AppState: streams are let go in the background, and go on in the foreground. Web pages need none. */
  appState?: AppState;
}

/** As much of React Native's AppState as is used. */
export interface AppState {
  addEventListener(type: 'change', listener: (state: string) => void): { remove(): void };
}

/** Sends a request as the user; once more, with a new token, if the server takes the first one for expired. */
export async function authorized(api: Api, url: string, init: RequestInit): Promise<Response> {
  const fetch = api.fetch ?? globalThis.fetch;
  const send = async (renew: boolean) => {
    const headers = new Headers(init.headers);
    headers.set('Authorization', `Bearer ${await api.accessToken(renew)}`);
    return fetch(url, { ...init, headers });
  };
  const response = await send(false);
  return response.status === 401 ? send(true) : response;
}
