/** Stored messages and running turns as one list. */
import type { PendingCall } from './calls.js';
import type { Schemas } from './client.js';
import { openCalls } from './parts.js';
import type { Message, Part, ToolCallPart } from './parts.js';
import { isOver } from './turn.js';
import type { Failure, Turn } from './turn.js';

/** A message as it is shown. */
export interface ChatMessage {
  /** Stays the same while the message is sent, answered and stored. */
  key: string;
  /** The server's, once it has said it: what `edit`, `regenerate`, `versions` and `select` are given. */
  id?: string;
  role: Message['role'];
  content: string;
  /** What a reply holds beside its text, if anything. */
  parts?: readonly Part[];
  /** Of a reply that is `awaiting`: the calls that wait for the user, or for `answer`. */
  calls?: readonly PendingCall[];
  /** waiting: a message whose reply has not begun, or an answer to a call. awaiting: the reply waits for answers. */
  status: Message['status'] | 'waiting';
  failure?: Failure;
  /** What a reply of this session came with: usage, and the receipt of the memory in its prompt. */
  completion?: Schemas['Completion'];
  /** As the server has it, once that was read: `version` of `versions`, and all else. */
  stored?: Message;
}

/** A turn stands where its message is stored. One that is not stored yet is at the end, or in place of what it replaces. */
export function shownMessages(stored: readonly Message[], turns: readonly Turn[]): ChatMessage[] {
  const sentAs = namesOf(stored);
  const left = new Set(turns);
  const shown: ChatMessage[] = [];
  for (const row of stored) {
    const its = turns.filter((one) => isOf(row, one, sentAs(row))); // several where they answer several calls
    const turn = its.find((one) => !isOver(one)) ?? its.at(-1);
    if (!turn) shown.push(ofRow(row, sentAs(row)));
    else if (left.has(turn)) shown.push(...ofTurn(turn, row, sentAs(row)));
    else for (const reply of shown) if (reply.id === row.id) reply.stored = row; // shown with its question
    for (const one of its) left.delete(one);
  }
  for (const turn of left) {
    shown.splice(placeOf(turn, shown));
    shown.push(...ofTurn(turn));
  }
  return shown;
}

/** Tells the client's name of the turn that a message is of. A reply that was asked for again has one of its own. */
export function namesOf(stored: readonly Message[]): (row: Message) => string | null | undefined {
  const names = new Map(stored.map((row) => [row.id, row.client_message_id]));
  return (row) => row.client_message_id ?? (row.reply_to && names.get(row.reply_to));
}

export function isOf(row: Message, { messageId, clientMessageId }: Turn, sentAs: string | null | undefined): boolean {
  return messageId === row.id || (clientMessageId !== undefined && clientMessageId === sentAs);
}

/** An edit takes the place of the message, another reply that of all after the user's message; unless it was refused. */
function placeOf({ content, options, status, messageId }: Turn, shown: ChatMessage[]): number {
  const place = shown.findIndex(({ id }) => id !== undefined && id === options?.replaces);
  if (place < 0 || (status === 'failed' && !messageId)) return shown.length;
  return content === undefined ? shown.findLastIndex(({ role }, at) => at <= place && role === 'user') + 1 : place;
}

function ofRow(row: Message, name: string | null | undefined): ChatMessage {
  const { id, role, content, parts, status } = row;
  return { key: keyOf(row, name), id, role, content, parts: parts ?? undefined, status, stored: row };
}

function keyOf({ id, role, tool_calls: calls }: Message, name: string | null | undefined): string {
  if (role === 'user') return name ?? id;
  return role === 'assistant' && name && !calls ? replyTo(name) : id;
}

const replyTo = (clientMessageId: string) => `${clientMessageId}:reply`;

/** What the user said, and the reply; the reply alone where the message was stored before. */
function ofTurn(turn: Turn, row?: Message, name?: string | null): ChatMessage[] {
  const { clientMessageId, content, messageId, userMessageId, text, parts, status, failure, completion } = turn;
  const replyKey = clientMessageId ? replyTo(clientMessageId) : row ? keyOf(row, name) : messageId!;
  const reply = { key: replyKey, id: messageId, role: 'assistant', content: text, parts, status, failure, completion } as const;
  if (content === undefined) return [{ ...reply, stored: row }];
  const asked = { key: clientMessageId!, id: userMessageId ?? row?.id, role: 'user', content, status: 'complete' } as const;
  return [row?.role === 'user' ? { ...asked, stored: row } : asked, reply];
}

/** The open calls of the last message, once it was read; and which of them are answered, though the reply does not show it yet. */
export function pendingCalls({ id, parts, status, stored }: ChatMessage, turns: readonly Turn[]): { open: PendingCall[]; answered: string[] } {
  const its = turns.filter(({ messageId }) => messageId === id);
  const isPending = stored?.status === 'awaiting' && ['awaiting', 'waiting', 'streaming'].includes(status);
  if (!isPending || its.some(({ clientMessageId }) => clientMessageId)) return { open: [], answered: [] };
  const pending = ({ call_id: callId, name, arguments: given, run, approval }: ToolCallPart) =>
    ({ messageId: id!, callId, name, arguments: given, run, approval });
  const open = openCalls(parts).map(pending);
  return { open, answered: its.flatMap(({ call, failure }) => (call && !failure ? [call.id] : [])) };
}
