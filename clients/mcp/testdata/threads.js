/**
 * What an editor does with the tools: it lists them, begins a thread in one, and goes on in the others. The
 * test looks at what the model was told.
 */
import assert from 'node:assert/strict';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const { BASE_URL, TOKEN, OTHER_TOKEN, MARK, FILE, CUES } = process.env;

function transportOf(token) {
  return new StreamableHTTPClientTransport(new URL('/mcp', BASE_URL), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
}

async function connect(token) {
  const client = new Client({ name: 'editor', version: '1.0.0' });
  await client.connect(transportOf(token));
  return client;
}

/** Calls a tool that must not fail, and checks that it names its thread in both ways. */
async function ask(client, name, args, options) {
  const result = await client.callTool({ name, arguments: args }, undefined, options);
  assert.ok(!result.isError, JSON.stringify(result.content));
  const thread = result.structuredContent.continuation_id;
  assert.ok(result.content[0].text.endsWith(`\ncontinuation_id: ${thread}`), result.content[0].text);
  return result.structuredContent;
}

const client = await connect(TOKEN);
const { tools } = await client.listTools();
assert.deepEqual(tools.map(({ name }) => name).sort(), [
  'chat', 'codereview', 'debug', 'forget_memory', 'forget_thread', 'get_thread', 'list_memories', 'list_threads', 'pin_message', 'recall', 'remember',
  'search_history', 'what_is_known',
]);
assert.match(client.getInstructions(), /continuation_id/);

const files = [{ path: 'spline.go', content: FILE }];
// The model is held until the client has heard how far it is.
const heard = (progress) => {
  assert.ok(progress > 0);
  fetch(`${CUES}/goOn`, { method: 'POST' });
};
const first = await ask(client, 'chat', { prompt: `The splines are Ilse's. ${MARK}`, files }, { onprogress: ({ progress }) => heard(progress) });
assert.equal(first.started_new, true);
const { continuation_id } = first;
const second = await ask(client, 'debug', { prompt: `Why does it panic? ${MARK}`, continuation_id, files });
const third = await ask(client, 'codereview', { prompt: `Review it. ${MARK}`, continuation_id });
for (const { continuation_id: thread, started_new } of [second, third]) {
  assert.deepEqual({ thread, started_new }, { thread: continuation_id, started_new: false });
}

const shown = await client.callTool({ name: 'get_thread', arguments: { continuation_id } });
assert.deepEqual(shown.structuredContent.messages.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant', 'user', 'assistant']);

const recalled = await client.callTool({ name: 'recall', arguments: { query: 'Whose are the splines?', continuation_id } });
assert.ok(recalled.structuredContent.results.some(({ quote }) => quote.includes("Ilse's")));

const wrong = await client.callTool({ name: 'chat', arguments: { continuation_id } });
assert.equal(wrong.isError, true);
assert.match(wrong.content[0].text, /^validation_failed: .*prompt/s);

// Somebody else gets a thread of their own, and finds nothing.
const stranger = await connect(OTHER_TOKEN);
const theirs = await ask(stranger, 'chat', { prompt: `Whose are they? ${MARK}`, continuation_id });
assert.equal(theirs.started_new, true);
assert.match(theirs.note, /no thread with this continuation_id/);
for (const name of ['get_thread', 'forget_thread']) {
  const refused = await stranger.callTool({ name, arguments: { continuation_id } });
  assert.match(refused.content[0].text, /^chat_not_found: /);
}
const found = await stranger.callTool({ name: 'search_history', arguments: { query: 'splines' } });
assert.deepEqual(found.structuredContent.results, []);
const theirsRecalled = await stranger.callTool({ name: 'recall', arguments: { query: "Ilse's" } });
assert.deepEqual(theirsRecalled.structuredContent.results, []);

await client.close();
await stranger.close();
await assert.rejects(connect('nonsense'));

console.log(JSON.stringify({ replies: [first.reply, second.reply, third.reply] }));
