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
import { errorOf, parsed } from './errors.js';

/** What the user says. */
export interface NewMessage {
  /** A uuid that names the message for ever. */
  clientMessageId: string;
  /** Without it the message that `options.replaces` names gets another reply. */
  content?: string;
  /** Without one the message starts a chat. */
  chatId?: string;
  /** Further fields of the request, such as `model_variant`, `replaces` or, for a new chat, its `tags`. */
  options?: Record<string, unknown>;
}

/** Plain data: store it before the message is first sent, and after each change, so that it survives the app. */
export interface Turn extends Partial<NewMessage> {
  /** The reply's. */
  messageId?: string;
  /** The user message's id, as it is stored. */
  userMessageId?: string;
  /** The reply, as far as it is known. */
  text: string;
  /** The id of the last event: the place in the reply that `text` reaches. */
  cursor?: string;
  status: 'waiting' | 'streaming' | 'complete' | 'cancelled' | 'failed';
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

/** The events of a stream. The last three are terminal: each stream ends with exactly one of them. */
export const EVENTS = ['message.started', 'content.delta', 'completion', 'message.failed', 'message.cancelled'];

const ENDS: Record<string, Turn['status']> = {
  completion: 'complete',
  'message.cancelled': 'cancelled',
  'message.failed': 'failed',
};

/** A turn that is still to be sent. */
export function newTurn({ clientMessageId, content, chatId, options }: NewMessage): Turn {
  return { clientMessageId, content, chatId, options, text: '', status: 'waiting' };
}

/** A turn of another device, from the beginning of its reply: the chat's last message whose role is `assistant`. */
export function watchedTurn({ chatId, messageId }: { chatId: string; messageId: string }): Turn {
  return { chatId, messageId, cursor: `${messageId}:0`, text: '', status: 'waiting' };
}

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
  const message = { ...turn.options, content: turn.content, client_message_id: turn.clientMessageId };
  return {
    method: 'POST',
    url: turn.chatId ? `${baseUrl}/v1/message` : `${baseUrl}/v1/message/first`,
    body: JSON.stringify(turn.chatId ? { ...message, chat_id: turn.chatId } : message),
  };
}

/** Takes one event into the turn, text and cursor together. */
export function take(turn: Turn, { event, data, id }: { event?: string; data: string; id?: string }): void {
  if (!event || !EVENTS.includes(event)) return;
  const payload = JSON.parse(data);
  if (event === 'message.started') start(turn, payload);
  else if (event === 'content.delta') turn.text += payload.delta;
  else end(turn, event, payload);
  turn.cursor = id;
}

/** Takes a stored reply that has ended. */
export function takeStored(turn: Turn, { id, content, status }: Schemas['Message']): void {
  if (status === 'streaming') return;
  const failed = status === 'failed' || status === 'interrupted';
  Object.assign(turn, { text: content, cursor: `${id}:end`, status: failed ? 'failed' : status });
  if (failed) turn.failure = { code: status, retryable: true };
}

/** A stream begins at a place in the text. Where it begins again, it repeats known text. */
function start(turn: Turn, payload: Schemas['MessageStarted']): void {
  const known = turn.messageId === payload.message_id ? turn.text : '';
  const text = [...known].slice(0, payload.offset).join(''); // offsets count code points, as the spread does
  stored(turn, payload);
  Object.assign(turn, { text, status: 'streaming', failure: undefined });
}

/** The server says what it stored when the reply begins, or when the model that it asked has failed. */
function stored(turn: Turn, { chat_id, message_id, user_message_id }: Partial<Schemas['MessageStarted']> = {}): void {
  turn.chatId = chat_id ?? turn.chatId;
  turn.messageId = message_id ?? turn.messageId;
  turn.userMessageId = user_message_id ?? turn.userMessageId;
}

function end(turn: Turn, event: string, payload: Schemas['Completion'] & Failure): void {
  turn.status = ENDS[event]!;
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
 *   conversation that is not the one any more which the turn was to change.
 */
export function refused(
  turn: Turn,
  { status, body, renewed, astray = false }: { status: number; body: string; renewed: boolean; astray?: boolean },
): 'renew' | 'later' | 'over' {
  const { code, message, details } = parsed(body);
  if (status === 401 && !renewed) return 'renew';
  const modelFailed = code?.startsWith('upstream_');
  const usedUp = code === 'quota_exceeded'; // for hours, perhaps
  const changed = status === 409 && (turn.options?.replaces !== undefined || code === 'conversation_changed');
  if ([409, 429, 503].includes(status) && !modelFailed && !usedUp && !changed) return 'later';
  if (status === 421 && !astray) return 'later';
  if (status < 400 || (status >= 500 && !code)) return 'later';
  turn.status = 'failed';
  if (modelFailed) stored(turn, details as Partial<Schemas['MessageStarted']>);
  const retryable = status >= 500 || [401, 421].includes(status) || usedUp;
  turn.failure = { code: code ?? `http_${status}`, message, retryable, status };
  return 'over';
}

/**
 * Makes a failed turn one that is still to be sent, under the same name: the user's message stays as it is, and
 * another reply takes the place of the failed one.
 */
export function tryAgain(turn: Turn): void {
  Object.assign(turn, { messageId: undefined, cursor: undefined, text: '', failure: undefined, status: 'waiting' });
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
