/** Settles the calls of the app's own tools: each is claimed before it runs, so that of several devices one runs it. */
import type { Api } from './api.js';
import type { Schemas } from './client.js';
import { ThroughlineError } from './errors.js';
import { claimCall } from './parts.js';
import type { CallAnswer } from './parts.js';
import { pause } from './turn.js';

/** A tool of the app, or, without `parameters`, one of the server that the model may call. */
export interface Tool {
  description?: string;
  /** A JSON schema of the arguments, an object. */
  parameters?: object;
  /** Whether the model is held to the schema. */
  strict?: boolean;
  /** Without it `answer` gives the output. */
  execute?(args: Record<string, unknown>, context: CallContext): unknown;
  /**
   * Asked before `execute`, and of a tool of the server before it is called there. `true`: the app shows the call, and calls
   * `approve` or `deny`. So it is without an `approve` where the server wants one.
   */
  approve?: true | ((args: Record<string, unknown>, context: CallContext) => Promise<Approval> | Approval);
}

export type Approval = boolean | { approved: boolean; reason?: string };

/** By their names. */
export type Tools = Record<string, Tool>;

export interface CallContext {
  /** Ends when the call is settled elsewhere, or the conversation goes on without it. */
  signal: AbortSignal;
  callId: string;
  messageId: string;
}

/** A call that waits for the app or its user. */
export interface PendingCall {
  messageId: string;
  callId: string;
  name: string;
  arguments: Record<string, unknown> | string;
  run: 'client' | 'server';
  approval: boolean;
}

/** The tools of a request. */
export function declared(tools: Tools): Schemas['ToolDeclaration'][] {
  return Object.entries(tools).map(([name, { description, parameters, strict }]) =>
    parameters ? { type: 'function', name, description, parameters: { ...parameters }, strict } : { type: 'server', name },
  );
}

/** A claim lasts 60 s; half of it in milliseconds. */
export const RENEWAL = 30_000;
const MOST_OF_ERROR = 2000;
export const DENIED = 'The user has not approved the call.';

/** What runs in this process, by device and call: a chat that is opened again does not run it again. */
const running = new Set<string>();

export interface Caller {
  api: Api;
  tools(): Tools;
  device(): Promise<string>;
  /** Sends an answer; it rejects where the server refuses it. */
  answer(call: PendingCall, answer: CallAnswer): Promise<void>;
  /** Called when another device was faster, or when a user is to be asked. */
  changed(): undefined;
}

/** A call that this screen has begun to settle. */
interface Begun {
  controller: AbortController;
  /** Whether its tool runs, which goes on when the chat is left. */
  runs?: boolean;
}

/** The calls of one chat while it is shown. */
export class Calls {
  readonly #caller: Caller;
  readonly #begun = new Map<string, Begun>(); // until they are shown as open no more
  readonly #approved = new Set<string>();
  readonly #undecided = new Set<string>(); // the app's `approve` has thrown: their users are asked

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** Whether a call is settled without its user, by what the app has for its tool. */
  settles(call: PendingCall): boolean {
    const { execute, approve } = this.#toolOf(call);
    const asksUser = approve === true || this.#undecided.has(keyOf(call));
    if (call.run === 'server') return Boolean(approve) && !asksUser;
    return Boolean(execute) && (!asksUser || this.#approved.has(keyOf(call)));
  }

  /** Begins with the open calls that are new and not answered, and ends the ones that are not open any more. */
  see(open: readonly PendingCall[], answered: readonly string[]): void {
    const keys = open.map(keyOf);
    for (const [key, { controller }] of this.#begun) {
      if (keys.includes(key)) continue;
      controller.abort();
      this.#begun.delete(key);
    }
    const isNew = (call: PendingCall) => !this.#begun.has(keyOf(call)) && !answered.includes(call.callId);
    for (const call of open) if (isNew(call) && this.settles(call)) this.#begin(call);
  }

  /** Lets a tool run that waits for its user. */
  approve(call: PendingCall): void {
    this.#approved.add(keyOf(call));
  }

  /** Lets go of what does not run yet. */
  close(): void {
    for (const { controller, runs } of this.#begun.values()) if (!runs) controller.abort();
    this.#begun.clear();
  }

  /** None for a name that this version of the app does not know. */
  #toolOf({ name }: PendingCall): Tool {
    const tools = this.#caller.tools();
    return Object.hasOwn(tools, name) ? tools[name]! : {};
  }

  #begin(call: PendingCall): void {
    const begun: Begun = { controller: new AbortController() };
    this.#begun.set(keyOf(call), begun);
    this.#settle(call, begun).catch(() => {}); // the server refuses: the call stays open, and is shown as it is there
  }

  async #settle(call: PendingCall, begun: Begun): Promise<void> {
    const { signal } = begun.controller;
    const said = await this.#ask(call, signal).catch(() => undefined);
    if (signal.aborted) return;
    if (!said) return this.#leave(call);
    const { approved, reason } = said;
    if (call.run === 'server') return this.#caller.answer(call, approved ? { approved } : { approved, reason });
    if (!approved) return this.#caller.answer(call, { error: reason || DENIED });
    const claim = await this.#claim(call, signal);
    if (claim) await this.#run(call, claim, begun);
  }

  #leave(call: PendingCall): void {
    this.#undecided.add(keyOf(call));
    this.#begun.delete(keyOf(call));
    this.#caller.changed();
  }

  async #ask(call: PendingCall, signal: AbortSignal): Promise<{ approved: boolean; reason?: string }> {
    const { approve } = this.#toolOf(call);
    if (typeof approve !== 'function' || this.#approved.has(keyOf(call))) return { approved: true };
    const said = await approve(argumentsOf(call), contextOf(call, signal));
    return typeof said === 'boolean' ? { approved: said } : said;
  }

  /** Waits as long as another device has the call. It returns nothing where that has settled it. */
  async #claim({ messageId, callId }: PendingCall, signal: AbortSignal): Promise<string | undefined> {
    const claim = await this.#caller.device();
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        await claimCall(messageId, callId, claim, this.#caller.api);
        return signal.aborted ? undefined : claim;
      } catch (error) {
        if (isSettled(error)) return this.#caller.changed();
        const { code, retryAfter } = error as Partial<ThroughlineError>;
        await sleep(code === 'call_claimed' ? RENEWAL * (0.5 + Math.random()) : pause(attempt, retryAfter), signal);
      }
    }
    return undefined;
  }

  async #run(call: PendingCall, claim: string, begun: Begun): Promise<void> {
    const key = `${claim}:${keyOf(call)}`;
    if (running.has(key)) return;
    running.add(key);
    begun.runs = true;
    const renewing = setInterval(() => this.#renew(call, claim, begun), RENEWAL);
    try {
      const answer = await this.#execute(call, begun.controller.signal);
      if (!begun.controller.signal.aborted) await this.#answer(call, { ...answer, claim });
    } finally {
      clearInterval(renewing);
      running.delete(key);
    }
  }

  #renew({ messageId, callId }: PendingCall, claim: string, { controller }: Begun): void {
    claimCall(messageId, callId, claim, this.#caller.api).catch((error) => isSettled(error) && controller.abort());
  }

  async #execute(call: PendingCall, signal: AbortSignal): Promise<{ output: unknown } | { error: string }> {
    try {
      if (typeof call.arguments === 'string') throw new Error('The arguments are no JSON object.');
      const output = await this.#toolOf(call).execute!(call.arguments, contextOf(call, signal));
      return { output: JSON.parse(JSON.stringify(output) ?? 'null') };
    } catch (error) {
      const said = (error instanceof Error ? error.message : String(error)) || 'The tool has failed.';
      return { error: [...said].slice(0, MOST_OF_ERROR).join('') };
    }
  }

  /** An output that the server refuses, such as one that is too long, is an error of the tool. */
  async #answer(call: PendingCall, answer: { claim: string } & ({ output: unknown } | { error: string })): Promise<void> {
    await this.#caller.answer(call, answer).catch((refused: ThroughlineError) => {
      if (refused.status !== 422) throw refused;
      return this.#caller.answer(call, { error: refused.message, claim: answer.claim });
    });
  }
}

const keyOf = ({ messageId, callId }: PendingCall) => `${messageId}:${callId}`;
const contextOf = ({ messageId, callId }: PendingCall, signal: AbortSignal): CallContext => ({ signal, callId, messageId });
const argumentsOf = ({ arguments: given }: PendingCall) => (typeof given === 'string' ? {} : given);

/** The server has an answer already, or the call is gone. */
export function isSettled(error: unknown): boolean {
  return error instanceof ThroughlineError && [403, 404, 409, 422].includes(error.status) && error.code !== 'call_claimed';
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
