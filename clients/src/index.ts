/** Client of Throughline: the API, and turns that survive cuts. */
export type { Api, AppState } from './api.js';
export type { Approval, CallContext, PendingCall, Tool, Tools } from './calls.js';
export { ChatStore } from './chat.js';
export type { ChatOptions, ChatState, SendOptions } from './options.js';
export { createClient } from './client.js';
export type { Client, Schemas } from './client.js';
export { ThroughlineError } from './errors.js';
export { follow } from './follow.js';
export { MemoriesStore } from './memories.js';
export type { MemoriesState } from './memories.js';
export type { ChatMessage } from './messages.js';
export { openOutbox } from './outbox.js';
export type { Outbox, OutboxOptions, Storage } from './outbox.js';
export { claimCall, openCalls } from './parts.js';
export type { CallAnswer, Message, Part, ReasoningPart, SourcePart, ToolApprovalPart, ToolCallPart, ToolResultPart } from './parts.js';
export { answerTurn, cancel, isOver, newTurn, pause, tryAgain, watchedTurn } from './turn.js';
export type { Failure, KnownReply, NewMessage, RequestOptions, Turn } from './turn.js';
export type { components, paths } from './openapi.js';
