/** What a reply holds beside its text: where it stands, and what became of each call of a tool. */
import type { Part, ToolApprovalPart, ToolCallPart, ToolResultPart } from '../throughline';

type PartOf<Type extends Part['type']> = Extract<Part, { type: Type }>;

/** A call with all that is known of it. */
export interface Call {
  part: ToolCallPart;
  approval?: ToolApprovalPart;
  result?: ToolResultPart;
}

export type Piece =
  | { kind: 'text'; text: string }
  | { kind: 'call'; call: Call }
  | { kind: 'thought'; text: string }
  | { kind: 'sources'; sources: PartOf<'source'>[] };

/** A reply in the order in which it is read: its text, cut where parts stand, and the parts. */
export function piecesOf(text: string, parts: readonly Part[]): Piece[] {
  const pieces: Piece[] = [];
  let read = 0;
  let characters = 0; // before `read`: a place counts code points, an index of a string does not

  function textUpTo(at: number): void {
    const from = read;
    for (; characters < at && read < text.length; characters++) read += text.codePointAt(read)! > 0xffff ? 2 : 1;
    if (text.slice(from, read).trim()) pieces.push({ kind: 'text', text: text.slice(from, read) });
  }

  for (const part of parts) {
    textUpTo(part.at);
    const last = pieces.at(-1);
    if (part.type === 'tool_call') pieces.push({ kind: 'call', call: callOf(part, parts) });
    else if (part.type === 'reasoning' && last?.kind === 'thought') last.text += `\n\n${part.text}`;
    else if (part.type === 'reasoning') pieces.push({ kind: 'thought', text: part.text });
    else if (part.type === 'source' && last?.kind === 'sources') last.sources.push(part);
    else if (part.type === 'source') pieces.push({ kind: 'sources', sources: [part] });
  }
  textUpTo(Infinity);
  return pieces;
}

function callOf(part: ToolCallPart, parts: readonly Part[]): Call {
  const of = <Type extends Part['type']>(type: Type) =>
    parts.find((one): one is PartOf<Type> => one.type === type && (one as ToolResultPart).call_id === part.call_id);
  return { part, approval: of('tool_approval'), result: of('tool_result') };
}

/** waiting: an answer is on its way to the server. awaiting: the reply stands still until calls have their answers. */
export type ReplyState = 'waiting' | 'streaming' | 'awaiting' | 'over';

/** app, approval: who it waits for. unanswered, broken: the reply ended before it did. */
export type CallState = 'running' | 'app' | 'approval' | 'unanswered' | 'broken' | ToolResultPart['status'];

export function stateOf({ part, approval, result }: Call, reply: ReplyState): CallState {
  if (result) return result.status;
  const waits = !approval && (part.run === 'client' || part.approval);
  if (reply === 'over') return waits ? 'unanswered' : 'broken';
  if (!waits) return 'running';
  return part.run === 'client' ? 'app' : 'approval';
}

/** A tool's name as people read it: roll_dice and rollDice are "Roll dice". */
export function nameOf({ name }: ToolCallPart): string {
  const words = name.replace(/([a-z])([A-Z])/g, '$1 $2').replace(/[_-]+/g, ' ').trim().toLowerCase();
  return words ? words[0].toUpperCase() + words.slice(1) : name;
}

/** A value in as little room as it takes: the members of an object, or a text as it is. Empty where there is nothing. */
export function lineOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (typeof value !== 'object' || Array.isArray(value)) return textOf(value);
  return Object.entries(value).map(([name, member]) => `${textOf(name)}: ${textOf(member)}`).join(' · ');
}

/** A value as it is read: a text as it is, all else as JSON. Signs that turn what is around them are named: people approve what they read. */
export function textOf(value: unknown, indent?: number): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, indent); // the server lets none be nested deeply
  return text.replace(/[\u202A-\u202E\u2066-\u2069]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16)}`);
}

/** What a call came to. Of one that failed it is what went wrong, where that is said. */
export function outputOf({ output, status }: ToolResultPart): unknown {
  const { error } = (output ?? {}) as { error?: unknown };
  return status === 'failed' && typeof error === 'string' ? error : output;
}
