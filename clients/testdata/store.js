/** What the scripts share that use the store against real servers. */
import assert from 'node:assert/strict';

import { createClient } from '@arcoscribe/throughline';

const { BASE_URL, TOKEN, CUES } = process.env;

export const apiOf = (baseUrl) => ({ baseUrl, accessToken: async () => TOKEN });
export const client = createClient(apiOf(BASE_URL));

/** Has the test do something, such as cut the network. */
export const cue = (name) => fetch(`${CUES}/${name}`, { method: 'POST' });

export async function until(what, holds) {
  const deadline = Date.now() + 60_000;
  while (!holds()) {
    assert.ok(Date.now() < deadline, `in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
