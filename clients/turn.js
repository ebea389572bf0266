/**
 * What every client of Throughline does alike, whichever library brings it the events. No dependencies.
 *
 * Three rules make a client correct:
 *
 * 1. A POST carries a client_message_id. Sent again with it, a message is never answered twice.
 * 2. The id of an event is a place in the text. Kept together with the text, it is all that resuming needs.
 * 3. A stream without a terminal event was cut. Resume it, however cleanly it seemed to end.
 */

/**
 * A message of the user and the reply to it. Plain data: store it before the message is first sent, and again
 * after each change, so that it survives the app.
 *
 * @typedef {object} Turn
 * @property {string} [clientMessageId] a uuid that names the message for ever
 * @property {string} [content] what the user says
 * @property {string} [chatId] without one the message starts a chat
 * @property {string} [messageId] the reply's
 * @property {string} text the reply, as far as it is known
 * @property {string} [cursor] the id of the last event: the place in the reply that `text` reaches
 * @property {'waiting' | 'streaming' | 'complete' | 'cancelled' | 'failed'} status
 * @property {{code: string, message?: string, retryable: boolean}} [failure]
 */

/**
 * Where the server is, and who calls.
 *
 * @typedef {object} Api
 * @property {string} baseUrl without a slash at its end
 * @property {(renew: boolean) => Promise<string>} accessToken the user's Supabase access token; a new one if `renew`
 * @property {number} [silence] milliseconds without an event after which a connection is taken for dead; 45 000
 *   without it
 */

/** The events of a stream. The last three are terminal: each stream ends with exactly one of them. */
export const EVENTS = ['message.started', 'content.delta', 'completion', 'message.failed', 'message.cancelled'];

/**
 * The longest silence of a connection before the client reconnects: it may be dead without an error, and
 * resuming does no harm.
 *
 * @param {Api} api
 */
export function silence(api) {
  return api.silence ?? 45_000;
}

/**
 * A turn that is still to be sent.
 *
 * @param {{clientMessageId: string, content: string, chatId?: string}} message
 * @returns {Turn}
 */
export function newTurn({ clientMessageId, content, chatId }) {
  return { clientMessageId, content, chatId, text: '', status: 'waiting' };
}

/**
 * A turn of another device, from the beginning of its reply. The table `messages` has both ids: look for the
 * chat's last row with the role `assistant`.
 *
 * @param {{chatId: string, messageId: string}} reply
 * @returns {Turn}
 */
export function watchedTurn({ chatId, messageId }) {
  return { chatId, messageId, cursor: `${messageId}:0`, text: '', status: 'waiting' };
}

/** @param {Turn} turn */
export function isOver(turn) {
  return turn.status !== 'waiting' && turn.status !== 'streaming';
}

/**
 * The request that brings what is missing: the message itself until its first event came, then what follows
 * the cursor.
 *
 * @param {Turn} turn
 * @param {string} baseUrl
 */
export function nextRequest(turn, baseUrl) {
  if (turn.cursor) {
    return { method: 'GET', url: `${baseUrl}/v1/message/${turn.chatId}/stream` };
  }
  const message = { content: turn.content, client_message_id: turn.clientMessageId };
  return {
    method: 'POST',
    url: turn.chatId ? `${baseUrl}/v1/message` : `${baseUrl}/v1/message/first`,
    body: JSON.stringify(turn.chatId ? { chat_id: turn.chatId, ...message } : message),
  };
}

/**
 * Takes one event into the turn, text and cursor together.
 *
 * @param {Turn} turn
 * @param {{event?: string, data: string, id?: string}} received
 */
export function take(turn, { event, data, id }) {
  if (!EVENTS.includes(event)) return;
  const payload = JSON.parse(data);
  if (event === 'message.started') start(turn, payload);
  else if (event === 'content.delta') turn.text += payload.delta;
  else end(turn, event, payload);
  turn.cursor = id;
}

/** A stream begins at a place in the text. Where it begins anew, it says again what is known. */
function start(turn, { chat_id: chatId, message_id: messageId, offset }) {
  const known = turn.messageId === messageId ? turn.text : '';
  const text = [...known].slice(0, offset).join(''); // offsets count code points, as the spread does
  Object.assign(turn, { chatId, messageId, text, status: 'streaming', failure: undefined });
}

function end(turn, event, { code, message, retryable }) {
  turn.status = { completion: 'complete', 'message.cancelled': 'cancelled', 'message.failed': 'failed' }[event];
  if (event === 'message.failed') turn.failure = { code, message, retryable };
}

/**
 * What to do about an answer that is no stream.
 *
 * - `renew`: 401, the access token has expired. The same request at once, with a new one.
 * - `later`: 409, another reply is running in this chat; 429, too many requests; 503, the server restarts; or a
 *   proxy answered in the server's place. The same request after a pause.
 * - `over`: the turn has failed. `failure.retryable` tells whether `tryAgain` makes sense: the model failed, which
 *   the server has tried several times already; or it is the second 401, and the user has to sign in first.
 *
 * @param {Turn} turn
 * @param {{status: number, body: string, renewed: boolean}} answer renewed: the token was new already
 * @returns {'renew' | 'later' | 'over'}
 */
export function refused(turn, { status, body, renewed }) {
  const { code, message } = parsed(body);
  if (status === 401 && !renewed) return 'renew';
  const modelFailed = code?.startsWith('upstream_');
  if ([409, 429, 503].includes(status) && !modelFailed) return 'later';
  if (status >= 500 && !code) return 'later';
  turn.status = 'failed';
  turn.failure = { code: code ?? `http_${status}`, message, retryable: status >= 500 || status === 401 };
  return 'over';
}

function parsed(body) {
  try {
    return JSON.parse(body) ?? {};
  } catch {
    return {};
  }
}

/**
 * Makes a failed turn one that is still to be sent, under the same name: the user's message stays as it is, and
 * another reply takes the place of the failed one.
 *
 * @param {Turn} turn
 */
export function tryAgain(turn) {
  Object.assign(turn, { messageId: undefined, cursor: undefined, text: '', failure: undefined, status: 'waiting' });
}

/**
 * Milliseconds before the next attempt: longer each time, never the same for all clients of a server that comes
 * back.
 *
 * @param {number} attempt 0 for the first
 * @param {string | null} [retryAfter] the header, in seconds
 */
export function pause(attempt, retryAfter) {
  const asked = Number(retryAfter ?? 0) * 1000 || 0;
  return asked + Math.min(250 * 2 ** attempt, 10_000) * (0.5 + Math.random() / 2);
}

/**
 * Stops the reply that a chat is busy with, on whichever server it runs. Everybody who reads it gets
 * `message.cancelled`. Hanging up stops nothing.
 *
 * @param {string} chatId
 * @param {Api} api
 */
export async function cancel(chatId, api) {
  const headers = { Authorization: `Bearer ${await api.accessToken(false)}` };
  const response = await fetch(`${api.baseUrl}/v1/message/${chatId}/cancel`, { method: 'POST', headers });
  if (!response.ok) throw new Error(`cancel: ${response.status} ${await response.text()}`);
  return response.json();
}
