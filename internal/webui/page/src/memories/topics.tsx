import { useState } from 'preact/hooks';

import { useClient } from '../api';
import { ChatBar } from '../ui/chatbar';
import { useTitle } from '../ui/title';
import { Curves } from './curves';
import { useAction, useFocus, useLoaded } from './hooks';
import { Confirm, Failure } from './parts';
import { count, daysInWords, minuteOf } from './words';
import type { Topic } from './types';

const states = { active: 'Active', archived: 'Archived' } as const;
const consolidation = { 'short-term': 'fresh', transitioning: 'settling', 'long-term': 'settled' } as const;

type Filter = { q: string; state: '' | keyof typeof states };

/** /app/chats/:id/topics: what a chat was about, how it fades and its archive. */
export function Topics({ id }: { id: string }) {
  const { client } = useClient();
  const [filter, setFilter] = useState<Filter>({ q: '', state: '' });
  const [news, setNews] = useState('');
  useTitle('Topics');
  const path = { chat_id: id };
  const query = { limit: 1000, ...(filter.q && { q: filter.q }), ...(filter.state && { state: filter.state }) };
  const chat = useLoaded(id, async (signal) => (await client.GET('/v1/chats/{chat_id}', { params: { path }, signal })).data);
  const found = useLoaded(JSON.stringify([id, query]), async (signal) =>
    (await client.GET('/v1/chats/{chat_id}/topics', { params: { path, query }, signal })).data);
  const changed = (what: string) => {
    setNews(what);
    found.reload();
  };
  const topics = found.value?.topics ?? [];
  const error = chat.error ?? found.error;
  return (
    <>
    <ChatBar chatId={id} title={chat.value?.title} current="Topics" />
    <main id="main" tabIndex={-1} class="memories topics">
      <h1>Topics</h1>
      <p role="status" class="news">{news}</p>
      <Filters filter={filter} change={setFilter} />
      <Failure error={error} />
      {error ? <button type="button" onClick={() => { chat.reload(); found.reload(); }}>Try again</button> : null}
      {!found.value && found.loading && <p class="quiet">Loading …</p>}
      {found.value && topics.length === 0 && <Nothing id={id} filter={filter} mode={chat.value?.topics} changed={() => { chat.reload(); found.reload(); }} />}
      <Curves topics={topics} />
      <ul class="items">
        {topics.map((topic) => <TopicItem key={topic.id} chat={id} topic={topic} all={topics} changed={changed} />)}
      </ul>
      {found.value?.next_cursor && <p>Shown are the {topics.length} with the latest activity. Search to find the others.</p>}
      <button type="button" disabled={found.loading} onClick={found.reload}>Look again</button>
    </main>
    </>
  );
}

function Filters({ filter, change }: { filter: Filter; change: (filter: Filter) => void }) {
  const [q, setQ] = useState(filter.q);
  return (
    <form role="search" aria-label="Topics" class="filters" onSubmit={(event) => { event.preventDefault(); change({ ...filter, q: q.trim() }); }}>
      <label class="wide">Search titles, summaries and tags
        <input type="search" maxLength={500} value={q} onInput={(event) => {
          setQ(event.currentTarget.value);
          if (!event.currentTarget.value && filter.q) change({ ...filter, q: '' });
        }} />
      </label>
      <label>State
        <select value={filter.state} onChange={(event) => change({ ...filter, state: event.currentTarget.value as Filter['state'] })}>
          <option value="">All</option>
          {Object.entries(states).map(([value, name]) => <option key={value} value={value}>{name}</option>)}
        </select>
      </label>
    </form>
  );
}

/** Why there are no topics, and what can be done about it. */
function Nothing({ id, filter, mode, changed }: { id: string; filter: Filter; mode?: 'auto' | 'on' | 'off'; changed: () => void }) {
  const { client } = useClient();
  const { busy, error, run } = useAction();
  if (filter.q || filter.state) return <p class="quiet">Nothing fits this filter.</p>;
  if (mode === 'on') return <p class="quiet">There is no topic yet. The first begins some seconds after the first reply, unless the server has TOPICS=off.</p>;
  const group = () => run(async () => {
    await client.PATCH('/v1/chats/{chat_id}', { params: { path: { chat_id: id } }, body: { topics: 'on' } });
    changed();
  });
  return (
    <>
      <p class="quiet">{mode === 'off' ? 'This chat is not divided into topics.'
        : 'This chat has no topics yet. The model still sees all of it; topics begin when its first turns are summarized to make room.'}</p>
      <button type="button" disabled={busy || !mode} onClick={group}>Divide it into topics now</button>
      <Failure error={error} />
    </>
  );
}

function TopicItem({ chat, topic, all, changed }: { chat: string; topic: Topic; all: Topic[]; changed: (news: string) => void }) {
  const [mode, setMode] = useState<'' | 'change' | 'merge'>('');
  const others = all.filter((other) => other.id !== topic.id);
  const title = `topic-${topic.id}`;
  return (
    <li class={topic.state}>
      <h2 id={title} dir="auto">{topic.title}</h2>
      <p class="facts">
        {topic.state === 'archived' && <span class="badge strong">{states.archived}</span>}
        {topic.tags.map((tag) => <span key={tag} class="badge" dir="auto">{tag}</span>)}
        <span>{count(topic.message_count, 'message')}, last on {minuteOf(topic.last_active_at)}</span>
      </p>
      {topic.summary && <p dir="auto">{topic.summary}</p>}
      <p class="facts">
        <span>Importance {topic.importance.toFixed(2)}</span>
        <span>{consolidation[topic.memory_type]}{topic.access_count > 0 && `, came up again ${count(topic.access_count, 'time')}`}</span>
        <span>half-life {daysInWords(topic.half_life_days)}</span>
      </p>
      {topic.state === 'archived' && (
        <p class="quiet">It faded among many others. It comes back by itself when the chat does, and can be read here meanwhile.</p>
      )}
      {mode === 'change' && <Change chat={chat} topic={topic} cancel={() => setMode('')} saved={() => { setMode(''); changed('Saved.'); }} />}
      {mode === 'merge' && <Merge chat={chat} topic={topic} others={others} cancel={() => setMode('')} merged={() => { setMode(''); changed('Merged.'); }} />}
      <div class="actions">
        <Messages chat={chat} topic={topic} />
        <button type="button" aria-describedby={title} aria-expanded={mode === 'change'} onClick={() => setMode(mode === 'change' ? '' : 'change')}>
          Change
        </button>
        {others.length > 0 && (
          <button type="button" aria-describedby={title} aria-expanded={mode === 'merge'} onClick={() => setMode(mode === 'merge' ? '' : 'merge')}>
            Merge
          </button>
        )}
      </div>
    </li>
  );
}

function Change({ chat, topic, cancel, saved }: { chat: string; topic: Topic; cancel: () => void; saved: () => void }) {
  const { client } = useClient();
  const [title, setTitle] = useState(topic.title);
  const [tags, setTags] = useState(topic.tags.join(', '));
  const [importance, setImportance] = useState(topic.importance);
  const { busy, error, run } = useAction();
  const field = useFocus<HTMLInputElement>();
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      const named = tags.split(',').map((tag) => tag.trim()).filter(Boolean);
      const body = {
        ...(title.trim() !== topic.title && { title: title.trim() }),
        ...(named.join() !== topic.tags.join() && { tags: named }),
        ...(importance !== topic.importance && { importance }),
      };
      await client.PATCH('/v1/chats/{chat_id}/topics/{topic_id}', { params: { path: { chat_id: chat, topic_id: topic.id } }, body });
      saved();
    });
  };
  return (
    <form class="write" onSubmit={submit}>
      <label>Title<input ref={field} required maxLength={80} dir="auto" value={title} onInput={(event) => setTitle(event.currentTarget.value)} /></label>
      <label>Tags, separated by commas<input dir="auto" value={tags} onInput={(event) => setTags(event.currentTarget.value)} /></label>
      <label>Importance, {importance.toFixed(2)}
        <input type="range" min="0" max="1" step="0.05" value={importance} onInput={(event) => setImportance(event.currentTarget.valueAsNumber)} />
      </label>
      <Failure error={error} />
      <div class="actions">
        <button type="submit" class="primary" disabled={busy || !title.trim()}>Save</button>
        <button type="button" onClick={cancel}>Cancel</button>
      </div>
    </form>
  );
}

/** A merge cannot be undone, so it is asked for twice. */
function Merge({ chat, topic, others, cancel, merged }: { chat: string; topic: Topic; others: Topic[]; cancel: () => void; merged: () => void }) {
  const { client } = useClient();
  const [into, setInto] = useState('');
  const [asking, setAsking] = useState(false);
  const { busy, error, run } = useAction();
  const field = useFocus<HTMLSelectElement>();
  const merge = () => run(async () => {
    await client.POST('/v1/chats/{chat_id}/topics/{topic_id}/merge', { params: { path: { chat_id: chat, topic_id: topic.id } }, body: { into } });
    merged();
  });
  const target = others.find((other) => other.id === into);
  return (
    <form class="write" onSubmit={(event) => { event.preventDefault(); setAsking(true); }}>
      <label>Give its messages to
        <select ref={field} required value={into} onChange={(event) => setInto(event.currentTarget.value)}>
          <option value="">Choose a topic</option>
          {others.map((other) => <option key={other.id} value={other.id}>{other.title}</option>)}
        </select>
      </label>
      <div class="actions">
        <button type="submit" class="primary" disabled={!into}>Merge them</button>
        <button type="button" onClick={cancel}>Cancel</button>
      </div>
      {asking && target && (
        <Confirm title="Merge for good?" action="Merge" keep="Cancel" busy={busy} error={error} onConfirm={merge} onCancel={() => setAsking(false)}>
          <p dir="auto">“{topic.title}” becomes a part of “{target.title}”, whose summary is made again. This cannot be undone.</p>
        </Confirm>
      )}
    </form>
  );
}

const SHOWN = 50;

/** The topic's messages. Packed ones are unpacked to be read. */
function Messages({ chat, topic }: { chat: string; topic: Topic }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{topic.state === 'archived' ? 'Read it back' : 'Messages'}</summary>
      {open && <Said chat={chat} topic={topic} />}
    </details>
  );
}

function Said({ chat, topic }: { chat: string; topic: Topic }) {
  const { client } = useClient();
  const [most, setMost] = useState(SHOWN);
  const path = { chat_id: chat, topic_id: topic.id };
  const { value, error } = useLoaded(`${topic.id} ${topic.message_count}`, async (signal) => {
    const [stats, history] = await Promise.all([
      client.GET('/v1/chats/{chat_id}/topics/{topic_id}/stats', { params: { path }, signal }),
      client.GET('/v1/chats/{chat_id}/topics/{topic_id}/history', { params: { path, query: { include_compressed: true } }, signal }),
    ]);
    return { packed: stats.data.compressed_messages, messages: history.data.messages };
  });
  if (error) return <Failure error={error} />;
  if (!value) return <p class="quiet">Loading …</p>;
  const { packed, messages } = value;
  const first = Math.max(0, messages.length - most);
  return (
    <>
      {packed > 0 && <p class="quiet">{packed} of {messages.length} are packed away: the summary stands for them in a prompt.</p>}
      {first > 0 && <button type="button" onClick={() => setMost(most + SHOWN)}>Show earlier messages</button>}
      <ol class="said" start={first + 1}>
        {messages.slice(first).map((message, i) => (
          <li key={first + i} class={first + i < packed ? 'packed' : ''}>
            <p class="quiet">
              {message.role === 'user' ? 'You' : 'Assistant'},{' '}
              <time dateTime={new Date(message.timestamp * 1000).toISOString()}>{minuteOf(message.timestamp * 1000)}</time>
              {first + i < packed && ', packed'}
            </p>
            <p class="words" dir="auto">{message.content}</p>
          </li>
        ))}
      </ol>
    </>
  );
}
