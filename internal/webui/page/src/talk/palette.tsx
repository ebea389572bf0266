import './palette.css';
import { useLocation } from 'preact-iso';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { ComponentChild } from 'preact';
import { sayError, useClient } from '../api';
import { you } from '../memories/you';
import type { Client, Schemas } from '../throughline';
import { Icon, type IconName } from '../ui/icon';
import { When } from '../ui/when';

interface Found {
  href: string;
  icon: IconName;
  title: ComponentChild;
  detail?: ComponentChild;
  at?: string;
}

/** What is found of one kind, in its order. */
type Group = [name: string, found: Found[]];

/** A search begins when nothing was typed for so many milliseconds. */
const REST = 200;

const opening = new EventTarget();
export const openPalette = () => opening.dispatchEvent(new Event('open'));

/** One search for all that was said and is remembered, wherever the user is: ⌘K, or Ctrl with K. */
export function Palette() {
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const show = () => document.querySelector('dialog[open]') || setOpen(true);
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.metaKey || event.ctrlKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      show();
    };
    opening.addEventListener('open', show);
    addEventListener('keydown', pressed);
    return () => {
      opening.removeEventListener('open', show);
      removeEventListener('keydown', pressed);
    };
  }, []);
  return open ? <Search onClose={() => setOpen(false)} /> : null;
}

function Search({ onClose }: { onClose: () => void }) {
  const { route } = useLocation();
  const dialog = useRef<HTMLDialogElement>(null);
  const [query, setQuery] = useState('');
  const [at, setAt] = useState(0);
  const { groups, problem } = useFound(query.trim());
  const all = groups?.flatMap(([, found]) => found) ?? [];
  const chosen = Math.min(at, all.length - 1);
  useLayoutEffect(() => dialog.current!.showModal(), []);
  useEffect(() => setAt(0), [query]);
  useEffect(() => document.getElementById(`found-${chosen}`)?.scrollIntoView({ block: 'nearest' }), [chosen]);

  function go(to: Found | undefined) {
    if (!to) return;
    dialog.current!.close();
    route(to.href);
  }

  function pressed(event: KeyboardEvent) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.isComposing || !(step || event.key === 'Enter')) return;
    event.preventDefault();
    if (!step) go(all[chosen]);
    else if (all.length) setAt((chosen + step + all.length) % all.length);
  }

  let place = 0;
  return (
    <dialog
      class="palette"
      ref={dialog}
      aria-label="Search"
      onClose={onClose}
      onClick={(event) => event.target === event.currentTarget && event.currentTarget.close()}
    >
      <div class="palette-head">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label="Search chats, messages and memories"
          placeholder="Search chats, messages and memories"
          aria-autocomplete="list"
          aria-expanded={all.length > 0}
          aria-controls={all.length > 0 ? 'found' : undefined}
          aria-activedescendant={all.length > 0 ? `found-${chosen}` : undefined}
          dir="auto"
          maxLength={500}
          value={query}
          onInput={(event) => setQuery(event.currentTarget.value)}
          onKeyDown={pressed}
        />
        <button type="button" class="quiet square" aria-label="Close the search" onClick={() => dialog.current!.close()}><Icon name="close" /></button>
      </div>
      {problem && <p role="alert">{problem}</p>}
      {all.length > 0 && (
        <div id="found" role="listbox" aria-label="Found">
          {groups!.map(([name, found]) => found.length > 0 && (
            <div role="group" aria-label={name} key={name}>
              <div class="palette-group" aria-hidden="true">{name}</div>
              {found.map((one) => {
                const n = place++;
                return (
                  <div role="option" id={`found-${n}`} key={one.href} aria-selected={n === chosen} onPointerMove={() => setAt(n)} onClick={() => go(one)}>
                    <Icon name={one.icon} />
                    <bdi class="found-title">{one.title}</bdi>
                    {one.at && <When at={one.at} />}
                    {one.detail && <bdi class="snippet">{one.detail}</bdi>}
                  </div>
                );
              })}
            </div>
          ))}
        </div>
      )}
      <p role="status" class={all.length > 0 ? 'unseen' : 'empty'}>{sayFound(query.trim(), groups, problem)}</p>
    </dialog>
  );
}

function sayFound(query: string, groups: Group[] | undefined, problem: string): string {
  const count = groups?.reduce((sum, [, found]) => sum + found.length, 0);
  if (!query || count === undefined) return query && !problem ? 'Searching …' : '';
  return count ? `${count} found` : problem ? '' : 'Nothing was found.';
}

/** What a text finds; without one, ways to go. Where a part of it fails the rest is shown. */
function useFound(query: string) {
  const { client } = useClient();
  const [groups, setGroups] = useState<Group[]>();
  const [problem, setProblem] = useState('');
  useEffect(() => {
    const aborted = new AbortController();
    const timer = setTimeout(async () => {
      const parts = await Promise.allSettled(query ? find(client, query, aborted.signal) : [ways(client, aborted.signal)]);
      if (aborted.signal.aborted) return;
      const failed = parts.find((part) => part.status === 'rejected');
      setGroups(parts.flatMap((part) => part.status === 'fulfilled' ? part.value : []));
      setProblem(failed ? sayError(failed.reason) : '');
    }, query ? REST : 0);
    return () => {
      clearTimeout(timer);
      aborted.abort();
    };
  }, [query]);
  return { groups, problem };
}

async function ways(client: Client, signal: AbortSignal): Promise<Group[]> {
  const go: Found[] = [{ href: '/app/chats/new', icon: 'new', title: 'New chat' }, { href: '/app/memories', icon: 'pin', title: 'Memories' }];
  const { data } = await client.GET('/v1/chats', { params: { query: { limit: 6 } }, signal });
  return [['Go to', go], ['Latest chats', data.chats.map(chatFound)]];
}

function find(client: Client, q: string, signal: AbortSignal): Promise<Group[]>[] {
  return [
    client.GET('/v1/chats', { params: { query: { q, limit: 5 } }, signal }).then(({ data }) => [['Chats', data.chats.map(chatFound)]]),
    client.GET('/v1/memories', { params: { query: { q, limit: 5 } }, signal }).then(({ data }) => [['Memories', data.memories.map((one): Found => (
      { href: `/app/memories?id=${one.id}`, icon: 'pin', title: you(one.content), at: one.created_at }))]]),
    client.GET('/v1/search', { params: { query: { q, limit: 15 } }, signal }).then(({ data }) => [['Messages', data.results.map((one): Found => ({
      href: `/app/chats/${one.chat_id}?message=${one.message_id}`, icon: 'chat', title: one.chat_title || 'Untitled', detail: marked(one), at: one.created_at,
    }))]]),
  ];
}

const chatFound = (chat: Schemas['Chat']): Found => (
  { href: `/app/chats/${chat.id}`, icon: 'chat', title: chat.title || 'Untitled', at: chat.last_message_at ?? chat.created_at });

/** The snippet with the words that were found, without Markdown's marks around words. Places are counted in code points. */
function marked({ snippet, highlights }: Schemas['SearchResult']): ComponentChild[] {
  const characters = [...snippet.replace(/(?<![\p{L}\p{N}])[*`]+(?=\S)|(?<=\S)[*`]+(?![\p{L}\p{N}])/gu, (marks) => '\0'.repeat(marks.length))];
  const text = (from: number, to?: number) => characters.slice(from, to).join('').replaceAll('\0', '');
  let at = 0;
  const parts = highlights.flatMap(({ start, end }) => {
    const before = text(at, start);
    at = end;
    return [before, <mark>{text(start, end)}</mark>];
  });
  return [...parts, text(at)];
}
