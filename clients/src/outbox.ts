/** Turns that are not over, kept in a storage so that they survive the app. */
import type { Api } from './api.js';
import { follow as followTurn } from './follow.js';
import { isOver, newTurn, tryAgain } from './turn.js';
import type { NewMessage, Turn } from './turn.js';

/** Received text may be stored this much later, in milliseconds: missing text then comes again. */
const SAVE_WITHIN = 1000;

/** AsyncStorage, or a browser's localStorage. */
export interface Storage {
  getItem(key: string): string | null | Promise<string | null>;
  setItem(key: string, value: string): void | Promise<void>;
}

export interface OutboxOptions {
  storage: Storage;
  api: Api;
  /** Show the turn. */
  onChange?: (turn: Turn) => void;
  /** The key in the storage. Where several people use a device, it should name the user. */
  key?: string;
  follow?: typeof followTurn;
}

export interface Outbox {
  /** The messages that are unsent, unfinished or failed, the oldest first. */
  readonly turns: readonly Turn[];
  /** Stored first, then sent: for all faults in between, the message goes out once. */
  send(message: NewMessage): Promise<Turn>;
  /** Stores and sends another turn in its chat's order, such as the answer to a call. */
  add(turn: Turn): Promise<Turn>;
  /** Names this device in claims of calls, by a uuid that is made once and kept. */
  device(newId: () => string): Promise<string>;
  /** Tries a failed turn again. */
  sendAgain(turn: Turn): Promise<void>;
  /** Forgets a turn. What the server has of it stays. */
  drop(turn: Turn): Promise<void>;
  /** Like `onChange`, for parts of the app. It returns a function that ends it. */
  subscribe(listener: (turn: Turn) => void): () => void;
  /** Lets go of all turns, when the user signs out. They stay stored. */
  close(): void;
}

/** Opens the outbox when the app starts, and goes on with what it finds there. */
export async function openOutbox(options: OutboxOptions): Promise<Outbox> {
  const { storage, api, onChange, key = 'throughline.turns', follow = followTurn } = options;
  const turns: Turn[] = JSON.parse((await storage.getItem(key)) ?? '[]');
  const listeners = new Set(onChange && [onChange]);
  const followed = new Map<Turn, () => void>();
  const known = new Set(turns.map(nameOf));
  let timer: ReturnType<typeof setTimeout> | undefined;
  let saved: Promise<void> = Promise.resolve();

  /** A storage that refuses, such as a full one, keeps a turn from surviving the app and not from being sent. */
  function save(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    saved = saved.then(write).catch(() => {});
    return saved;
  }

  /** Other windows of a browser keep theirs in the same place. */
  async function write(): Promise<void> {
    const stored: Turn[] = JSON.parse((await storage.getItem(key)) ?? '[]');
    const others = stored.filter((turn) => !known.has(nameOf(turn)));
    await storage.setItem(key, JSON.stringify([...others, ...turns]));
  }

  /** One turn of a chat at a time, in their order. Calls of a reply are answered beside each other. */
  function deliver(): void {
    const busy = new Map<string | undefined, Turn>();
    for (const turn of turns.filter((one) => !isOver(one))) {
      const chat = turn.chatId ?? turn.clientMessageId;
      const before = busy.get(chat);
      const free = !before || (turn.call && before.messageId === turn.messageId);
      if (free && !followed.has(turn)) followed.set(turn, follow(turn, api, changed));
      if (!before) busy.set(chat, turn);
    }
  }

  function changed(turn: Turn): void {
    if (!isOver(turn)) timer ??= setTimeout(save, SAVE_WITHIN);
    else settle(turn);
    tell(turn);
  }

  function tell(turn: Turn): void {
    for (const listener of listeners) listener(turn);
  }

  function subscribe(listener: (turn: Turn) => void): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  /** A failed turn stays until it is tried again or dropped. All others are stored messages now. */
  function settle(turn: Turn): void {
    followed.delete(turn);
    if (turn.status === 'failed') save();
    else drop(turn);
    deliver();
  }

  function drop(turn: Turn): Promise<void> {
    followed.get(turn)?.();
    followed.delete(turn);
    const place = turns.indexOf(turn);
    if (place < 0) return saved; // it may be gone already, and the last turn is another one
    turns.splice(place, 1);
    return save();
  }

  const send = (message: NewMessage) => add(newTurn(message));

  async function add(turn: Turn): Promise<Turn> {
    turns.push(turn);
    known.add(nameOf(turn));
    tell(turn);
    await save();
    deliver();
    return turn;
  }

  async function sendAgain(turn: Turn): Promise<void> {
    tryAgain(turn);
    tell(turn);
    await save();
    deliver();
  }

  async function nameDevice(newId: () => string): Promise<string> {
    const known = await storage.getItem(`${key}.device`);
    if (known) return known;
    const id = newId();
    await saved.then(() => storage.setItem(`${key}.device`, id)).catch(() => {}); // it names this device until the app ends
    return id;
  }

  let named: Promise<string> | undefined;
  const device = (newId: () => string) => (named ??= nameDevice(newId));

  function close(): void {
    for (const release of followed.values()) release();
    followed.clear();
    clearTimeout(timer);
  }

  deliver();
  return { turns, send, add, device, sendAgain, drop, subscribe, close };
}

/** A storage that ends with the app. */
export function memory(): Storage {
  const kept = new Map<string, string>();
  return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value) };
}

const nameOf = ({ clientMessageId, messageId, call }: Turn) => clientMessageId ?? `${messageId}:${call?.id}`;
