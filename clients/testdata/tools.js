/** Calls of tools with the store that apps use, on two phones and two servers. The test plays the model and the network. */
import assert from 'node:assert/strict';

import { ChatStore, openOutbox } from '@arcoscribe/throughline';

import { apiOf, client, cue, until } from './store.js';

const { BASE_URL, OTHER_URL, NETWORK, REPLY, ROUNDS } = process.env;
const ASKED = 'Let me see. ';

/** A phone: what it has stored, and the calls that ran on it. */
function phone(baseUrl) {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value) };
  const one = { ran: [], runs: () => 'today' };
  const execute = (args, { callId }) => (one.ran.push(callId), one.runs(args));
  const get_date = { description: 'The date of the phone.', parameters: { type: 'object', properties: {} }, execute };
  one.tools = { get_date, send_postcard: {} };
  one.open = async (chatId) => {
    one.box = await openOutbox({ storage, api: apiOf(baseUrl) });
    one.store = new ChatStore({ api: apiOf(baseUrl), chatId, outbox: one.box, tools: one.tools });
    one.leave = one.store.open();
  };
  one.kill = () => (one.leave(), one.box.close());
  one.last = () => one.store.state().messages.at(-1);
  const isRead = ({ stored }) => stored && (stored.status === 'awaiting' || one.store.state().status !== 'awaiting');
  one.rests = (status = 'ready') => until(`the chat is ${status}`, () => one.store.state().status === status && isRead(one.last()));
  return one;
}

const pageOf = async (chatId) =>
  (await client.GET('/v1/chats/{chat_id}/messages', { params: { path: { chat_id: chatId } } })).data.messages;

async function assertOnce(chatId, ...phones) {
  const row = (await pageOf(chatId)).at(-1);
  assert.deepEqual([row.status, row.content], ['complete', ASKED + REPLY]);
  assert.deepEqual(row.parts.map(({ type, output }) => [type, output]), [['tool_call', undefined], ['tool_result', 'today']]);
  assert.equal(row.parts[0].call_id, row.parts[1].call_id);
  assert.equal(phones.reduce((sum, { ran }) => sum + ran.length, 0), 1);
  for (const { last } of phones) assert.deepEqual([last().content, last().parts], [row.content, row.parts]);
}

async function asks(content, ...phones) {
  const [one, ...others] = phones;
  await one.open();
  await one.store.send(content);
  await until('the chat has an id', () => one.store.state().chatId);
  const { chatId } = one.store.state();
  for (const other of others) await other.open(chatId);
  return chatId;
}

const scenarios = {
  async 'runs on one of two phones'() {
    for (let round = 0; round < ROUNDS; round++) {
      const phones = [phone(BASE_URL), phone(OTHER_URL)];
      let finish;
      for (const one of phones) one.runs = () => new Promise((resolve) => (finish = resolve));
      const chatId = await asks(`What day is it? ${round}`, ...phones);
      await until('the call runs', () => finish);
      await Promise.all(phones.map((one) => one.rests('awaiting')));
      finish('today');
      for (const one of phones) await one.rests();
      await assertOnce(chatId, ...phones);
      for (const one of phones) one.kill();
    }
  },

  async 'comes back after a kill'() {
    const one = phone(BASE_URL);
    const { execute } = one.tools.get_date;
    delete one.tools.get_date.execute; // it is killed before the call runs
    const chatId = await asks('What day is it now?', one);
    await one.rests('awaiting');
    one.kill();
    one.tools.get_date.execute = execute;
    await one.open(chatId);
    await one.rests();
    await assertOnce(chatId, one);
    one.kill();
  },

  async 'answers over a network that cuts'() {
    const one = phone(NETWORK);
    one.runs = async () => {
      await cue('cutAtOnce');
      return 'today';
    };
    const chatId = await asks('What day is it here?', one);
    await one.rests();
    await assertOnce(chatId, one);
    one.kill();
  },

  async 'waits for a user who approves or denies'() {
    for (const approved of [true, false]) {
      const phones = [phone(BASE_URL), phone(OTHER_URL)];
      const chatId = await asks(`A postcard, please: ${approved}`, ...phones);
      for (const one of phones) await one.rests('awaiting');
      const [call] = phones[1].last().calls;
      assert.deepEqual([call.name, call.run, call.approval, call.arguments], ['send_postcard', 'server', true, { to: 'Ada', text: 'Hello' }]);
      if (approved) await phones[1].store.approve(call.callId);
      else await phones[1].store.deny(call.callId, 'Not today.');
      for (const one of phones) await one.rests();
      const { parts } = (await pageOf(chatId)).at(-1);
      assert.deepEqual(parts.map(({ type }) => type), ['tool_call', 'tool_approval', 'tool_result']);
      assert.deepEqual([parts[1].approved, parts[2].status], [approved, approved ? 'done' : 'denied']);
      for (const one of phones) assert.deepEqual(one.last().parts, parts);
      for (const one of phones) one.kill();
    }
  },

  async 'leaves a tool that the app does not know, until the user goes on'() {
    const one = phone(BASE_URL);
    delete one.tools.get_date;
    await one.open();
    const get_date = { type: 'function', name: 'get_date', description: 'Of a newer app.', parameters: { type: 'object', properties: {} } };
    await one.store.send('What day is it there?', { tools: [get_date] });
    await one.rests('awaiting');
    assert.equal(one.last().calls[0].name, 'get_date');
    await one.store.send('Never mind.');
    await one.rests();
    const [, left] = await pageOf(one.store.state().chatId);
    assert.deepEqual([left.status, left.parts.at(-1).status], ['cancelled', 'skipped']);
    one.kill();
  },
};

for (const [name, scenario] of Object.entries(scenarios)) {
  await scenario();
  console.log(name);
}
process.exit(0);
