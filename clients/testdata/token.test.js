/** Access tokens that the server refuses, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { authorized } from '../dist/esm/api.js';
import { follow } from '../dist/esm/follow.js';
import { supabaseApi } from '../dist/esm/supabase.js';
import { newTurn } from '../dist/esm/turn.js';

/** supabase-js as far as it matters: each renewal makes a new token. */
function session() {
  let renewals = 0;
  const answer = async () => ({ data: { session: { access_token: `token ${renewals}` } }, error: null });
  return { getSession: answer, refreshSession: () => (renewals++, answer()) };
}

/** A server that refuses one token, and says what it was asked with. */
function serverThatRefuses(token) {
  const asked = [];
  const fetch = async (_, { headers }) => {
    asked.push(new Headers(headers).get('Authorization'));
    return new Response('', { status: asked.at(-1) === `Bearer ${token}` ? 401 : 200 });
  };
  return { asked, fetch };
}

test('of a token that was refused, whoever supplies tokens is told', async () => {
  const told = [];
  const { asked, fetch } = serverThatRefuses('old');
  const api = { baseUrl: 'http://s', fetch, accessToken: async (...how) => (told.push(how), how[0] ? 'new' : 'old') };
  assert.equal((await authorized(api, 'http://s/', {})).status, 200);
  assert.deepEqual(told, [[false], [true, 'old']]);
  assert.deepEqual(asked, ['Bearer old', 'Bearer new']);
});

test('so it is for a turn that is followed', async () => {
  const told = [];
  const { asked, fetch } = serverThatRefuses('old');
  const api = { baseUrl: 'http://s', fetch, accessToken: async (...how) => (told.push(how), how[0] ? 'new' : 'old') };
  const accepted = new Promise((resolve) => {
    api.fetch = async (...request) => {
      const response = await fetch(...request);
      if (response.ok) resolve();
      return response;
    };
  });
  const letGo = follow(newTurn({ clientMessageId: 'm', content: 'Hello' }), api, () => {});
  await accepted;
  letGo();
  assert.deepEqual(told, [[false], [true, 'old']]);
  assert.deepEqual(asked, ['Bearer old', 'Bearer new']);
});

test('a session is renewed once for all requests that were refused with the same token', async () => {
  const api = supabaseApi({ auth: session() }, 'http://s');
  const old = await api.accessToken(false);
  assert.equal(await api.accessToken(true, old), 'token 1');
  assert.equal(await api.accessToken(true, old), 'token 1');
  assert.equal(await api.accessToken(true, 'token 1'), 'token 2');
});

test('a caller that does not say what was refused gets a new token', async () => {
  const api = supabaseApi({ auth: session() }, 'http://s');
  assert.equal(await api.accessToken(true), 'token 1');
});
