/** What a reply holds beside its text, and the tools that it calls. */
import { authorized } from './api.js';
import type { Api } from './api.js';
import type { Schemas } from './client.js';
import { errorOf } from './errors.js';

/** A list to which is only added. `at` counts the characters (code points) of the reply's text before the part. */
export type Part = ReasoningPart | ToolCallPart | ToolApprovalPart | ToolResultPart | SourcePart;

export interface ReasoningPart {
  type: 'reasoning';
  at: number;
  text: string;
}

export interface ToolCallPart {
  type: 'tool_call';
  at: number;
  call_id: string;
  name: string;
  /** A string where the model wrote no JSON. */
  arguments: Record<string, unknown> | string;
  run: 'client' | 'server';
  /** Whether the user has to approve the call. */
  approval: boolean;
}

export interface ToolApprovalPart {
  type: 'tool_approval';
  at: number;
  call_id: string;
  approved: boolean;
  reason?: string;
}

export interface ToolResultPart {
  type: 'tool_result';
  at: number;
  call_id: string;
  /** expired: it waited too long. skipped: the conversation went on without it. */
  status: 'done' | 'failed' | 'denied' | 'expired' | 'skipped';
  output: unknown;
  truncated?: boolean;
}

export interface SourcePart {
  type: 'source';
  at: number;
  url: string;
  title?: string;
}

/** A stored message. The API's document has a part as one object with the members of all. */
export interface Message extends Omit<Schemas['Message'], 'parts' | 'status'> {
  parts?: readonly Part[] | null;
  /** awaiting: calls of tools wait for the app. */
  status: Schemas['Message']['status'] | 'awaiting';
}

/** How a call is answered: with the tool's output, JSON of at most 64 KiB; with what went wrong; or with yes or no. */
export type CallAnswer =
  | { output: unknown; claim?: string }
  | { error: string; claim?: string }
  | { approved: true }
  | { approved: false; reason?: string };

/** The calls that wait for the app: those of its own tools that have no result, and those to be approved. */
export function openCalls(parts: readonly Part[] = []): ToolCallPart[] {
  const settled = new Set(parts.map((part) => (part.type === 'tool_approval' || part.type === 'tool_result' ? part.call_id : '')));
  const waits = (part: Part): part is ToolCallPart =>
    part.type === 'tool_call' && (part.run === 'client' || part.approval) && !settled.has(part.call_id);
  return parts.filter(waits);
}

/**
 * Keeps a call for a device, by a uuid of the device, until the time that it returns: others are told `call_claimed`.
 * Claim a call before its tool runs, and again while it runs; give the same uuid with the answer.
 */
export async function claimCall(messageId: string, callId: string, claim: string, api: Api): Promise<{ call_id: string; claimed_until: string }> {
  const init = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ claim }) };
  const response = await authorized(api, callUrl(messageId, callId, api.baseUrl), init);
  if (!response.ok) throw await errorOf(response);
  return response.json();
}

export const callUrl = (messageId: string, callId: string, baseUrl: string) => `${baseUrl}/v1/messages/${messageId}/calls/${callId}`;
