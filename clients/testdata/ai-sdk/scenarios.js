/** What an app on the AI SDK does, one scenario a run. The test plays the model and the network. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';

import { ThroughlineError } from '@arcoscribe/throughline';
import { Disconnected, historyOf, ThroughlineTransport } from '@arcoscribe/throughline/ai-sdk';
import { generateId, readUIMessageStream } from 'ai';

import { calls } from './calls.js';
import { Chat, textOf } from './chat.js';
import { assertDisconnected, client, cue, rowsOf, transportTo, until } from './rig.js';

const { BASE_URL, OTHER_URL, TOKEN, SCENARIO, MESSAGE, REPLY, HALF, CUTS } = process.env;

const showsHalf = (chat) => until('the first part is shown', () => chat.text === HALF);

function assertWhole(chat) {
  assert.equal(chat.error, undefined);
  assert.equal(chat.status, 'ready');
  assert.equal(chat.text, REPLY);
  assert.deepEqual(chat.messages.map(({ role }) => role), ['user', 'assistant']);
  assert.deepEqual(chat.reply.parts.map(({ type, state }) => [type, state]), [['text', 'done']]);
  const { status, message_id, content_length, finish_reason } = chat.reply.metadata;
  assert.deepEqual({ status, finish_reason }, { status: 'complete', finish_reason: 'stop' });
  assert.equal(content_length, [...REPLY].length);
  assert.equal(message_id, chat.reply.id);
}

async function assertShows(chat, ...texts) {
  assert.equal(chat.error, undefined);
  const shown = chat.messages.map(textOf);
  const rows = await rowsOf(chat.reply.metadata.chat_id);
  assert.deepEqual(shown, rows.map(({ content }) => content), 'what is shown is the path');
  texts.forEach((text, at) => text && assert.equal(shown[at], text));
  assert.equal(shown.length, texts.length);
}

const scenarios = {
  ...calls,

  async streams() {
    const transport = transportTo(BASE_URL);
    const chat = new Chat({ transport });
    await chat.sendMessage({ text: MESSAGE });
    assertWhole(chat);
    assert.deepEqual(chat.finishes, [{ isAbort: false, isDisconnect: false, isError: false, finishReason: 'stop' }]);
    const { chat_id } = chat.reply.metadata;

    await chat.sendMessage({ text: 'And then?' }, { body: { model_variant: 'deep-dive' } });
    assert.equal(chat.status, 'ready', String(chat.error));
    assert.equal(chat.reply.metadata.chat_id, chat_id);
    assert.equal(chat.reply.metadata.model_variant, 'deep-dive');

    const known = new Chat({ transport: transportTo(OTHER_URL), id: chat_id, messages: chat.messages });
    await known.sendMessage({ text: 'And after that?' });
    assert.equal(known.status, 'ready', String(known.error));
    assert.equal(known.reply.metadata.chat_id, chat_id);
  },

  async 'resumes a reply that was cut'() {
    const chat = new Chat({ transport: transportTo(BASE_URL) });
    const sent = chat.sendMessage({ text: MESSAGE });
    await showsHalf(chat);
    await cue('cut');
    await sent;
    assertDisconnected(chat);
    const resumed = chat.resumeStream();
    await until('the reply is streamed again', () => chat.status === 'streaming');
    await cue('goOn');
    await resumed;
    assertWhole(chat);
  },

  async 'resumes a reply that ended in the meantime'() {
    const chat = new Chat({ transport: transportTo(BASE_URL) });
    const sent = chat.sendMessage({ text: MESSAGE });
    await showsHalf(chat);
    await cue('cut');
    await sent;
    assertDisconnected(chat);
    const watcher = new Chat({ transport: transportTo(OTHER_URL), id: chat.reply.metadata.chat_id });
    const watched = watcher.resumeStream();
    await showsHalf(watcher);
    await cue('goOn');
    await watched;
    assert.equal(watcher.text, REPLY);
    await chat.resumeStream();
    assertWhole(chat);
  },

  /** One line in an app, and it survives any network: that is what onError is given retryIn for. */
  async 'comes back by itself wherever it is cut'() {
    for (let i = 0; i < CUTS; i++) {
      const chat = new Chat({ transport: transportTo(BASE_URL) });
      let cuts = 0;
      chat.onDisconnected = (error) => setTimeout(chat.resumeStream, (cuts++, error.retryIn));
      await cue('cutSoon');
      chat.sendMessage({ text: `${MESSAGE} ${i}` });
      await until('the reply is whole', () => chat.reply?.metadata.status === 'complete' && chat.status === 'ready');
      assertWhole(chat);
      assert.ok(cuts > 0, 'the network was to be cut and was not');
    }
  },

  /** As a proxy may do that ends its answer properly when its own connection broke. */
  async 'takes no reply for whole that was cut off cleanly'() {
    const events = [
      { type: 'start', messageId: 'a', messageMetadata: { chat_id: 'b' } },
      { type: 'text-start', id: 'text' },
      { type: 'text-delta', id: 'text', delta: HALF },
    ];
    const proxy = createServer((_, response) => {
      response.end(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    const chat = new Chat({ transport: transportTo(`http://127.0.0.1:${proxy.address().port}`) });
    await chat.sendMessage({ text: MESSAGE });
    assertDisconnected(chat);
    assert.equal(chat.text, HALF);
    proxy.close();
    proxy.closeAllConnections();
  },

  async 'sends a message again of which nothing was heard'() {
    const chat = new Chat({ transport: transportTo(BASE_URL) });
    await cue('cutAtOnce');
    await chat.sendMessage({ text: MESSAGE });
    assertDisconnected(chat);
    assert.equal(chat.reply, undefined);
    await chat.resumeStream();
    assertWhole(chat);
  },

  async 'has nothing to resume'() {
    const transport = transportTo(BASE_URL);
    const chat = new Chat({ transport });
    await chat.sendMessage({ text: MESSAGE });
    assert.equal(await transport.reconnectToStream({ chatId: chat.id }), null);
    const before = structuredClone(chat.messages);
    await chat.resumeStream();
    assert.equal(chat.status, 'ready');
    assert.deepEqual(chat.messages, before);

    const reopened = new Chat({ transport: transportTo(OTHER_URL), id: chat.reply.metadata.chat_id, messages: before });
    await reopened.resumeStream();
    assert.equal(reopened.status, 'ready');
    assert.deepEqual(reopened.messages, before);
  },

  async 'is killed and reopened'() {
    const killed = new Chat({ transport: transportTo(BASE_URL) });
    const sent = killed.sendMessage({ text: MESSAGE });
    await showsHalf(killed);
    const history = structuredClone(killed.messages); // as the app reads it from the table
    const { chat_id, message_id } = killed.reply.metadata;
    killed.stop();
    await sent;

    const transport = transportTo(OTHER_URL);
    const live = new Chat({ transport, id: chat_id, messages: history });
    const resumed = live.resumeStream();
    await until('the reply is streamed again', () => live.status === 'streaming');
    await cue('goOn');
    await resumed;
    assertWhole(live);

    const late = new Chat({ transport: transportTo(BASE_URL), id: chat_id, messages: history });
    await late.resumeStream();
    assert.equal(late.text, HALF); // nothing runs
    await late.resumeStream({ metadata: { message_id } });
    assertWhole(late);
  },

  async 'is stopped by another device'() {
    const chat = new Chat({ transport: transportTo(BASE_URL) });
    const sent = chat.sendMessage({ text: MESSAGE });
    await showsHalf(chat);
    const { chat_id: chatId } = chat.reply.metadata;

    const other = transportTo(OTHER_URL);
    const [seen, read] = (await other.reconnectToStream({ chatId })).tee();
    let shown;
    const watched = (async () => {
      for await (const message of readUIMessageStream({ stream: read })) shown = message;
    })();
    await until('the other device shows the first part', () => textOf(shown) === HALF);
    const stopped = await other.cancel(chatId);
    assert.equal(stopped.status, 'cancelled');
    await Promise.all([sent, watched]);

    const events = [];
    for await (const { type } of seen) events.push(type);
    assert.deepEqual(events.slice(-3), ['text-end', 'message-metadata', 'abort']);
    for (const message of [chat.reply, shown]) {
      assert.equal(textOf(message), HALF);
      assert.equal(message.metadata.status, 'cancelled');
      assert.equal(message.metadata.content_length, [...HALF].length);
    }
    assert.equal(chat.status, 'ready');
    await chat.resumeStream();
    assert.equal(chat.text, HALF);
  },

  async 'tells of a failure and tries again'() {
    const chat = new Chat({ transport: transportTo(BASE_URL) });
    await chat.sendMessage({ text: MESSAGE });
    assert.equal(chat.status, 'error');
    assert.ok(!(chat.error instanceof Disconnected));
    assert.equal(chat.text, HALF);
    const failed = chat.reply;
    const { status, code, message, retryable } = failed.metadata;
    assert.deepEqual({ status, code, retryable }, { status: 'failed', code: 'upstream_failed', retryable: true });
    assert.equal(chat.error.message, message);
    await chat.regenerate();
    assertWhole(chat);
    assert.notEqual(chat.reply.id, failed.id);
    assert.equal(chat.reply.metadata.chat_id, failed.metadata.chat_id);
  },

  async 'tells of a refusal and tries again'() {
    const chat = new Chat({ transport: transportTo(BASE_URL) });
    await chat.sendMessage({ text: MESSAGE });
    assert.equal(chat.status, 'error');
    assert.ok(chat.error instanceof ThroughlineError, String(chat.error));
    assert.deepEqual([chat.error.status, chat.error.code], [502, 'upstream_failed']);
    await chat.regenerate();
    assertWhole(chat);
  },

  async 'sends a message twice'() {
    const id = crypto.randomUUID();
    const message = { id, role: 'user', parts: [{ type: 'text', text: MESSAGE }] };
    const chats = [BASE_URL, BASE_URL, OTHER_URL].map((baseUrl) => new Chat({ transport: transportTo(baseUrl) }));
    const sent = [];
    for (const chat of chats) {
      sent.push(chat.sendMessage(message));
      await showsHalf(chat);
    }
    await cue('goOn');
    await Promise.all(sent);
    const late = new Chat({ transport: transportTo(OTHER_URL) });
    await late.sendMessage(message);
    for (const chat of [...chats, late]) {
      assertWhole(chat);
      assert.equal(chat.reply.id, late.reply.id);
    }
  },

  /** A server that restarts, and a proxy that knows no other: the same chat goes on as after a cut. */
  async 'waits while no server answers'() {
    const away = [
      { status: 503, body: '{"code":"shutting_down","message":"…"}', headers: { 'Retry-After': '1' } },
      { status: 502, body: '<html>' },
    ];
    const proxy = createServer((request, response) => {
      const { status, body, headers } = away.shift();
      response.writeHead(status, headers).end(body);
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    const api = { baseUrl: `http://127.0.0.1:${proxy.address().port}`, accessToken: async () => TOKEN };
    const chat = new Chat({ transport: new ThroughlineTransport(api) });
    await chat.sendMessage({ text: MESSAGE });
    assertDisconnected(chat);
    assert.ok(chat.error.retryIn >= 1000, `asked again after ${chat.error.retryIn} ms, before Retry-After`);
    await chat.resumeStream();
    assertDisconnected(chat);
    proxy.close();
    proxy.closeAllConnections();
    await chat.resumeStream();
    assertDisconnected(chat);
    api.accessToken = () => Promise.reject(new Error('no network'));
    await chat.resumeStream();
    assertDisconnected(chat);
  },

  async 'gives up a connection that is silent'() {
    const chat = new Chat({ transport: transportTo(BASE_URL, [TOKEN], { silence: 2000 }) });
    chat.onDisconnected = (error) => setTimeout(chat.resumeStream, error.retryIn);
    chat.sendMessage({ text: MESSAGE });
    await showsHalf(chat);
    await cue('freeze');
    await cue('goOn');
    await until('the reply is whole', () => chat.reply.metadata.status === 'complete' && chat.status === 'ready');
    assertWhole(chat);
  },

  /** By the SDK's own ids, of which the server makes uuids, and by uuids. */
  async 'edits messages and has other replies'() {
    for (const newId of [() => crypto.randomUUID(), generateId]) {
      const chat = new Chat({ transport: transportTo(BASE_URL), generateId: newId });
      await chat.sendMessage({ text: MESSAGE });
      await chat.sendMessage({ text: 'Und dann?' });
      const [asked, first] = chat.messages;
      const { chat_id } = first.metadata;
      await chat.regenerate({ messageId: first.id }); // all after it leaves
      await assertShows(chat, MESSAGE, REPLY);
      assert.notEqual(chat.reply.id, first.id);
      const second = chat.reply.id;

      await cue('cutAtOnce');
      await chat.regenerate();
      assertDisconnected(chat);
      await chat.regenerate(); // of which nothing was heard: the same again
      await assertShows(chat, MESSAGE, REPLY);
      const { versions } = (await client.GET('/v1/messages/{message_id}/versions', { params: { path: { message_id: second } } })).data;
      assert.deepEqual(versions.map(({ id }) => id), [first.id, second, chat.reply.id]);

      await chat.sendMessage({ text: '猫の名前は?', messageId: asked.id });
      await assertShows(chat, '猫の名前は?', undefined);
      await chat.regenerate({ body: { model_variant: 'deep-dive' } });
      await assertShows(chat, '猫の名前は?', undefined);
      assert.equal(chat.reply.metadata.model_variant, 'deep-dive');
      await chat.sendMessage({ text: 'Wie heißt sie?', messageId: asked.id });
      await assertShows(chat, 'Wie heißt sie?', undefined);
      await chat.sendMessage({ text: 'Danke!' });
      await assertShows(chat, 'Wie heißt sie?', undefined, 'Danke!', undefined);

      const oldest = (await rowsOf(chat_id, 'all'))[0];
      await client.POST('/v1/messages/{message_id}/select', { params: { path: { message_id: oldest.id } }, body: {} });
      chat.messages = historyOf(await rowsOf(chat_id));
      await chat.sendMessage({ text: 'Noch einmal.', messageId: chat.messages[0].id });
      await assertShows(chat, 'Noch einmal.', undefined);
      assert.deepEqual((await rowsOf(chat_id, 'all')).filter(({ role }) => role === 'user').map(({ content }) => content),
        [MESSAGE, 'Und dann?', '猫の名前は?', 'Wie heißt sie?', 'Danke!', 'Noch einmal.']);
    }
  },

  async 'edits a message that was refused'() {
    const chat = new Chat({ transport: transportTo(BASE_URL), generateId });
    await chat.sendMessage({ text: MESSAGE });
    await chat.sendMessage({ text: 'x'.repeat(32_001) });
    assert.equal(chat.error.code, 'validation_failed');
    await chat.sendMessage({ text: 'Kürzer.', messageId: chat.messages.at(-1).id });
    await assertShows(chat, MESSAGE, REPLY, 'Kürzer.', undefined);
  },

  async 'is told that another device was faster'() {
    const id = crypto.randomUUID();
    const chat = new Chat({ transport: transportTo(BASE_URL) });
    await chat.sendMessage({ id, role: 'user', parts: [{ type: 'text', text: MESSAGE }] });
    const { chat_id } = chat.reply.metadata;
    const other = new Chat({ transport: transportTo(OTHER_URL), id: chat_id, messages: historyOf(await rowsOf(chat_id)) });
    await other.sendMessage({ text: 'Erster!', messageId: id });
    await assertShows(other, 'Erster!', undefined);
    await chat.sendMessage({ text: 'Zweiter!', messageId: id });
    assert.deepEqual([chat.error.status, chat.error.code], [409, 'message_superseded']);
    await assertShows(other, 'Erster!', undefined);
  },

  async 'renews its token'() {
    const chat = new Chat({ transport: transportTo(BASE_URL, ['expired', TOKEN]) });
    await chat.sendMessage({ text: MESSAGE });
    assertWhole(chat);
    const refused = new Chat({ transport: transportTo(BASE_URL, ['expired']) });
    await refused.sendMessage({ text: MESSAGE });
    assert.deepEqual([refused.error.status, refused.error.code], [401, 'bad_jwt']);
  },
};

await scenarios[SCENARIO]();
