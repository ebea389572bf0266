/** Calls of tools with the AI SDK's own chat, over streams as the server writes them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Disconnected, historyOf, ThroughlineTransport } from '@arcoscribe/throughline/ai-sdk';
import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from 'ai';

import { Chat, textOf } from './chat.js';

const REPLY = '018f0000-0000-7000-8000-000000000001';
const start = { type: 'start', messageId: REPLY, messageMetadata: { status: 'streaming', chat_id: 'c', message_id: REPLY } };
const text = (id, delta) => [{ type: 'text-start', id }, { type: 'text-delta', id, delta }, { type: 'text-end', id }];
const begun = (toolCallId, more) => ({ type: 'tool-input-start', toolCallId, toolName: 'get_date', dynamic: true, ...more });
const available = (toolCallId, more) => ({ ...begun(toolCallId, more), type: 'tool-input-available', input: { zone: 'here' } });
const input = (toolCallId) => ({ type: 'tool-input-delta', toolCallId, inputTextDelta: '{"zone":"here"}' });
const output = (toolCallId, value = 'today') => ({ type: 'tool-output-available', toolCallId, output: value, dynamic: true });
const taxi = { toolName: 'order_taxi', providerExecuted: true };
const asks = (id) => [begun(id, taxi), available(id, taxi), { type: 'tool-approval-request', approvalId: id, toolCallId: id }];
const opened = (...ids) => ids.map((call_id) => ({ call_id, name: 'get_date', run: 'client', approval: false }));
const awaiting = (...ids) => ({ type: 'finish', finishReason: 'tool-calls', messageMetadata: { status: 'awaiting', open: opened(...ids) } });
const over = { type: 'finish', finishReason: 'stop', messageMetadata: { status: 'complete' } };
const next = [{ type: 'start-step' }, ...text('text-2', 'Done. 🏁'), { type: 'finish-step' }, over];
const call = [start, ...text('text', 'Let me see. '), begun('x'), available('x'), awaiting('x')];
const replay = [start, ...text('text', 'Let me see. '), begun('x'), input('x'), output('x'), ...next];

const stream = (chunks) => () => new Response(chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join(''));
const no = (status, code) => () => new Response(JSON.stringify({ code, message: `It is ${code}.` }), { status });
const nothing = () => new Response(null, { status: 204 });
const breaks = () => Promise.reject(new TypeError('no network'));
const isComplete = (state) => lastAssistantMessageIsCompleteWithToolCalls(state) || lastAssistantMessageIsCompleteWithApprovalResponses(state);

/** A chat, the requests that it makes, and the calls that its app was told of. The server gives these answers, in their order. */
function chatOf(answers, { messages = [], runs = () => {}, sends = isComplete, ...options } = {}) {
  const asked = [];
  const fetch = async (url, { method, body, headers }) => {
    const place = new Headers(headers).get('Last-Event-ID');
    asked.push([`${method} ${new URL(url).pathname}`, ...(body ? [JSON.parse(body)] : []), ...(place ? [place] : [])]);
    return answers.shift()();
  };
  const transport = new ThroughlineTransport({ baseUrl: 'http://s', accessToken: async () => 'token', fetch }, options);
  const told = [];
  const onToolCall = ({ toolCall: { toolCallId, input: given } }) => void (told.push([toolCallId, given]), runs(chat, toolCallId));
  const chat = new Chat({ id: 'c', transport, messages, onToolCall, sendAutomaticallyWhen: sends });
  return Object.assign(chat, { asked, told });
}

const today = (chat, toolCallId) => void chat.addToolOutput({ tool: 'get_date', toolCallId, output: 'today' });
const statesOf = ({ reply }) => reply.parts.map(({ type, state }) => (state ? `${type} ${state}` : type));
const DONE = ['text done', 'dynamic-tool output-available', 'step-start', 'text done'];

async function rests(chat) {
  for (let n = 0; n < 20; n++) await new Promise(setImmediate);
  for (let n = 0; n < 500 && (chat.status === 'submitted' || chat.status === 'streaming'); n++) await new Promise(setImmediate);
}

test('an open call is told to the app, a settled one that is replayed is not', async () => {
  const chat = chatOf([stream(replay), stream(call)]);
  await chat.resumeStream();
  assert.deepEqual([chat.told, statesOf(chat)], [[], DONE]);
  await chat.resumeStream();
  assert.deepEqual([chat.told, statesOf(chat)], [[['x', { zone: 'here' }]], ['text done', 'dynamic-tool input-available']]);
});

test('the SDK itself runs a call when its input is available, and only then', async () => {
  const told = [];
  const plain = (chunks) => ({
    reconnectToStream: async () => new ReadableStream({ start: (to) => (chunks.forEach((chunk) => to.enqueue(chunk)), to.close()) }),
  });
  const onToolCall = ({ toolCall }) => void told.push(toolCall.toolCallId);
  for (const chunks of [replay, call]) await new Chat({ transport: plain(chunks), onToolCall }).resumeStream();
  assert.deepEqual(told, ['x']);
});

test('an output goes to its call, and the same reply goes on', async () => {
  const tools = { get_date: { description: 'The date.', parameters: { type: 'object' } }, order_taxi: {} };
  const chat = chatOf([stream(call), stream([start, output('x'), ...next])], { tools, runs: today });
  await chat.sendMessage({ text: 'What day is it?' });
  await rests(chat);
  const [[, said], answer] = chat.asked;
  assert.deepEqual(said.tools.map(({ type, name }) => [type, name]), [['function', 'get_date'], ['server', 'order_taxi']]);
  assert.deepEqual(answer, [`POST /v1/messages/${REPLY}/calls/x`, { output: 'today' }]);
  assert.deepEqual([chat.status, statesOf(chat), chat.messages.length, chat.told.length], ['ready', DONE, 2, 1]);
  assert.deepEqual([textOf(chat.reply), chat.reply.metadata.status], ['Let me see. Done. 🏁', 'complete']);
});

test('several answers go one after the other, and the reply goes on from the last', async () => {
  const both = [start, begun('x'), available('x'), ...asks('y'), awaiting('x', 'y')];
  const rest = [stream([start, output('x'), awaiting('y')]), stream([start, output('y', 'ordered'), ...next])];
  for (const approved of [true, false]) {
    const denied = [start, { type: 'tool-output-denied', toolCallId: 'y' }, ...next];
    const sends = lastAssistantMessageIsCompleteWithApprovalResponses;
    const chat = chatOf([stream(both), rest[0], approved ? rest[1] : stream(denied)], { runs: today, sends });
    await chat.sendMessage({ text: 'A taxi for today!' });
    await rests(chat);
    assert.equal(chat.asked.length, 1, 'it was sent before the user had decided');
    await chat.addToolApprovalResponse({ id: 'y', approved, reason: 'So be it.' });
    await rests(chat);
    assert.deepEqual(chat.asked.slice(1), [
      [`POST /v1/messages/${REPLY}/calls/x`, { output: 'today' }],
      [`POST /v1/messages/${REPLY}/calls/y`, approved ? { approved } : { approved, reason: 'So be it.' }],
    ]);
    const states = ['dynamic-tool output-available', `dynamic-tool output-${approved ? 'available' : 'denied'}`, 'step-start', 'text done'];
    assert.deepEqual([chat.status, statesOf(chat)], ['ready', states]);
  }
});

test('an error is the answer of a tool that failed', async () => {
  const failed = { type: 'tool-output-error', toolCallId: 'x', errorText: 'No clock.', dynamic: true };
  const runs = (chat, toolCallId) => void chat.addToolOutput({ tool: 'get_date', toolCallId, state: 'output-error', errorText: 'No clock.' });
  const chat = chatOf([stream(call), stream([start, failed, ...next])], { runs });
  await chat.sendMessage({ text: 'What day is it?' });
  await rests(chat);
  assert.deepEqual([chat.asked[1][1], statesOf(chat)[1]], [{ error: 'No clock.' }, 'dynamic-tool output-error']);
});

test('an answer that was lost on its way is given again, and the tool is not run again', async () => {
  const chat = chatOf([stream(call), breaks, stream([start, output('x'), ...next]), stream(replay)], { runs: today });
  await chat.sendMessage({ text: 'What day is it?' });
  await rests(chat);
  assert.ok(chat.error instanceof Disconnected, String(chat.error));
  await chat.resumeStream();
  const answer = [`POST /v1/messages/${REPLY}/calls/x`, { output: 'today' }];
  assert.deepEqual(chat.asked.slice(1), [answer, answer, ['GET /v1/message/c/stream', `${REPLY}:0`]]);
  assert.deepEqual([chat.status, statesOf(chat), chat.told.length], ['ready', DONE, 1]);
});

test('another device that was faster is shown', async () => {
  const theirs = replay.with(6, output('x', 'yesterday'));
  const chat = chatOf([stream(call), no(409, 'call_settled'), stream(theirs)], { runs: today });
  await chat.sendMessage({ text: 'What day is it?' });
  await rests(chat);
  assert.ok(chat.error instanceof Disconnected, String(chat.error));
  await chat.resumeStream();
  assert.deepEqual([chat.status, statesOf(chat), chat.reply.parts[1].output], ['ready', DONE, 'yesterday']);
});

test('an answer that is refused is an error, and is not given again', async () => {
  const chat = chatOf([stream(call), no(422, 'validation_failed'), nothing], { runs: today });
  await chat.sendMessage({ text: 'What day is it?' });
  await rests(chat);
  assert.equal(chat.error.code, 'validation_failed');
  await chat.resumeStream();
  assert.deepEqual(chat.asked.at(-1)[0], 'GET /v1/message/c/stream');
});

test('a stream that is cut before the reply waits tells the app nothing yet', async () => {
  const chat = chatOf([stream(call.slice(0, -1)), stream(call)]);
  await chat.sendMessage({ text: 'What day is it?' });
  assert.ok(chat.error instanceof Disconnected, String(chat.error));
  assert.deepEqual([chat.told, statesOf(chat)[1]], [[], 'dynamic-tool input-streaming']);
  await chat.resumeStream();
  assert.deepEqual([chat.told.length, statesOf(chat)], [1, ['text done', 'dynamic-tool input-available']]);
});

test('a stream that is cut after the reply waits is whole, and the answer goes on', async () => {
  const said = await stream(call)().text();
  const cut = () => new Response(new ReadableStream({
    start: (to) => to.enqueue(new TextEncoder().encode(said)),
    pull: (to) => new Promise(setImmediate).then(() => to.error(new TypeError('cut'))),
  }, { highWaterMark: 0 }));
  const chat = chatOf([cut, stream([start, output('x'), ...next])], { runs: today });
  await chat.sendMessage({ text: 'What day is it?' });
  await rests(chat);
  assert.deepEqual([chat.error, statesOf(chat), chat.asked.length], [undefined, DONE, 2]);
});

test('with a device a call is claimed before the app is told of it; another device comes back', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const device = '018f0000-0000-7000-8000-00000000000d';
  const claimed = () => Response.json({ call_id: 'x' });
  const claim = [`POST /v1/messages/${REPLY}/calls/x`, { claim: device }];
  const chat = chatOf([stream(call), claimed, claimed, stream([start, output('x'), ...next])], { device });
  await chat.sendMessage({ text: 'What day is it?' });
  t.mock.timers.tick(30_000);
  await rests(chat);
  assert.deepEqual([chat.asked.slice(1), chat.told.length], [[claim, claim], 1]);
  today(chat, 'x');
  await rests(chat);
  t.mock.timers.tick(300_000);
  await rests(chat);
  assert.deepEqual([chat.asked.slice(3), statesOf(chat)], [[[claim[0], { output: 'today', claim: device }]], DONE]);

  const other = chatOf([stream(call), no(409, 'call_claimed'), stream(replay)], { device });
  await other.resumeStream();
  assert.ok(other.error instanceof Disconnected && other.error.retryIn <= 30_000, String(other.error));
  assert.deepEqual([other.told, statesOf(other)[1]], [[], 'dynamic-tool input-streaming']);
  await other.resumeStream();
  assert.deepEqual([other.told, statesOf(other), other.status], [[], DONE, 'ready']);
});

const part = (type, at, more) => ({ type, at, ...more });
const called = (call_id, more) =>
  part('tool_call', 12, { call_id, name: 'get_date', arguments: { zone: 'here' }, run: 'client', approval: false, ...more });
const rowOf = (status, content, ...parts) => ({ id: REPLY, role: 'assistant', status, content, parts });

test('stored messages are what their streams leave', async () => {
  const server = { name: 'order_taxi', run: 'server', approval: true };
  const said = { call_id: 'y', approved: false, reason: 'Too dear.' };
  const rows = [
    [replay, rowOf('complete', 'Let me see. Done. 🏁', called('x'), part('tool_result', 12, { call_id: 'x', status: 'done', output: 'today' }))],
    [call, rowOf('awaiting', 'Let me see. ', called('x'))],
    [[start, ...text('text', 'Let me see. '), ...asks('y'), awaiting('y')], rowOf('awaiting', 'Let me see. ', called('y', server))],
    [[start, ...text('text', 'Let me see. '), ...asks('y'), { type: 'tool-output-denied', toolCallId: 'y' }, over],
      rowOf('complete', 'Let me see. ', called('y', server), part('tool_approval', 12, said), part('tool_result', 12, { call_id: 'y', status: 'denied' }))],
  ];
  const shown = (parts) => parts.map(({ type, state, text: words, toolCallId, toolName, input: given, output: value, providerExecuted }) =>
    ({ type, state, words, toolCallId, toolName, given, value, providerExecuted }));
  for (const [chunks, row] of rows) {
    const chat = chatOf([stream(chunks)]);
    await chat.resumeStream();
    assert.deepEqual(shown(historyOf([row])[0].parts), shown(chat.reply.parts));
  }
  const [{ parts: [, denied] }] = historyOf([rows[3][1]]);
  assert.deepEqual(denied.approval, { id: 'y', approved: false, reason: 'Too dear.' });
  const [{ parts: failed }] = historyOf([rowOf('cancelled', '', called('x', { at: 0 }), part('tool_result', 0, { call_id: 'x', status: 'skipped' }))]);
  assert.deepEqual([failed[0].state, failed[0].errorText], ['output-error', 'The conversation went on without the call.']);
  assert.deepEqual(historyOf([{ ...rowOf('complete', 'Hi.'), parts: null }])[0].parts, [{ type: 'text', text: 'Hi.', state: 'done' }]);
});

test('a call of a chat that was loaded is answered', async () => {
  const question = { id: 'q', role: 'user', status: 'complete', content: 'What day is it?' };
  const chat = chatOf([stream([start, output('x'), ...next])], { messages: historyOf([question, rowOf('awaiting', 'Let me see. ', called('x'))]) });
  await chat.addToolOutput({ tool: 'get_date', toolCallId: 'x', output: 'today' });
  await rests(chat);
  assert.deepEqual([chat.asked.map(([url]) => url), statesOf(chat)], [[`POST /v1/messages/${REPLY}/calls/x`], DONE]);
});

test('a reply whose calls were skipped is not sent again and again', async () => {
  const skipped = { type: 'tool-output-error', toolCallId: 'x', errorText: 'The conversation went on without the call.', dynamic: true };
  const cancelled = { type: 'message-metadata', messageMetadata: { status: 'cancelled' } };
  const chat = chatOf([stream([start, begun('x'), input('x'), skipped, cancelled, { type: 'abort' }])]);
  await chat.resumeStream();
  await rests(chat);
  assert.deepEqual([chat.asked.length, chat.status, chat.error], [1, 'ready', undefined]);
});
