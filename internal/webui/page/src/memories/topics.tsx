import { useState } from 'preact/hooks';

import { useClient } from '../api';
import { ChatBar } from '../ui/chatbar';
import { Icon } from '../ui/icon';
import { Menu } from '../ui/menu';
import { useTitle } from '../ui/title';
import { FADED } from './fade';
import { useAction, useFocus, useLoaded } from './hooks';
import { Confirm, Failure } from './parts';
import { Search } from './search';
import { Spark } from './spark';
import { count, daysInWords, minuteOf } from './words';
import type { Topic } from './types';

const consolidation = { 'short-term': 'fresh', transitioning: 'settling', 'long-term': 'settled' } as const;

/** /app/chats/:id/topics: what a chat was about, how it fades and its archive. */
export function Topics({ id }: { id: string }) {
  const { client } = useClient();
  const [q, setQ] = useState('');
  const [news, setNews] = useState('');
  useTitle('Topics');
  const path = { chat_id: id };
  const query = { limit: 1000, ...(q && { q }) };
  const chat = useLoaded(id, async (signal) => (await client.GET('/v1/chats/{chat_id}', { params: { path }, signal })).data);
  const found = useLoaded(JSON.stringify([id, query]), async (signal) =>
    (await client.GET('/v1/chats/{chat_id}/topics', { params: { path, query }, signal })).data);
  const changed = (what: string) => {
    setNews(what);
    found.reload();
  };
  const topics = found.value?.topics ?? [];
  const faded = topics.filter(isFaded);
  const strong = topics.filter((topic) => !isFaded(topic)).sort((a, b) => b.priority - a.priority);
  const items = (some: Topic[]) => (
    <ul class="items">{some.map((topic) => <TopicItem key={topic.id} chat={id} topic={topic} all={topics} changed={changed} />)}</ul>
  );
  const error = chat.error ?? found.error;
  return (
    <>
      <ChatBar chatId={id} title={chat.value?.title} current="Topics" />
      <main id="main" tabIndex={-1} class="memories topics">
        <div class="page-head">
          <h1>Topics</h1>
          <button type="button" class="quiet" disabled={found.loading} onClick={found.reload}>Look again</button>
        </div>
        <p role="status" class="news">{news}</p>
        {(q || topics.length > 0) && <Search label="Topics" asks="Search titles, summaries and tags" q={q} search={setQ} />}
        <Failure error={error} />
        {error ? <button type="button" onClick={() => { chat.reload(); found.reload(); }}>Try again</button> : null}
        {!found.value && found.loading && <p class="quiet">Loading …</p>}
        {found.value && topics.length === 0 && <Nothing id={id} q={q} mode={chat.value?.topics} changed={() => { chat.reload(); found.reload(); }} />}
        {strong.length > 0 && <h2>Active <span class="quiet">{strong.length}</span></h2>}
        {items(strong)}
        {faded.length > 0 && (
          <details class="faded" open={!!q || strong.length === 0}>
            <summary><h2>Faded <span class="quiet">{faded.length}</span></h2></summary>
            <p class="quiet">Archived, or about to be when the chat has many. A topic comes back by itself when the chat does.</p>
            {items(faded)}
          </details>
        )}
        {found.value?.next_cursor && <p>Shown are the {topics.length} with the latest activity. Search to find the others.</p>}
      </main>
    </>
  );
}

const isFaded = (topic: Topic) => topic.state === 'archived' || topic.priority < FADED;

/** Why there are no topics, and what can be done about it. */
function Nothing({ id, q, mode, changed }: { id: string; q: string; mode?: 'auto' | 'on' | 'off'; changed: () => void }) {
  const { client } = useClient();
  const { busy, error, run } = useAction();
  if (q) return <p class="quiet">Nothing fits these words.</p>;
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
  return (
    <li class={topic.state}>
      <div class="top">
        <h3 dir="auto">{topic.title}</h3>
        <Spark topic={topic} />
        <Menu id={`do-${topic.id}`} name="Actions">
          <button type="button" onClick={() => setMode('change')}><Icon name="edit" />Change</button>
          {others.length > 0 && <button type="button" onClick={() => setMode('merge')}><Icon name="merge" />Merge</button>}
        </Menu>
      </div>
      {topic.summary && <p dir="auto">{topic.summary}</p>}
      {mode === 'change' && <Change chat={chat} topic={topic} cancel={() => setMode('')} saved={() => { setMode(''); changed('Saved.'); }} />}
      {mode === 'merge' && <Merge chat={chat} topic={topic} others={others} cancel={() => setMode('')} merged={() => { setMode(''); changed('Merged.'); }} />}
      <Messages chat={chat} topic={topic} />
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
      <summary>
        {topic.state === 'archived' && <span class="badge strong">Archived</span>}
        {topic.tags.map((tag) => <span key={tag} class="badge" dir="auto">{tag}</span>)}
        <span>{count(topic.message_count, 'message')} · {minuteOf(topic.last_active_at)}</span>
      </summary>
      <p class="quiet">
        Importance {topic.importance.toFixed(2)}, half-life {daysInWords(topic.half_life_days)}, {consolidation[topic.memory_type]}
        {topic.access_count > 0 && `, came up again ${count(topic.access_count, 'time')}`}
      </p>
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
