/** Calls of tools: which device runs them, how often, and what survives, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ChatStore } from '../dist/esm/chat.js';
import { openOutbox } from '../dist/esm/outbox.js';
import { Server } from './tools-server.js';

const parameters = { type: 'object' };
const dateCall = { text: 'Let me see. ', calls: [{ call_id: 'call_1', name: 'get_date', arguments: { zone: 'here' } }] };
const taxiCall = { calls: [{ call_id: 'call_1', name: 'order_taxi', run: 'server', approval: true, arguments: { to: 'home' } }] };
const done = { text: 'Done. 🏁' };

/** A phone: what it has stored, and the calls that ran on it. */
function phone(server, tools = {}) {
  const kept = new Map();
  const api = server.api({ fetch: (url, init) => (one.dead ? Promise.reject(new TypeError('no network')) : server.fetch(url, init)) });
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value) };
  const one = { kept, ran: [], tools };
  const execute = async (args, { callId, signal }) => {
    one.ran.push([callId, args]);
    one.signal = signal;
    return one.runs ? one.runs(callId) : 'today';
  };
  one.tools = { get_date: { description: 'The date.', parameters, execute }, order_taxi: {}, ...tools };
  one.launch = async () => {
    one.outbox = await openOutbox({ storage, api });
    one.show();
  };
  one.show = () => {
    one.store = new ChatStore({ api, chatId: 'c', outbox: one.outbox, tools: one.tools });
    one.leave = one.store.open();
  };
  one.kill = () => {
    one.leave();
    one.outbox.close();
  };
  one.last = () => one.store.state().messages.at(-1);
  one.text = () => one.last()?.content;
  return one;
}

const settled = async (turns = 30) => {
  for (let n = 0; n < turns; n++) await new Promise(setImmediate);
};

/** Winds the clock, and lets each request be answered in between. */
async function pass(t, ms, step = 1000) {
  await settled();
  for (let passed = 0; passed < ms; passed += step) {
    t.mock.timers.tick(step);
    await settled();
  }
}

const wind = (t) => t.mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'] });

async function asks(t, server, ...phones) {
  wind(t);
  t.after(() => phones.forEach((one) => one.kill()));
  await phones[0].launch();
  await phones[0].store.send('What day is it?');
  await settled();
  for (const one of phones.slice(1)) await one.launch();
  await pass(t, 1000);
}

test('a message declares the tools, and a call runs with its arguments; the reply goes on', async (t) => {
  const server = new Server(dateCall, done);
  const one = phone(server);
  await asks(t, server, one);
  const [[, { tools }]] = server.posts;
  assert.deepEqual(tools, [
    { type: 'function', name: 'get_date', description: 'The date.', parameters },
    { type: 'server', name: 'order_taxi' },
  ]);
  assert.deepEqual(one.ran, [['call_1', { zone: 'here' }]]);
  assert.deepEqual([one.text(), one.last().status, one.store.state().status], ['Let me see. Done. 🏁', 'complete', 'ready']);
  assert.deepEqual(one.last().parts.map(({ type, at }) => [type, at]), [['tool_call', 12], ['tool_result', 12]]);
  assert.deepEqual(server.results(), [['call_1', 'done', 'today']]);
  one.kill();
  await one.launch();
  await pass(t, 5000);
  assert.equal(one.ran.length, 1, 'history was run');
});

test('of two phones one runs the call, and both show the reply', async (t) => {
  const server = new Server(dateCall, done);
  const phones = [phone(server), phone(server)];
  let finish;
  for (const one of phones) one.runs = () => new Promise((resolve) => (finish = resolve));
  await asks(t, server, ...phones);
  await pass(t, 150_000); // longer than a claim that is not renewed
  assert.equal(phones[0].ran.length + phones[1].ran.length, 1);
  finish('today');
  await pass(t, 15_000);
  for (const one of phones) assert.deepEqual([one.text(), one.last().status], ['Let me see. Done. 🏁', 'complete']);
  assert.equal(phones[0].ran.length + phones[1].ran.length, 1);
});

test('a call whose phone died is run by the other', async (t) => {
  const server = new Server(dateCall, done);
  const [one, other] = [phone(server), phone(server)];
  one.runs = () => new Promise(() => {});
  await asks(t, server, one, other);
  one.dead = true;
  await pass(t, 30_000);
  assert.deepEqual([one.ran.length, other.ran.length], [1, 0], 'the claim still holds');
  await pass(t, 90_000);
  assert.deepEqual([one.ran.length, other.ran.length, other.text()], [1, 1, 'Let me see. Done. 🏁']);
});

test('pending calls come back with the chat after a kill', async (t) => {
  const server = new Server(dateCall, done);
  const one = phone(server);
  const { execute } = one.tools.get_date;
  delete one.tools.get_date.execute; // it is killed before it begins
  await asks(t, server, one);
  one.kill();
  one.tools.get_date.execute = execute;
  await one.launch();
  await pass(t, 1000);
  assert.deepEqual([one.ran.length, one.text()], [1, 'Let me see. Done. 🏁']);
});

test('an answer whose reply was lost is given again, and so is one that a kill kept back; the tool runs once', async (t) => {
  for (const fault of ['mute', 'deaf']) {
    const server = new Server(dateCall, done);
    const one = phone(server);
    one.runs = () => ((server[fault] = fault === 'mute' ? 1 : Infinity), 'today');
    await asks(t, server, one);
    if (fault === 'deaf') {
      one.kill();
      server.deaf = 0;
      assert.match(one.kept.get('throughline.turns'), /today/);
      await one.launch();
    }
    await pass(t, 5000);
    const answers = server.posts.filter(([, body]) => body.output);
    assert.ok(answers.every(([, body]) => JSON.stringify(body) === JSON.stringify(answers[0][1])), fault);
    assert.deepEqual([one.ran.length, one.text(), server.results().length], [1, 'Let me see. Done. 🏁', 1], fault);
    one.kill();
    t.mock.timers.reset();
  }
});

test('a tool that fails, says nothing or too much is answered', async (t) => {
  const outcomes = [
    [() => Promise.reject(new Error('No clock.')), 'failed', { error: 'No clock.' }],
    [() => undefined, 'done', null],
    [() => 'x'.repeat(1 << 17), 'failed', { error: 'It is validation_failed.' }],
    [() => 1n, 'failed', { error: 'Do not know how to serialize a BigInt' }],
  ];
  for (const [runs, status, output] of outcomes) {
    const server = new Server(dateCall, done);
    const one = phone(server);
    one.runs = runs;
    await asks(t, server, one);
    assert.deepEqual(server.results(), [['call_1', status, output]]);
    assert.equal(one.ran.length, 1);
    one.kill();
    t.mock.timers.reset();
  }
});

test('arguments that are no JSON are not given to the tool', async (t) => {
  const server = new Server({ calls: [{ ...dateCall.calls[0], arguments: '{"zone":' }] }, done);
  const one = phone(server);
  await asks(t, server, one);
  assert.deepEqual([one.ran.length, server.results()], [0, [['call_1', 'failed', { error: 'The arguments are no JSON object.' }]]]);
});

test('several calls run side by side, and all their results are shown', async (t) => {
  const call = (n) => ({ call_id: `call_${n}`, name: 'get_date' });
  const server = new Server({ text: 'Three: ', calls: [call(1), call(2), call(3)] }, done);
  const phones = [phone(server), phone(server)];
  await asks(t, server, ...phones);
  await pass(t, 90_000);
  assert.equal(phones[0].ran.length + phones[1].ran.length, 3);
  for (const one of phones) {
    assert.equal(one.text(), 'Three: Done. 🏁');
    assert.deepEqual(one.last().parts, server.reply.parts);
  }
});

test('a call of a tool that this app does not know waits, and can be answered', async (t) => {
  const server = new Server({ calls: [{ call_id: 'call_1', name: 'toString', arguments: { a: 1 } }] }, done);
  const one = phone(server);
  await asks(t, server, one);
  const { asked } = server;
  await pass(t, 120_000);
  assert.ok(server.asked - asked <= 60, `a chat that waits has asked ${server.asked - asked} times in two minutes`);
  assert.deepEqual([one.store.state().status, server.results()], ['awaiting', []]);
  assert.deepEqual(one.last().calls, [{ messageId: 'a1', callId: 'call_1', name: 'toString', arguments: { a: 1 }, run: 'client', approval: false }]);
  await assert.rejects(one.store.answer('call_2', 1), { status: 404, code: 'call_not_found' });
  await one.store.answer('call_1', { b: 2 });
  await pass(t, 1000);
  assert.deepEqual([server.results(), one.store.state().status], [[['call_1', 'done', { b: 2 }]], 'ready']);
});

test('a tool of the server waits for its user; of two phones the first decides', async (t) => {
  const server = new Server(taxiCall, done);
  const [one, other] = [phone(server), phone(server)];
  await asks(t, server, one, other);
  for (const { store } of [one, other]) assert.equal(store.state().messages.at(-1).calls[0].name, 'order_taxi');
  const decided = one.store.approve('call_1');
  const refused = other.store.deny('call_1', 'Too dear.').catch((error) => error);
  await decided;
  assert.deepEqual([(await refused).status, (await refused).code], [409, 'call_settled']);
  await pass(t, 15_000);
  for (const { store } of [one, other]) assert.deepEqual([store.state().status, store.state().messages.at(-1).content], ['ready', 'Done. 🏁']);
  assert.deepEqual(server.results(), [['call_1', 'done', 'ran']]);
});

test('a decision comes from a function of the app, too', async (t) => {
  const said = [];
  const approve = (answer) => (args, { callId }) => (said.push([callId, args]), answer);
  const server = new Server(taxiCall, { calls: [{ call_id: 'call_2', name: 'get_date' }] }, done);
  const one = phone(server, { order_taxi: { approve: approve({ approved: false, reason: 'Too dear.' }) } });
  one.tools.get_date.approve = approve(false);
  await asks(t, server, one);
  assert.deepEqual(said, [['call_1', { to: 'home' }], ['call_2', {}]]);
  assert.deepEqual(server.reply.parts[1], { at: 0, type: 'tool_approval', call_id: 'call_1', approved: false, reason: 'Too dear.' });
  assert.deepEqual(server.results()[1], ['call_2', 'failed', { error: 'The user has not approved the call.' }]);
  assert.deepEqual([one.ran.length, one.text()], [0, 'Done. 🏁']);
});

test('a user decides where the function of the app cannot', async (t) => {
  const server = new Server(taxiCall, { calls: [{ call_id: 'call_2', name: 'get_date' }] }, done);
  const approve = () => Promise.reject(new Error('No screen.'));
  const one = phone(server, { order_taxi: { approve } });
  one.tools.get_date.approve = approve;
  await asks(t, server, one);
  for (const id of ['call_1', 'call_2']) {
    assert.deepEqual(one.last().calls.map(({ callId }) => callId), [id]);
    await one.store.approve(id);
    await pass(t, 1000);
  }
  assert.deepEqual([one.ran.length, one.text()], [1, 'Done. 🏁']);
});

test('a tool of the app that is shown first runs when it was approved', async (t) => {
  const server = new Server(dateCall, done);
  const one = phone(server);
  one.tools.get_date.approve = true;
  await asks(t, server, one);
  assert.deepEqual([one.ran.length, one.last().calls.length], [0, 1]);
  await one.store.approve('call_1');
  await pass(t, 1000);
  assert.deepEqual([one.ran.length, one.text()], [1, 'Let me see. Done. 🏁']);
});

test('a tool runs on when the chat is left, and not twice when it is opened again', async (t) => {
  const server = new Server(dateCall, done);
  const one = phone(server);
  let finish;
  one.runs = () => new Promise((resolve) => (finish = resolve));
  await asks(t, server, one);
  one.leave();
  await pass(t, 70_000);
  one.show();
  await pass(t, 5000);
  assert.deepEqual([one.ran.length, one.signal.aborted], [1, false]);
  one.leave();
  finish('today');
  await pass(t, 1000);
  assert.deepEqual(server.results(), [['call_1', 'done', 'today']]);
  one.show();
  await pass(t, 1000);
  assert.deepEqual([one.ran.length, one.text()], [1, 'Let me see. Done. 🏁']);
});

test('a tool is told when the conversation goes on without it', async (t) => {
  const server = new Server(dateCall, done);
  const one = phone(server);
  one.runs = () => new Promise(() => {});
  await asks(t, server, one);
  await one.store.send('Never mind.');
  await pass(t, 15_000);
  assert.equal(one.signal.aborted, true);
  const { messages, status } = one.store.state();
  assert.deepEqual([messages.map(({ status: how }) => how), status], [['complete', 'cancelled', 'complete', 'complete'], 'ready']);
  assert.equal(messages[1].parts.at(-1).status, 'skipped');
});
