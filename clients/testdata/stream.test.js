/** What only a platform that reads by XMLHttpRequest can show, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { follow } from '../dist/esm/follow.js';
import { newTurn } from '../dist/esm/turn.js';

delete Response.prototype.body;

/** A server whose answers a test plays. */
class Request {
  static all = [];
  status = 0;
  responseText = '';
  headers = {};

  open(method, url) {
    Object.assign(this, { method, url });
  }

  setRequestHeader(name, value) {
    this.headers[name] = value;
  }

  getResponseHeader(name) {
    return name === 'Retry-After' ? (this.retryAfter ?? null) : null;
  }

  send(body) {
    this.body = body;
    Request.all.push(this);
    Request.came?.();
  }

  abort() {
    this.aborted = true;
    this.onabort?.();
  }

  say(text) {
    this.status = 200;
    this.responseText += text;
    this.onprogress();
  }
}
globalThis.XMLHttpRequest = Request;

const nextRequest = () =>
  new Promise((resolve) => {
    Request.came = () => resolve(Request.all.at(-1));
  });
const event = (name, id, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\nid: a:${id}\n\n`;
const started = event('message.started', 0, { chat_id: 'c', message_id: 'a', offset: 0 });
const api = { baseUrl: 'http://s', accessToken: async () => 'token' };
const begin = async (more) => {
  const turn = newTurn({ clientMessageId: 'm', content: 'Hello' });
  const first = nextRequest();
  const ended = Promise.withResolvers?.() ?? deferred();
  const letGo = follow(turn, { ...api, ...more }, (one) => one.status === 'complete' && ended.resolve());
  return { turn, letGo, request: await first, ended: ended.promise };
};
function deferred() {
  let resolve;
  const promise = new Promise((done) => (resolve = done));
  return { promise, resolve };
}

test('a long answer is hung up, and the next request goes on after it', async () => {
  const { turn, request, ended } = await begin();
  request.say(started);
  const word = 'x'.repeat(500_000);
  request.say(event('content.delta', 500_000, { delta: word }));
  assert.equal(request.aborted, undefined);
  const next = nextRequest();
  request.say(event('content.delta', 1_000_000, { delta: word }));
  request.say(event('content.delta', 1_500_000, { delta: word }).slice(0, 100_000));
  assert.equal(request.aborted, true);
  const rest = await next;
  assert.deepEqual([rest.method, rest.url, rest.headers['Last-Event-ID']], ['GET', 'http://s/v1/message/c/stream', 'a:1000000']);
  rest.say(event('message.started', 1_000_000, { chat_id: 'c', message_id: 'a', offset: 1_000_000 }));
  rest.say(event('content.delta', 1_000_001, { delta: '!' }) + event('completion', 'end', {}));
  await ended;
  assert.equal(turn.text.length, 1_000_001);
});

test('pieces that end within an event are joined', async () => {
  const { turn, request, ended } = await begin();
  const text = started + event('content.delta', 5, { delta: 'Grüße' }) + event('completion', 'end', {});
  for (const letter of text) request.say(letter);
  await ended;
  assert.equal(turn.text, 'Grüße');
});

test('a message that nobody has heard of is not hung up in the background', async () => {
  const listeners = new Set();
  const appState = {
    addEventListener(_type, listener) {
      listeners.add(listener);
      return { remove: () => listeners.delete(listener) };
    },
  };
  const { letGo, request } = await begin({ appState });
  const change = (state) => [...listeners].forEach((listener) => listener(state));
  change('inactive');
  change('background');
  assert.equal(request.aborted, undefined);
  request.say(started);
  change('background');
  assert.equal(request.aborted, true);
  const next = nextRequest();
  change('active');
  assert.equal((await next).headers['Last-Event-ID'], 'a:0');
  letGo();
  assert.equal(listeners.size, 0);
});

test('an answer that is no stream is read whole', async () => {
  const { turn, request, letGo } = await begin();
  Object.assign(request, { status: 422, responseText: '{"code":"validation_failed","message":"No."}' });
  request.onload();
  await new Promise(setImmediate);
  assert.deepEqual([turn.status, turn.failure.code], ['failed', 'validation_failed']);
  letGo();
});
