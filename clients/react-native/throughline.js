/** Throughline in React Native, with react-native-sse. */
import { AppState } from 'react-native';
import EventSource from 'react-native-sse';

import { EVENTS, isOver, nextRequest, pause, refused, silence, take } from '../turn.js';

/** The library sends its request again so many milliseconds after a stream that ended; 0 would be never. */
const AFTER_END = 1000;

/**
 * Sends a turn or goes on with it while the app is in the foreground, until it is over or the function that is
 * returned lets go of it. Letting go stops nothing on the server; following once more goes on from there.
 *
 * @param {import('../turn.js').Turn} turn
 * @param {import('../turn.js').Api} api
 * @param {(turn: import('../turn.js').Turn) => void} onChange store the turn, show it
 * @returns {() => void}
 */
export function follow(turn, api, onChange) {
  let source;
  let timer;
  let connection = 0;
  let attempt = 0;
  let renew = false;

  const states = AppState.addEventListener('change', (state) => {
    if (state === 'background') hangUp();
    if (state === 'active') connect();
  });

  function hangUp() {
    connection++;
    clearTimeout(timer);
    source?.close();
  }

  function letGo() {
    states.remove();
    hangUp();
  }

  function connectIn(ms) {
    clearTimeout(timer);
    timer = setTimeout(connect, ms);
  }

  async function connect() {
    hangUp();
    const mine = connection;
    connectIn(silence(api));
    const token = await api.accessToken(renew).catch(() => undefined);
    if (mine !== connection) return; // the app went to the background meanwhile
    if (!token) return connectIn(pause(attempt++));
    source = open(turn, api, token);
    for (const name of EVENTS) source.addEventListener(name, received);
    source.addEventListener('error', broken);
  }

  function received({ type, data, lastEventId }) {
    connectIn(silence(api));
    attempt = 0;
    renew = false;
    take(turn, { event: type, data, id: lastEventId });
    if (isOver(turn)) letGo(); // the library would send the message again
    onChange(turn);
  }

  function broken({ xhrStatus, xhrState, message }) {
    const answered = xhrStatus >= 400;
    if (answered && xhrState !== XMLHttpRequest.DONE) return; // the rest of the answer is on its way
    hangUp();
    const next = answered ? refused(turn, { status: xhrStatus, body: message, renewed: renew }) : 'later';
    renew = next === 'renew';
    if (next !== 'over') return connectIn(renew ? 0 : pause(attempt++));
    letGo();
    onChange(turn);
  }

  connect();
  return letGo;
}

function open(turn, api, token) {
  const { method, url, body } = nextRequest(turn, api.baseUrl);
  const headers = { Authorization: `Bearer ${token}` };
  if (body) headers['Content-Type'] = 'application/json';
  const source = new EventSource(url, {
    method,
    headers,
    body,
    pollingInterval: AFTER_END,
    timeoutBeforeConnection: 0,
    lineEndingCharacter: '\n',
  });
  source.lastEventId = turn.cursor ?? null; // the library sends it as Last-Event-ID and keeps it up
  return source;
}
