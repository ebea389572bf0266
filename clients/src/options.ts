/** What a chat is given, and what it shows. */
import type { Api } from './api.js';
import type { Tools } from './calls.js';
import type { ThroughlineError } from './errors.js';
import type { ChatMessage } from './messages.js';
import type { Outbox } from './outbox.js';
import type { RequestOptions } from './turn.js';

/** Further fields of a message, such as `model_variant` or `files`, and of a new chat, such as `tags`. */
export type SendOptions = Omit<RequestOptions, 'replaces' | 'last_message_id'>;

export interface ChatOptions {
  /** Make it once, outside of the render. */
  api: Api;
  /** Without one the first message starts a chat. */
  chatId?: string;
  /** The app's, where messages are to survive it. Without one they live as long as the chat is shown. */
  outbox?: Outbox | Promise<Outbox>;
  /** What the model may call, by name. Without them it has all tools of the server, and none of the app. */
  tools?: Tools;
  /** `randomUUID` of expo-crypto, where there is no `crypto.randomUUID`. */
  randomUUID?: () => string;
  /** How many stored messages are read at once; 50 without it. */
  pageSize?: number;
  /** Called when the chat cannot be read, and when a message or its reply has failed. */
  onError?: (error: ThroughlineError) => void;
  /** Called when a reply that was shown as it grew has ended: its `status` is complete or cancelled. */
  onFinish?: (message: ChatMessage) => void;
}

export interface ChatState {
  /** Of a new chat, once the server has said it. */
  chatId?: string;
  messages: readonly ChatMessage[];
  /**
   * waiting: the reply has not begun. awaiting: it waits for answers to calls. failed: `retry` asks for another reply; or, with
   * an `error`, the chat could not be read, and `retry` reads it again.
   */
  status: 'loading' | 'ready' | 'waiting' | 'streaming' | 'awaiting' | 'failed';
  /** Whether there are messages before these. */
  hasOlder: boolean;
  /** Why the stored messages could not be read. A broken network is tried again by itself. */
  error?: Error;
}
