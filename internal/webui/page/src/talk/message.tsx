import { memo } from 'preact/compat';
import { useRef, useState } from 'preact/hooks';
import { isConflict, sayError } from '../api';
import type { Part, Turn } from '../throughline';
import { Boundary } from '../ui/boundary';
import { Icon } from '../ui/icon';
import { When } from '../ui/when';
import { Actions, useQuestion, Versions, type Changes } from './actions';
import { Editor } from './editor';
import { useExplaining } from './explaining';
import type { Message } from './messages';
import { Reply } from './reply';
import { Plain } from './words';

const speakers = { user: 'You', assistant: 'Reply', system: 'Instructions', tool: 'Tool' } as const;

/** A stored message. One that cannot be drawn is shown as its text, and those around it as they are. */
export const StoredMessage = memo(function StoredMessage(props: Changes & { message: Message }) {
  const { id, role, content } = props.message;
  return <Boundary instead={<Broken role={role} id={`message-${id}`} text={content} />}><Stored {...props} /></Boundary>;
}, (before, after) => before.message === after.message || JSON.stringify(before.message) === JSON.stringify(after.message));

function Broken({ role, id, text }: { role: Message['role']; id?: string; text: string }) {
  return (
    <article class={`message ${role}`} id={id} tabIndex={-1}>
      <h2 class="unseen">{speakers[role]}</h2>
      <Plain text={text} />
      <p class="note">This message could not be drawn: this is its text.</p>
    </article>
  );
}

/** A stored message, and what can be done with it. */
function Stored({ message, ...changes }: Changes & { message: Message }) {
  const { id, role, content, parts, status, created_at: at, pinned, files } = message;
  const [editing, setEditing] = useState(false);
  const article = useRef<HTMLElement>(null);
  const explained = useExplaining().id === id;
  const note = status === 'cancelled' && parts?.some(isLeft) ? '' : notes[status]; // the card of the call says it

  function close() {
    setEditing(false);
    setTimeout(() => article.current?.querySelector<HTMLElement>('[aria-label=Edit]')?.focus());
  }

  return (
    <article class={`message ${role}${explained ? ' explained' : ''}`} id={`message-${id}`} tabIndex={-1} data-status={status} ref={article}>
      <h2 class="unseen">{speakers[role]}, <When at={at} /></h2>
      {editing ? <Editor message={message} onClose={close} /> : <Said message={message} />}
      {!content && message.tool_calls && <p class="note">It asked a tool.</p>}
      {files.map((file) => <p class="attached" key={file.path}><Icon name="file" /> <bdi>{file.path}</bdi></p>)}
      {note && <p class="note">{note}</p>}
      {pinned && <p class="note"><Icon name="pin" /> Pinned: it stays in what the model reads.</p>}
      {!editing && <Actions message={message} edit={() => setEditing(true)} {...changes} />}
    </article>
  );
}

function Said({ message: { id, chat_id, role, content, parts, status } }: { message: Message }) {
  if (role !== 'assistant') return <Plain text={content} />;
  const reply = { chatId: chat_id, messageId: id, text: content, parts: (parts as Part[] | null) ?? undefined };
  return <Reply reply={reply} state={status === 'awaiting' ? 'awaiting' : 'over'} />;
}

/** Whether a call was left without an answer. */
const isLeft = ({ status }: NonNullable<Message['parts']>[number]) => status === 'skipped' || status === 'expired';

const notes: Partial<Record<Message['status'], string>> = {
  cancelled: 'You stopped this reply.',
  failed: 'This reply broke off.',
  interrupted: 'This reply broke off: the server stopped.',
};

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
  const { status } = turn;
  const runs = status === 'waiting' || status === 'streaming';
  const state = runs || status === 'awaiting' ? status : 'over';
  return (
    <>
      {turn.content && !asked && (
        <article class="message user">
          <h2 class="unseen">You</h2>
          <Plain text={turn.content} />
        </article>
      )}
      {(turn.text || turn.parts || runs) && (
        <article class="message assistant" aria-busy={runs}>
          <h2 class="unseen">Reply</h2>
          <Boundary instead={<Plain text={turn.text} />}>
            <Reply reply={{ ...turn, chatId: turn.chatId!, messageId: turn.messageId! }} state={state} />
          </Boundary>
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
