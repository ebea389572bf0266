/** Turns that are not over, kept in a storage so that they survive the app. For every platform. */
import { isOver, newTurn, tryAgain } from './turn.js';

const KEY = 'throughline.turns';

/** What came may be stored this much later, in milliseconds: what is missing then comes again. */
const SAVE_WITHIN = 1000;

/**
 * Opens the outbox when the app starts, and goes on with what it finds there.
 *
 * @param {object} options
 * @param {{getItem: Function, setItem: Function}} options.storage AsyncStorage, or a browser's localStorage
 * @param {Function} options.follow the platform's
 * @param {import('./turn.js').Api} options.api
 * @param {(turn: import('./turn.js').Turn) => void} options.onChange show the turn
 */
export async function openOutbox({ storage, follow, api, onChange }) {
  const turns = JSON.parse((await storage.getItem(KEY)) ?? '[]');
  const followed = new Map();
  let timer;
  let saved = Promise.resolve();

  function save() {
    clearTimeout(timer);
    timer = undefined;
    saved = saved.then(() => storage.setItem(KEY, JSON.stringify(turns)));
    return saved;
  }

  /** One turn of a chat at a time, in their order. */
  function deliver() {
    const busy = new Set();
    for (const turn of turns.filter((one) => !isOver(one))) {
      const chat = turn.chatId ?? turn.clientMessageId;
      if (!busy.has(chat) && !followed.has(turn)) followed.set(turn, follow(turn, api, changed));
      busy.add(chat);
    }
  }

  function changed(turn) {
    if (!isOver(turn)) timer ??= setTimeout(save, SAVE_WITHIN);
    else settle(turn);
    onChange(turn);
  }

  /** A failed turn stays until it is tried again or dropped. All others are in the table `messages` now. */
  function settle(turn) {
    followed.delete(turn);
    if (turn.status === 'failed') save();
    else drop(turn);
    deliver();
  }

  function drop(turn) {
    followed.get(turn)?.();
    followed.delete(turn);
    turns.splice(turns.indexOf(turn), 1);
    return save();
  }

  /** Stored first, then sent: whatever happens in between, the message goes out once. */
  async function send(message) {
    const turn = newTurn(message);
    turns.push(turn);
    await save();
    deliver();
    return turn;
  }

  async function sendAgain(turn) {
    tryAgain(turn);
    await save();
    deliver();
  }

  function close() {
    for (const letGo of followed.values()) letGo();
    followed.clear();
    clearTimeout(timer);
  }

  deliver();
  return { turns, send, sendAgain, drop, close };
}
