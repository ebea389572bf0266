/**
 * An app that uses @microsoft/fetch-event-source as it comes: after a cut the library posts the message again with the
 * id that it has seen last, and the app appends whatever it is told. It posts the message again after an end, too.
 */
import { fetchEventSource } from '@microsoft/fetch-event-source';

import { playInFrames } from '../frames.js';

const TERMINAL = ['completion', 'message.failed', 'message.cancelled'];

playInFrames((report) => {
  const app = { chatId: '', text: '', opens: 0, ends: [], errors: 0 };
  const takes = {
    'message.started': ({ chat_id: chatId }) => (app.chatId = chatId),
    'content.delta': ({ delta }) => (app.text += delta),
    ...Object.fromEntries(TERMINAL.map((name) => [name, () => app.ends.push(name)])),
  };
  return async ({ with: { url, token, body, pollingInterval } }) => {
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    let last;
    const post = () =>
      fetchEventSource(url, {
        method: 'POST',
        headers: last ? { ...headers, 'Last-Event-ID': last } : headers,
        body,
        async onopen() {
          app.opens++;
          report(app); // an answer of 204 has no events
        },
        onmessage({ event, data, id }) {
          takes[event]?.(JSON.parse(data));
          last = id || last;
          report(app);
        },
        onclose: () => setTimeout(post, pollingInterval),
        onerror() {
          app.errors++;
          report(app);
          return pollingInterval;
        },
      });
    post();
  };
});
