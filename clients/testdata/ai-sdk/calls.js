/** What an app on the AI SDK does with calls of tools. The test plays the model, which calls before it says its reply. */
import assert from 'node:assert/strict';

import { historyOf } from '@arcoscribe/throughline/ai-sdk';
import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from 'ai';

import { Chat } from './chat.js';
import { assertDisconnected, cue, rowsOf, transportTo, until } from './rig.js';

const { BASE_URL, OTHER_URL, MESSAGE, REPLY, HALF } = process.env;

const ASKED = 'Let me see. ';
const DONE = ['text done', 'get_date output-available', 'step-start', 'text done'];
const get_date = { description: 'The date of the phone.', parameters: { type: 'object', properties: {} } };
const tools = { get_date, send_postcard: {} };
const isComplete = (state) => lastAssistantMessageIsCompleteWithToolCalls(state) || lastAssistantMessageIsCompleteWithApprovalResponses(state);

/** An app that shows a chat: the calls that it was told of, and what it posted. */
function app(baseUrl, { runs = () => {}, before = () => {}, device, ...shows } = {}) {
  const posts = [];
  const told = [];
  const send = async (url, init) => {
    if (init.method === 'POST') await before(posts.push(new URL(url).pathname.split('/')[2]));
    return fetch(url, init);
  };
  const transport = transportTo(baseUrl, undefined, { fetch: send }, { tools, device });
  const onToolCall = ({ toolCall: { toolCallId, toolName, input } }) => void (told.push([toolName, input]), runs(chat, toolCallId));
  const chat = new Chat({ ...shows, transport, onToolCall, sendAutomaticallyWhen: isComplete });
  return Object.assign(chat, { posts, told });
}

/** The app anew, as it is after a reload: it has the stored messages and resumes as `useThroughline` does. */
async function reloaded(baseUrl, rows, options) {
  const chat = app(baseUrl, { ...options, id: rows[0].chat_id, messages: historyOf(rows) });
  const { id, status } = rows.at(-1);
  await chat.resumeStream(status === 'awaiting' || status === 'streaming' ? { metadata: { message_id: id } } : {});
  return chat;
}

const today = (chat, toolCallId) => void chat.addToolOutput({ tool: 'get_date', toolCallId, output: 'today' });
const stored = (chat) => rowsOf(chat.reply.metadata.chat_id);
const callsOf = ({ reply }) => reply.parts.filter(({ type }) => type === 'dynamic-tool');
const statesOf = ({ reply }) => reply.parts.map(({ type, toolName, state }) => (state ? `${toolName ?? type} ${state}` : type));
const rests = (chat) => until('the chat is ready', () => chat.status === 'error' || (chat.status === 'ready' && isSettled(chat)));
const isSettled = ({ reply }) => reply.metadata.status === 'complete';

/** A message and its reply, which the user sees once and as it is stored, and which no longer asks for anything. */
async function assertWhole(chat, states = DONE) {
  assert.deepEqual([chat.error, chat.status], [undefined, 'ready']);
  assert.deepEqual([chat.messages.map(({ role }) => role), chat.text], [['user', 'assistant'], ASKED + REPLY]);
  assert.deepEqual([statesOf(chat), chat.reply.metadata.status], [states, 'complete']);
  const [, row] = await rowsOf(chat.reply.metadata.chat_id ?? chat.id);
  assert.deepEqual([row.id, row.status, row.content], [chat.reply.id, 'complete', chat.text]);
  assert.deepEqual(seen(chat.reply), seen(historyOf([row])[0]));
}

const seen = ({ parts }) => parts.map(({ type, state, text, toolCallId, toolName, input, output, errorText, providerExecuted }) =>
  ({ type, state, text, toolCallId, toolName, input, output, errorText, providerExecuted }));

/** A postcard waits for the user's word, also after a reload. The app itself is told of no call. */
async function decides(approved) {
  const first = app(BASE_URL);
  await first.sendMessage({ text: MESSAGE });
  const second = await reloaded(OTHER_URL, await stored(first));
  for (const chat of [first, second]) {
    assert.deepEqual([chat.status, statesOf(chat)], ['ready', ['text done', 'send_postcard approval-requested']]);
    assert.deepEqual(callsOf(chat)[0].input, { to: 'Ada', text: 'Hello' });
  }
  const [{ approval }] = callsOf(second);
  await second.addToolApprovalResponse({ id: approval.id, approved, reason: 'So be it.' });
  await rests(second);
  await first.resumeStream({ metadata: { message_id: first.reply.id } });
  const states = ['text done', `send_postcard output-${approved ? 'available' : 'denied'}`, 'step-start', 'text done'];
  for (const chat of [first, second, await reloaded(BASE_URL, await stored(first))]) {
    await assertWhole(chat, states);
    assert.deepEqual(chat.told, []);
  }
  assert.deepEqual([first.posts, second.posts], [['message'], ['messages']]);
}

export const calls = {
  async 'runs a call and goes on'() {
    const chat = app(BASE_URL, { runs: today });
    await chat.sendMessage({ text: MESSAGE });
    await assertWhole(chat);
    assert.deepEqual([chat.told, chat.posts], [[['get_date', {}]], ['message', 'messages']]);
    assert.deepEqual(chat.finishes.map(({ finishReason }) => finishReason), ['tool-calls', 'stop']);
    assert.equal(callsOf(chat)[0].output, 'today');
  },

  async 'tells the model that a call failed'() {
    const fails = (chat, toolCallId) => void chat.addToolOutput({ tool: 'get_date', toolCallId, state: 'output-error', errorText: 'No clock.' });
    const chat = app(BASE_URL, { runs: fails });
    await chat.sendMessage({ text: MESSAGE });
    await assertWhole(chat, DONE.with(1, 'get_date output-error'));
    assert.equal(callsOf(chat)[0].errorText, 'No clock.');
  },

  'asks before it sends a postcard': () => decides(true),
  'sends no postcard that is denied': () => decides(false),

  /** The output goes at once, the user's word when there is one, and then the reply goes on. */
  async 'answers two calls of one step'() {
    const chat = app(BASE_URL, { runs: today });
    await chat.sendMessage({ text: MESSAGE });
    assert.deepEqual(statesOf(chat), ['text done', 'get_date output-available', 'send_postcard approval-requested']);
    await chat.addToolApprovalResponse({ id: callsOf(chat)[1].approval.id, approved: true });
    await rests(chat);
    await assertWhole(chat, [...DONE.slice(0, 2), 'send_postcard output-available', ...DONE.slice(2)]);
    assert.deepEqual([chat.told, chat.posts], [[['get_date', {}]], ['message', 'messages', 'messages']]);
  },

  async 'runs no call again that has its answer'() {
    const chat = app(BASE_URL, { runs: today });
    chat.sendMessage({ text: MESSAGE });
    await until('the reply goes on', () => chat.text === ASKED + HALF);
    const rows = await stored(chat);
    assert.equal(rows.at(-1).status, 'streaming');
    const other = reloaded(OTHER_URL, rows, { runs: today });
    await cue('cut');
    await until('the network is cut', () => chat.status === 'error');
    assertDisconnected(chat);
    const resumed = chat.resumeStream();
    await until('the reply is streamed again', () => chat.status === 'streaming');
    await cue('goOn');
    await resumed;
    const read = await stored(chat);
    const late = [await other, await reloaded(OTHER_URL, rows, { runs: today }), await reloaded(OTHER_URL, read, { runs: today })];
    for (const one of [chat, ...late]) await assertWhole(one);
    for (const one of late) assert.deepEqual([one.told, one.posts], [[], []]);
    assert.deepEqual([chat.told.length, chat.posts], [1, ['message', 'messages']]);
  },

  async 'comes back to a call that is open'() {
    const killed = app(BASE_URL);
    await killed.sendMessage({ text: MESSAGE });
    const rows = await stored(killed);
    assert.deepEqual([rows.at(-1).status, killed.told.length, killed.posts], ['awaiting', 1, ['message']]);
    const chat = await reloaded(OTHER_URL, rows); // which leaves it to the user
    assert.deepEqual([chat.told, statesOf(chat)], [[['get_date', {}]], ['text done', 'get_date input-available']]);
    today(chat, callsOf(chat)[0].toolCallId);
    await rests(chat);
    await assertWhole(chat);
    const late = await reloaded(BASE_URL, rows, { runs: today }); // its messages are old
    await assertWhole(late);
    assert.deepEqual([late.told, late.posts, chat.posts], [[], [], ['messages']]);
  },

  async 'runs a call on one of two devices'() {
    const [here, there] = [crypto.randomUUID(), crypto.randomUUID()];
    const killed = app(BASE_URL, { device: here });
    await killed.sendMessage({ text: MESSAGE });
    const rows = await stored(killed);
    const other = await reloaded(OTHER_URL, rows, { device: there, runs: today });
    assertDisconnected(other);
    assert.deepEqual([other.told, other.posts, statesOf(other)[1]], [[], ['messages'], 'get_date input-streaming']);
    const chat = await reloaded(BASE_URL, rows, { device: here, runs: today });
    await assertWhole(chat);
    await other.resumeStream();
    await assertWhole(other);
    assert.deepEqual([chat.told.length, other.told], [1, []]);
    process.exit(0); // the killed app's claim is renewed still
  },

  /** The claim is cut, and the answer. */
  async 'answers a call over a network that cuts'() {
    const before = (post) => [2, 4].includes(post) && cue('cutAtOnce');
    const chat = app(BASE_URL, { before, device: crypto.randomUUID(), runs: today });
    let cuts = 0;
    chat.onDisconnected = (error) => setTimeout(chat.resumeStream, (cuts++, error.retryIn));
    chat.sendMessage({ text: MESSAGE });
    await until('the reply is whole', () => chat.status === 'ready' && chat.reply && isSettled(chat));
    await assertWhole(chat);
    assert.deepEqual([chat.told.length, cuts, chat.posts], [1, 2, ['message', ...Array(4).fill('messages')]]);
  },
};
