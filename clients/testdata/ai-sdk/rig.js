/** What the scenarios share: the way to the servers, and to the test, which plays the model and the network. */
import assert from 'node:assert/strict';

import { createClient } from '@arcoscribe/throughline';
import { Disconnected, ThroughlineTransport } from '@arcoscribe/throughline/ai-sdk';

const { OTHER_URL, TOKEN, CUES } = process.env;

export const transportTo = (baseUrl, tokens = [TOKEN], more = {}, options = {}) =>
  new ThroughlineTransport({ ...more, baseUrl, accessToken: async (renew) => (renew ? tokens.at(-1) : tokens[0]) }, options);

/** Lets the test do something: cut the network, let the model go on. */
export async function cue(name) {
  const response = await fetch(`${CUES}/${name}`, { method: 'POST' });
  assert.equal(response.status, 204, `cue ${name}`);
}

export async function until(what, holds) {
  const deadline = Date.now() + 120_000;
  while (!holds()) {
    assert.ok(Date.now() < deadline, `in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export function assertDisconnected(chat) {
  assert.equal(chat.status, 'error');
  assert.ok(chat.error instanceof Disconnected, String(chat.error));
  assert.ok(chat.error.retryIn > 0);
}

export const client = createClient({ baseUrl: OTHER_URL, accessToken: async () => TOKEN });

/** A chat's rows, of the path or of all versions. */
export async function rowsOf(chatId, versions) {
  const params = { path: { chat_id: chatId }, query: { versions } };
  return (await client.GET('/v1/chats/{chat_id}/messages', { params })).data.messages;
}
