/**
 * An app that uses react-native-sse as it comes: it never closes, so that the library posts the message again after
 * each end, and it appends whatever it is told.
 */
import EventSource from 'react-native-sse';

import { playInFrames } from '../frames.js';

const TERMINAL = ['completion', 'message.failed', 'message.cancelled'];

/** On a phone a request keeps the status of its answer when the connection breaks, and then the library posts again. */
class PhoneRequest extends XMLHttpRequest {
  #answered = 0;

  get status() {
    this.#answered = super.status || this.#answered;
    return this.#answered;
  }
}

playInFrames((report) => {
  const app = { chatId: '', text: '', opens: 0, ends: [], errors: 0 };
  const on = (source, name, change) =>
    source.addEventListener(name, (event) => {
      change(event.data && JSON.parse(event.data));
      report(app);
    });
  return async ({ with: { url, token, body, pollingInterval } }) => {
    globalThis.XMLHttpRequest = PhoneRequest;
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const source = new EventSource(url, { method: 'POST', headers, body, pollingInterval });
    on(source, 'open', () => app.opens++);
    on(source, 'error', () => app.errors++);
    on(source, 'message.started', ({ chat_id: chatId }) => (app.chatId = chatId));
    on(source, 'content.delta', ({ delta }) => (app.text += delta));
    for (const name of TERMINAL) on(source, name, () => app.ends.push(name));
  };
});
