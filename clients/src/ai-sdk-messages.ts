/** Stored messages as messages of the AI SDK, and what those say of calls. */
import type { UIMessage } from 'ai';

import type { Schemas } from './client.js';
import { openCalls } from './parts.js';
import type { CallAnswer, Message, Part, ToolCallPart } from './parts.js';

/** What the server says of a reply: how it stands, where it belongs, of a failure `code` and `retryable`, and its open calls. */
export interface ReplyMetadata
  extends Partial<Omit<Schemas['MessageStarted'] & Schemas['Completion'] & Schemas['MessageFailed'], 'message'>> {
  status: Message['status'];
  message?: string;
  /** Of a reply that is `awaiting`. */
  open?: Array<Pick<ToolCallPart, 'call_id' | 'name' | 'run' | 'approval'>>;
  expires_at?: string;
}

/** A message of a chat of the SDK that has this transport. */
export type ThroughlineMessage = UIMessage<ReplyMetadata>;

type UIPart = ThroughlineMessage['parts'][number];

/** As much of a stored message as is read: a row of the table `messages`. */
export interface StoredMessage extends Pick<Message, 'id' | 'role' | 'status' | 'content' | 'parts' | 'superseded_by'> {
  client_message_id?: string | null;
}

/** A stored chat's messages for a chat of the SDK, from rows of the table `messages` in the order of `seq`. */
export function historyOf(rows: StoredMessage[]): ThroughlineMessage[] {
  return rows
    .filter(({ role, superseded_by: another }) => !another && (role === 'user' || role === 'assistant'))
    .map(({ id, client_message_id: sentAs, role, status, content, parts }) => ({
      id: (role === 'user' && sentAs) || id, // a reply's own id is what resuming needs
      role: role as 'user' | 'assistant',
      parts: partsOf(content, parts ?? []),
      metadata: { status, ...(status === 'awaiting' && { open: openCalls(parts ?? []) }) },
    }));
}

/** As the stream of the same reply would leave them: a step begins with the first thing after results. */
function partsOf(content: string, parts: readonly Part[]): UIPart[] {
  const letters = [...content];
  const shown: UIPart[] = [];
  let said = 0;
  let hasResults = false;

  function add(...more: UIPart[]): void {
    if (hasResults && more.length > 0) shown.push({ type: 'step-start' });
    hasResults &&= more.length === 0;
    shown.push(...more);
  }

  function say(to: number): void {
    const text = letters.slice(said, to).join('');
    said = to;
    if (text) add({ type: 'text', text, state: 'done' });
  }

  for (const [index, part] of parts.entries()) {
    say(part.at);
    add(...shownPart(part, index, parts));
    hasResults ||= part.type === 'tool_result';
  }
  say(letters.length);
  return shown;
}

/** None of an answer, which its call shows. */
function shownPart(part: Part, index: number, parts: readonly Part[]): UIPart[] {
  if (part.type === 'reasoning') return [{ type: 'reasoning', text: part.text, state: 'done' }];
  if (part.type === 'source') return [{ type: 'source-url', sourceId: `source-${index}`, url: part.url, title: part.title }];
  return part.type === 'tool_call' ? [callPart(part, parts)] : [];
}

function callPart(call: ToolCallPart, parts: readonly Part[]): UIPart {
  const { call_id: toolCallId, name: toolName, arguments: input, run, approval } = call;
  return {
    ...{ type: 'dynamic-tool', toolName, toolCallId, input, ...stateOf(toolCallId, approval, parts) },
    ...(run === 'server' && { providerExecuted: true }),
  } as UIPart;
}

function stateOf(id: string, approval: boolean, parts: readonly Part[]): object {
  const said = parts.find((part) => part.type === 'tool_approval' && part.call_id === id);
  const result = parts.find((part) => part.type === 'tool_result' && part.call_id === id);
  const asked = said?.type === 'tool_approval' ? { approval: { id, approved: said.approved, reason: said.reason } } : {};
  if (result?.type !== 'tool_result') {
    if (!approval) return { state: 'input-available' };
    return said ? { state: 'approval-responded', ...asked } : { state: 'approval-requested', approval: { id } };
  }
  const { status, output } = result;
  if (status === 'done') return { state: 'output-available', output, ...asked };
  if (status === 'denied') return { state: 'output-denied', ...asked };
  return { state: 'output-error', errorText: ENDED[status] ?? errorOf(output), ...asked };
}

const ENDED: Record<string, string> = {
  expired: 'The call was not answered in time.',
  skipped: 'The conversation went on without the call.',
};

function errorOf(output: unknown): string {
  const said = (output as { error?: unknown } | null)?.error;
  return typeof said === 'string' && said ? said : JSON.stringify(output);
}

const MOST_OF_ERROR = 2000;

/** What the app has answered to a reply's open calls: the SDK writes it into the reply, and sends that. */
export function answersOf({ parts, metadata }: ThroughlineMessage): Array<[callId: string, answer: CallAnswer]> {
  const open = metadata?.status === 'awaiting' ? (metadata.open ?? []).map(({ call_id: id }) => id) : [];
  return parts.flatMap((part) => {
    if (!('toolCallId' in part) || !open.includes(part.toolCallId)) return [];
    const answer = answerOf(part);
    return answer ? [[part.toolCallId, answer] as [string, CallAnswer]] : [];
  });
}

function answerOf(part: Extract<UIPart, { toolCallId: string }>): CallAnswer | undefined {
  if (part.state === 'output-available') return { output: part.output ?? null };
  if (part.state === 'output-error') return { error: [...part.errorText].slice(0, MOST_OF_ERROR).join('') };
  if (part.state !== 'approval-responded') return undefined;
  const { approved, reason } = part.approval;
  return approved ? { approved } : { approved, reason };
}
