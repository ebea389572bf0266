/** A thousand phones on a hostile network: how often each asks, and that all have their reply when the network heals. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ThroughlineTransport } from '../dist/esm/ai-sdk.js';
import { ChatStore } from '../dist/esm/chat.js';
import { follow } from '../dist/esm/follow.js';
import { newTurn, watchedTurn } from '../dist/esm/turn.js';

const PHONES = 1000;
const MINUTES = 2; // of the clock that the tests wind
/** Pauses of 5 s on average, after a few shorter ones, are 30 tries of a phone in two minutes; some are two requests. */
const MOST_ON_AVERAGE = 60;
const MOST = 120;

const event = (name, place, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\nid: a:${place}\n\n`;
const started = (offset) => event('message.started', offset, { chat_id: 'c', message_id: 'a', offset });
const delta = (place, text) => event('content.delta', place, { delta: text });
const whole = started(0) + delta(5, 'Hello') + event('completion', 'end', {});
const chunk = (part) => `data: ${JSON.stringify(part)}\n\n`;
const begun = chunk({ type: 'start', messageId: 'a', messageMetadata: { chat_id: 'c' } }) + chunk({ type: 'text-start', id: 't' });
const said = (text) => chunk({ type: 'text-delta', id: 't', delta: text });

const settled = async () => {
  for (let n = 0; n < 3; n++) await new Promise(setImmediate);
};

/** A stream that breaks after some text. */
function cut(text) {
  const body = new ReadableStream({
    async pull(controller) {
      if (text) return controller.enqueue(new TextEncoder().encode(text)), (text = '');
      await settled(); // a break discards the text that is not read yet
      controller.error(new TypeError('the connection broke'));
    },
  });
  return new Response(body);
}

const refuses = (status, retryAfter) => () => new Response('{"code":"not_ready"}', { status, headers: { 'Retry-After': retryAfter } });

/** What a network may do to every request, for ever. */
const attacks = {
  'no connection': () => Promise.reject(new TypeError('no network')),
  'a cut after message.started': () => cut(started(0)),
  'a clean end after message.started': () => new Response(started(0)),
  'a cut after the same text each time': () => cut(started(0) + delta(2, 'He')),
  'a cut after a heartbeat': () => cut(': ping\n\n'),
  'an empty answer': () => new Response(null, { status: 204 }),
  'the page of a portal': () => new Response('<html>', { headers: { 'Content-Type': 'text/html' } }),
  'a redirect that leads nowhere': () => new Response('', { status: 304 }),
  'a Retry-After of nothing': refuses(503, '0'),
  'a Retry-After before now': refuses(429, '-100'),
  'a Retry-After of for ever': refuses(503, '1e12'),
  'a Retry-After without end': refuses(429, 'Infinity'),
};

/** Winds the clock, and lets each request be answered in between. */
async function pass(t, ms, step = 50) {
  await settled();
  for (let passed = 0; passed < ms; passed += step) {
    t.mock.timers.tick(step);
    await settled();
  }
}

/** The network of a phone: it counts, and can heal. */
function network(attack) {
  const net = { asked: 0, attack, accessToken: async () => 'token', baseUrl: 'http://s' };
  net.fetch = async (...request) => {
    net.asked++;
    return net.attack(...request);
  };
  return net;
}

function checkCounts(nets, name) {
  const counts = nets.map(({ asked }) => asked);
  const average = counts.reduce((sum, count) => sum + count) / counts.length;
  assert.ok(average <= MOST_ON_AVERAGE && Math.max(...counts) <= MOST, `${name}: ${average} requests of a phone, at most ${Math.max(...counts)}`);
  assert.ok(Math.min(...counts) >= 1, `${name}: a phone has not asked`);
}

for (const [name, attack] of Object.entries(attacks)) {
  const phones = name === 'a cut after message.started' ? PHONES : 20;
  test(`${name}: phones ask less and less often, and finish when it heals`, async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const nets = Array.from({ length: phones }, () => network(attack));
    const turns = nets.map((net, n) => (n % 2 ? newTurn({ clientMessageId: `${n}`, content: 'Hi' }) : watchedTurn({ chatId: 'c', messageId: 'a' })));
    const release = turns.map((turn, n) => follow(turn, nets[n], () => {}));
    await pass(t, MINUTES * 60_000);
    checkCounts(nets, name);
    for (const net of nets) net.attack = () => new Response(whole);
    await pass(t, 320_000, 1000);
    assert.deepEqual(turns.filter(({ status, text }) => status !== 'complete' || text !== 'Hello'), []);
    for (const letGo of release) letGo();
  });
}

test('phones that were cut off together do not come back together', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const nets = Array.from({ length: PHONES }, () => network(attacks['no connection']));
  const release = nets.map((net) => follow(watchedTurn({ chatId: 'c', messageId: 'a' }), net, () => {}));
  await pass(t, 60_000);
  const total = () => nets.reduce((sum, { asked }) => sum + asked, 0);
  for (let n = 0, before = total(); n < 20; n++, before = total()) {
    await pass(t, 100, 100);
    assert.ok(total() - before < PHONES / 10, `${total() - before} of ${PHONES} asked within 100 ms`);
  }
  for (const letGo of release) letGo();
});

test('text that grows ends the pauses', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let length = 0;
  const net = network(() => cut(started(length) + delta(++length, 'x')));
  const turn = watchedTurn({ chatId: 'c', messageId: 'a' });
  const release = follow(turn, net, () => {});
  await pass(t, 20_000);
  release();
  assert.ok(net.asked > 80 && turn.text.length === net.asked, `${net.asked} requests brought ${turn.text.length} characters`);
});

test('the AI SDK is told to come back less and less often, until the text grows', async () => {
  const attack = [() => cut(begun), () => cut(begun + said('Hel'))];
  const net = network(attack[0]);
  const transport = new ThroughlineTransport(net);
  const message = { id: 'm', role: 'user', parts: [{ type: 'text', text: 'Hi' }] };
  const options = { chatId: 'x', messages: [message], trigger: 'submit-message' };
  const read = async (stream) => {
    for (const reader = stream.getReader(); !(await reader.read()).done; );
  };
  const waits = async (connect) => {
    const error = await Promise.resolve(connect()).then(read).catch((failure) => failure);
    assert.equal(error.name, 'Error', error.stack);
    return error.retryIn;
  };
  const resume = () => waits(() => transport.reconnectToStream({ chatId: 'x' }));
  const longest = async (tries, next) => {
    let most = 0;
    for (let n = 0; n < tries; n++) most = Math.max(most, await next());
    return most;
  };
  await waits(() => transport.sendMessages(options));
  assert.ok(await longest(60, resume) > 4000, 'message.started ended the pauses');
  net.attack = attack[1];
  assert.ok(await resume() <= 250, 'new text did not end the pauses');
  assert.ok(await longest(60, resume) > 4000, 'the same text ended the pauses');
  net.attack = attacks['an empty answer'];
  assert.ok(await longest(60, () => waits(() => transport.sendMessages(options))) <= 250, 'an empty answer is no reply to a message');
});

/** The latest messages of a chat, as its list has them. */
const list = (...messages) => Response.json({ messages, has_more: false });
const reply = (status, content) => ({ id: 'a', role: 'assistant', seq: 2, status, content });

test('a reply of which nothing is left to send is read from its row', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const rows = { complete: 'complete', cancelled: 'cancelled', failed: 'failed', interrupted: 'failed' };
  for (const [stored, status] of Object.entries(rows)) {
    let row = reply('streaming', 'He');
    const net = network((url) => (url.includes('/chats/c/messages') ? list(row) : new Response(null, { status: 204 })));
    const turn = watchedTurn({ chatId: 'c', messageId: 'a' });
    follow(turn, net, () => {});
    await pass(t, 10_000);
    assert.equal(turn.status, 'waiting', 'a proxy said that it had ended');
    row = reply(stored, 'Hello');
    await pass(t, 20_000);
    assert.deepEqual([turn.status, turn.text, turn.cursor], [status, 'Hello', 'a:end']);
    const { asked } = net;
    await pass(t, 20_000);
    assert.equal(net.asked, asked, 'it went on asking');
  }
});

test('a list of messages that stays old is not read again and again', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const net = network((url) => (url.includes('/stream') ? new Response(whole) : list(reply('streaming', ''))));
  const store = new ChatStore({ api: net, chatId: 'c' });
  const close = store.open();
  await pass(t, 60_000, 500);
  assert.ok(net.asked < 10, `asked ${net.asked} times`);
  assert.equal(store.state().messages.at(-1).content, 'Hello');
  close();
});

test('a list of messages is asked for when the server says, and less and less often', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const net = network(refuses(503, '50'));
  const store = new ChatStore({ api: net, chatId: 'c' });
  const close = store.open();
  await pass(t, MINUTES * 60_000, 500);
  assert.ok(net.asked >= 2 && net.asked <= 3, `asked ${net.asked} times in two minutes, of pauses of 50 s`);
  close();
});

test('a server of another cell counts as one that restarts, once for each time that a reply is heard', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const astray = () => new Response('{"code":"wrong_cell"}', { status: 421 });
  const answers = [astray, () => cut(started(0)), astray, astray];
  const net = network(() => answers.shift()());
  const turn = newTurn({ clientMessageId: 'm', content: 'Hi' });
  follow(turn, net, () => {});
  await pass(t, 60_000);
  assert.deepEqual([net.asked, turn.status, turn.failure?.code, turn.failure?.retryable], [4, 'failed', 'wrong_cell', true]);
});

test('the AI SDK is told once to come back from another cell', async () => {
  const transport = new ThroughlineTransport(network(() => new Response('{"code":"wrong_cell"}', { status: 421 })));
  const options = { chatId: 'x', messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'Hi' }] }], trigger: 'submit-message' };
  const errors = [() => transport.sendMessages(options), () => transport.reconnectToStream({ chatId: 'x' })].map((ask) => () => ask().catch((error) => error));
  const first = await errors[0]();
  assert.ok(first.retryIn >= 0, first.stack);
  assert.equal((await errors[1]()).code, 'wrong_cell');
});
