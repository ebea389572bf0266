import type { ComponentChildren } from 'preact';
import { memo } from 'preact/compat';
import { useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import { tellChange } from '../changes';
import type { Turn } from '../throughline';
import { announce } from '../ui/announce';
import { Boundary } from '../ui/boundary';
import { confirm } from '../ui/confirm';
import { Icon, type IconName } from '../ui/icon';
import { When } from '../ui/when';
import { Markdown } from './markdown';
import type { Message } from './messages';

interface Props {
  message: Message;
  change: (message: Message) => void;
  remove: (id: string) => void;
}

const speakers = { user: 'You', assistant: 'Reply', system: 'Instructions', tool: 'Tool' } as const;

/** A stored message, and what can be done with it. */
export const StoredMessage = memo(function StoredMessage({ message, ...changes }: Props) {
  const { id, role, content, status, created_at: at, pinned, files } = message;
  return (
    <article class={`message ${role}`} id={`message-${id}`} tabIndex={-1} data-status={status}>
      <h2 class="unseen">{speakers[role]}, <When at={at} /></h2>
      <Words role={role} text={content} />
      {!content && message.tool_calls && <p class="note">It asked a tool.</p>}
      {files.map((file) => <p class="attached" key={file.path}><Icon name="file" /> <bdi>{file.path}</bdi></p>)}
      {notes[status] && <p class="note">{notes[status]}</p>}
      {pinned && <p class="note"><Icon name="pin" /> Pinned: it stays in what the model reads.</p>}
      <Actions message={message} {...changes} />
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

function Actions({ message, change, remove }: Props) {
  const { client } = useClient();
  const [problem, setProblem] = useState('');
  const { id, role, rating, pinned } = message;
  const path = { message_id: id };

  async function attempt(deed: () => Promise<void>) {
    setProblem('');
    await deed().then(tellChange, (error) => setProblem(sayError(error)));
  }

  const rate = (value: 1 | -1) =>
    attempt(async () => {
      const { data } = await client.POST('/v1/messages/{message_id}/feedback', { params: { path }, body: { rating: rating === value ? 0 : value } });
      change(data);
    });

  const pin = () =>
    attempt(async () => {
      const { data } = await client.PATCH('/v1/messages/{message_id}', { params: { path }, body: { pinned: !pinned } });
      change(data);
    });

  async function forget() {
    const sure = await confirm({
      title: 'Delete this message?',
      text: 'It is deleted from the chat, and from what is remembered of it. This cannot be undone.',
      action: 'Delete it',
    });
    if (!sure) return;
    await attempt(async () => {
      await client.DELETE('/v1/messages/{message_id}', { params: { path } });
      remove(id);
      announce('The message is deleted.');
    });
  }

  const copy = () => attempt(async () => {
    await navigator.clipboard.writeText(message.content);
    announce('Copied.');
  });

  return (
    <div class="actions">
      {role === 'assistant' && (
        <>
          <Action icon="good" name="Good reply" pressed={rating === 1} onClick={() => rate(1)} />
          <Action icon="poor" name="Poor reply" pressed={rating === -1} onClick={() => rate(-1)} />
          <a class="action" href={`/app/chats/${message.chat_id}/memory?why=${id}`} aria-label="Why it said that" title="Why it said that">
            <Icon name="why" />
          </a>
        </>
      )}
      <Action icon="copy" name="Copy" onClick={copy} />
      <Action icon="pin" name="Pin" pressed={pinned} onClick={pin} />
      <Action icon="trash" name="Delete" onClick={forget} />
      {problem && <span role="alert">{problem}</span>}
    </div>
  );
}

function Action({ icon, name, pressed, onClick }: { icon: IconName; name: string; pressed?: boolean; onClick: () => void }) {
  return <button type="button" class="action" aria-label={name} title={name} aria-pressed={pressed} onClick={onClick}><Icon name={icon} /></button>;
}

/** A turn that is not over, or not stored as far as this tab knows. */
export function RunningTurn({ turn, asked, retry, drop }: { turn: Turn; asked: boolean; retry: () => void; drop: () => void }) {
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
      {turn.status === 'failed' && (
        <div class="failure" role="alert">
          <p>{turn.failure?.message || 'The reply failed.'}</p>
          {turn.failure?.retryable && <button type="button" onClick={retry}>Try again</button>}
          <button type="button" class="quiet" onClick={drop}>Dismiss</button>
        </div>
      )}
    </>
  );
}
