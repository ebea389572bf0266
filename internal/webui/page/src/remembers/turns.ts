import type { Schemas } from '../throughline';

export type Message = Schemas['Message'];
export type Memory = Schemas['Memory'];

/** Where a turn is when the next reply is made. Kept and recalled turns are in the brief as well, or left behind by it. */
export type Place = 'brief' | 'recalled' | 'bridge' | 'tail' | 'kept' | 'dropped' | 'cleared';

export interface Turn {
  /** Its place in the chat, from 1. */
  number: number;
  /** The seq of its first message. */
  seq: number;
  messages: Message[];
  tokens: number;
  place: Place;
}

/** What a person is told of each place, in the order in which the legend has them. */
export const places: Record<Place, { name: string; says: string }> = {
  tail: { name: 'Tail', says: 'one of the newest turns, which are always shown word for word' },
  bridge: { name: 'Bridge', says: 'not in the brief yet, so it is shown word for word' },
  recalled: { name: 'Recalled', says: 'quoted, because the question may be about it' },
  kept: { name: 'Kept', says: 'summarized in the brief, and a pinned or important message of it is shown word for word' },
  brief: { name: 'Brief', says: 'summarized in the brief' },
  dropped: { name: 'Not shown', says: 'neither in the brief nor in the prompt' },
  cleared: { name: 'Left behind', says: 'from before the context was cleared' },
};

/**
 * Groups messages into turns as the server does (internal/memory/turns.go): a message of the user begins one, a reply
 * belongs to the message that it answers, a message of no one joins its neighbours, and one without text counts nowhere.
 */
export function turnsOf(messages: Message[]): Turn[] {
  const turns: Turn[] = [];
  const turnOf = new Map<string, Turn>();
  for (const message of messages) {
    if (message.token_count === 0 && !isUnfinished(message)) continue;
    const answered = message.reply_to ? turnOf.get(message.reply_to) : turns.at(-1);
    const afterNotes = turns.length === 1 && !turns[0].messages.some(isSaid);
    const begins = turns.length === 0 || (!afterNotes && (message.role === 'user' || (!answered && message.role === 'assistant')));
    const turn = begins ? { number: turns.length + 1, seq: message.seq, messages: [], tokens: 0, place: 'dropped' as Place } : (answered ?? turns.at(-1)!);
    if (begins) turns.push(turn);
    turn.messages.push(message);
    turn.tokens += message.token_count;
    turnOf.set(message.id, turn);
  }
  return turns;
}

const isUnfinished = ({ status }: Message) => status === 'streaming' || status === 'awaiting';
const isSaid = (message: Message) => message.role === 'user' || message.role === 'assistant';

/** Says of each turn where it is, by what the server says the next prompt shows. */
export function placed(turns: Turn[], memory: Memory): Turn[] {
  const seqs = (name: string) => memory.sections.find((section) => section.name === name)?.seqs ?? [];
  const recent = seqs('recent');
  const tail = recent.slice(recent.length - memory.receipt.tail_turns);
  const [inRecent, inTail, isKept, isRecalled] = [recent, tail, seqs('kept'), seqs('recall')].map((found) => new Set(found));
  const hasBrief = memory.sections.some((section) => section.name === 'brief');
  const { cleared_seq: cleared, brief_seq: covered } = memory.context;

  function placeOf(turn: Turn): Place {
    const any = (found: Set<number>) => turn.messages.some((message) => found.has(message.seq));
    if (turn.messages.some(isUnfinished)) return 'tail';
    if (any(inTail)) return 'tail';
    if (any(inRecent)) return 'bridge';
    if (any(isRecalled)) return 'recalled';
    if (any(isKept)) return 'kept';
    const last = turn.messages.at(-1)!.seq;
    if (last <= cleared) return 'cleared';
    return hasBrief && last <= covered ? 'brief' : 'dropped';
  }
  return turns.map((turn) => ({ ...turn, place: placeOf(turn) }));
}

/** Runs of neighbours in the same place: what a reader hears instead of thousands of turns. */
export function runsOf(turns: Turn[], place: Place): string {
  const runs: string[] = [];
  for (let i = 0; i < turns.length; i++) {
    if (turns[i].place !== place) continue;
    let end = i;
    while (turns[end + 1]?.place === place) end++;
    runs.push(end === i ? `${turns[i].number}` : `${turns[i].number}–${turns[end].number}`);
    i = end;
  }
  return runs.length > 6 ? `${runs.slice(0, 5).join(', ')} … ${runs.at(-1)}` : runs.join(', ');
}

/** What a turn begins with, in one line. */
export function beginningOf(turn: Turn): string {
  const text = turn.messages[0].content.replace(/\s+/g, ' ').trim();
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

/** The turns, from and to a seq. */
export function numbersBetween(turns: Turn[], from: number, to: number): { first?: Turn; last?: Turn } {
  const within = turns.filter((turn) => turn.seq >= from && turn.seq <= to);
  return { first: within[0], last: within.at(-1) };
}
