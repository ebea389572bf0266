/** A reply as it is read: texts, and between them cards for calls of tools, thoughts and sources. What models and tools wrote is text. */
import './reply.css';
import { createContext } from 'preact';
import { memo } from 'preact/compat';
import { useContext, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { CallAnswer, Part, SourcePart } from '../throughline';
import { announce } from '../ui/announce';
import { Icon } from '../ui/icon';
import { lineOf, nameOf, outputOf, piecesOf, stateOf, textOf, type Call, type CallState, type Piece, type ReplyState } from './calls';
import { Formatted } from './words';

interface Answering {
  /** A reply is being written: none that is stored waits any more. */
  busy: boolean;
  /** The ids of the calls that can be answered. */
  open: readonly string[];
  answer(callId: string, answer: CallAnswer): void;
}

const AnsweringContext = createContext<Answering | undefined>(undefined);
export const AnsweringProvider = AnsweringContext.Provider;

type Send = (answer: CallAnswer) => void;

/** The calls that a screen reader has heard of, by reply and call: a card that is drawn anew is no new one. */
const announced = new Set<string>();

export function Reply({ messageId, text, parts, state: given }: { messageId: string; text: string; parts: readonly Part[]; state: ReplyState }) {
  const { busy, open, answer } = useContext(AnsweringContext)!;
  const state = given === 'awaiting' && busy ? 'over' : given;

  const pieces = parts.length > 0 ? piecesOf(text, parts) : [];
  useEffect(() => state === 'over' ? undefined : announceNew(messageId, pieces, state), [parts.length, state]);

  if (pieces.length === 0) return <Formatted text={text} />;
  const sendTo = (callId: string) => (given: CallAnswer) => answer(callId, given);
  return <>{pieces.map((piece, at) => <Shown key={at} piece={piece} state={state} open={open} sendTo={sendTo} />)}</>;
}

function announceNew(messageId: string, pieces: Piece[], state: ReplyState): void {
  const said = [];
  for (const piece of pieces) {
    const key = piece.kind === 'call' && !piece.call.result && `${messageId} ${piece.call.part.call_id}`;
    if (!key || announced.has(key)) continue;
    announced.add(key);
    said.push(`${nameOf(piece.call.part)}: ${says[stateOf(piece.call, state)]}.`);
  }
  if (said.length > 0) announce(said.join(' '));
}

function Shown({ piece, state, open, sendTo }: { piece: Piece; state: ReplyState; open: readonly string[]; sendTo: (callId: string) => Send }) {
  switch (piece.kind) {
    case 'text': return <Formatted text={piece.text} />;
    case 'call': return <CallCard call={piece.call} reply={state} canAnswer={open.includes(piece.call.part.call_id)} send={sendTo(piece.call.part.call_id)} />;
    case 'thought': return <details class="thought"><summary>Thought about it</summary><Formatted text={piece.text} /></details>;
    case 'sources': return <Sources sources={piece.sources} />;
  }
}

const says: Record<CallState, string> = {
  running: 'Running',
  app: 'The app has to answer',
  approval: 'Waits for your approval',
  unanswered: 'Not answered',
  broken: 'It did not end',
  done: 'Done',
  failed: 'Failed',
  denied: 'Denied',
  expired: 'It waited too long for an answer',
  skipped: 'Skipped: the conversation went on',
};

function CallCard({ call, reply, canAnswer, send }: { call: Call; reply: ReplyState; canAnswer: boolean; send: Send }) {
  const { part, approval, result } = call;
  const state = stateOf(call, reply);
  const name = nameOf(part);
  return (
    <div class="call" role="group" aria-label={`${name}: ${says[state]}`} data-state={state}>
      <p class="call-head"><Icon name="call" /> <bdi class="call-name">{name}</bdi> <span class="call-state">{says[state]}</span></p>
      <Folded value={part.arguments} name={`What ${name} is given`} />
      {approval?.reason && <p class="call-note plain" dir="auto">Reason: {approval.reason}</p>}
      {result && <Output value={outputOf(result)} name={`What ${name} said`} />}
      {result?.truncated && <p class="call-note">It was longer: its middle is left out.</p>}
      {canAnswer && state === 'approval' && <Approval send={send} />}
      {canAnswer && state === 'app' && <Answer send={send} />}
    </div>
  );
}

/** Characters and lines of a result that is shown without being asked for. */
const SHORT = 240;
const FEW_LINES = 6;

const Output = memo(function Output({ value, name }: { value: unknown; name: string }) {
  const line = lineOf(value);
  if (line.length > SHORT || line.split('\n').length > FEW_LINES) {
    return <Folded title={`Result, ${line.length.toLocaleString()} characters`} value={value} name={name} />;
  }
  return line.trim() ? <p class="call-output plain" dir="auto">{line}</p> : null;
});

/** A value in one line, or what the title says of it; and all of it when asked. */
const Folded = memo(function Folded({ title, value, name }: { title?: string; value: unknown; name: string }) {
  const [open, setOpen] = useState(false);
  const line = title ?? cut(lineOf(value));
  if (!line) return null;
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><bdi>{line}</bdi></summary>
      {open && <pre tabIndex={0} role="group" aria-label={name} dir="auto">{textOf(value, 2)}</pre>}
    </details>
  );
});

const cut = (line: string) => (line.length > SHORT ? `${line.slice(0, SHORT).replace(/[\uD800-\uDBFF]$/, '')}…` : line);

function Approval({ send }: { send: Send }) {
  const [denies, setDenies] = useState(false);
  if (denies) return <Denial send={send} back={() => setDenies(false)} />;
  return (
    <div class="choices">
      <button type="button" onClick={() => setDenies(true)}>Deny</button>
      <button type="button" class="primary" onClick={() => send({ approved: true })}>Approve</button>
    </div>
  );
}

function Denial({ send, back }: { send: Send; back: () => void }) {
  const [reason, setReason] = useState('');
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current!.focus(), []);

  function deny(event: SubmitEvent) {
    event.preventDefault();
    send({ approved: false, ...(reason.trim() && { reason: reason.trim() }) });
  }

  return (
    <form class="call-answer" onSubmit={deny} onKeyDown={(event) => event.key === 'Escape' && back()}>
      <label>
        Reason, if you like
        <input ref={input} dir="auto" maxLength={2000} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
      <div class="choices">
        <button type="button" class="quiet" onClick={back}>Back</button>
        <button>Deny</button>
      </div>
    </form>
  );
}

/** An answer in the place of an app: the page has no tools of its own, and those who make some try them here. */
function Answer({ send }: { send: Send }) {
  const [text, setText] = useState('');
  const [problem, setProblem] = useState('');

  function answer(event: SubmitEvent) {
    event.preventDefault();
    try {
      send({ output: valueOf(text.trim()) });
    } catch {
      setProblem('This begins as JSON, and is none.');
    }
  }

  return (
    <form class="call-answer" onSubmit={answer}>
      <label>
        Answer with text or JSON
        <textarea rows={1} dir="auto" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      {problem && <p role="alert">{problem}</p>}
      <div class="choices">
        <button type="button" onClick={() => send({ error: text.trim() || 'The app could not do it.' })}>Could not do it</button>
        <button class="primary" disabled={!text.trim()}>Answer</button>
      </div>
    </form>
  );
}

/** JSON, or the text itself. Throws where an object or a list was begun and is broken. */
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (/^[[{]/.test(text)) throw error;
    return text;
  }
}

function Sources({ sources }: { sources: SourcePart[] }) {
  return (
    <ul class="sources" aria-label="Sources">
      {sources.map(({ url, title }, at) => <li key={at}><Source url={url} title={title || url} /></li>)}
    </ul>
  );
}

function Source({ url, title }: { url: string; title: string }) {
  if (!/^https?:\/\//i.test(url)) return <bdi class="badge">{title}</bdi>;
  return <a class="badge" href={url} title={url} target="_blank" rel="noopener noreferrer nofollow"><bdi>{title}</bdi></a>;
}
