/** Throughline for Vercel's AI SDK: a transport for `useChat`, or for any other chat of theirs. */
import { DefaultChatTransport } from 'ai';

import { cancel, pause } from '../turn.js';

/** The events after which nothing more comes. */
const LAST = ['finish', 'abort', 'error'];

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * The connection broke or nobody was there, and the reply is not lost: `setTimeout(resumeStream, error.retryIn)`
 * goes on with it. It is a chat's error, and what its onError gets.
 *
 * It is no TypeError: after one that speaks of a network, chats keep the half of the reply that they have and expect
 * the other half. What comes is the whole reply, and useChat of the SDK's version 6 would show half of it twice.
 */
export class Disconnected extends Error {
  constructor(cause, retryIn) {
    super('the connection broke', { cause });
    this.retryIn = retryIn;
  }
}

/** The server's answer was no: `code` and `details` as in its errors, `retryIn` in ms where it named a time. */
export class Refused extends Error {
  constructor(status, { code, message, details }, retryAfter) {
    super(message ?? `the server answered with status ${status}`);
    Object.assign(this, { status, code, details, retryIn: Number(retryAfter) * 1000 || undefined });
  }
}

/**
 * Talks to Throughline for any number of chats. A chat that has replies already must have the id of the stored
 * chat; one that is new gets a stored chat with its first message, whose id is `chat_id` in each reply's metadata.
 *
 * A message's id is what makes it harmless to send it again: `regenerate` after an error joins or replays the
 * reply that there is, and tries anew only where it failed. Stop with `cancel`; a chat's own `stop` hangs up.
 *
 * The metadata of a reply says how it stands: `status` (streaming, complete, cancelled, failed, interrupted), and
 * of a failure `code` and `retryable`.
 */
export class ThroughlineTransport extends DefaultChatTransport {
  #api;
  #turns = new Map(); // the latest of each chat

  /** @param {import('../turn.js').Api} api */
  constructor(api) {
    super({
      api: `${api.baseUrl}/v1/message`,
      headers: { 'x-vercel-ai-ui-message-stream': 'v1' },
      fetch: (url, init) => authorizedFetch(api, url, init),
      prepareSendMessagesRequest: (request) => this.#message(request),
      prepareReconnectToStreamRequest: (request) => this.#place(request),
    });
    this.#api = api;
  }

  async sendMessages(options) {
    const turn = this.#turn(options.chatId);
    turn.begin(options);
    return turn.follow(() => super.sendMessages(options));
  }

  /**
   * Goes on with the reply that was cut off, from its beginning, or follows what is running; null when there is
   * nothing. A message of which the server has not said a word is sent again. An app that was reloaded names the
   * reply that it knows as unfinished, and gets it even when it has ended in the meantime:
   * `resumeStream({ metadata: { message_id } })`.
   */
  async reconnectToStream(options) {
    const turn = this.#turn(options.chatId);
    const { unanswered } = turn;
    return turn.follow(() =>
      unanswered
        ? super.sendMessages({ ...unanswered, abortSignal: options.abortSignal })
        : super.reconnectToStream(options),
    );
  }

  /** Stops the reply that a chat is busy with, for all who read it. */
  async cancel(id) {
    return cancel(this.#turn(id).chatId ?? id, this.#api);
  }

  #turn(id) {
    if (!this.#turns.has(id)) this.#turns.set(id, new Turn());
    return this.#turns.get(id);
  }

  /** Our request for the newest message; `body` is what the app adds, such as model_variant or sources. */
  #message({ id, messages, api, headers, body }) {
    const message = messages.at(-1);
    const content = message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
    const going = messages.some(({ role }) => role === 'assistant');
    const chatId = this.#turn(id).chatId ?? (going ? id : undefined);
    const named = UUID.test(message.id); // as in the row; of any other id the server makes a uuid
    return {
      api: chatId ? api : `${api}/first`,
      headers: named ? headers : { ...headers, 'Idempotency-Key': message.id },
      body: { ...body, content, ...(chatId && { chat_id: chatId }), ...(named && { client_message_id: message.id }) },
    };
  }

  #place({ id, api, headers, requestMetadata }) {
    const turn = this.#turn(id);
    const messageId = requestMetadata?.message_id ?? turn.messageId;
    return {
      api: `${api}/${turn.chatId ?? id}/stream`,
      headers: messageId ? { ...headers, 'Last-Event-ID': `${messageId}:0` } : headers,
    };
  }
}

/**
 * A stored chat's messages for a chat of the SDK, from rows of the table `messages` in the order of `seq`.
 *
 * @param {object[]} rows
 */
export function historyOf(rows) {
  return rows
    .filter(({ role, superseded_by: another }) => !another && (role === 'user' || role === 'assistant'))
    .map(({ id, client_message_id: sentAs, role, status, content }) => ({
      id: sentAs ?? id,
      role,
      parts: content ? [{ type: 'text', text: content, state: 'done' }] : [],
      metadata: { status },
    }));
}

/** What is known of a message and of the reply to it. */
class Turn {
  chatId; // of the stored chat, once the server has said it
  messageId; // the reply's, while it is not known to have ended
  unanswered; // how the message was sent, until the server has answered
  attempt = 0; // failures of the network in a row

  begin(options) {
    this.unanswered = options;
    this.messageId = undefined;
  }

  async follow(connect) {
    const stream = await connect().catch((error) => {
      throw this.failure(error);
    });
    return stream && this.whole(stream.getReader());
  }

  /** The same stream, but no reply that was cut off is taken for a whole one. */
  whole(reader) {
    let over = false;
    const pull = async (controller) => {
      try {
        const { done, value } = await reader.read();
        if (done && !over) throw new TypeError('the stream ended before the reply');
        if (done) return controller.close();
        this.take(value);
        over ||= LAST.includes(value.type);
        controller.enqueue(value);
      } catch (error) {
        controller.error(this.failure(error));
      }
    };
    return new ReadableStream({ pull, cancel: (reason) => reader.cancel(reason) });
  }

  take(event) {
    this.attempt = 0;
    if (event.type === 'start') {
      this.unanswered = undefined;
      this.messageId = event.messageId;
      this.chatId = event.messageMetadata.chat_id;
    }
    if (LAST.includes(event.type)) this.messageId = undefined;
  }

  /** A broken network is a TypeError wherever there is a fetch. Anything else is an answer, or the app's own stop. */
  failure(error) {
    if (error instanceof TypeError) return new Disconnected(error, pause(this.attempt++, error.retryAfter));
    if (error.name !== 'AbortError') this.unanswered = undefined;
    return error;
  }
}

async function authorizedFetch(api, url, init, renew = false) {
  const token = await api.accessToken(renew).catch((cause) => {
    throw new TypeError('no access token', { cause }); // what is unsent waits until there is one
  });
  const headers = { ...init.headers, Authorization: `Bearer ${token}` };
  const response = await fetch(url, { ...init, headers });
  if (response.ok) return response;
  if (response.status === 401 && !renew) return authorizedFetch(api, url, init, true);
  const body = await response.json().catch(() => ({}));
  const retryAfter = response.headers.get('Retry-After');
  if (isAway(response.status, body.code)) throw Object.assign(new TypeError('no server is there'), { retryAfter });
  throw new Refused(response.status, body, retryAfter);
}

/** The server restarts, or a proxy answered in its place. The model's failures are answers. */
function isAway(status, code) {
  return status >= 500 && (!code || (status === 503 && !code.startsWith('upstream_')));
}
