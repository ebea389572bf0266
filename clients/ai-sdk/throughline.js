/** Throughline for Vercel's AI SDK: a transport for `useChat`, or for any other chat of theirs. */
import { DefaultChatTransport } from 'ai';

import { cancel, pause } from '../turn.js';

/** The events after which nothing more comes. */
const LAST = ['finish', 'abort', 'error'];

/**
 * The network broke, and the reply is not lost: `setTimeout(resumeStream, error.retryIn)` goes on with it. It is
 * what a chat's onError gets, and its onFinish says `isDisconnect`.
 */
export class Disconnected extends TypeError {
  constructor(cause, retryIn) {
    super('the network broke', { cause }); // "network" is the word by which chats know a disconnection
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
    return {
      api: chatId ? api : `${api}/first`,
      headers: { ...headers, 'Idempotency-Key': message.id },
      body: { ...body, content, ...(chatId && { chat_id: chatId }) },
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

  /** Connects, and makes sure that no reply that was cut off is taken for a whole one. */
  async follow(connect) {
    const stream = await connect().catch((error) => {
      throw this.failure(error);
    });
    const reader = stream?.getReader();
    return reader
      ? new ReadableStream({
          pull: (controller) => this.pass(reader, controller),
          cancel: (reason) => reader.cancel(reason),
        })
      : null;
  }

  async pass(reader, controller) {
    try {
      const { done, value } = await reader.read();
      if (!done) {
        this.take(value);
        controller.enqueue(value);
      } else if (this.messageId || this.unanswered) {
        throw new TypeError('the stream ended before the reply');
      } else {
        controller.close();
      }
    } catch (error) {
      controller.error(this.failure(error));
    }
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
    if (error instanceof TypeError) return new Disconnected(error, pause(this.attempt++));
    if (error.name !== 'AbortError') this.unanswered = undefined;
    return error;
  }
}

async function authorizedFetch(api, url, init, renew = false) {
  const headers = { ...init.headers, Authorization: `Bearer ${await api.accessToken(renew)}` };
  const response = await fetch(url, { ...init, headers });
  if (response.ok) return response;
  if (response.status === 401 && !renew) return authorizedFetch(api, url, init, true);
  const body = await response.json().catch(() => ({}));
  throw new Refused(response.status, body, response.headers.get('Retry-After'));
}
