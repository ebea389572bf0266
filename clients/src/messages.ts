/** Stored messages and running turns as one list. */
import type { Schemas } from './client.js';
import type { Failure, Turn } from './turn.js';

type Message = Schemas['Message'];

/** A message as it is shown. */
export interface ChatMessage {
  /** Stays the same while the message is sent, answered and stored. */
  key: string;
  /** The server's, once it has said it: what `edit`, `regenerate`, `versions` and `select` are given. */
  id?: string;
  role: Message['role'];
  content: string;
  /** waiting: a message whose reply has not begun. */
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
    const turn = turns.find((one) => isOf(row, one, sentAs(row)));
    if (!turn) shown.push(ofRow(row, sentAs(row)));
    else if (left.delete(turn)) shown.push(...ofTurn(turn, row));
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
  const { id, role, content, status } = row;
  return { key: keyOf(row, name), id, role, content, status, stored: row };
}

function keyOf({ id, role, tool_calls: calls }: Message, name: string | null | undefined): string {
  if (role === 'user') return name ?? id;
  return role === 'assistant' && name && !calls ? replyTo(name) : id;
}

const replyTo = (clientMessageId: string) => `${clientMessageId}:reply`;

/** What the user said, and the reply; the reply alone where the message was stored before. */
function ofTurn(turn: Turn, row?: Message): ChatMessage[] {
  const { clientMessageId, content, messageId, userMessageId, text, status, failure, completion } = turn;
  const replyKey = clientMessageId ? replyTo(clientMessageId) : messageId!;
  const reply = { key: replyKey, id: messageId, role: 'assistant', content: text, status, failure, completion } as const;
  if (content === undefined) return [{ ...reply, stored: row }];
  const asked = { key: clientMessageId!, id: userMessageId ?? row?.id, role: 'user', content, status: 'complete' } as const;
  return [row?.role === 'user' ? { ...asked, stored: row } : asked, reply];
}
