/** What an app does with the versions of its messages, and two that do it at once. The test plays the network. */
import assert from 'node:assert/strict';

import { ChatStore, openOutbox } from '@arcoscribe/throughline';

import { apiOf, client, cue, until } from './store.js';

const { BASE_URL, OTHER_URL, NETWORK, ROUNDS } = process.env;

const opened = [];
function open(baseUrl, chatId, more = {}) {
  const store = new ChatStore({ api: apiOf(baseUrl), chatId, ...more });
  opened.push(store.open());
  return store;
}

const linesOf = (store) => store.state().messages.map(({ content }) => content);
const idsOf = (store) => store.state().messages.map(({ id }) => id);
const idle = (store) =>
  until('the chat is at rest', () => store.state().status === 'ready' && store.state().messages.every(({ stored }) => stored));

/** A new chat in which each message has been answered. */
async function chatOf(...contents) {
  let chat_id;
  for (const content of contents) {
    const path = chat_id ? '/v1/message' : '/v1/message/first';
    const body = { chat_id, content, client_message_id: crypto.randomUUID() };
    ({ chat_id } = (await client.POST(path, { body, headers: { Accept: 'application/json' } })).data);
  }
  return chat_id;
}

async function opens(baseUrl, chatId, more) {
  const store = open(baseUrl, chatId, more);
  await idle(store);
  return store;
}

const refusal = (status, code) => (error) => error.status === status && error.code === code && error.message.length > 0;

async function editsAndGoesBack() {
  const chatId = await chatOf('Meine Katze heißt Ada.', 'それはいつですか。');
  const store = await opens(BASE_URL, chatId);
  const before = linesOf(store);
  const [asked, firstReply] = idsOf(store);

  const edited = store.edit(asked, 'Meine Katze heißt Bea. 🐈');
  await until('the tail has left', () => linesOf(store)[0] === 'Meine Katze heißt Bea. 🐈' && linesOf(store).length === 2);
  await edited;
  await idle(store);
  const [mine, reply] = store.state().messages;
  assert.equal(store.state().messages.length, 2);
  assert.deepEqual([mine.stored.version, mine.stored.versions, mine.stored.parent_id], [2, 2, null]);
  assert.deepEqual([reply.stored.version, reply.stored.versions, reply.stored.parent_id], [1, 1, mine.id]);

  await store.regenerate(undefined, { model_variant: 'deep-dive' });
  await idle(store);
  const [, again] = store.state().messages;
  assert.deepEqual([idsOf(store)[0], again.stored.version, again.stored.versions], [mine.id, 2, 2]);

  const { versions, selected } = await store.versions(mine.id);
  assert.deepEqual([versions.map(({ id }) => id), selected], [[asked, mine.id], mine.id]);
  await store.select(asked);
  assert.deepEqual(linesOf(store), before);
  assert.deepEqual(idsOf(store).slice(0, 2), [asked, firstReply]);
  await store.select(asked); // it is there already
  assert.deepEqual(linesOf(store), before);
  const { data } = await client.GET('/v1/chats/{chat_id}/messages', { params: { path: { chat_id: chatId } } });
  assert.deepEqual(data.messages.map(({ id }) => id), idsOf(store));
}

/** The other device sees the path that this one has made, over pages of two. */
async function readsAgain() {
  const chatId = await chatOf('One', 'Two', 'Three', 'Four');
  const here = await opens(BASE_URL, chatId);
  const there = await opens(OTHER_URL, chatId, { pageSize: 2 });
  while (there.state().hasOlder) await there.loadOlder();
  const all = idsOf(here);
  assert.deepEqual(idsOf(there), all);

  await here.edit(all[4], 'Dos');
  await idle(here);
  await there.refresh();
  while (there.state().hasOlder) await there.loadOlder();
  assert.deepEqual(idsOf(there), idsOf(here));
  assert.deepEqual(idsOf(here).slice(0, 4), all.slice(0, 4));

  await there.select(all[4]);
  while (there.state().hasOlder) await there.loadOlder();
  assert.deepEqual(idsOf(there), all);
  await here.refresh();
  assert.deepEqual(idsOf(here), all);
}

async function isRefused() {
  const chatId = await chatOf('Eins', 'Zwei');
  const [here, there] = [await opens(BASE_URL, chatId), await opens(OTHER_URL, chatId)];
  const [first] = idsOf(here);
  await there.send('Drei');
  await until('the other has an answer', () => linesOf(there).length === 6 && there.state().status === 'ready');
  for (const deed of [() => here.edit(first, 'Uno'), () => here.regenerate()]) {
    await assert.rejects(deed, refusal(409, 'conversation_changed'), String(deed));
    assert.deepEqual(idsOf(here), idsOf(there)); // read again
    await there.send('Weiter');
    const length = linesOf(here).length + 2;
    await until('the other has an answer', () => linesOf(there).length === length && there.state().status === 'ready');
  }
  await here.refresh();
  await assert.rejects(here.edit(crypto.randomUUID(), 'Uno'), refusal(404, 'message_not_found'));
  await assert.rejects(here.edit(first, ' '), refusal(422, 'validation_failed'));
  await assert.rejects(here.regenerate(undefined, { model_variant: 'none' }), refusal(422, 'unknown_model_variant'));
  assert.deepEqual(idsOf(here), idsOf(there));
  assert.equal(here.state().status, 'ready');
}

/** Nothing was heard of the request, which is sent again: one edit, whatever the server had of it. */
async function survivesCuts() {
  for (const cut of ['cutAtOnce', 'cutSoon']) {
    const chatId = await chatOf('Ein Satz.');
    const store = await opens(NETWORK, chatId);
    await cue(cut);
    await store.edit(idsOf(store)[0], `Another sentence: ${cut}`);
    await idle(store);
    await cue(cut);
    await store.regenerate();
    await idle(store);
    const { messages } = (await client.GET('/v1/chats/{chat_id}/messages', {
      params: { path: { chat_id: chatId }, query: { versions: 'all' } },
    })).data;
    assert.deepEqual(messages.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant', 'assistant'], cut);
    assert.deepEqual(idsOf(store), [messages[2].id, messages[4].id]);
  }
}

const RUNS = '[[offline:slow=200ms]] Write 900 words about cats.'; // until it is stopped

async function waitsForItsTurn() {
  const chatId = await chatOf('Hallo');
  const [here, there] = [await opens(BASE_URL, chatId), await opens(OTHER_URL, chatId)];
  const [first] = idsOf(here);
  void here.send(RUNS);
  await until('the reply runs', () => here.state().status === 'streaming');
  await assert.rejects(here.edit(first, 'Servus'), refusal(409, 'generation_in_progress'));
  await assert.rejects(there.edit(first, 'Servus'), refusal(409, 'generation_in_progress')); // it had not heard of that
  await until('the other watches', () => there.state().status === 'streaming');
  await assert.rejects(there.regenerate(), refusal(409, 'generation_in_progress'));
  await here.stop();
  await here.edit(first, 'Servus'); // at once
  await idle(here);
  assert.deepEqual([linesOf(here)[0], linesOf(here).length], ['Servus', 2]);
}

/** A reply that failed here, and that another device has replaced, is no message any more. */
async function forgetsWhatFailed() {
  const chatId = await chatOf('Guten Tag');
  const here = await opens(BASE_URL, chatId);
  await here.send('Das bricht ab. [[offline:failed]]');
  await until('it has failed', () => here.state().status === 'failed' && here.state().messages.at(-1).failure && idsOf(here)[3]);
  for (const deed of [here.regenerate, here.retry]) { // another reply, which fails as well; and that one again
    const [last] = idsOf(here).slice(-1);
    await deed();
    await until('another has failed', () => here.state().status === 'failed' && ![last, undefined].includes(idsOf(here)[3]));
    assert.deepEqual([linesOf(here).length, here.state().messages[3].failure.code], [4, 'upstream_failed']);
  }
  const there = open(OTHER_URL, chatId);
  await until('the other shows that', () => there.state().status === 'failed');
  await there.edit(idsOf(there)[2], '途中で切れません。');
  await idle(there);
  await here.refresh();
  assert.deepEqual(idsOf(here), idsOf(there));
  assert.equal(here.state().status, 'ready');
}

/** An edit without a network is in the outbox when the app is started again, and is made if nothing else was said meanwhile. */
async function survivesTheApp() {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value) };
  const chatId = await chatOf('Eins', 'Zwei');
  const launch = async (baseUrl) => {
    const outbox = await openOutbox({ storage, api: apiOf(baseUrl) });
    const store = open(BASE_URL, chatId, { outbox });
    await until('the chat is read', () => store.state().status !== 'loading');
    return { store, outbox };
  };
  const edits = async (content) => {
    const { store, outbox } = await launch('http://127.0.0.1:1');
    void store.edit(idsOf(store)[2], content);
    await until('it waits', () => store.state().status === 'waiting' && linesOf(store)[2] === content);
    outbox.close();
    opened.pop()();
  };
  await edits('Deux');
  const { store, outbox } = await launch(BASE_URL);
  await idle(store);
  assert.deepEqual([linesOf(store)[2], linesOf(store).length], ['Deux', 4]);
  outbox.close();
  opened.pop()();

  await edits('Trois');
  const other = await opens(OTHER_URL, chatId);
  await other.send('Anderes Gerät');
  await until('it is answered', () => linesOf(other).length === 6);
  await idle(other);
  const { store: late } = await launch(BASE_URL);
  await until('it was refused', () => late.state().messages.at(-1).failure?.code === 'conversation_changed' && linesOf(late).length === 8);
  assert.deepEqual([idsOf(late).slice(0, 6), linesOf(late)[6]], [idsOf(other), 'Trois']); // its words are not lost
  await late.drop(late.state().messages.at(-1).key);
  assert.deepEqual([idsOf(late), late.state().status], [idsOf(other), 'ready']);
}

/** All pairs of deeds, by two devices at two servers: one wins, the other shows what that has made. */
async function races() {
  const deeds = {
    edit: (store) => store.edit(idsOf(store)[0], crypto.randomUUID()),
    regenerate: (store) => store.regenerate(),
    regenerateFirst: (store) => store.regenerate(idsOf(store)[1]),
    select: (store, other) => store.select(other),
  };
  const names = Object.keys(deeds);
  const pairs = names.flatMap((one) => names.map((two) => [one, two]));
  const ends = {};
  for (let round = 0; round < Number(ROUNDS); round++) {
    const [one, two] = pairs[round % pairs.length];
    const chatId = await chatOf('Erste Frage', '二つ目の質問');
    const here = await opens(BASE_URL, chatId);
    const other = idsOf(here)[0];
    await here.edit(other, 'Andere Frage');
    await idle(here);
    await here.send('Und weiter');
    await until('an answer', () => linesOf(here).length === 4);
    await idle(here);
    const there = await opens(OTHER_URL, chatId);
    const done = await Promise.allSettled([deeds[one](here, other), deeds[two](there, other)]);
    const won = done.filter(({ status }) => status === 'fulfilled').length;
    const codes = done.map(({ reason }) => reason?.code ?? 'won');
    ends[codes.join(' × ')] = (ends[codes.join(' × ')] ?? 0) + 1;
    const same = one === 'select' && two === 'select'; // both want the same, and the second changes nothing
    assert.equal(won, same ? 2 : 1, `${one} × ${two}: ${codes}`);
    for (const store of [here, there]) {
      await until('nothing runs', () => ['ready', 'failed'].includes(store.state().status));
      await store.refresh();
      await idle(store);
    }
    assert.deepEqual(idsOf(here), idsOf(there), `${one} × ${two}`);
    for (const end of opened.splice(0)) end();
  }
  console.log(JSON.stringify(ends));
}

for (const scenario of [editsAndGoesBack, readsAgain, isRefused, survivesCuts, waitsForItsTurn, forgetsWhatFailed, survivesTheApp, races]) {
  if (process.env.ONLY && scenario.name !== process.env.ONLY) continue;
  console.log(scenario.name);
  await scenario();
  for (const end of opened.splice(0)) end();
}
