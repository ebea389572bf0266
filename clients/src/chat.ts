import type { Api } from './api.js';
import { Calls, declared, DENIED } from './calls.js';
import type { PendingCall } from './calls.js';
import { watchChanges } from './changes.js';
import type { Changes } from './changes.js';
import { createClient } from './client.js';
import type { Client, Schemas } from './client.js';
import { ThroughlineError } from './errors.js';
import { follow } from './follow.js';
import { isOf, namesOf, pendingCalls, shownMessages } from './messages.js';
import type { ChatMessage } from './messages.js';
import type { ChatOptions, ChatState, SendOptions } from './options.js';
import { memory, openOutbox } from './outbox.js';
import type { Outbox } from './outbox.js';
import { LARGE_PAGE, Pages } from './pages.js';
import type { Page } from './pages.js';
import { claimCall } from './parts.js';
import type { CallAnswer, Message } from './parts.js';
import { Store } from './store.js';
import { answerTurn, cancel, isOver, pause, refusalOf, watchedTurn } from './turn.js';
import type { RequestOptions, Turn } from './turn.js';

/**
 * One chat as an app shows it: its stored messages, those being sent, and the reply that is running, from whichever
 * device it was asked for. Without React: `subscribe` and read `state()`.
 */
export class ChatStore extends Store<ChatState> {
  #options: ChatOptions;
  readonly #client: Client;
  readonly #pages: Pages;
  readonly #memory = memory(); // unsent messages, where the app has no outbox
  #outbox?: Promise<Outbox>;
  readonly #opened: Promise<void>;
  #isOpened = () => {};
  #stored: Message[] = []; // in the order of seq
  #turns: Turn[] = []; // until their messages are read as they are stored
  readonly #mine = new Set<string>(); // the client_message_id of messages that were sent before the chat had an id
  #watched?: { turn: Turn; end: () => void };
  #elsewhere?: Changes; // while the chat is shown, and has an id
  readonly #told = new WeakMap<Turn, Turn['status']>(); // what other windows know of own turns
  readonly #calls: Calls;
  #readings = 0;
  #attempt = 0;
  #timer?: ReturnType<typeof setTimeout>;
  #loaded: boolean;
  #refused = false; // the last reading, by the server

  constructor(options: ChatOptions) {
    const { chatId } = options;
    super({ chatId, messages: [], status: chatId ? 'loading' : 'ready', hasOlder: false });
    this.#options = options;
    this.#client = createClient(options.api);
    this.#pages = new Pages(this.#client, options.pageSize);
    this.#calls = new Calls({
      api: options.api,
      tools: () => this.#options.tools ?? {},
      device: async () => (await this.#box()).device(this.#newId),
      answer: (call, answer) => this.#answer(call, answer),
      changed: () => void this.refresh(),
    });
    this.#loaded = !chatId;
    this.#opened = new Promise((resolve) => (this.#isOpened = resolve));
  }

  /** Takes what a later render has: tools hold from the next call and message on. */
  renew({ tools, onError, onFinish }: Pick<ChatOptions, 'tools' | 'onError' | 'onFinish'>): void {
    this.#options = { ...this.#options, tools, onError, onFinish };
  }

  /** Shows the chat until the function that is returned is called. That stops no reply. */
  open(): () => void {
    const { api, outbox } = this.#options;
    const own = outbox ? undefined : openOutbox({ storage: this.#memory, api });
    const opened = (this.#outbox = own ?? Promise.resolve(outbox!));
    const ends: (() => void)[] = [];
    this.#listen();
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
      this.#elsewhere?.end();
      this.#elsewhere = undefined;
      for (const end of ends) end();
      void own?.then((box) => box.close());
      this.set({}); // for those who wait for something that is not shown any more
    };
  }

  /** Hears of what is said elsewhere. What this screen follows, or is about to ask for, is not asked for twice. */
  #listen(): void {
    const { chatId } = this.state();
    if (!chatId || !this.#outbox) return;
    const isAsked = (told: boolean) =>
      this.#turns.some((turn) => turn.status === 'streaming' || (!told && turn === this.#watched?.turn)) || (!told && this.#attempt > 0);
    this.#elsewhere ??= watchChanges(this.#options.api, chatId, (told) => isAsked(told) || void this.refresh());
  }

  /** Sends a message. */
  readonly send = async (content: string, options?: SendOptions): Promise<void> => {
    await this.#send(content, options);
  };

  /**
   * Replaces a message of the user: it leaves with all after it, and what it says now is answered. Nothing is deleted, see
   * `versions`. It rejects where the server refuses, such as after another device was faster; then all is back.
   */
  readonly edit = (messageId: string, content: string, options?: SendOptions): Promise<void> =>
    this.#replace(messageId, content, options);

  /** Asks for another reply in place of the last one or of one that is named, by its id or its question's; as `edit` does. */
  readonly regenerate = (messageId?: string, options?: SendOptions): Promise<void> =>
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

  /**
   * Gives the output of a call of the app's own tool that has no `execute`, as JSON. It rejects where another device has answered,
   * or is about to.
   */
  readonly answer = async (callId: string, output: unknown): Promise<void> => {
    const call = this.#pending(callId);
    const claim = await (await this.#box()).device(this.#newId);
    await claimCall(call.messageId, callId, claim, this.#options.api).catch((error) => {
      if (error instanceof ThroughlineError && error.status < 500) throw error; // else the outbox waits for the network
    });
    await this.#answer(call, { output: output ?? null, claim });
  };

  /** Says what the user thinks of a reply: 1, -1, or 0 for nothing. */
  readonly rate = async (messageId: string, rating: 1 | 0 | -1): Promise<void> => {
    const params = { path: { message_id: messageId } };
    this.#put((await this.#client.POST('/v1/messages/{message_id}/feedback', { params, body: { rating } })).data as Message);
  };

  /** Keeps a message in what the model reads, or no longer. */
  readonly pin = async (messageId: string, pinned = true): Promise<void> => {
    const params = { path: { message_id: messageId } };
    this.#put((await this.#client.PATCH('/v1/messages/{message_id}', { params, body: { pinned } })).data as Message);
  };

  /** Deletes a message for ever, and what was learnt from it alone. */
  readonly delete = async (messageId: string): Promise<void> => {
    await this.#client.DELETE('/v1/messages/{message_id}', { params: { path: { message_id: messageId } } });
    this.#stored = this.#stored.filter(({ id }) => id !== messageId);
    this.#turns = this.#turns.filter((turn) => !isOver(turn) || turn.messageId !== messageId);
    await this.refresh();
    this.#elsewhere?.tell();
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
    this.#elsewhere?.tell();
  };

  /**
   * Stops the reply, for all who read it, and waits for its end. A message that is still to be sent, while there is no network, is
   * dropped; it resolves with its words.
   */
  readonly stop = async (): Promise<string | undefined> => {
    const { chatId } = this.state();
    const unsent = this.#turns.find((turn) => !isOver(turn) && !turn.cursor && !turn.call);
    try {
      if (chatId) return await this.#cancel(chatId);
    } catch (error) {
      if (!unsent || error instanceof ThroughlineError) throw error;
    }
    await this.#drop((turn) => (chatId ? turn === unsent : !isOver(turn)));
    return unsent?.content;
  };

  async #cancel(chatId: string): Promise<undefined> {
    const { message_id: id } = await cancel(chatId, this.#options.api);
    await this.#until(() => !this.#turns.some((turn) => turn.messageId === id && !isOver(turn)));
    if (this.state().status === 'awaiting') await this.refresh();
  }

  /** Asks for another reply in place of the last one, which failed; or reads a chat again that could not be read. */
  readonly retry = async (): Promise<void> => {
    if (this.#refused) return this.refresh();
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
      const page = await this.#pages.latest(chatId);
      if (reading !== this.#readings) return;
      this.#attempt = 0;
      this.#refused = false;
      if (page) this.#takeLatest(page);
      else this.#show({ error: undefined });
      const sameAsBefore = (turn: Turn) => isOver(turn) && over.get(turn) === turn.messageId; // it may be tried again by now
      void this.#forget((turn) => sameAsBefore(turn) && !this.#saysMore(turn));
      this.#watch();
    } catch (error) {
      if (reading === this.#readings) this.#failed(error);
    }
  };

  /** Reads the messages before the shown ones. */
  readonly loadOlder = (): Promise<void> => this.#older();

  /** Reads older messages until one is there, such as one that a link names. */
  readonly find = async (isIt: (message: Message) => boolean): Promise<Message | undefined> => {
    for (;;) {
      const found = this.#stored.find(isIt);
      if (found || !this.state().hasOlder) return found;
      await this.#older(LARGE_PAGE);
    }
  };

  async #older(limit?: number): Promise<void> {
    const { chatId } = this.state();
    const first = this.#stored[0];
    if (!chatId || !first) return;
    const page = await this.#pages.before(chatId, first.seq, limit);
    if (this.#stored[0] !== first) return; // read again, or twice
    this.#stored = [...page.messages, ...this.#stored];
    this.#show({ hasOlder: page.has_more });
  }

  #put(row: Message): void {
    this.#pages.forget();
    this.#stored = this.#stored.map((one) => (one.id === row.id ? row : one));
    this.#show({});
    this.#elsewhere?.tell();
  }

  /** Keeps what was read before the page, if it begins with a known message: another device may have changed all after it. */
  #takeLatest({ messages, has_more: more }: Page): void {
    const kept = this.#stored.slice(0, Math.max(0, this.#stored.findIndex(({ id }) => id === messages[0]?.id)));
    this.#stored = [...kept, ...messages];
    this.#loaded = true;
    this.#show({ error: undefined, hasOlder: kept.length > 0 ? this.state().hasOlder : more });
  }

  #failed(thrown: unknown): void {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    const { status = 500, retryAfter } = error as Partial<ThroughlineError>;
    const refused = error instanceof ThroughlineError && status < 500 && status !== 429;
    if (refused && !this.#refused) this.#options.onError?.(error);
    this.#refused = refused;
    this.#show({ error });
    if (!refused) this.#timer = setTimeout(() => void this.refresh(), pause(this.#attempt++, retryAfter));
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
    const { chatId } = this.state();
    for (const turn of box.turns) if (!chatId && !turn.chatId) this.#mine.add(turn.clientMessageId!); // sent before a restart
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
    this.#listen();
    this.#tell(turn);
    if (isOver(turn)) void this.refresh();
  }

  /** Each of its states once. */
  #tell(turn: Turn): void {
    const { status, failure, messageId } = turn;
    if (this.#told.get(turn) === status) return;
    this.#told.set(turn, status);
    if (turn.cursor && turn !== this.#watched?.turn) this.#elsewhere?.tell();
    if (status === 'failed') this.#options.onError?.(refusalOf(failure));
    const reply = this.state().messages.find(({ id }) => id === messageId);
    if (reply && (status === 'complete' || status === 'cancelled')) this.#options.onFinish?.(reply);
  }

  async #send(content?: string, options?: RequestOptions): Promise<Turn> {
    const { chatId } = this.state();
    if (!chatId && this.#turns.some((turn) => !isOver(turn))) throw new Error('The first message is still on its way.');
    const clientMessageId = this.#newId();
    this.#mine.add(clientMessageId);
    const tools = declared(this.#options.tools ?? {});
    return (await this.#box()).send({ clientMessageId, content, chatId, options: tools.length > 0 ? { tools, ...options } : options });
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
    const box = await (this.#options.outbox ?? this.#outbox);
    if (!box) return void follow(turn, this.#options.api, () => {}); // the chat was left while the tool ran
    this.#unwatch();
    await box.add(turn);
    await this.#until(() => turn.status === 'streaming' || isOver(turn));
    if (turn.status === 'awaiting' && turn.failure) throw refusalOf(turn.failure);
  }

  /**
   * It goes through the outbox as a message does. That is harmless at any later time, because it names the message that was the
   * last one when the user saw it: where that has changed, the server refuses.
   */
  async #replace(replaces: string | undefined, content?: string, options?: SendOptions): Promise<void> {
    if (!replaces) throw new Error('There is no message yet.');
    if (this.#turns.some((turn) => !isOver(turn))) {
      throw new ThroughlineError(409, 'generation_in_progress', 'A reply is still on its way.');
    }
    const turn = await this.#send(content, { ...options, replaces, last_message_id: this.#last() });
    await this.#until(() => turn.messageId !== undefined || isOver(turn));
    if (turn.messageId || !turn.failure) return;
    await this.#drop((one) => one === turn);
    await this.refresh();
    throw refusalOf(turn.failure);
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
    const read = this.#loaded ? statusOf(last) : 'loading';
    this.set({ ...change, messages, status: this.#refused ? 'failed' : read });
  }
}

const knownOf = ({ id, content, parts }: Message) => ({ messageId: id, text: content, parts: parts ?? undefined });

function statusOf(last?: ChatMessage): ChatState['status'] {
  if (last?.status === 'waiting' || last?.status === 'streaming' || last?.status === 'awaiting') return last.status;
  return last?.status === 'failed' || last?.status === 'interrupted' ? 'failed' : 'ready';
}
