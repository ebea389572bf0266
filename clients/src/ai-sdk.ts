/** Throughline for Vercel's AI SDK, 6 and 7: a transport for `useChat`, or for any other chat of theirs. */
import { DefaultChatTransport, generateId } from 'ai';
import type { ChatTransport, UIMessageChunk } from 'ai';

import { answersOf } from './ai-sdk-messages.js';
import type { ReplyMetadata, ThroughlineMessage } from './ai-sdk-messages.js';
import { checked, claimed, Disconnected, heard, nothingFor } from './ai-sdk-streams.js';
import type { Bytes, Chunks } from './ai-sdk-streams.js';
import { authorized } from './api.js';
import type { Api } from './api.js';
import { declared, isSettled, RENEWAL } from './calls.js';
import type { Tools } from './calls.js';
import type { Schemas } from './client.js';
import { errorOf, ThroughlineError } from './errors.js';
import { SILENCE } from './follow.js';
import { callUrl, claimCall } from './parts.js';
import type { CallAnswer } from './parts.js';
import { cancel, pause } from './turn.js';

export { Disconnected } from './ai-sdk-streams.js';
export { historyOf } from './ai-sdk-messages.js';
export type { ReplyMetadata, StoredMessage, ThroughlineMessage } from './ai-sdk-messages.js';

type Sending = Parameters<ChatTransport<ThroughlineMessage>['sendMessages']>[0];
type Resuming = Parameters<ChatTransport<ThroughlineMessage>['reconnectToStream']>[0];

/** The events after which nothing more comes. */
const LAST = ['finish', 'abort', 'error'];

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export interface TransportOptions {
  /** What the model may call, by name; the app runs its own tools in `onToolCall`. Without them it has all tools of the server. */
  tools?: Tools;
  /**
   * A uuid of this device, which the app keeps. With it calls of the app's tools are claimed before `onToolCall` is told of
   * them: of several devices that show a chat one runs a call, and the others come back with `resumeStream`.
   */
  device?: string;
}

/**
 * Talks to Throughline for any number of chats. A chat that has replies already must have the id of the stored
 * chat; one that is new gets a stored chat with its first message, whose id is `chat_id` in each reply's metadata.
 *
 * A message's id is what makes it harmless to send it again: `regenerate` after an error joins or replays the
 * reply that there is, and tries again where it failed. Of a reply that has ended it makes another version, as
 * `sendMessage` with a `messageId` does of a message. `addToolOutput` and `addToolApprovalResponse` answer calls, with the
 * SDK's `sendAutomaticallyWhen`. Stop with `cancel`; a chat's own `stop` hangs up.
 *
 * A chat's error is `Disconnected`, or the server's no: a `ThroughlineError`.
 */
export class ThroughlineTransport extends DefaultChatTransport<ThroughlineMessage> {
  readonly #api: Api;
  readonly #options: TransportOptions;
  readonly #turns = new Map<string, LatestTurn>();

  constructor(api: Api, options: TransportOptions = {}) {
    super({
      resumeStreamIsReplay: true, // a reply is resumed from its beginning
      api: `${api.baseUrl}/v1/message`,
      headers: { 'x-vercel-ai-ui-message-stream': 'v1' },
      fetch: (url, init) => request(api, String(url), init ?? {}),
      prepareSendMessagesRequest: (message) => this.#message(message),
      prepareReconnectToStreamRequest: (place) => this.#place(place),
    });
    this.#api = api;
    this.#options = options;
  }

  override async sendMessages(options: Sending): Promise<Chunks> {
    const turn = this.#turn(options.chatId);
    const reply = answered(options);
    if (reply && answersOf(reply).length === 0) return nothingFor(reply);
    if (reply) return this.#follow(turn, () => this.#answer(turn, options, reply));
    const send = () => {
      turn.begin(options);
      return super.sendMessages(options);
    };
    return this.#follow(turn, () =>
      send().catch((error) => {
        if (turn.isBack(error)) return send();
        throw error;
      }),
    );
  }

  /**
   * Goes on with the reply that was cut off, from its beginning, or follows the reply that is running; null when there is
   * nothing. A message of which the server has not said a word is sent again. An app that was reloaded names the
   * reply that it knows as unfinished, and gets it even when it has ended in the meantime:
   * `resumeStream({ metadata: { message_id } })`.
   */
  override async reconnectToStream(options: Resuming): Promise<Chunks | null> {
    const turn = this.#turn(options.chatId);
    const { unanswered } = turn;
    const { abortSignal } = options as Partial<Sending>; // the type of the SDK's first versions lacks it
    return this.#follow(turn, async () => {
      const reply = unanswered && answered(unanswered);
      if (reply) await (await this.#answer(turn, { ...unanswered, abortSignal }, reply)).cancel();
      else if (unanswered) return super.sendMessages({ ...unanswered, abortSignal });
      return super.reconnectToStream(options);
    });
  }

  async #follow<S extends Chunks | null>(turn: LatestTurn, connect: () => Promise<S>): Promise<Chunks | S> {
    const stream = await turn.follow(connect);
    const claim = (messageId: string, callId: string) => this.#claim(turn, messageId, callId);
    return stream && claimed(stream, claim);
  }

  /** Answers the calls one after the other. The reply goes on in the stream of the last one. */
  async #answer(turn: LatestTurn, options: Sending, reply: ThroughlineMessage): Promise<Chunks> {
    let stream: Chunks | undefined;
    let settled: unknown;
    turn.unanswered = options;
    for (const [callId, answer] of answersOf(reply)) {
      await stream?.cancel();
      stream = undefined;
      turn.answer = { messageId: reply.id, callId, body: this.#withClaim(answer) };
      stream = await super.sendMessages(options).catch((error) => {
        if (error.code !== 'call_settled') throw error;
        settled = error;
        return undefined;
      });
      turn.release(callId);
    }
    turn.unanswered = undefined;
    turn.messageId = reply.id;
    if (settled || !stream) throw settled;
    return stream;
  }

  #withClaim(answer: CallAnswer): object {
    return 'approved' in answer ? answer : { ...answer, claim: this.#options.device };
  }

  /** False: another device has the call. */
  async #claim(turn: LatestTurn, messageId: string, callId: string): Promise<boolean> {
    const { device } = this.#options;
    if (!device) return true;
    const claim = () => claimCall(messageId, callId, device, { ...this.#api, accessToken: tokenOf(this.#api) });
    try {
      await claim();
    } catch (error) {
      turn.messageId = messageId; // the reply may have ended when the app comes back
      if (isSettled(error) || (error as ThroughlineError).code === 'call_claimed') return false;
      throw turn.failure(error);
    }
    turn.release(callId);
    turn.claims.set(callId, setInterval(() => claim().catch((error) => isSettled(error) && turn.release(callId)), RENEWAL));
    return true;
  }

  /** Stops the reply that a chat is busy with, for all who read it. */
  async cancel(id: string): Promise<Schemas['CancelResult']> {
    return cancel(this.#turn(id).chatId ?? id, this.#api);
  }

  protected override processResponseStream(stream: Bytes): Chunks {
    return super.processResponseStream(heard(stream, this.#api.silence ?? SILENCE));
  }

  #turn(id: string): LatestTurn {
    const known = this.#turns.get(id) ?? new LatestTurn();
    this.#turns.set(id, known);
    return known;
  }

  /** Our request for the newest message; `body` is what the app adds, such as model_variant or sources. */
  #message({ id, messages, api, headers, body }: Prepared & { messages: ThroughlineMessage[] }) {
    const { chatId, answer, request: { name, replaces, isAgain } } = this.#turn(id);
    if (answer) return { api: callUrl(answer.messageId, answer.callId, this.#api.baseUrl), headers, body: answer.body };
    const content = messages.at(-1)!.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
    const going = chatId ?? (messages.some(({ role }) => role === 'assistant') ? id : undefined);
    const named = UUID.test(name); // as in the row; of any other name the server makes a uuid
    return {
      api: going || replaces ? api : `${api}/first`,
      headers: named ? headers : withHeader(headers, 'Idempotency-Key', name),
      body: {
        ...(this.#options.tools && { tools: declared(this.#options.tools) }),
        ...body,
        ...(!isAgain && { content }),
        ...(replaces && { replaces }),
        ...(going && { chat_id: going }),
        ...(named && { client_message_id: name }),
      },
    };
  }

  #place({ id, api, headers, requestMetadata }: Prepared & { requestMetadata: unknown }) {
    const turn = this.#turn(id);
    const named = requestMetadata as { message_id?: string } | undefined;
    const messageId = named?.message_id ?? turn.messageId;
    return {
      api: `${api}/${turn.chatId ?? id}/stream`,
      headers: messageId ? withHeader(headers, 'Last-Event-ID', `${messageId}:0`) : headers,
    };
  }
}

/** A request as the SDK has prepared it. */
interface Prepared {
  id: string;
  api: string;
  headers: HeadersInit | undefined;
  body: object | undefined;
}

function withHeader(headers: HeadersInit | undefined, name: string, value: string): Headers {
  const all = new Headers(headers);
  all.set(name, value);
  return all;
}

/** The state of a chat's latest message and of the reply to it. */
class LatestTurn {
  /** The stored chat's, once the server has said it. */
  chatId: string | undefined;
  /** The reply's, while it is not known to have ended. */
  messageId: string | undefined;
  /** How the message was sent, until the server has answered. */
  unanswered: Sending | undefined;
  /** The answer to a call that is sent in place of a message. */
  answer: { messageId: string; callId: string; body: object } | undefined;
  /** What renews the claims of calls that the app was told of. */
  readonly claims = new Map<string, ReturnType<typeof setInterval>>();
  /** The SDK's id of the message that was sent last. */
  asked: string | undefined;
  request: TurnRequest = { name: '' };
  /** Whether the reply to it may still come, or failed. */
  isOpen = false;
  /** The stored messages' ids, by the SDK's: an edited message keeps that, and is another one on the server. */
  readonly stored = new Map<string, string>();
  /** Whether a request came to a server of another cell, which counts once as a server that restarts. */
  astray = false;
  /** Failures of the network since the text last grew. */
  attempt = 0;
  /** The most characters of the reply that a stream has had. */
  furthest = 0;

  begin(options: Sending): void {
    const asked = options.messages.at(-1)!.id;
    this.request = this.#requestFor(options, asked);
    for (const callId of this.claims.keys()) this.release(callId);
    Object.assign(this, { answer: undefined, asked, isOpen: true, unanswered: options, messageId: undefined, astray: false, attempt: 0, furthest: 0 });
  }

  /** A new message, an edit, or another reply. What may be on its way still is sent again under its name. */
  #requestFor({ trigger, messageId, messages }: Sending, asked: string): TurnRequest {
    const isAgain = trigger === 'regenerate-message';
    if (isAgain && this.isOpen && asked === this.asked) return this.request;
    const edited = messages.at(-1)!.role === 'user' ? messageId : undefined;
    const replaced = isAgain ? asked : edited;
    const isUnsent = replaced === this.asked && !this.stored.has(replaced!); // as far as is known
    if (!replaced || isUnsent) return { name: asked };
    const replaces = this.stored.get(replaced) ?? (UUID.test(replaced) ? replaced : undefined);
    return replaces ? { name: generateId(), replaces, isAgain } : { name: asked };
  }

  release(callId: string): void {
    clearInterval(this.claims.get(callId));
    this.claims.delete(callId);
  }

  async follow<S extends Chunks | null>(connect: () => Promise<S>): Promise<Chunks | S> {
    const stream = await connect().catch((error) => {
      throw this.failure(error);
    });
    return stream && this.whole(stream);
  }

  /** The same stream, but no reply that was cut off is taken for a whole one. */
  whole(stream: Chunks): Chunks {
    let over = false;
    let length = 0;
    return checked(stream, async (next) => {
      try {
        const read = await next;
        if (read.done && !over) throw new TypeError('the stream ended before the reply');
        if (read.done) return read;
        over = this.take(read.value) || over;
        if (read.value.type === 'text-delta') length += read.value.delta.length;
        if (over || length > this.furthest) Object.assign(this, { attempt: 0, furthest: length });
        return read;
      } catch (error) {
        if (over) return { done: true }; // nothing is lost
        throw this.failure(error);
      }
    });
  }

  /** Tells whether it was one of the last. */
  take(chunk: UIMessageChunk): boolean {
    if (chunk.type === 'start') {
      this.learn(chunk.messageMetadata as ReplyMetadata);
      this.astray = false;
      this.messageId = chunk.messageId;
    }
    if (chunk.type.startsWith('tool-output-') && 'toolCallId' in chunk) this.release(chunk.toolCallId);
    const isLast = LAST.includes(chunk.type);
    if (isLast) this.messageId = undefined;
    if (isLast) this.isOpen = chunk.type === 'error';
    return isLast;
  }

  /** Whether the chat was led back to an older version of a message, whose id is the SDK's own. */
  isBack(error: Partial<ThroughlineError>): boolean {
    if (error.code !== 'message_superseded' || this.stored.size === 0) return false;
    this.stored.clear();
    this.asked = undefined;
    return true;
  }

  /** The server says what it stored when the reply begins, or when the model that it asked has failed. */
  learn({ chat_id: chatId, user_message_id: id }: ReplyMetadata | Partial<Schemas['MessageStarted']>): void {
    this.chatId = chatId ?? this.chatId;
    if (this.unanswered && id) this.stored.set(this.asked!, id);
    this.unanswered = undefined;
  }

  /** A broken network is a TypeError wherever there is a fetch. Anything else is an answer, or the app's own stop. */
  failure(error: unknown): unknown {
    if (error instanceof ThroughlineError && error.status === 421 && !this.astray) {
      this.astray = true;
      return new Disconnected(error, pause(this.attempt++));
    }
    const { code } = error as Partial<ThroughlineError>;
    if (code === 'call_settled' || code === 'call_claimed') return new Disconnected(error, pause(this.attempt++));
    if (error instanceof TypeError) return new Disconnected(error, pause(this.attempt++, retryAfterOf(error)));
    if ((error as Error).name !== 'AbortError') this.learn((error as Partial<ThroughlineError>).details ?? {});
    return error;
  }
}

/** A request that may be sent again. */
interface TurnRequest {
  /** The client's, of the message or of the reply that is asked for again. */
  name: string;
  /** The message that is edited, or that gets another reply. */
  replaces?: string;
  isAgain?: boolean;
}

/** The reply whose calls the app has answered, where that is what the SDK sends. */
function answered({ trigger, messageId, messages }: Sending): ThroughlineMessage | undefined {
  const named = trigger === 'submit-message' ? messages.find(({ id }) => id === messageId) : undefined;
  return named?.role === 'assistant' ? named : undefined;
}

/** Without a token there is no network: unsent messages wait until there is one. */
function tokenOf(api: Api): Api['accessToken'] {
  return (renew, refused) =>
    api.accessToken(renew, refused).catch((cause) => {
      throw new TypeError('no access token', { cause });
    });
}

async function request(api: Api, url: string, init: RequestInit): Promise<Response> {
  const response = await authorized({ ...api, accessToken: tokenOf(api) }, url, init);
  if (response.status === 204 && init.method === 'POST') throw new TypeError('a proxy answered');
  if (response.ok) return response;
  const refused = await errorOf(response);
  throw isAway(refused) ? new TypeError('no server is there', { cause: refused }) : refused;
}

/** The server restarts, or a proxy answered in its place. The model's failures are answers. */
function isAway({ status, code }: ThroughlineError): boolean {
  return status >= 500 && (code.startsWith('http_') || (status === 503 && !code.startsWith('upstream_')));
}

/** As the header has it. */
function retryAfterOf({ cause }: TypeError): string | null {
  return cause instanceof ThroughlineError ? String(cause.retryAfter ?? 0) : null;
}
