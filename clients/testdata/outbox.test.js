/** What the outbox keeps, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { openOutbox } from '../dist/esm/outbox.js';

const api = { baseUrl: 'http://s', accessToken: async () => 'token' };
const follow = () => () => {}; // nothing comes

/** A storage that can be full. */
class Storage {
  kept = new Map();

  getItem(key) {
    return this.kept.get(key) ?? null;
  }

  setItem(key, value) {
    if (this.full) throw new Error('full');
    this.kept.set(key, value);
  }

  get messages() {
    return JSON.parse(this.kept.get('throughline.turns')).map(({ content }) => content);
  }
}

test('a turn that is dropped twice takes no other with it', async () => {
  const storage = new Storage();
  const box = await openOutbox({ storage, api, follow });
  const first = await box.send({ clientMessageId: 'a', content: 'One' });
  await box.send({ clientMessageId: 'b', content: 'Two' });
  await box.drop(first);
  await box.drop(first);
  assert.deepEqual(storage.messages, ['Two']);
  box.close();
});

test('a message goes out though the storage is full, and is stored when it is not', async () => {
  const storage = new Storage();
  const sent = [];
  const box = await openOutbox({ storage, api, follow: (turn) => (sent.push(turn.content), () => {}) });
  storage.full = true;
  await box.send({ clientMessageId: 'a', content: 'One' });
  assert.deepEqual(sent, ['One']);
  storage.full = false;
  await box.send({ clientMessageId: 'b', content: 'Two' });
  assert.deepEqual(storage.messages, ['One', 'Two']);
  box.close();
});

test('windows that share a storage leave each other their turns', async () => {
  const storage = new Storage();
  const one = await openOutbox({ storage, api, follow });
  const other = await openOutbox({ storage, api, follow });
  const first = await one.send({ clientMessageId: 'a', content: 'One' });
  await other.send({ clientMessageId: 'b', content: 'Two' });
  assert.deepEqual(storage.messages, ['One', 'Two']);
  await one.drop(first);
  assert.deepEqual(storage.messages, ['Two']);
  one.close();
  other.close();
});
