/** Stored messages and running turns as one list. */
import type { Schemas } from './client.js';
import type { Failure, Turn } from './turn.js';

type Message = Schemas['Message'];

/** A message as it is shown. */
export interface ChatMessage {
  /** Stays the same while the message is sent, answered and stored. */
  key: string;
  role: Message['role'];
  content: string;
  /** waiting: a message whose reply has not begun. */
  status: Message['status'] | 'waiting';
  failure?: Failure;
  /** What a reply of this session came with: usage, and the receipt of the memory in its prompt. */
  completion?: Schemas['Completion'];
  /** As the server has it, once that was read. */
  stored?: Message;
}

/** A turn stands where its message is stored, or at the end. Replies that another one replaced are left out. */
export function shownMessages(stored: readonly Message[], turns: readonly Turn[]): ChatMessage[] {
  const names = new Map(stored.map((row) => [row.id, row.client_message_id]));
  const sentAs = (row: Message) => row.client_message_id ?? (row.reply_to && names.get(row.reply_to));
  const left = new Set(turns);
  const shown: ChatMessage[] = [];
  for (const row of stored) {
    const turn = turns.find((one) => one.messageId === row.id || (one.clientMessageId && one.clientMessageId === sentAs(row)));
    if (!turn && !row.superseded_by) shown.push(ofRow(row, sentAs(row)));
    if (turn && left.delete(turn)) shown.push(...ofTurn(turn, row));
  }
  for (const turn of left) shown.push(...ofTurn(turn));
  return shown;
}

function ofRow(row: Message, sentAs: string | null | undefined): ChatMessage {
  const { role, content, status } = row;
  return { key: keyOf(row, sentAs), role, content, status, stored: row };
}

function keyOf({ id, role, tool_calls: calls }: Message, sentAs: string | null | undefined): string {
  if (role === 'user') return sentAs ?? id;
  return role === 'assistant' && sentAs && !calls ? replyTo(sentAs) : id;
}

const replyTo = (clientMessageId: string) => `${clientMessageId}:reply`;

/** What the user said, and the reply; of a turn of another device the reply alone, because its message is stored. */
function ofTurn(turn: Turn, row?: Message): ChatMessage[] {
  const { clientMessageId, content, messageId, text, status, failure, completion } = turn;
  const reply = { role: 'assistant', content: text, status, failure, completion } as const;
  if (!clientMessageId) return [{ key: messageId!, ...reply, stored: row }];
  const asked = { key: clientMessageId, role: 'user', content: content ?? '', status: 'complete' } as const;
  return [row?.role === 'user' ? { ...asked, stored: row } : asked, { key: replyTo(clientMessageId), ...reply }];
}
