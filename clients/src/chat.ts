import type { Api } from './api.js';
import { createClient } from './client.js';
import type { Client, Schemas } from './client.js';
import type { ThroughlineError } from './errors.js';
import { follow } from './follow.js';
import { watchForeground } from './foreground.js';
import { shownMessages } from './messages.js';
import type { ChatMessage } from './messages.js';
import { openOutbox } from './outbox.js';
import type { Outbox } from './outbox.js';
import { Store } from './store.js';
import { cancel, isOver, pause, watchedTurn } from './turn.js';
import type { Turn } from './turn.js';

export interface ChatOptions {
  /** Make it once, outside of the render. */
  api: Api;
  /** Without one the first message starts a chat. */
  chatId?: string;
  /** The app's, where messages are to survive it. Without one they live as long as the chat is shown. */
  outbox?: Outbox;
  /** `randomUUID` of expo-crypto, where there is no `crypto.randomUUID`. */
  randomUUID?: () => string;
  /** How many stored messages are read at once; 50 without it. */
  pageSize?: number;
}

export interface ChatState {
  /** Of a new chat, once the server has said it. */
  chatId?: string;
  messages: readonly ChatMessage[];
  /** waiting: the reply has not begun. failed: the last one failed, and `retry` asks for another. */
  status: 'loading' | 'ready' | 'waiting' | 'streaming' | 'failed';
  /** Whether there are messages before these. */
  hasOlder: boolean;
  /** Why the stored messages could not be read. A broken network is tried again by itself. */
  error?: unknown;
}

type Message = Schemas['Message'];

/**
 * One chat as an app shows it: its stored messages, those being sent, and the reply that is running, from whichever
 * device it was asked for. Without React: `subscribe` and read `state()`.
 */
export class ChatStore extends Store<ChatState> {
  readonly #options: ChatOptions;
  readonly #client: Client;
  readonly #memory = new Map<string, string>(); // unsent messages, where the app has no outbox
  #outbox?: Promise<Outbox>;
  readonly #opened: Promise<void>;
  #isOpened = () => {};
  #stored: Message[] = []; // in the order of seq
  #turns: Turn[] = []; // until their messages are read as they are stored
  readonly #mine = new Set<string>(); // the client_message_id of messages that were sent before the chat had an id
  #watched?: () => void;
  #readings = 0;
  #attempt = 0;
  #timer?: ReturnType<typeof setTimeout>;
  #loaded: boolean;

  constructor(options: ChatOptions) {
    const { chatId } = options;
    super({ chatId, messages: [], status: chatId ? 'loading' : 'ready', hasOlder: false });
    this.#options = options;
    this.#client = createClient(options.api);
    this.#loaded = !chatId;
    this.#opened = new Promise((resolve) => (this.#isOpened = resolve));
  }

  /** Shows the chat until the function that is returned is called. That stops no reply. */
  open(): () => void {
    const { api, outbox } = this.#options;
    const own = outbox ? undefined : openOutbox({ storage: storageOf(this.#memory), api });
    const opened = (this.#outbox = own ?? Promise.resolve(outbox!));
    const ends = [watchForeground(api, { onForeground: () => void this.refresh() })];
    this.#isOpened();
    void opened.then((box) => {
      if (this.#outbox === opened) ends.push(this.#adopt(box));
    });
    return () => {
      this.#outbox = undefined;
      this.#readings++;
      clearTimeout(this.#timer);
      this.#unwatch();
      for (const end of ends) end();
      void own?.then((box) => box.close());
    };
  }

  /** Sends a message; `options` are further fields of the request, such as `model_variant`. */
  readonly send = async (content: string, options?: Record<string, unknown>): Promise<void> => {
    await this.#send(this.#newId(), content, options);
  };

  /** Stops the reply, for all who read it. A message that is still to be sent is dropped. */
  readonly stop = async (): Promise<void> => {
    const { chatId } = this.state();
    if (chatId) await cancel(chatId, this.#options.api);
    else await this.#drop((turn) => !isOver(turn));
  };

  /** Asks for another reply to the last message. */
  readonly retry = async (): Promise<void> => {
    const failed = this.#turns.findLast((turn) => turn.status === 'failed');
    if (failed) return (await this.#box()).sendAgain(failed);
    const reply = this.#stored.at(-1);
    const asked = this.#stored.find(({ id }) => id === reply?.reply_to);
    if (asked) await this.#send(asked.client_message_id ?? this.#newId(), asked.content);
  };

  /** Takes a message away that failed, by its key or its reply's. What the server has of it stays. */
  readonly drop = async (key: string): Promise<void> => {
    await this.#drop((turn) => isOver(turn) && key.startsWith(turn.clientMessageId ?? ' '));
  };

  /** Reads the latest messages, such as another device's. It is done by itself after a reply and in the foreground. */
  readonly refresh = async (): Promise<void> => {
    const { chatId } = this.state();
    if (!chatId || !this.#outbox) return;
    clearTimeout(this.#timer);
    const reading = ++this.#readings;
    const over = new Set(this.#turns.filter((turn) => isOver(turn) && turn.status !== 'failed'));
    try {
      const page = await this.#page(chatId, {});
      if (reading !== this.#readings) return;
      this.#attempt = 0;
      this.#takeLatest(page);
      this.#turns = this.#turns.filter((turn) => !over.has(turn) || this.#isBehind(turn));
      this.#watch();
    } catch (error) {
      if (reading === this.#readings) this.#failed(error);
    }
  };

  /** Reads the messages before the shown ones. */
  readonly loadOlder = async (): Promise<void> => {
    const { chatId } = this.state();
    const first = this.#stored[0];
    if (!chatId || !first) return;
    const page = await this.#page(chatId, { before_seq: first.seq });
    if (this.#stored[0] !== first) return; // read again, or twice
    this.#stored = [...page.messages, ...this.#stored];
    this.#show({ hasOlder: page.has_more });
  };

  async #page(chatId: string, query: { before_seq?: number }): Promise<Schemas['MessagePage']> {
    const params = { path: { chat_id: chatId }, query: { limit: this.#options.pageSize ?? 50, ...query } };
    return (await this.#client.GET('/v1/chats/{chat_id}/messages', { params })).data;
  }

  /** Keeps the messages read before the page, unless messages between them are missing. */
  #takeLatest({ messages, has_more: more }: Schemas['MessagePage']): void {
    const from = messages[0]?.seq ?? 0;
    const before = this.#stored.filter(({ seq }) => seq < from);
    const joined = !more || this.#stored.some(({ seq }) => seq >= from);
    const kept = joined ? before : [];
    this.#stored = [...kept, ...messages];
    this.#loaded = true;
    this.#show({ error: undefined, hasOlder: kept.length > 0 ? this.state().hasOlder : more });
  }

  #failed(error: unknown): void {
    this.#show({ error });
    const answered = error instanceof Error && 'status' in error && Number(error.status) < 500 && error.status !== 429;
    const { retryAfter } = error as Partial<ThroughlineError>;
    if (!answered) this.#timer = setTimeout(() => void this.refresh(), pause(this.#attempt++, retryAfter));
  }

  /** Whether the list that was read is older than the end of the turn, as from a cache. To watch it again would be a loop. */
  #isBehind({ messageId }: Turn): boolean {
    return this.#stored.some(({ id, status }) => id === messageId && status === 'streaming');
  }

  /** Follows the reply that runs for another device, or did for an app that was killed. */
  #watch(): void {
    const last = this.#stored.findLast(({ role, status }) => role === 'assistant' && status === 'streaming');
    const { chatId } = this.state();
    if (last && chatId && !this.#turnOf(last)) {
      this.#unwatch();
      const turn = watchedTurn({ chatId, messageId: last.id });
      this.#turns.push(turn);
      this.#watched = follow(turn, this.#options.api, (one) => this.#changed(one));
    }
    this.#show({});
  }

  #unwatch(): void {
    this.#watched?.();
    this.#watched = undefined;
    this.#turns = this.#turns.filter(({ clientMessageId }) => clientMessageId);
  }

  #turnOf({ id, reply_to: asked }: Message): Turn | undefined {
    const name = this.#stored.find((row) => row.id === asked)?.client_message_id;
    return this.#turns.find((turn) => turn.messageId === id || (name && turn.clientMessageId === name));
  }

  #adopt(box: Outbox): () => void {
    this.#turns = box.turns.filter((turn) => this.#isOurs(turn));
    this.#show({});
    void this.refresh();
    return box.subscribe((turn) => this.#changed(turn));
  }

  #isOurs({ chatId, clientMessageId }: Turn): boolean {
    return chatId ? chatId === this.state().chatId || this.#mine.has(clientMessageId!) : this.#mine.has(clientMessageId!);
  }

  #changed(turn: Turn): void {
    if (!this.#isOurs(turn)) return;
    if (!this.#turns.includes(turn)) this.#turns.push(turn);
    this.#show({ chatId: this.state().chatId ?? turn.chatId });
    if (isOver(turn)) void this.refresh();
  }

  async #send(clientMessageId: string, content: string, options?: Record<string, unknown>): Promise<void> {
    const { chatId } = this.state();
    if (!chatId && this.#turns.some((turn) => !isOver(turn))) throw new Error('The first message is still on its way.');
    this.#mine.add(clientMessageId);
    await (await this.#box()).send({ clientMessageId, content, chatId, options });
  }

  async #drop(which: (turn: Turn) => boolean): Promise<void> {
    const box = await this.#box();
    const dropped = new Set(this.#turns.filter(which));
    this.#turns = this.#turns.filter((turn) => !dropped.has(turn));
    this.#show({});
    for (const turn of dropped) await box.drop(turn);
  }

  /** What an app sends before the chat is open, such as in an effect of its own, waits for that. */
  async #box(): Promise<Outbox> {
    await this.#opened;
    if (!this.#outbox) throw new Error('The chat is not open.');
    return this.#outbox;
  }

  #newId(): string {
    return (this.#options.randomUUID ?? (() => crypto.randomUUID()))();
  }

  #show(change: Partial<ChatState>): void {
    const messages = shownMessages(this.#stored, this.#turns);
    this.set({ ...change, messages, status: this.#loaded ? statusOf(messages.at(-1)) : 'loading' });
  }
}

function statusOf(last?: ChatMessage): ChatState['status'] {
  if (last?.status === 'waiting' || last?.status === 'streaming') return last.status;
  return last?.status === 'failed' || last?.status === 'interrupted' ? 'failed' : 'ready';
}

function storageOf(memory: Map<string, string>) {
  return {
    getItem: (key: string) => memory.get(key) ?? null,
    setItem: (key: string, value: string) => void memory.set(key, value),
  };
}
