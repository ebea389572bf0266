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

interface Props {
  message: ChatMessage;
  /** The message as it is stored, once nothing is to be said of how it came about. */
  stored?: Message;
  retry: () => void;
  drop: () => void;
}

/** A message, from when it is sent on: it is drawn once, so that what is opened or written in it stays when it is stored. */
export const ShownMessage = memo(function ShownMessage({ message, stored, ...failure }: Props) {
  const { id = '', role, content, parts, status } = stored ?? message;
  const runs = !stored && (status === 'waiting' || status === 'streaming');
  const [editing, setEditing] = useState(false);
  const article = useRef<HTMLElement>(null);
  const explained = useExplaining().id === id;
  const isSaid = stored || role === 'user' || content || parts || runs;

  function close() {
    setEditing(false);
    setTimeout(() => article.current?.querySelector<HTMLElement>('[aria-label=Edit]')?.focus());
  }

  const said = (
    <Boundary key={id} instead={<Broken message={message} />}>
      {role !== 'assistant' ? <Plain text={content} /> : (
        <Reply messageId={id} text={content} parts={parts ?? []} state={runs || status === 'awaiting' ? status : 'over'} />
      )}
    </Boundary>
  );
  const name = `message ${role}${stored && explained ? ' explained' : ''}`;
  const place = stored && { id: `message-${id}`, tabIndex: -1, 'data-status': status };
  return (
    <>
      {isSaid && (
        <article class={name} {...place} aria-busy={runs} ref={article}>
          <h2 class="unseen">{speakers[role]}{stored && <>, <When at={stored.created_at} /></>}</h2>
          {editing && stored ? <Editor message={stored} onClose={close} /> : said}
          {stored && <Notes message={stored} />}
          {stored && !editing && <Actions message={stored} edit={() => setEditing(true)} />}
          {runs && role === 'assistant' && <p class="typing"><span class="unseen">The reply is being written.</span><i /><i /><i /></p>}
        </article>
      )}
      {!stored && status === 'failed' && role === 'assistant' && <Failed message={message} {...failure} />}
    </>
  );
}, ({ stored: before }, { stored: after }) => Boolean(before && after) && (before === after || JSON.stringify(before) === JSON.stringify(after)));

/** What stands in place of a message, or of its words, that cannot be drawn. */
export function Broken({ message: { content } }: { message: ChatMessage }) {
  return <><Plain text={content} /><p class="note">This message could not be drawn: this is its text.</p></>;
}

function Notes({ message: { content, tool_calls: calls, files, parts, pinned, status } }: { message: Message }) {
  const note = status === 'cancelled' && parts?.some(isLeft) ? '' : notes[status]; // the card of the call says it
  return (
    <>
      {!content && calls && <p class="note">It asked a tool.</p>}
      {files.map((file) => <p class="attached" key={file.path}><Icon name="file" /> <bdi>{file.path}</bdi></p>)}
      {note && <p class="note">{note}</p>}
      {pinned && <p class="note"><Icon name="pin" /> Pinned: it stays in what the model reads.</p>}
    </>
  );
}

/** Whether a call was left without an answer. */
const isLeft = (part: Part) => part.type === 'tool_result' && (part.status === 'skipped' || part.status === 'expired');

const notes: Partial<Record<Message['status'], string>> = {
  cancelled: 'You stopped this reply.',
  failed: 'This reply broke off.',
  interrupted: 'This reply broke off: the server stopped.',
};

/** Why a reply failed, and the ways on: once more, or back to the version before. */
function Failed({ message: { failure, stored }, retry, drop }: Omit<Props, 'stored'>) {
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
