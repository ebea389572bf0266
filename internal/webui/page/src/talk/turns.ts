import { useEffect, useState } from 'preact/hooks';
import { storageKey } from '../session';
import {
  answerTurn, follow, isOver, newTurn, tryAgain, watchedTurn, type Api, type CallAnswer, type KnownReply, type NewMessage, type Turn,
} from '../throughline';

/** Received text may be stored this much later, in milliseconds: missing text then comes again. */
const SAVE_WITHIN = 1000;

/**
 * The turns that are not over, in all tabs of this browser. Each is stored under a key of its own from before it is
 * sent until its reply is complete: so it survives a reload, and two tabs do not overwrite each other's. A tab that
 * sees another one's follows its reply.
 */
export class Turns {
  #turns = new Map<string, Turn>();
  #followed = new Map<Turn, () => void>();
  #saves = new Map<Turn, ReturnType<typeof setTimeout>>();
  #listeners = new Set<() => void>();
  #prefix: string;

  constructor(
    private api: Api,
    userId: string,
  ) {
    this.#prefix = storageKey(userId, 'turn.');
    addEventListener('storage', this.#heard);
  }

  /** Goes on with the stored turns. */
  open(): void {
    for (const key of Object.keys(localStorage).filter((one) => one.startsWith(this.#prefix))) {
      const turn: Turn = JSON.parse(localStorage.getItem(key)!);
      this.#turns.set(turn.clientMessageId!, turn);
      if (!isOver(turn)) this.#follow(turn);
    }
    this.#tell();
  }

  /** Those of a chat, or of chats that are still to begin. */
  of(chatId: string | undefined): Turn[] {
    return [...this.#turns.values()].filter((turn) => turn.chatId === chatId);
  }

  named(clientMessageId: string | undefined): Turn | undefined {
    return clientMessageId ? this.#turns.get(clientMessageId) : undefined;
  }

  /** Sends a message; without content it asks for another reply to `asked`, a message that is stored. */
  send(message: NewMessage, asked?: string): Turn {
    const turn = { ...newTurn(message), userMessageId: asked };
    this.#turns.set(message.clientMessageId, turn);
    this.#save(turn);
    this.#follow(turn);
    this.#tell();
    return turn;
  }

  /** A reply that runs for another device, or for this one before a reload. */
  watch(reply: { chatId: string; messageId: string }): void {
    const turns = this.of(reply.chatId);
    const known = turns.find((turn) => turn.messageId === reply.messageId);
    if (turns.some((turn) => !isOver(turn)) || (known && known.status !== 'awaiting')) return;
    this.#goOn(watchedTurn({ ...reply, text: known?.text, parts: known?.parts }));
  }

  /** Answers a call of a reply, which may be running, and reads on. */
  answer(reply: KnownReply, callId: string, answer: CallAnswer): void {
    const turns = this.of(reply.chatId);
    const known = turns.find((turn) => turn.messageId === reply.messageId);
    if (known?.status === 'waiting' || turns.some((turn) => turn !== known && !isOver(turn))) return;
    const { clientMessageId, content, userMessageId } = known ?? {};
    this.#goOn({ ...answerTurn(reply, callId, answer), clientMessageId, content, userMessageId });
  }

  /** The turn takes the place of what was known of its reply. */
  #goOn(turn: Turn): void {
    for (const one of this.of(turn.chatId)) if (one.messageId === turn.messageId) this.drop(one);
    this.#turns.set(turn.clientMessageId ?? turn.messageId!, turn);
    this.#save(turn);
    this.#follow(turn);
    this.#tell();
  }

  retry(turn: Turn): void {
    tryAgain(turn);
    this.#save(turn);
    this.#follow(turn);
    this.#tell();
  }

  /** Forgets a turn: it was given up, or its messages are shown from the server's list now. */
  drop(turn: Turn): void {
    this.#release(turn);
    this.#turns.delete(turn.clientMessageId ?? turn.messageId!);
    this.#unsave(turn);
    this.#tell();
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  close(): void {
    removeEventListener('storage', this.#heard);
    for (const turn of this.#turns.values()) {
      this.#release(turn);
      clearTimeout(this.#saves.get(turn));
    }
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  #follow(turn: Turn): void {
    this.#release(turn);
    this.#followed.set(turn, follow(turn, this.api, this.#changed));
  }

  #release(turn: Turn): void {
    this.#followed.get(turn)?.();
    this.#followed.delete(turn);
  }

  #changed = (turn: Turn): void => {
    if (isOver(turn)) this.#followed.delete(turn);
    if (isOver(turn) && turn.status !== 'failed') this.#unsave(turn);
    else if (isOver(turn) || !turn.text) this.#save(turn);
    else if (!this.#saves.has(turn)) this.#saves.set(turn, setTimeout(() => this.#save(turn), SAVE_WITHIN));
    this.#tell();
  };

  #save(turn: Turn): void {
    clearTimeout(this.#saves.get(turn));
    this.#saves.delete(turn);
    if (!turn.clientMessageId) return; // another device's
    try {
      localStorage.setItem(this.#prefix + turn.clientMessageId, JSON.stringify(turn));
    } catch {
      // No room, for a turn with large files: it is sent all the same, and lost only if the tab is closed before.
    }
  }

  #unsave(turn: Turn): void {
    clearTimeout(this.#saves.get(turn));
    this.#saves.delete(turn);
    localStorage.removeItem(this.#prefix + turn.clientMessageId);
  }

  /** Another tab has stored a turn, or is done with it. */
  #heard = ({ key, newValue }: StorageEvent): void => {
    if (!key?.startsWith(this.#prefix)) return;
    const known = this.#turns.get(key.slice(this.#prefix.length));
    if (known && (this.#followed.has(known) || (isOver(known) && known.status !== 'failed'))) return; // its end comes here as well
    if (!newValue) return known && this.drop(known);
    const turn: Turn = Object.assign(known ?? {}, JSON.parse(newValue));
    this.#turns.set(turn.clientMessageId!, turn);
    if (turn.cursor && !isOver(turn)) this.#follow(turn);
    this.#tell();
  };
}

/** The turns of a chat, drawn again at most once per frame, and for at most a fifth of the time: a long reply takes longer. */
export function useTurns(turns: Turns, chatId: string | undefined): Turn[] {
  const [, redraw] = useState({});
  useEffect(() => {
    let frame = 0;
    let took = 0;
    const draw = () => {
      frame = 0;
      const began = performance.now();
      redraw({});
      setTimeout(() => (took = performance.now() - began)); // when it is drawn
    };
    const unsubscribe = turns.subscribe(() => {
      frame ||= setTimeout(draw, Math.max(document.hidden ? 200 : 16, 4 * took)) as unknown as number;
    });
    redraw({});
    return () => {
      clearTimeout(frame);
      unsubscribe();
    };
  }, [turns, chatId]);
  return turns.of(chatId);
}
