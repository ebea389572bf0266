/** What a chat shows when it cannot be read, and how it hears of what is said elsewhere, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ChatStore } from '../dist/esm/chat.js';
import { supabaseApi } from '../dist/esm/supabase.js';

const settled = async () => {
  for (let n = 0; n < 30; n++) await new Promise(setImmediate);
};

async function pass(t, ms) {
  for (let passed = 0; passed < ms; passed += 1000) {
    t.mock.timers.tick(1000);
    await settled();
  }
}

/** An open chat on a server that answers as a test says, and what that was asked for: the tags of what the chat has. */
async function opened(t, answer, more = {}) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'] });
  const one = { asked: [], errors: [], answer };
  const fetch = async (url, { headers }) => {
    one.asked.push(headers.get('If-None-Match'));
    return one.answer();
  };
  const api = { baseUrl: 'http://s', accessToken: async (renew) => `token ${renew}`, fetch, ...more };
  one.store = new ChatStore({ api, chatId: 'c', onError: (error) => one.errors.push(error.code) });
  t.after(one.store.open());
  await settled();
  one.shows = (status, code) => assert.deepEqual([one.store.state().status, one.store.state().error?.code], [status, code]);
  return one;
}

const says = (content, tag) => () =>
  Response.json({ messages: content ? [{ id: 'm', role: 'user', content, status: 'complete', seq: 1 }] : [], has_more: false }, { headers: tag && { ETag: tag } });
const unchanged = () => new Response(null, { status: 304 });

for (const [status, code, requests] of [[404, 'chat_not_found', 1], [400, 'bad_uuid', 1], [401, 'bad_jwt', 2]]) {
  test(`a chat that is answered with ${status} has failed, until it can be read`, async (t) => {
    const one = await opened(t, () => Response.json({ code, message: 'No.' }, { status }));
    one.shows('failed', code);
    assert.ok(one.store.state().error instanceof Error);
    await pass(t, 10_000);
    assert.deepEqual([one.asked.length, one.errors], [requests, [code]]);
    one.answer = says('Hello');
    await one.store.retry();
    one.shows('ready', undefined);
  });
}

test('without a network a chat loads on, and says why', async (t) => {
  const one = await opened(t, () => Promise.reject(new TypeError('no network')));
  one.shows('loading', undefined);
  assert.equal(one.store.state().error.message, 'no network');
  one.answer = says('Hello');
  await pass(t, 1000);
  one.shows('ready', undefined);
  assert.deepEqual(one.errors, []);
});

test('a chat that is shown is asked for now and then, cheaply; in the background it is not', async (t) => {
  let state;
  const appState = { addEventListener: (_, listener) => ((state = listener), { remove() {} }) };
  const one = await opened(t, says('Hello', '"1"'), { appState });
  one.answer = unchanged;
  await pass(t, 60_000);
  assert.ok(one.asked.length >= 4 && one.asked.length <= 6 && one.asked.slice(1).every((tag) => tag === '"1"'), `asked ${one.asked}`);
  assert.equal(one.store.state().messages[0].content, 'Hello');
  state('background');
  const before = one.asked.length;
  await pass(t, 120_000);
  assert.equal(one.asked.length, before);
  one.answer = says('Hello, you', '"2"');
  state('active');
  await pass(t, 1000);
  assert.equal(one.store.state().messages[0].content, 'Hello, you');
});

test('windows of a browser tell each other, and hidden ones ask later', async (t) => {
  const page = Object.assign(new EventTarget(), { hidden: false });
  Object.assign(globalThis, { document: page, window: new EventTarget() });
  const one = await opened(t, says('Hello', '"1"'));
  t.after(() => ['document', 'window'].forEach((name) => delete globalThis[name]));
  one.answer = unchanged;
  const other = new BroadcastChannel('throughline');
  t.after(() => other.close());
  const told = async () => {
    other.postMessage('c');
    await settled();
    await pass(t, 1000);
    return one.asked.length;
  };
  assert.equal(await told(), 2);
  page.hidden = true;
  page.dispatchEvent(new Event('visibilitychange'));
  assert.equal(await told(), 2);
  await pass(t, 60_000);
  assert.equal(one.asked.length, 2);
  page.hidden = false;
  page.dispatchEvent(new Event('visibilitychange'));
  await pass(t, 1000);
  assert.equal(one.asked.length, 3);
});

/** As much of supabase-js as is used. */
function realtime() {
  const one = { joined: [], left: 0 };
  const session = { data: { session: { access_token: 'token' } }, error: null };
  one.supabase = {
    auth: { getSession: async () => session, refreshSession: async () => session },
    realtime: { setAuth: async () => one.joined.push('auth') },
    channel: (topic, { config }) => (one.joined.push([topic, config]), { on: (type, filter, heard) => ((one.heard = heard), one.channel) }),
    removeChannel: async () => void one.left++,
  };
  one.channel = { subscribe: (callback) => (one.say = callback) };
  return one;
}

test('Realtime tells of changes; where it cannot, the chat is asked for', async (t) => {
  const live = realtime();
  const one = await opened(t, says('Hello', '"1"'), { listen: supabaseApi(live.supabase, 'http://s').listen });
  one.answer = unchanged;
  assert.deepEqual(live.joined, ['auth', ['chat:c', { private: true }]]);
  live.say('SUBSCRIBED');
  await pass(t, 60_000);
  assert.equal(one.asked.length, 2, 'once more, for what came before');
  live.heard();
  live.heard();
  await pass(t, 1000);
  assert.equal(one.asked.length, 3, 'one reading for what is told at once');
  live.say('CHANNEL_ERROR');
  live.say('CHANNEL_ERROR');
  await pass(t, 60_000);
  assert.ok(one.asked.length >= 6, `asked ${one.asked.length} times`);
});
