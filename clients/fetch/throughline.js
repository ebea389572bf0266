/** Throughline over fetch, with eventsource-parser: in Node, in browsers, over expo/fetch. */
import { createParser } from 'eventsource-parser';

import { isOver, nextRequest, pause, refused, silence, take } from '../turn.js';

/**
 * Sends a turn or goes on with it, until it is over or the function that is returned lets go of it. Letting go
 * stops nothing on the server; following once more goes on from there.
 *
 * @param {import('../turn.js').Turn} turn
 * @param {import('../turn.js').Api} api
 * @param {(turn: import('../turn.js').Turn) => void} onChange store the turn, show it
 * @returns {() => void}
 */
export function follow(turn, api, onChange) {
  let connection = new AbortController();
  let timer;
  let attempt = 0;
  let renew = false;

  function letGo() {
    clearTimeout(timer);
    connection.abort();
  }

  function connectIn(ms) {
    clearTimeout(timer);
    timer = setTimeout(connect, ms);
  }

  async function connect() {
    letGo();
    const { signal } = (connection = new AbortController());
    connectIn(silence(api));
    let wait;
    try {
      const response = await request(turn, api, renew, signal);
      wait = response.status === 200 ? await read(response, signal) : await refusal(response);
    } catch {
      // No network, or it broke.
    }
    if (signal.aborted) return;
    if (isOver(turn)) letGo();
    else connectIn(wait ?? pause(attempt++));
  }

  async function read(response, signal) {
    for await (const event of events(response)) {
      if (signal.aborted) return;
      connectIn(silence(api));
      attempt = 0;
      renew = false;
      take(turn, event);
      onChange(turn);
    }
  }

  async function refusal(response) {
    const next = refused(turn, { status: response.status, body: await response.text(), renewed: renew });
    renew = next === 'renew';
    if (next === 'over') onChange(turn);
    return renew ? 0 : pause(attempt++, response.headers.get('Retry-After'));
  }

  connect();
  return letGo;
}

async function request(turn, api, renew, signal) {
  const { method, url, body } = nextRequest(turn, api.baseUrl);
  const headers = { Accept: 'text/event-stream', Authorization: `Bearer ${await api.accessToken(renew)}` };
  if (body) headers['Content-Type'] = 'application/json';
  if (turn.cursor) headers['Last-Event-ID'] = turn.cursor;
  return fetch(url, { method, headers, body, signal });
}

async function* events(response) {
  const found = [];
  const parser = createParser({ onEvent: (event) => found.push(event) });
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    parser.feed(decoder.decode(value, { stream: true }));
    yield* found.splice(0);
  }
}
