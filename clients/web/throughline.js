/** Throughline in a browser, with @microsoft/fetch-event-source. */
import { fetchEventSource } from '@microsoft/fetch-event-source';

import { isOver, nextRequest, pause, refused, silence, take } from '../turn.js';

/**
 * Sends a turn or goes on with it while the page is visible, until it is over or the function that is returned
 * lets go of it. Letting go stops nothing on the server; following once more goes on from there.
 *
 * The library itself hangs up when the page is hidden, and repeats its request when the page is shown again or
 * the connection broke.
 *
 * @param {import('../turn.js').Turn} turn
 * @param {import('../turn.js').Api} api
 * @param {(turn: import('../turn.js').Turn) => void} onChange store the turn, show it
 * @returns {() => void}
 */
export function follow(turn, api, onChange) {
  let connection;
  let timer;
  let attempt = 0;
  let renew = false;

  function letGo() {
    clearTimeout(timer);
    connection?.abort();
  }

  function watch() {
    clearTimeout(timer);
    timer = setTimeout(() => (document.hidden ? watch() : start()), silence(api));
  }

  function start() {
    letGo();
    connection = new AbortController();
    watch();
    const { method, url, body } = nextRequest(turn, api.baseUrl);
    const headers = body && { 'content-type': 'application/json' };
    const { signal } = connection;
    const handlers = { fetch: request, onopen, onmessage, onclose, onerror };
    fetchEventSource(url, { method, body, headers, signal, ...handlers }).catch(letGo); // onerror gave up
  }

  /** Each attempt of the library comes by here, its repetitions too. */
  async function request(url, { headers: { 'last-event-id': _, ...headers }, ...options }) {
    headers.authorization = `Bearer ${await api.accessToken(renew)}`;
    // The library takes an event's id before it has the event, and would miss one that was cut in the middle.
    if (turn.cursor) headers['last-event-id'] = turn.cursor;
    return fetch(url, { ...options, headers });
  }

  async function onopen(response) {
    if (response.status === 200) return;
    const next = refused(turn, { status: response.status, body: await response.text(), renewed: renew });
    renew = next === 'renew';
    if (next === 'over') onChange(turn);
    throw new Refused(renew ? 0 : pause(attempt++, response.headers.get('retry-after')));
  }

  function onmessage({ event, data, id }) {
    watch();
    if (!event) return; // a heartbeat
    attempt = 0;
    renew = false;
    take(turn, { event, data, id });
    if (isOver(turn)) letGo();
    onChange(turn);
  }

  function onclose() {
    if (!isOver(turn)) throw new Error('The stream was cut.');
  }

  function onerror(error) {
    if (isOver(turn)) throw error;
    return error instanceof Refused ? error.wait : pause(attempt++);
  }

  start();
  return letGo;
}

/** An answer that is no stream, and the milliseconds to wait before the next request. */
class Refused extends Error {
  constructor(wait) {
    super('refused');
    this.wait = wait;
  }
}
