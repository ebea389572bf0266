/** Streams of the AI SDK: breaks, and calls of tools in them. */
import type { UIMessageChunk } from 'ai';

import type { ThroughlineMessage } from './ai-sdk-messages.js';
import { RENEWAL } from './calls.js';

export type Chunks = ReadableStream<UIMessageChunk>;
export type Bytes = ReadableStream<Uint8Array<ArrayBufferLike>>;

/**
 * The connection broke or no server answered, and the reply is not lost: `setTimeout(resumeStream, error.retryIn)`
 * goes on with it. It is a chat's error, and what its onError gets.
 *
 * It is no TypeError: after one that speaks of a network, chats keep the half of the reply that they have and expect
 * the other half. What comes is the whole reply, and useChat of the SDK's version 6 would show half of it twice.
 */
export class Disconnected extends Error {
  constructor(
    cause: unknown,
    /** Milliseconds to wait. */
    readonly retryIn: number,
  ) {
    super('the connection broke', { cause });
  }
}

type Read<T> = { done: true; value?: T } | { done: false; value: T };

/** The same stream, each of whose reads goes through `check`. What that throws breaks the stream. */
export function checked<T>(stream: ReadableStream<T>, check: (next: Promise<Read<T>>) => Promise<Read<T>>): ReadableStream<T> {
  const reader = stream.getReader();
  return new ReadableStream<T>({
    async pull(controller) {
      try {
        const { done, value } = await check(reader.read() as Promise<Read<T>>);
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        controller.error(error);
        reader.cancel(error).catch(() => {}); // it broke by itself
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** Breaks a stream of which nothing is heard, not even a heartbeat: the connection may be dead without an error. */
export function heard(stream: Bytes, silence: number): Bytes {
  return checked(stream, (next) => {
    let timer: ReturnType<typeof setTimeout>;
    const dead = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new TypeError('nothing was heard of the server')), silence);
    });
    return Promise.race([next, dead]).finally(() => clearTimeout(timer));
  });
}

/**
 * Nothing is left to answer. A last step without calls keeps the SDK from sending the same again; but where other calls wait
 * it would hide their answers from `sendAutomaticallyWhen`, so the SDK takes the request for one that was stopped.
 */
export function nothingFor({ metadata }: ThroughlineMessage): Chunks {
  if (metadata?.status === 'awaiting') throw Object.assign(new Error('no call has an answer'), { name: 'AbortError' });
  return new ReadableStream({
    start(controller) {
      controller.enqueue({ type: 'start-step' });
      controller.enqueue({ type: 'message-metadata', messageMetadata: {} }); // a step alone is not shown
      controller.close();
    },
  });
}

type Available = Extract<UIMessageChunk, { type: 'tool-input-available' }>;

/**
 * Tells of the app's calls when their step is stored and they wait, so that a cut before that does not have them run twice;
 * and of a call that another device has only its input. Then the stream ends as one that was cut: the app comes back.
 */
export function claimed(stream: Chunks, claim: (messageId: string, callId: string) => Promise<boolean>): Chunks {
  const held = new Map<string, Available>();
  let messageId = '';
  let elsewhere = false;
  const inputOf = ({ toolCallId, input }: Available): UIMessageChunk =>
    ({ type: 'tool-input-delta', toolCallId, inputTextDelta: JSON.stringify(input) });
  return stream.pipeThrough(
    new TransformStream<UIMessageChunk, UIMessageChunk>({
      async transform(chunk, controller) {
        if (chunk.type === 'start') messageId = chunk.messageId ?? messageId;
        if (chunk.type === 'tool-input-available' && !chunk.providerExecuted) return void held.set(chunk.toolCallId, chunk);
        const settled = chunk.type.startsWith('tool-output-') && 'toolCallId' in chunk && held.get(chunk.toolCallId);
        if (settled) controller.enqueue(inputOf(settled));
        if (settled) held.delete(settled.toolCallId);
        for (const call of chunk.type === 'finish' ? held.values() : []) {
          const isOurs = await claim(messageId, call.toolCallId);
          elsewhere ||= !isOurs;
          controller.enqueue(isOurs ? call : inputOf(call));
        }
        controller.enqueue(chunk);
      },
      flush() {
        if (elsewhere) throw new Disconnected(new Error('another device runs a call'), RENEWAL * Math.random());
      },
    }),
  );
}
