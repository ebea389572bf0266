import { createParser } from 'eventsource-parser';

import { authorized } from './api.js';
import type { Api } from './api.js';
import { watchForeground } from './foreground.js';
import type { Message } from './parts.js';
import { openStream } from './stream.js';
import type { Answer } from './stream.js';
import { isOver, nextRequest, pause, refused, take, takeStored } from './turn.js';
import type { Turn } from './turn.js';

/** The longest silence of a connection, in milliseconds: it may be dead without an error, and resuming does no harm. */
export const SILENCE = 45_000;

/**
 * Sends a turn or goes on with it, until it is over or the function that is returned lets go of it. Letting go stops
 * nothing on the server; following once more goes on from there. So does an app that was in the background.
 *
 * A turn that is `awaiting` already is asked for until its reply goes on, as by another device's answer.
 *
 * `onChange` is called after each event, and when the turn has failed: store the turn, show it.
 */
export function follow(turn: Turn, api: Api, onChange: (turn: Turn) => void): () => void {
  let connection = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let attempt = 0; // since the reply last grew: a stream that is cut before it says something new is none
  let furthest = lengthOf(turn);
  let waits = turn.status === 'awaiting';
  let renew = false;
  let astray = false; // a request came to a server of another cell
  let token: string | undefined; // of the last request, which the server may have refused

  const unwatch = watchForeground(api, {
    onBackground: () => turn.cursor && hangUp(), // a message that was not heard of is still on its way
    onForeground: connect,
  });

  const over = () => isOver(turn) && !waits;

  function hangUp(): void {
    clearTimeout(timer);
    connection.abort();
  }

  function release(): void {
    unwatch();
    hangUp();
  }

  function connectIn(ms: number): void {
    clearTimeout(timer);
    timer = setTimeout(connect, ms);
  }

  async function connect(): Promise<void> {
    hangUp();
    const { signal } = (connection = new AbortController());
    connectIn(api.silence ?? SILENCE);
    const wait = await request(signal)
      .then((answer) => answered(answer, signal))
      .catch(() => undefined); // no network, or it broke, or no user is signed in
    if (signal.aborted) return;
    if (over()) release();
    else connectIn(wait ?? pause(attempt++));
  }

  async function request(signal: AbortSignal): Promise<Answer> {
    const { method, url, body } = nextRequest(turn, api.baseUrl);
    const headers: Record<string, string> = { Accept: 'text/event-stream' };
    const current = await (renew ? api.accessToken(true, token) : api.accessToken(false));
    if (signal.aborted) throw signal.reason;
    token = current;
    headers.Authorization = `Bearer ${token}`;
    if (body) headers['Content-Type'] = 'application/json';
    if (turn.cursor) headers['Last-Event-ID'] = turn.cursor;
    const parser = createParser({ onEvent: (event) => signal.aborted || received(event) });
    return openStream(api, { method, url, headers, body, signal }, (piece) => {
      if (signal.aborted) return;
      connectIn(api.silence ?? SILENCE); // a heartbeat is a sign of life, too
      parser.feed(piece);
    });
  }

  function received(event: { event?: string; data: string; id?: string }): void {
    renew = astray = false;
    const isNext = take(turn, event);
    waits &&= turn.status === 'awaiting';
    if (lengthOf(turn) > furthest) {
      furthest = lengthOf(turn);
      attempt = 0;
    }
    if (!isNext) hangUp();
    if (!isNext) connectIn(pause(attempt++));
    if (over()) release();
    onChange(turn);
  }

  async function answered(answer: Answer, signal: AbortSignal): Promise<number | undefined> {
    if (signal.aborted || answer.status === 200) return undefined;
    if (answer.status === 204 && turn.cursor && !waits) await readEnd(signal);
    return signal.aborted || over() ? undefined : refusal(answer);
  }

  /** Nothing is left to send: how the reply ended is in its row. Where a proxy said so, the row is still streaming. */
  async function readEnd(signal: AbortSignal): Promise<void> {
    const response = await authorized(api, `${api.baseUrl}/v1/chats/${turn.chatId}/messages`, { signal });
    const { messages }: { messages: Message[] } = await response.json();
    const reply = messages.find(({ id }) => id === turn.messageId);
    if (signal.aborted || !reply) return;
    takeStored(turn, reply);
    if (isOver(turn)) onChange(turn);
  }

  function refusal({ status, body, retryAfter }: Answer): number {
    const next = waits && status >= 500 ? 'later' : refused(turn, { status, body, renewed: renew, astray });
    astray ||= status === 421;
    renew = next === 'renew';
    if (next === 'over') waits = false;
    if (next === 'over') onChange(turn);
    return renew ? 0 : pause(attempt++, retryAfter);
  }

  connect();
  return release;
}

function lengthOf({ text, parts = [] }: Turn): number {
  return text.length + parts.length;
}
