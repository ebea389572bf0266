import './why.css';
import { useEffect, useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import type { Schemas } from '../throughline';
import { When } from '../ui/when';

type WhyReply = Schemas['Why'];
type Receipt = Schemas['MemoryReceipt'];

/** A reply's receipt; undefined for one that was imported or is running. */
export function receiptOf(metadata: unknown): Receipt | undefined {
  const receipt = (metadata as { memory?: Receipt } | null)?.memory;
  return Array.isArray(receipt?.sections) ? receipt : undefined;
}

/** Where a turn is shown, by its chat and the seq of one of its messages. */
export const turnPath = (chatId: string, seq: number) => `/app/chats/${chatId}/memory?turn=${seq}`;

/** What each section of a prompt is called, and what it consists of, one and several. */
const sections: Record<string, [name: string, one: string, several: string]> = {
  brief: ['The brief', 'turn', 'turns'], kept: ['Kept messages', 'message', 'messages'],
  recent: ['Recent turns', 'turn', 'turns'], files: ['Files', 'file', 'files'],
  memories: ['What is remembered of you', 'memory', 'memories'], topic: ['The topic that came back', 'topic', 'topics'],
  recall: ['Earlier turns, quoted', 'turn', 'turns'], sources: ['Sources', 'source', 'sources'],
};

export const failures: Record<string, string> = { late: 'came too late', failed: 'failed' };

/** Why a reply said what it said: what its prompt held of the chat, section by section. */
export function Why({ messageId }: { messageId: string }) {
  const { client } = useClient();
  const [why, setWhy] = useState<WhyReply>();
  const [problem, setProblem] = useState('');
  useEffect(() => {
    let current = true;
    setWhy(undefined);
    setProblem('');
    client.GET('/v1/messages/{message_id}/why', { params: { path: { message_id: messageId } } }).then(
      ({ data }) => current && setWhy(data),
      (error) => current && setProblem(sayError(error)),
    );
    return () => void (current = false);
  }, [client, messageId]);

  if (problem) return <p role="alert">{problem}</p>;
  if (!why) return <p role="status">Looking it up …</p>;
  if (!why.receipt) return <p>Nothing is known of the prompt of this reply: it is still being made, or was not made here.</p>;
  if (why.receipt.sections.length === 0) return <p>Its prompt held nothing but the question: nothing had been said before.</p>;
  return (
    <div class="why">
      {why.receipt.sections.map((section) => <WhySection key={section.name} section={section} why={why} />)}
    </div>
  );
}

function WhySection({ section, why }: { section: Account; why: WhyReply }) {
  const Content = contents[section.name];
  if (!Content && !section.failure) return <p><SectionName section={section} /></p>;
  return (
    <details open={section.name !== 'recent' && section.name !== 'brief'}>
      <summary><SectionName section={section} /></summary>
      {section.failure && <p>Looking this up {failures[section.failure] ?? section.failure}, so the reply went without it.</p>}
      {Content && <Content why={why} />}
    </details>
  );
}

type Account = Pick<Schemas['SectionAccount'], 'name' | 'tokens' | 'items' | 'left_out' | 'shortened' | 'failure'>;

/** A section's name, what it took, and what of it had no room. */
export function SectionName({ section }: { section: Account }) {
  const [name, one, several] = sections[section.name] ?? [section.name, 'item', 'items'];
  const counts = [
    `${section.items} ${section.items === 1 ? one : several}`, `${section.tokens.toLocaleString()} tokens`,
    section.left_out && `${section.left_out} left out`, section.shortened && `${section.shortened} shortened`,
  ];
  return <>{name} <span class="soft">{counts.filter(Boolean).join(', ')}</span></>;
}

const contents: Record<string, (props: { why: WhyReply }) => preact.ComponentChildren> = {
  brief: ({ why }) => (
    <>
      {why.brief && (
        <p class="soft">
          Version {why.brief.version} of <When at={why.brief.created_at} />, made of the messages up to {why.receipt!.covered_through_seq}.
        </p>
      )}
      {why.brief?.text
        ? <div class="brief" dir="auto">{why.brief.text}</div>
        : <p class="soft">The text of this version is deleted: it may have held words that were deleted.</p>}
    </>
  ),
  recent: ({ why }) => (
    <ul class="turn-links">
      {why.recent.filter((message) => message.role === 'user').map((message) => (
        <li key={message.message_id}>
          <a href={turnPath(why.chat_id, message.seq)}>Message {message.seq}</a>{' '}
          <span class="soft"><When at={message.created_at} /></span>
        </li>
      ))}
    </ul>
  ),
  recall: ({ why }) => (
    <>
      {[...why.recalled.map((turn) => ({ ...turn, chat_id: why.chat_id, title: '' })), ...why.recalled_elsewhere].map((turn) => (
        <blockquote key={turn.chat_id + turn.seq}>
          {turn.messages.map((message) => <p key={message.message_id} dir="auto"><b>{message.role === 'user' ? 'You' : 'Reply'}:</b> {message.content}</p>)}
          <a href={turnPath(turn.chat_id, turn.seq)}>Message {turn.seq}{turn.title && ` of ${turn.title}`}</a>
        </blockquote>
      ))}
      {why.recalled.length + why.recalled_elsewhere.length
        < (why.receipt!.recalled?.length ?? 0) + (why.receipt!.recalled_elsewhere?.length ?? 0) && <p class="soft">Some of what was quoted is deleted.</p>}
    </>
  ),
  memories: ({ why }) => (
    <ul>
      {why.memories.map((memory) => (
        <li key={memory.id}>
          <a href={`/app/memories?id=${memory.id}`} dir="auto">{memory.content}</a>
          {memory.status !== 'active' && <span class="soft"> ({memory.status} now)</span>}
          {memory.sources.map((source) => (
            <p key={source.message_id} class="soft">
              <q dir="auto">{source.quote}</q>, <a href={turnPath(source.chat_id, source.seq)}>said <When at={source.said_at} /></a>
            </p>
          ))}
        </li>
      ))}
    </ul>
  ),
  topic: ({ why }) => why.topic && (
    <p>
      <a href={`/app/chats/${why.chat_id}/topics`} dir="auto">{why.topic.title}</a>
      {why.topic.summary && <>: <span dir="auto">{why.topic.summary}</span></>}
    </p>
  ),
};
