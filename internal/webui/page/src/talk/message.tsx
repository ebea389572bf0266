import { memo } from 'preact/compat';
import { useRef, useState } from 'preact/hooks';
import { isConflict, sayError } from '../api';
import type { ChatMessage, Part } from '../throughline';
import { Boundary } from '../ui/boundary';
import { Icon } from '../ui/icon';
import { When } from '../ui/when';
import { Actions, useQuestion, Versions } from './actions';
import { Editor } from './editor';
import { useExplaining } from './explaining';
import type { Message } from './messages';
import { Reply } from './reply';
import { Plain } from './words';

const speakers = { user: 'You', assistant: 'Reply', system: 'Instructions', tool: 'Tool' } as const;

/** A stored message. One that cannot be drawn is shown as its text, and those around it as they are. */
export const StoredMessage = memo(function StoredMessage(props: { message: Message }) {
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
function Stored({ message }: { message: Message }) {
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
      {!editing && <Actions message={message} edit={() => setEditing(true)} />}
    </article>
  );
}

function Said({ message: { id, chat_id, role, content, parts, status } }: { message: Message }) {
  if (role !== 'assistant') return <Plain text={content} />;
  return <Reply reply={{ chatId: chat_id, messageId: id, text: content, parts: parts ?? undefined }} state={status === 'awaiting' ? 'awaiting' : 'over'} />;
}

/** Whether a call was left without an answer. */
const isLeft = (part: Part) => part.type === 'tool_result' && (part.status === 'skipped' || part.status === 'expired');

const notes: Partial<Record<Message['status'], string>> = {
  cancelled: 'You stopped this reply.',
  failed: 'This reply broke off.',
  interrupted: 'This reply broke off: the server stopped.',
};

interface RunningProps {
  message: ChatMessage;
  chatId?: string;
  retry: () => void;
  drop: () => void;
}

/** A message that is being sent, or a reply that runs or failed here. */
export function RunningMessage({ message, chatId = '', ...failure }: RunningProps) {
  const { id = '', role, content, parts, status } = message;
  const runs = status === 'waiting' || status === 'streaming';
  if (role === 'user') return <article class="message user"><h2 class="unseen">You</h2><Plain text={content} /></article>;
  return (
    <>
      {(content || parts || runs) && (
        <article class="message assistant" aria-busy={runs}>
          <h2 class="unseen">Reply</h2>
          <Boundary instead={<Plain text={content} />}>
            <Reply reply={{ chatId, messageId: id, text: content, parts }} state={runs || status === 'awaiting' ? status : 'over'} />
          </Boundary>
          {runs && <p class="typing"><span class="unseen">The reply is being written.</span><i /><i /><i /></p>}
        </article>
      )}
      {status === 'failed' && <Failed message={message} {...failure} />}
    </>
  );
}

/** Why a reply failed, and the ways on: once more, or back to the version before. */
function Failed({ message: { failure, stored }, retry, drop }: Omit<RunningProps, 'chatId'>) {
  const [problem, setProblem] = useState('');
  const [question, ask] = useQuestion(setProblem);
  return (
    <>
      <div class="failure" role="alert">
        <p>{problem || (isConflict(failure) ? sayError(failure) : failure?.message || 'The reply failed.')}</p>
        {stored && <Versions message={stored} ask={ask} />}
        {failure?.retryable && <button type="button" onClick={retry}>Try again</button>}
        <button type="button" class="quiet" onClick={drop}>Dismiss</button>
      </div>
      {question}
    </>
  );
}
