import { useEffect, useRef, useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import { useRefresh } from '../changes';
import type { Schemas } from '../throughline';
import { Icon } from '../ui/icon';
import { When } from '../ui/when';
import { SearchResults } from './search';

type Chat = Schemas['Chat'];

const PAGE = 30;

/** The chats, the latest first; or what a search finds in them. */
export function ChatList({ current, alone }: { current?: string; alone: boolean }) {
  const [query, setQuery] = useState('');
  const [tag, setTag] = useState<string>();
  const { chats, next, problem, more } = useChats(tag);
  const tags = [...new Set([...(tag ? [tag] : []), ...(chats ?? []).flatMap((chat) => chat.tags)])].sort();
  const Heading = alone ? 'h1' : 'h2';

  return (
    <section class="list" aria-labelledby="chats">
      <div class="list-head">
        <Heading id="chats">Chats</Heading>
        <a class="button quiet" href="/app/chats/new"><Icon name="new" /> New chat</a>
      </div>
      <label class="search">
        <span class="unseen">Search your chats</span>
        <Icon name="search" />
        <input type="search" placeholder="Search" maxLength={500} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
      </label>
      {query.trim() ? <SearchResults query={query.trim()} /> : (
        <>
          {tags.length > 0 && (
            <div class="tags" role="group" aria-label="Show only chats with a tag">
              {tags.map((one) => (
                <button type="button" class="tag" key={one} aria-pressed={one === tag} onClick={() => setTag(one === tag ? undefined : one)}>
                  <bdi>{one}</bdi>
                </button>
              ))}
            </div>
          )}
          {problem && <p role="alert">{problem}</p>}
          {chats?.length === 0 && <p class="empty">{tag ? 'No chat has this tag.' : 'You have no chats yet.'}</p>}
          <ul class="chats">
            {chats?.map((chat) => <ChatLine key={chat.id} chat={chat} current={chat.id === current} />)}
          </ul>
          {next && <button type="button" class="quiet" onClick={more}>More chats</button>}
        </>
      )}
    </section>
  );
}

function ChatLine({ chat, current }: { chat: Chat; current: boolean }) {
  return (
    <li>
      <a href={`/app/chats/${chat.id}`} aria-current={current ? 'page' : undefined}>
        <bdi class="chat-title">{chat.title || 'Untitled'}</bdi>
        <When at={chat.last_message_at ?? chat.created_at} />
        {(chat.tags.length > 0 || !chat.remember) && (
          <span class="chat-notes">
            {!chat.remember && 'temporary '}
            {chat.tags.map((tag) => <bdi key={tag}>#{tag} </bdi>)}
          </span>
        )}
      </a>
    </li>
  );
}

/** The first pages of the list. Reading them again keeps as many as were shown. */
function useChats(tag: string | undefined) {
  const { client } = useClient();
  const [chats, setChats] = useState<Chat[]>();
  const [next, setNext] = useState<string | null>(null);
  const [problem, setProblem] = useState('');
  const latest = useRef(0); // of several readings at once the last one counts

  async function read(count: number) {
    const reading = ++latest.current;
    try {
      const found: Chat[] = [];
      let cursor: string | null | undefined;
      do {
        const { data } = await client.GET('/v1/chats', { params: { query: { limit: PAGE, tag, cursor: cursor ?? undefined } } });
        found.push(...data.chats);
        cursor = data.next_cursor;
      } while (cursor && found.length < count);
      if (reading !== latest.current) return;
      setChats(found);
      setNext(cursor ?? null);
      setProblem('');
    } catch (error) {
      if (reading === latest.current) setProblem(sayError(error));
    }
  }

  useEffect(() => void read(PAGE), [tag]);
  useRefresh(() => void read(chats?.length ?? PAGE), [tag, chats?.length]);
  return { chats, next, problem, more: () => void read((chats?.length ?? 0) + PAGE) };
}
