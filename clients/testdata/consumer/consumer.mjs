/** The installed package, by import. */
import assert from 'node:assert/strict';

import { createClient, follow, isOver, newTurn, openOutbox, ThroughlineError } from '@arcoscribe/throughline';
import { useChat, useMemories } from '@arcoscribe/throughline/react';
import { supabaseApi } from '@arcoscribe/throughline/supabase';

const refused = { code: 'over_request_rate_limit', message: 'Too many.', details: { limit: 1 } };
const tokens = [];
const api = {
  baseUrl: 'http://throughline.test',
  accessToken: async (renew) => tokens[tokens.push(renew ? 'new' : 'old') - 1],
  async fetch(url, { method, headers, body }) {
    if (headers.get('Authorization') !== 'Bearer new') return new Response('{}', { status: 401 });
    if (method === 'POST') return Response.json(refused, { status: 429, headers: { 'Retry-After': '7' } });
    return Response.json({ url, body });
  },
};
const client = createClient(api);
const path = { chat_id: 'c 1' };
const { data } = await client.GET('/v1/chats/{chat_id}', { params: { path } });
assert.deepEqual([data.url, tokens], ['http://throughline.test/v1/chats/c%201', ['old', 'new']]);
const error = await client.POST('/v1/memories', { body: { content: 'x' } }).catch((thrown) => thrown);
assert.ok(error instanceof ThroughlineError);
assert.deepEqual([error.status, error.code, error.details, error.retryAfter], [429, refused.code, refused.details, 7]);
const typed = [follow, openOutbox, useChat, useMemories, supabaseApi].map((name) => typeof name);
assert.deepEqual([...new Set(typed)], ['function']);
assert.equal(isOver(newTurn({ clientMessageId: 'm', content: 'Hello' })), false);
