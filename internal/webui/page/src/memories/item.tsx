import { useState } from 'preact/hooks';

import { useClient } from '../api';
import { Icon } from '../ui/icon';
import { Menu } from '../ui/menu';
import { ForgetOne } from './forget';
import { useAction, useFocus, useLoaded } from './hooks';
import { Failure } from './parts';
import { dayOf, minuteOf } from './words';
import { you } from './you';
import { useDraft } from './draft';
import type { Memory, Revision } from './types';

export const typeNames = { preference: 'Preference', fact: 'Fact', pattern: 'Habit', context: 'Circumstance' } as const;
const origins = { extracted: 'from a chat', user: 'written by you', assistant: 'proposed by an assistant', import: 'imported' } as const;

type Change = { content?: string; type?: Memory['memory_type']; durable?: boolean; pinned?: boolean; status?: 'active' | 'archived' };

/**
 * A memory with what can be done to it. replace shows it as it is now, moved is told when its status is another one or it is
 * forgotten (then without it), say is told what happened.
 */
export function MemoryItem({ memory, replace, moved, say, open = false }: {
  memory: Memory; replace: (memory: Memory) => void; moved: (news: string, now?: Memory) => void; say: (news: string) => void; open?: boolean;
}) {
  const { client } = useClient();
  const { busy, error, run } = useAction();
  const [mode, setMode] = useState<'' | 'correct' | 'forget'>('');
  const change = async (body: Change) => {
    const { data } = await client.PATCH('/v1/memories/{memory_id}', { params: { path: { memory_id: memory.id } }, body });
    return data;
  };
  // A pin can be taken out again, so it is shown before the server has answered.
  const pin = () => run(async () => {
    replace({ ...memory, pinned: !memory.pinned });
    try {
      replace(await change({ pinned: !memory.pinned }));
    } catch (failure) {
      replace(memory);
      throw failure;
    }
  });
  const become = (status: 'active' | 'archived', news: string) => () => run(async () => {
    moved(news, await change({ status }));
  });
  const accept = become('active', 'It is remembered now.');
  const waits = memory.status === 'inbox';
  const corrected = async (body: Change) => {
    const now = await change(body);
    setMode('');
    if (now.status === memory.status) {
      say('Saved.');
      return replace(now);
    }
    moved('Saved.', now);
  };
  return (
    <li id={`item-${memory.id}`} class={memory.status} tabIndex={-1}>
      <div class="top">
        {mode === 'correct'
          ? <Correct memory={memory} save={corrected} cancel={() => setMode('')} />
          : <p class="words" dir="auto">{you(memory.content)}</p>}
        <Menu id={`do-${memory.id}`} name="Actions">
          {memory.status === 'active' && <button type="button" disabled={busy} onClick={pin}><Icon name="pin" />{memory.pinned ? 'Unpin' : 'Pin'}</button>}
          <button type="button" disabled={busy} onClick={() => setMode('correct')}><Icon name="edit" />Correct</button>
          {memory.status === 'active' && <button type="button" disabled={busy} onClick={become('archived', 'Put away.')}><Icon name="away" />Put away</button>}
          {!waits && memory.status !== 'active' && <button type="button" disabled={busy} onClick={accept}><Icon name="again" />Bring back</button>}
          {!waits && <button type="button" class="danger" disabled={busy} onClick={() => setMode('forget')}><Icon name="trash" />Forget</button>}
        </Menu>
      </div>
      <div class="foot">
        <Origin memory={memory} open={open} />
        {waits && (
          <div class="choices">
            <button type="button" disabled={busy} onClick={() => setMode('forget')}>Reject</button>
            <button type="button" class="accept" disabled={busy} onClick={accept}>Accept</button>
          </div>
        )}
      </div>
      {memory.superseded_by && <a class="other" href={`/app/memories?id=${memory.superseded_by}`}>What took its place</a>}
      {memory.conflicts_with && <a class="other" href={`/app/memories?id=${memory.conflicts_with}`}>What it takes the place of</a>}
      <Failure error={error} />
      {mode === 'forget' && <ForgetOne memory={memory} cancel={() => setMode('')} forgotten={() => moved('Forgotten.')} />}
    </li>
  );
}

function validity(memory: Memory): string {
  const since = memory.valid_from ? ` · true since ${dayOf(memory.valid_from)}` : '';
  return memory.valid_to ? `${since}${since ? ',' : ' · true'} until ${dayOf(memory.valid_to)}` : since;
}

/** What it is and where it comes from. One click away: the words that it was made of, each with the way to its chat, and every change since. */
function Origin({ memory, open }: { memory: Memory; open: boolean }) {
  const [shown, setShown] = useState(open);
  const times = memory.sources.length;
  return (
    <details open={open} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>
        {memory.pinned && <span class="badge strong"><Icon name="pin" />Pinned</span>}
        {memory.durable && <span class="badge">Kept for good</span>}
        {memory.edited && <span class="badge">Corrected by you</span>}
        <span>
          {typeNames[memory.memory_type]} · {times > 1 ? `said ${times} times` : origins[memory.origin]} · {dayOf(memory.recorded_at)}{validity(memory)}
        </span>
      </summary>
      {shown && <Sources memory={memory} />}
      {shown && <Revisions memory={memory} />}
    </details>
  );
}

function Sources({ memory }: { memory: Memory }) {
  return (
    <ul>
      {memory.sources.map((source) => (
        <li key={source.message_id}>
          <blockquote dir="auto">{source.quote}</blockquote>
          <a href={`/app/chats/${source.chat_id}?message=${source.message_id}`}>
            <time dateTime={source.said_at}>{minuteOf(source.said_at)}</time>, message {source.seq} of its chat
          </a>
        </li>
      ))}
    </ul>
  );
}

function Correct({ memory, save, cancel }: { memory: Memory; save: (change: Change) => Promise<void>; cancel: () => void }) {
  const [content, setContent, settle] = useDraft(`correct-${memory.id}`, memory.content);
  const [type, setType] = useState(memory.memory_type);
  const [durable, setDurable] = useState(memory.durable);
  const { busy, error, run } = useAction();
  const field = useFocus<HTMLTextAreaElement>();
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      const words = content.trim();
      await save({
        ...(words !== memory.content && { content: words }),
        ...(type !== memory.memory_type && { type }),
        ...(durable !== memory.durable && { durable }),
      });
      settle();
    });
  };
  return (
    <form class="write" onSubmit={submit} onKeyDown={(event) => { if (event.key === 'Escape') { settle(); cancel(); } }}>
      <label>In your words
        <textarea ref={field} required maxLength={500} rows={3} dir="auto" value={content} onInput={(event) => setContent(event.currentTarget.value)} />
      </label>
      <TypeAndDurable type={type} durable={durable} setType={setType} setDurable={setDurable} />
      <Failure error={error} />
      <div class="actions">
        <button type="submit" class="primary" disabled={busy || !content.trim()}>Save</button>
        <button type="button" onClick={() => { settle(); cancel(); }}>Cancel</button>
      </div>
    </form>
  );
}

export function TypeAndDurable({ type, durable, setType, setDurable }: {
  type: Memory['memory_type']; durable: boolean; setType: (type: Memory['memory_type']) => void; setDurable: (durable: boolean) => void;
}) {
  return (
    <div class="row">
      <label>Kind
        <select value={type} onChange={(event) => setType(event.currentTarget.value as Memory['memory_type'])}>
          {Object.entries(typeNames).map(([value, name]) => <option key={value} value={value}>{name}</option>)}
        </select>
      </label>
      <label class="check"><input type="checkbox" checked={durable} onChange={(event) => setDurable(event.currentTarget.checked)} />Keep for good</label>
    </div>
  );
}

const actions: Record<Revision['action'], string> = {
  ADD: 'Remembered', UPDATE: 'Changed', DELETE: 'Taken the place of', NOOP: 'Said again', EDIT: 'Corrected',
  MERGE: 'Merged', DECAY: 'Faded', ARCHIVE: 'Put away', RESTORE: 'Brought back',
};
const actors: Record<Revision['actor'], string> = {
  model: 'from a chat', user: 'by you', decay: 'for it was not used', erasure: 'for words were deleted',
};

function Revisions({ memory }: { memory: Memory }) {
  const { client } = useClient();
  const { value, error } = useLoaded(`${memory.id} ${memory.version}`, async (signal) => {
    const { data } = await client.GET('/v1/memories/{memory_id}/history', { params: { path: { memory_id: memory.id } }, signal });
    return data.revisions;
  });
  if (error) return <Failure error={error} />;
  if (!value) return <p class="quiet">Loading …</p>;
  return (
    <ol class="changes">
      {value.map((revision) => (
        <li key={revision.version}>
          <p class="quiet">{actions[revision.action]} {actors[revision.actor]}, <time dateTime={revision.created_at}>{minuteOf(revision.created_at)}</time></p>
          <p dir="auto">
            {revision.content ? you(revision.content) : 'The words were removed.'}{revision.reason && <span class="quiet"> ({revision.reason})</span>}
          </p>
        </li>
      ))}
    </ol>
  );
}
