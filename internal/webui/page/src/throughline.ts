/** The package's names. Until its sources are in clients/src, what the shell needs of them. */
import createFetchClient from 'openapi-fetch';

export interface Api {
  baseUrl: string;
  accessToken(renew: boolean): Promise<string>;
  silence?: number;
  fetch?: typeof globalThis.fetch;
}

export class ThroughlineError extends Error {
  constructor(public status: number, public code: string, message: string, public details?: Record<string, unknown>) {
    super(message);
  }
}

export function createClient(api: Api): any {
  const client = createFetchClient<any>({ baseUrl: api.baseUrl });
  client.use({
    async onRequest({ request }) {
      request.headers.set('Authorization', `Bearer ${await api.accessToken(false)}`);
    },
    async onResponse({ response }) {
      if (response.ok) return;
      const { code = 'internal', message = `The server answered ${response.status}.`, details } = await response.json().catch(() => ({}));
      throw new ThroughlineError(response.status, code, message, details);
    },
  });
  return client;
}
