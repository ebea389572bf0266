/**
 * A message of the user and the reply to it, as data. Three rules make a client correct:
 *
 * 1. A POST carries a client_message_id. Sent again with it, a message is never answered twice.
 * 2. The id of an event is a place in the text. Kept together with the text, it is all that resuming needs.
 * 3. A stream without a terminal event was cut. Resume it, however cleanly it seemed to end.
 */
import { authorized } from './api.js';
import type { Api } from './api.js';
import type { Schemas } from './client.js';
import { errorOf, parsed, ThroughlineError } from './errors.js';
import { callUrl } from './parts.js';
import type { CallAnswer, Message, Part } from './parts.js';

type Named = 'chat_id' | 'continuation_id' | 'client_message_id' | 'content';

/** Further fields of the request, such as `model_variant`, `replaces`, `tools` or, for a new chat, its `tags`. */
export type RequestOptions = Omit<Partial<Schemas['MessageRequest'] & Schemas['FirstMessageRequest']>, Named>;

/** What the user says. */
export interface NewMessage {
  /** A uuid that names the message for ever. */
  clientMessageId: string;
  /** Without it the message that `options.replaces` names gets another reply. */
  content?: string;
  /** Without one the message starts a chat. */
  chatId?: string;
  options?: RequestOptions;
}

/** Plain data: store it before the message is first sent, and after each change, so that it survives the app. */
export interface Turn extends Partial<NewMessage> {
  /** The reply's. */
  messageId?: string;
  /** The user message's id, as it is stored. */
  userMessageId?: string;
  /** The reply, as far as it is known. */
  text: string;
  /** What the reply holds beside its text, if anything. */
  parts?: readonly Part[];
  /** The id of the last event: the place in the reply that `text` and `parts` reach. */
  cursor?: string;
  /** awaiting: calls of tools wait for the app, until `expiresAt`. */
  status: 'waiting' | 'streaming' | 'awaiting' | 'complete' | 'cancelled' | 'failed';
  expiresAt?: string;
  /** What the turn sends in place of a message: the answer to a call. */
  call?: { id: string; answer: CallAnswer };
  failure?: Failure;
  /** What a complete reply came with: usage, and the receipt of the memory in its prompt. */
  completion?: Schemas['Completion'];
}

export interface Failure {
  code: string;
  message?: string;
  /** Whether `tryAgain` makes sense. */
  retryable: boolean;
  /** Of the answer, where it was no stream. */
  status?: number;
}

/** A failure as an error. */
export function refusalOf({ status = 0, code, message = code }: Failure = { code: 'failed', retryable: true }): ThroughlineError {
  return new ThroughlineError(status, code, message);
}

const ENDS: Record<string, Turn['status']> = {
  'message.awaiting': 'awaiting',
  completion: 'complete',
  'message.cancelled': 'cancelled',
  'message.failed': 'failed',
};

/** The events of a stream. The last four are terminal: each stream ends with exactly one of them. */
export const EVENTS = ['message.started', 'content.delta', 'part.added', ...Object.keys(ENDS)];

/** A turn that is still to be sent. */
export function newTurn({ clientMessageId, content, chatId, options }: NewMessage): Turn {
  return { clientMessageId, content, chatId, options, text: '', status: 'waiting' };
}

/** As much of a reply as is known. */
export interface KnownReply {
  chatId: string;
  messageId: string;
  /** Without it the reply is read from its beginning. */
  text?: string;
  parts?: readonly Part[];
}

/** A turn of another device: the reply is the chat's last message whose role is `assistant`. */
export function watchedTurn({ chatId, messageId, text = '', parts }: KnownReply): Turn {
  const turn: Turn = { chatId, messageId, text, parts, status: 'waiting' };
  return { ...turn, cursor: placeOf(turn) };
}

/** The answer to a call of a reply that is `awaiting`, and the rest of that reply. */
export function answerTurn({ chatId, messageId, text = '', parts }: KnownReply, callId: string, answer: CallAnswer): Turn {
  const call = { id: callId, answer: JSON.parse(JSON.stringify(answer)) };
  return { chatId, messageId, text, parts, call, status: 'waiting' };
}

/** Where a turn's text and parts end, as the ids of events say it. */
function placeOf({ messageId, text, parts = [] }: Turn): string {
  const place = `${messageId}:${[...text].length}`;
  return parts.length > 0 ? `${place}.${parts.length}` : place;
}

/** A turn that is `awaiting` is over as well: an answer is another turn. */
export function isOver(turn: Turn): boolean {
  return turn.status !== 'waiting' && turn.status !== 'streaming';
}

export interface TurnRequest {
  method: 'GET' | 'POST';
  url: string;
  body?: string;
}

/** The request that brings the missing part: the message until its first event came, then what follows the cursor. */
export function nextRequest(turn: Turn, baseUrl: string): TurnRequest {
  if (turn.cursor) {
    return { method: 'GET', url: `${baseUrl}/v1/message/${turn.chatId}/stream` };
  }
  if (turn.call) {
    return { method: 'POST', url: callUrl(turn.messageId!, turn.call.id, baseUrl), body: JSON.stringify(turn.call.answer) };
  }
  const message = { ...turn.options, content: turn.content, client_message_id: turn.clientMessageId };
  return {
    method: 'POST',
    url: turn.chatId ? `${baseUrl}/v1/message` : `${baseUrl}/v1/message/first`,
    body: JSON.stringify(turn.chatId ? { ...message, chat_id: turn.chatId } : message),
  };
}

/** Takes one event into the turn, text, parts and cursor together. False: it was not the next one, and the stream is none. */
export function take(turn: Turn, { event, data, id }: { event?: string; data: string; id?: string }): boolean {
  if (!event || !EVENTS.includes(event)) return true;
  const payload = JSON.parse(data);
  if (event === 'message.started' && !start(turn, payload)) return false;
  if (event === 'content.delta') turn.text += payload.delta;
  if (event === 'part.added') turn.parts = [...(turn.parts ?? []).slice(0, payload.index), payload.part];
  if (ENDS[event]) end(turn, event, payload);
  turn.cursor = id;
  return true;
}

/** Takes a stored reply that has ended, or whose calls wait for the app. */
export function takeStored(turn: Turn, { id, content, parts, status }: Message): void {
  if (status === 'streaming') return;
  const failed = status === 'failed' || status === 'interrupted';
  Object.assign(turn, { text: content, parts: parts ?? undefined, cursor: `${id}:end`, status: failed ? 'failed' : status });
  if (status === 'awaiting') turn.cursor = placeOf(turn);
  if (failed) turn.failure = { code: status, retryable: true };
}

/**
 * A stream begins at a place in the reply. Where it begins again, it repeats known text and parts. The answer to a call may begin
 * after them, because another device has answered, too: the rest is then asked for.
 */
function start(turn: Turn, payload: Schemas['MessageStarted'] & { parts?: number }): boolean {
  const { message_id: id, offset, parts: before = 0 } = payload;
  const isKnown = turn.messageId === id;
  const text = isKnown ? [...turn.text] : []; // offsets count code points, as the spread does
  const parts = (isKnown && turn.parts) || [];
  const isNext = text.length >= offset && parts.length >= before;
  stored(turn, payload);
  Object.assign(turn, { text: text.slice(0, offset).join(''), parts: before ? parts.slice(0, before) : undefined });
  Object.assign(turn, { status: 'streaming', failure: undefined });
  if (!isNext) turn.cursor = placeOf(turn);
  return isNext;
}

/** The server says what it stored when the reply begins, or when the model that it asked has failed. */
function stored(turn: Turn, { chat_id, message_id, user_message_id }: Partial<Schemas['MessageStarted']> = {}): void {
  turn.chatId = chat_id ?? turn.chatId;
  turn.messageId = message_id ?? turn.messageId;
  turn.userMessageId = user_message_id ?? turn.userMessageId;
}

function end(turn: Turn, event: string, payload: Schemas['Completion'] & Failure & { expires_at?: string }): void {
  turn.status = ENDS[event]!;
  if (event === 'message.awaiting') turn.expiresAt = payload.expires_at;
  if (event === 'completion') turn.completion = payload;
  if (event === 'message.failed') {
    turn.failure = { code: payload.code, message: payload.message, retryable: payload.retryable };
  }
}

/**
 * What to do about an answer that is no stream.
 *
 * - `renew`: 401, the access token has expired. The same request at once, with a new one.
 * - `later`: 409, another reply is running in this chat; 429, too many requests; 503, the server restarts; or a
 *   proxy answered in the server's place, also with a success that is no stream. The same request after a pause. So is
 *   421 unless `astray`, when it came before: the request reached a server that does not keep this user's chats.
 * - `over`: the turn has failed. `failure.retryable` tells whether `tryAgain` makes sense: the model failed, which
 *   the server has tried several times already; or it is the second 401, and the user has to sign in first. A
 *   used-up quota ends the turn as well, and `failure.message` says until when: nothing of it is stored. So does a
 *   conversation that is not the one any more which the turn was to change. A call that another device has answered leaves
 *   the turn `awaiting`, with the failure: the chat says how the reply goes on.
 */
export function refused(
  turn: Turn,
  { status, body, renewed, astray = false }: { status: number; body: string; renewed: boolean; astray?: boolean },
): 'renew' | 'later' | 'over' {
  const { code, message, details } = parsed(body);
  if (status === 401 && !renewed) return 'renew';
  const modelFailed = code?.startsWith('upstream_');
  const usedUp = code === 'quota_exceeded'; // for hours, perhaps
  const gone = turn.call ? code !== 'call_claimed' : turn.options?.replaces !== undefined || code === 'conversation_changed';
  const changed = status === 409 && gone;
  if ([409, 429, 503].includes(status) && !modelFailed && !usedUp && !changed) return 'later';
  if (status === 421 && !astray) return 'later';
  if (status < 400 || (status >= 500 && !code)) return 'later';
  turn.status = turn.call && [404, 409, 422].includes(status) ? 'awaiting' : 'failed';
  if (modelFailed) stored(turn, details as Partial<Schemas['MessageStarted']>);
  const retryable = status >= 500 || [401, 421].includes(status) || usedUp;
  turn.failure = { code: code ?? `http_${status}`, message, retryable, status };
  return 'over';
}

/**
 * Makes a failed turn one that is still to be sent, under the same name: the user's message stays as it is, and
 * another reply takes the place of the failed one. The answer to a call is given again, and the same reply goes on.
 */
export function tryAgain(turn: Turn): void {
  Object.assign(turn, { cursor: undefined, failure: undefined, status: 'waiting' });
  if (!turn.call) Object.assign(turn, { messageId: undefined, text: '', parts: undefined });
}

/** The longest Retry-After that is heeded, in seconds. A timer of more than 24 days would end at once. */
const LONGEST_ASKED = 300;

/**
 * Milliseconds before the next attempt (0 is the first): any time up to a bound that doubles from 250 to 10 000, after
 * the server's Retry-After in seconds. This is "full jitter": clients that were cut off together come back one by one.
 * https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
 */
export function pause(attempt: number, retryAfter?: string | number | null): number {
  const asked = Math.min(Math.max(Number(retryAfter) || 0, 0), LONGEST_ASKED);
  return asked * 1000 + Math.min(250 * 2 ** attempt, 10_000) * Math.random();
}

/**
 * Stops the reply that a chat is busy with, on whichever server it runs. Everybody who reads it gets
 * `message.cancelled`. Hanging up stops nothing.
 */
export async function cancel(chatId: string, api: Api): Promise<Schemas['CancelResult']> {
  const response = await authorized(api, `${api.baseUrl}/v1/message/${chatId}/cancel`, { method: 'POST' });
  if (!response.ok) throw await errorOf(response);
  return response.json();
}
