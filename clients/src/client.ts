import createOpenApiClient from 'openapi-fetch';
import type { FetchResponse, MaybeOptionalInit, Middleware } from 'openapi-fetch';

import { authorized } from './api.js';
import type { Api } from './api.js';
import { errorOf } from './errors.js';
import type { components, paths } from './openapi.js';

/** The objects of the API, by their names in its document: `Schemas['Chat']`. */
export type Schemas = components['schemas'];

type HttpMethod = 'get' | 'post' | 'patch' | 'delete';
type PathsWith<M extends HttpMethod> = { [P in keyof paths]: paths[P] extends Record<M, object> ? P : never }[keyof paths];
type Init<I> = undefined extends I ? [init?: I] : [init: I];
type Success<P extends keyof paths, M extends keyof paths[P], I> = Exclude<
  FetchResponse<Extract<paths[P][M], Record<string | number, unknown>>, I, `${string}/${string}`>,
  { data?: never }
>;
type Call<M extends HttpMethod> = <P extends PathsWith<M>, I extends MaybeOptionalInit<paths[P], M>>(
  path: P,
  ...init: Init<I>
) => Promise<Success<P, M, I>>;

/** Calls of the API, typed by its OpenAPI document. They throw a ThroughlineError where the server's answer is no. */
export interface Client {
  GET: Call<'get'>;
  POST: Call<'post'>;
  PATCH: Call<'patch'>;
  DELETE: Call<'delete'>;
}

/** A client of the whole API. It renews an access token that has expired; streams are better read with `follow`. */
export function createClient(api: Api): Client {
  const client = createOpenApiClient<paths>({ baseUrl: api.baseUrl, fetch: (request) => send(api, request) });
  client.use(throwing);
  return client as unknown as Client;
}

const throwing: Middleware = {
  async onResponse({ response }) {
    if (!response.ok) throw await errorOf(response);
  },
};

/** Taken apart, because a request may be sent twice, and not every platform's fetch takes a Request. */
async function send(api: Api, request: Request): Promise<Response> {
  const { url, method, headers, signal } = request;
  return authorized(api, url, { method, headers, signal, body: await bodyOf(request) });
}

async function bodyOf(request: Request): Promise<BodyInit | undefined> {
  if (request.method === 'GET') return undefined;
  const isText = request.headers.get('Content-Type')?.includes('json') ?? true;
  return isText ? (await request.text()) || undefined : request.arrayBuffer();
}
