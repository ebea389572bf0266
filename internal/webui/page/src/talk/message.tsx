import type { ComponentChildren } from 'preact';
import { memo } from 'preact/compat';
import { useRef, useState } from 'preact/hooks';
import { isConflict, sayError } from '../api';
import type { Turn } from '../throughline';
import { Boundary } from '../ui/boundary';
import { Icon } from '../ui/icon';
import { When } from '../ui/when';
import { Actions, useQuestion, Versions, type Changes } from './actions';
import { Editor } from './editor';
import { Markdown } from './markdown';
import type { Message } from './messages';

const speakers = { user: 'You', assistant: 'Reply', system: 'Instructions', tool: 'Tool' } as const;

/** A stored message, and what can be done with it. */
export const StoredMessage = memo(function StoredMessage({ message, ...changes }: Changes & { message: Message }) {
  const { id, role, content, status, created_at: at, pinned, files } = message;
  const [editing, setEditing] = useState(false);
  const article = useRef<HTMLElement>(null);

  function close() {
    setEditing(false);
    setTimeout(() => article.current?.querySelector<HTMLElement>('[aria-label=Edit]')?.focus());
  }

  return (
    <article class={`message ${role}`} id={`message-${id}`} tabIndex={-1} data-status={status} ref={article}>
      <h2 class="unseen">{speakers[role]}, <When at={at} /></h2>
      {editing ? <Editor message={message} onClose={close} /> : <Words role={role} text={content} />}
      {!content && message.tool_calls && <p class="note">It asked a tool.</p>}
      {files.map((file) => <p class="attached" key={file.path}><Icon name="file" /> <bdi>{file.path}</bdi></p>)}
      {notes[status] && <p class="note">{notes[status]}</p>}
      {pinned && <p class="note"><Icon name="pin" /> Pinned: it stays in what the model reads.</p>}
      {!editing && <Actions message={message} edit={() => setEditing(true)} {...changes} />}
    </article>
  );
}, (before, after) => before.message === after.message || JSON.stringify(before.message) === JSON.stringify(after.message));

const notes: Partial<Record<Message['status'], string>> = {
  cancelled: 'You stopped this reply.',
  failed: 'This reply broke off.',
  interrupted: 'This reply broke off: the server stopped.',
};

/** Characters of a part of a long text. */
const PART = 10_000;

/** A long text in parts, of which the browser lays out only those that are seen. They end with a line where one ends. */
function partsOf(text: string): ComponentChildren {
  if (text.length <= PART) return text;
  const parts = [];
  for (let at = 0, part; at < text.length; at += part.length) {
    part = text.slice(at, at + PART);
    const line = part.lastIndexOf('\n') + 1;
    if (at + PART < text.length) part = line ? part.slice(0, line) : part.replace(/[\uD800-\uDBFF]$/, ''); // no half characters
    parts.push(<span class="part" key={at}>{part}</span>);
  }
  return parts;
}

function Words({ role, text }: { role: Message['role']; text: string }) {
  if (role !== 'assistant') return <p class="words plain" dir="auto">{partsOf(text)}</p>;
  const plain = (
    <>
      <p class="note">Shown as plain text: it is too long or too deeply nested to be formatted.</p>
      <p class="plain">{partsOf(text)}</p>
    </>
  );
  return <div class="words" dir="auto"><Boundary instead={plain}><Markdown text={text} /></Boundary></div>;
}

interface RunningProps {
  turn: Turn;
  /** Its message of the user is shown as it is stored. */
  asked: boolean;
  /** The reply that failed, as it is stored. */
  failed?: Message;
  retry: () => void;
  drop: () => void;
}

/** A turn that is not over, or not stored as far as this tab knows. */
export function RunningTurn({ turn, asked, ...failure }: RunningProps) {
  const runs = turn.status === 'waiting' || turn.status === 'streaming';
  return (
    <>
      {turn.content && !asked && (
        <article class="message user">
          <h2 class="unseen">You</h2>
          <Words role="user" text={turn.content} />
        </article>
      )}
      {(turn.text || runs) && (
        <article class="message assistant" aria-busy={runs}>
          <h2 class="unseen">Reply</h2>
          <Words role="assistant" text={turn.text} />
          {runs && <p class="typing"><span class="unseen">The reply is being written.</span><i /><i /><i /></p>}
        </article>
      )}
      {turn.status === 'failed' && <Failed turn={turn} {...failure} />}
    </>
  );
}

/** Why a reply failed, and the ways on: once more, or back to the version before. */
function Failed({ turn: { failure }, failed, retry, drop }: Omit<RunningProps, 'asked'>) {
  const [problem, setProblem] = useState('');
  const [question, ask] = useQuestion(setProblem);
  return (
    <>
      <div class="failure" role="alert">
        <p>{problem || (isConflict(failure) ? sayError(failure) : failure?.message || 'The reply failed.')}</p>
        {failed && <Versions message={failed} ask={ask} />}
        {failure?.retryable && <button type="button" onClick={retry}>Try again</button>}
        <button type="button" class="quiet" onClick={drop}>Dismiss</button>
      </div>
      {question}
    </>
  );
}
