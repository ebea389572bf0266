import { useLocation } from 'preact-iso';
import { useEffect, useState } from 'preact/hooks';

import { useClient, type SignedIn } from '../api';
import { tellChange } from '../changes';
import { useTitle } from '../ui/title';
import { DeleteAccount } from './account';
import { Add } from './add';
import { ForgetByWords, ForgetEverything } from './forget';
import { afterwards, useAction, useFocus, useLoaded } from './hooks';
import { MemoryItem } from './item';
import { Failure, PageHead } from './parts';
import { Search } from './search';
import { SettingsForm } from './settings';
import { Carry } from './carry';
import { count } from './words';
import type { Memory } from './types';

const types = { preference: 'Preferences', fact: 'Facts', pattern: 'Habits', context: 'Circumstances' } as const;
const statuses = { active: 'Remembered', superseded: 'No longer true', archived: 'Put away', all: 'All' } as const;

type Filter = { q?: string; type?: keyof typeof types; status?: keyof typeof statuses; as_of?: string };

/** /app/memories: what the user is remembered for. The filter is in the address, ?id= shows one memory. */
export function Memories() {
  const { query } = useLocation();
  useTitle('Memories');
  const [version, setVersion] = useState(0); // grows when the list may be another
  const [news, setNews] = useState('');
  const changed = (what: string) => {
    setNews(what);
    setVersion((n) => n + 1);
  };
  return (
    <main id="main" tabIndex={-1} class="memories">
      <PageHead shown="List" />
      <p role="status" class="news">{news}</p>
      {query.id ? <OneMemory id={query.id} say={setNews} /> : <Lists filter={query} version={version} say={setNews} changed={changed} />}
    </main>
  );
}

/** What a filter asks of the API: by default active memories. The inbox has a place of its own. */
function asked(filter: Filter) {
  const { q, type, as_of } = filter;
  const status = filter.status ?? (as_of ? undefined : 'active');
  return { ...(q && { q }), ...(type && { type }), ...(as_of && { as_of }), ...(status && { status }) };
}

type Listing = { memories: Memory[]; next: string | null };

async function page(client: SignedIn['client'], query: object, signal?: AbortSignal): Promise<Listing> {
  const { data } = await client.GET('/v1/memories', { params: { query }, signal });
  return { memories: data.memories, next: data.next_cursor };
}

function Lists({ filter, version, say, changed }: {
  filter: Filter; version: number; say: (news: string) => void; changed: (news: string) => void;
}) {
  const { client, session } = useClient();
  const key = JSON.stringify([asked(filter), version]);
  const found = useLoaded(key, (signal) => page(client, asked(filter), signal));
  const inbox = useLoaded(String(version), (signal) => page(client, { status: 'inbox', limit: 200 }, signal));
  const more = useAction();
  const next = found.value?.next;
  const readOn = () => more.run(async () => {
    const read = await page(client, { ...asked(filter), cursor: next });
    found.setValue((before) => before && { memories: [...before.memories, ...read.memories], next: read.next });
  });
  const listed = found.value?.memories ?? [];
  const waiting = inbox.value?.memories ?? [];
  useEffect(() => inbox.value && tellChange(), [inbox.value?.memories.length]); // the bar counts them
  return (
    <>
      <Add added={changed} />
      {waiting.length > 0 && (
        <section aria-labelledby="inbox" class="inbox">
          <h2 id="inbox">Inbox <span class="count">{waiting.length}</span></h2>
          <p class="quiet">Uncertain, or against what you wrote yourself. No reply uses these until you accept them.</p>
          <Items memories={waiting} set={inbox.setValue} say={say} keeps={false} moved={changed} />
        </section>
      )}
      <section aria-labelledby="remembered">
        <h2 id="remembered" tabIndex={-1}>What is remembered {listed.length > 0 && <span class="quiet">{listed.length}{next && '+'}</span>}</h2>
        <Filters filter={filter} />
        <Failure error={found.error ?? inbox.error} />
        {found.error || inbox.error ? <button type="button" onClick={() => { found.reload(); inbox.reload(); }}>Try again</button> : null}
        {!found.value && found.loading && <p class="quiet">Loading …</p>}
        {found.value && listed.length === 0 && <p class="quiet">{nothing(filter)}</p>}
        <Items memories={listed} set={found.setValue} say={say} keeps={filter.status === 'all'} moved={say} />
        {next && <button type="button" disabled={more.busy} onClick={readOn}>Show more</button>}
        <Failure error={more.error} />
      </section>
      <section aria-labelledby="manage" class="manage">
        <h2 id="manage">Control</h2>
        <SettingsForm />
        <ForgetByWords forgotten={(n) => changed(`${count(n, 'memory', 'memories')} forgotten.`)} />
        <Carry imported={changed} />
        <ForgetEverything forgotten={(n) => changed(`${count(n, 'memory', 'memories')} forgotten.`)} />
        {session.account && <p><a href="/app/oauth/consent">Programs that may act for you</a></p>}
        <DeleteAccount />
      </section>
    </>
  );
}

function nothing(filter: Filter): string {
  return Object.keys(asked(filter)).some((name) => name !== 'status') || filter.status
    ? 'Nothing fits this filter.'
    : 'Nothing is remembered yet. What you tell a chat of yourself appears here a while after it was said, or write it down above.';
}

function Filters({ filter }: { filter: Filter }) {
  const { route } = useLocation();
  const go = (change: Filter) => {
    const set = Object.entries({ ...filter, ...change }).filter(([, value]) => value);
    route('/app/memories' + (set.length ? '?' + new URLSearchParams(set as [string, string][]) : ''), true);
  };
  const { q = '', type = '', status = '', as_of = '' } = filter;
  return (
    <Search label="Memories" asks="Search" q={q} search={(words) => go({ q: words })} active={[type, status, as_of].filter(Boolean).length}
      clear={() => go({ type: undefined, status: undefined, as_of: undefined })}>
      <label>Kind
        <select value={type} onChange={(event) => go({ type: event.currentTarget.value as Filter['type'] })}>
          <option value="">All</option>
          {Object.entries(types).map(([value, name]) => <option key={value} value={value}>{name}</option>)}
        </select>
      </label>
      <label>State
        <select value={status} onChange={(event) => go({ status: event.currentTarget.value as Filter['status'] })}>
          {Object.entries(statuses).map(([value, name]) => <option key={value} value={value === 'active' ? '' : value}>{name}</option>)}
        </select>
      </label>
      <label>True on<input type="date" value={as_of} onChange={(event) => go({ as_of: event.currentTarget.value })} /></label>
    </Search>
  );
}

type Change = (next: (before?: Listing) => Listing | undefined) => void;

/** A list of memories. keeps says whether one whose status changed stays in it, moved what happened to one that does not. */
function Items({ memories, set, say, keeps, moved }: {
  memories: Memory[]; set: Change; say: (news: string) => void; keeps: boolean; moved: (news: string) => void;
}) {
  const replace = (memory: Memory) =>
    set((before) => before && { ...before, memories: before.memories.map((m) => (m.id === memory.id ? memory : m)) });
  const leave = (memory: Memory, i: number) => (news: string, now?: Memory) => {
    if (now && keeps) {
      say(news);
      return replace(now);
    }
    const near = memories[i + 1] ?? memories[i - 1];
    afterwards(() => document.getElementById(near ? `item-${near.id}` : 'remembered')?.focus({ preventScroll: true }));
    set((before) => before && { ...before, memories: before.memories.filter((m) => m.id !== memory.id) });
    moved(news);
  };
  return (
    <ul class="items">
      {memories.map((memory, i) => <MemoryItem key={memory.id} memory={memory} replace={replace} moved={leave(memory, i)} say={say} />)}
    </ul>
  );
}

/** One memory, to which the graph, a receipt or another memory leads. */
function OneMemory({ id, say }: { id: string; say: (news: string) => void }) {
  const { client } = useClient();
  const { route } = useLocation();
  const back = useFocus<HTMLAnchorElement>(id); // the link followed to here is gone
  const found = useLoaded(id, async (signal) => {
    const { data } = await client.GET('/v1/memories/{memory_id}', { params: { path: { memory_id: id } }, signal });
    return data;
  });
  const moved = (news: string) => {
    say(news);
    route('/app/memories');
  };
  return (
    <>
      <p><a ref={back} href="/app/memories">All memories</a></p>
      <Failure error={found.error} />
      {found.value && (
        <ul class="items">
          <MemoryItem key={id} memory={found.value} replace={(memory) => found.setValue(memory)} moved={moved} say={say} open />
        </ul>
      )}
    </>
  );
}
