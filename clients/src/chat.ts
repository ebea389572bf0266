import type { Api } from './api.js';
import { Calls, declared, DENIED } from './calls.js';
import type { PendingCall, Tools } from './calls.js';
import { createClient } from './client.js';
import type { Client, Schemas } from './client.js';
import { ThroughlineError } from './errors.js';
import { follow } from './follow.js';
import { watchForeground } from './foreground.js';
import { isOf, namesOf, pendingCalls, shownMessages } from './messages.js';
import type { ChatMessage } from './messages.js';
import { openOutbox } from './outbox.js';
import type { Outbox } from './outbox.js';
import type { CallAnswer, Message } from './parts.js';
import { Store } from './store.js';
import { answerTurn, cancel, isOver, pause, watchedTurn } from './turn.js';
import type { Turn } from './turn.js';

export interface ChatOptions {
  /** Make it once, outside of the render. */
  api: Api;
  /** Without one the first message starts a chat. */
  chatId?: string;
  /** The app's, where messages are to survive it. Without one they live as long as the chat is shown. */
  outbox?: Outbox;
  /** What the model may call, by name. Without them it has all tools of the server, and none of the app. */
  tools?: Tools;
  /** `randomUUID` of expo-crypto, where there is no `crypto.randomUUID`. */
  randomUUID?: () => string;
  /** How many stored messages are read at once; 50 without it. */
  pageSize?: number;
}

export interface ChatState {
  /** Of a new chat, once the server has said it. */
  chatId?: string;
  messages: readonly ChatMessage[];
  /** waiting: the reply has not begun. awaiting: it waits for answers to calls. failed: `retry` asks for another. */
  status: 'loading' | 'ready' | 'waiting' | 'streaming' | 'awaiting' | 'failed';
  /** Whether there are messages before these. */
  hasOlder: boolean;
  /** Why the stored messages could not be read. A broken network is tried again by itself. */
  error?: unknown;
}

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
  #watched?: { turn: Turn; end: () => void };
  #tools: Tools;
  readonly #calls: Calls;
  #readings = 0;
  #attempt = 0;
  #timer?: ReturnType<typeof setTimeout>;
  #loaded: boolean;

  constructor(options: ChatOptions) {
    const { chatId } = options;
    super({ chatId, messages: [], status: chatId ? 'loading' : 'ready', hasOlder: false });
    this.#options = options;
    this.#client = createClient(options.api);
    this.#tools = options.tools ?? {};
    this.#calls = new Calls({
      api: options.api,
      tools: () => this.#tools,
      device: async () => (await this.#box()).device(this.#newId),
      answer: (call, answer) => this.#answer(call, answer),
      changed: () => void this.refresh(),
    });
    this.#loaded = !chatId;
    this.#opened = new Promise((resolve) => (this.#isOpened = resolve));
  }

  /** Takes the tools of a later render; they hold from the next call and message on. */
  setTools(tools: Tools = {}): void {
    this.#tools = tools;
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
      this.#calls.close();
      for (const end of ends) end();
      void own?.then((box) => box.close());
      this.set({}); // for those who wait for something that is not shown any more
    };
  }

  /** Sends a message; `options` are further fields of the request, such as `model_variant`. */
  readonly send = async (content: string, options?: Record<string, unknown>): Promise<void> => {
    await this.#send(content, options);
  };

  /**
   * Replaces a message of the user: it leaves with all after it, and what it says now is answered. Nothing is deleted, see
   * `versions`. It rejects where the server refuses, such as after another device was faster; then all is back.
   */
  readonly edit = (messageId: string, content: string, options?: Record<string, unknown>): Promise<void> =>
    this.#replace(messageId, content, options);

  /** Asks for another reply in place of the last one or of one that is named, by its id or its question's; as `edit` does. */
  readonly regenerate = (messageId?: string, options?: Record<string, unknown>): Promise<void> =>
    this.#replace(messageId ?? this.#last(), undefined, options);

  /** Lets a call be made, of those in the last message's `calls`. It rejects where another device has answered. */
  readonly approve = async (callId: string): Promise<void> => {
    const call = this.#pending(callId);
    if (call.run === 'server') return this.#answer(call, { approved: true });
    this.#calls.approve(call);
    this.#show({});
  };

  /** Refuses a call; the model is told why. */
  readonly deny = async (callId: string, reason?: string): Promise<void> => {
    const call = this.#pending(callId);
    await this.#answer(call, call.run === 'server' ? { approved: false, reason } : { error: reason || DENIED });
  };

  /** Gives the output of a call of the app's own tool that has no `execute`, as JSON. */
  readonly answer = async (callId: string, output: unknown): Promise<void> => {
    await this.#answer(this.#pending(callId), { output: output ?? null });
  };

  /** What was said in place of a message, the oldest first, and which of it is shown. */
  readonly versions = async (messageId: string): Promise<Schemas['MessageVersions']> => {
    const params = { path: { message_id: messageId } };
    return (await this.#client.GET('/v1/messages/{message_id}/versions', { params })).data;
  };

  /** Goes back to a version, and to what followed it. It rejects as `edit` does. */
  readonly select = async (messageId: string): Promise<void> => {
    const params = { path: { message_id: messageId } };
    const body = { last_message_id: this.#last() };
    await this.#client.POST('/v1/messages/{message_id}/select', { params, body }).finally(this.refresh);
  };

  /** Stops the reply, for all who read it, and waits for its end. A message that is still to be sent is dropped. */
  readonly stop = async (): Promise<void> => {
    const { chatId } = this.state();
    if (!chatId) return this.#drop((turn) => !isOver(turn));
    const { message_id: id } = await cancel(chatId, this.#options.api);
    await this.#until(() => !this.#turns.some((turn) => turn.messageId === id && !isOver(turn)));
    if (this.state().status === 'awaiting') await this.refresh();
  };

  /** Asks for another reply in place of the last one, which failed. */
  readonly retry = async (): Promise<void> => {
    const failed = this.#turns.findLast((turn) => turn.status === 'failed');
    if (failed) await (await this.#box()).sendAgain(failed);
    else if (this.state().status === 'failed') await this.regenerate();
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
    const over = new Map(this.#turns.filter(isOver).map((turn) => [turn, turn.messageId]));
    try {
      const page = await this.#page(chatId, {});
      if (reading !== this.#readings) return;
      this.#attempt = 0;
      this.#takeLatest(page);
      const sameAsBefore = (turn: Turn) => isOver(turn) && over.get(turn) === turn.messageId; // it may be tried again by now
      void this.#forget((turn) => sameAsBefore(turn) && !this.#saysMore(turn));
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

  async #page(chatId: string, query: { before_seq?: number }): Promise<Page> {
    const params = { path: { chat_id: chatId }, query: { limit: this.#options.pageSize ?? 50, ...query } };
    return (await this.#client.GET('/v1/chats/{chat_id}/messages', { params })).data as Page;
  }

  /** Keeps what was read before the page, if it begins with a known message: another device may have changed all after it. */
  #takeLatest({ messages, has_more: more }: Page): void {
    const kept = this.#stored.slice(0, Math.max(0, this.#stored.findIndex(({ id }) => id === messages[0]?.id)));
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

  /**
   * Whether a turn that is over says more than the list: why it failed, unless its reply was replaced; or its end, where the
   * list is older, as from a cache. To watch that reply again would be a loop.
   */
  #saysMore({ messageId, status }: Turn): boolean {
    const row = this.#stored.find(({ id }) => id === messageId);
    if (status === 'failed') return Boolean(row) || !messageId;
    return row?.status === 'streaming';
  }

  /** Follows the reply that runs for another device, or did for an app that was killed; or waits until it runs again. */
  #watch(): void {
    const last = this.#stored.findLast(({ role, status }) => role === 'assistant' && (status === 'streaming' || status === 'awaiting'));
    const { chatId } = this.state();
    const name = last && namesOf(this.#stored)(last);
    if (last && chatId && !this.#turns.some((turn) => isOf(last, turn, name))) {
      this.#unwatch();
      const turn = watchedTurn({ chatId, ...knownOf(last) });
      if (last.status === 'awaiting') turn.status = last.status;
      this.#turns.push(turn);
      this.#watched = { turn, end: follow(turn, this.#options.api, (one) => this.#changed(one)) };
    }
    this.#show({});
  }

  #unwatch(): void {
    this.#watched?.end();
    this.#turns = this.#turns.filter((turn) => turn !== this.#watched?.turn);
    this.#watched = undefined;
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

  async #send(content?: string, options?: Record<string, unknown>): Promise<Turn> {
    const { chatId } = this.state();
    if (!chatId && this.#turns.some((turn) => !isOver(turn))) throw new Error('The first message is still on its way.');
    const clientMessageId = this.#newId();
    this.#mine.add(clientMessageId);
    const tools = Object.keys(this.#tools).length > 0 && { tools: declared(this.#tools) };
    return (await this.#box()).send({ clientMessageId, content, chatId, options: tools ? { ...tools, ...options } : options });
  }

  readonly #newId = (): string => (this.#options.randomUUID ?? (() => crypto.randomUUID()))();

  #pending(id: string): PendingCall {
    const call = this.state().messages.at(-1)?.calls?.find(({ callId }) => callId === id);
    if (!call) throw new ThroughlineError(404, 'call_not_found', 'No such call waits for an answer.');
    return call;
  }

  /** It goes through the outbox: an answer that was given is given again after the app was killed, and the tool does not run twice. */
  async #answer({ messageId, callId }: PendingCall, answer: CallAnswer): Promise<void> {
    const { content: text, parts } = this.state().messages.find(({ id }) => id === messageId) ?? {};
    const turn = answerTurn({ chatId: this.state().chatId!, messageId, text, parts }, callId, answer);
    const box = this.#options.outbox ?? (await this.#outbox);
    if (!box) return void follow(turn, this.#options.api, () => {}); // the chat was left while the tool ran
    this.#unwatch();
    await box.add(turn);
    await this.#until(() => turn.status === 'streaming' || isOver(turn));
    if (turn.status !== 'awaiting' || !turn.failure) return;
    const { status = 0, code, message = code } = turn.failure;
    throw new ThroughlineError(status, code, message);
  }

  /**
   * It goes through the outbox as a message does. That is harmless at any later time, because it names the message that was the
   * last one when the user saw it: where that has changed, the server refuses.
   */
  async #replace(replaces: string | undefined, content?: string, options?: Record<string, unknown>): Promise<void> {
    if (!replaces) throw new Error('There is no message yet.');
    if (this.#turns.some((turn) => !isOver(turn))) {
      throw new ThroughlineError(409, 'generation_in_progress', 'A reply is still on its way.');
    }
    const turn = await this.#send(content, { ...options, replaces, last_message_id: this.#last() });
    await this.#until(() => turn.messageId !== undefined || isOver(turn));
    if (turn.messageId || !turn.failure) return;
    await this.#drop((one) => one === turn);
    await this.refresh();
    const { status = 0, code, message = code } = turn.failure;
    throw new ThroughlineError(status, code, message);
  }

  /** The last message that is shown. Of two devices that change a chat at once, the second does not know it, and is refused. */
  #last(): string | undefined {
    return this.state().messages.findLast(({ id }) => id)?.id;
  }

  /** Waits for something that is shown, as long as the chat is. */
  #until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const end = this.subscribe(() => check());
      const check = () => {
        if (!holds() && this.#outbox) return;
        end();
        resolve();
      };
      check();
    });
  }

  async #drop(which: (turn: Turn) => boolean): Promise<void> {
    await this.#box();
    await this.#forget(which);
  }

  async #forget(which: (turn: Turn) => boolean): Promise<void> {
    const dropped = this.#turns.filter(which);
    this.#turns = this.#turns.filter((turn) => !dropped.includes(turn));
    this.#show({});
    const box = await this.#outbox;
    for (const turn of dropped) await box?.drop(turn);
  }

  /** What an app sends before the chat is open, such as in an effect of its own, waits for that. */
  async #box(): Promise<Outbox> {
    await this.#opened;
    if (!this.#outbox) throw new Error('The chat is not open.');
    return this.#outbox;
  }

  #show(change: Partial<ChatState>): void {
    const messages = shownMessages(this.#stored, this.#turns);
    const last = messages.at(-1);
    const { open, answered } = last ? pendingCalls(last, this.#turns) : { open: [], answered: [] };
    if (last && open.length > 0) last.calls = open.filter((call) => !answered.includes(call.callId) && !this.#calls.settles(call));
    if (this.#outbox) this.#calls.see(open, answered);
    this.set({ ...change, messages, status: this.#loaded ? statusOf(messages.at(-1)) : 'loading' });
  }
}

interface Page {
  messages: Message[];
  has_more: boolean;
}

const knownOf = ({ id, content, parts }: Message) => ({ messageId: id, text: content, parts: parts ?? undefined });

function statusOf(last?: ChatMessage): ChatState['status'] {
  if (last?.status === 'waiting' || last?.status === 'streaming' || last?.status === 'awaiting') return last.status;
  return last?.status === 'failed' || last?.status === 'interrupted' ? 'failed' : 'ready';
}

function storageOf(memory: Map<string, string>) {
  return {
    getItem: (key: string) => memory.get(key) ?? null,
    setItem: (key: string, value: string) => void memory.set(key, value),
  };
}
