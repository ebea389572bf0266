import { useEffect, useRef, useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import { tellChange, useRefresh } from '../changes';
import type { Schemas } from '../throughline';
import { Icon } from '../ui/icon';
import { When } from '../ui/when';
import { openPalette } from './palette';
import { Problem, Skeleton } from '../ui/states';

type Chat = Schemas['Chat'];

const PAGE = 30;
const LINES = [72, 54, 83, 47, 66, 78, 51, 70];

const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent);

/** The chats, the latest first. */
export function ChatList({ current }: { current?: string }) {
  const [tag, setTag] = useState<string>();
  const { chats, next, problem, more, read } = useChats(tag, current);
  const tags = [...new Set([...(tag ? [tag] : []), ...(chats ?? []).flatMap((chat) => chat.tags)])].sort();

  return (
    <section class="list" aria-labelledby="chats">
      <div class="list-head">
        <h2 id="chats">Chats</h2>
        <a class="button quiet" href="/app/chats/new"><Icon name="new" /> New chat</a>
      </div>
      <button type="button" class="search" onClick={openPalette} aria-keyshortcuts="Meta+K Control+K">
        <Icon name="search" /> Search <kbd aria-hidden="true">{isMac ? '⌘ K' : 'Ctrl K'}</kbd>
      </button>
      {tags.length > 0 && (
        <div class="tags" role="group" aria-label="Show only chats with a tag">
          {tags.map((one) => (
            <button type="button" class="tag" key={one} aria-pressed={one === tag} onClick={() => setTag(one === tag ? undefined : one)}>
              <bdi>{one}</bdi>
            </button>
          ))}
        </div>
      )}
      {problem && <Problem said={problem} again={read} />}
      {!chats && !problem && <Skeleton of="list" lines={LINES} />}
      {chats?.length === 0 && <p class="empty">{tag ? 'No chat has this tag.' : 'You have no chats yet. Write a message to begin one.'}</p>}
      {byAge(chats ?? []).map(([age, some]) => (
        <section key={age} aria-label={age}>
          <h3 class="age">{age}</h3>
          <ul class="chats">
            {some.map((chat) => <ChatLine key={chat.id} chat={chat} current={chat.id === current} />)}
          </ul>
        </section>
      ))}
      {next && <button type="button" class="quiet" onClick={more}>More chats</button>}
    </section>
  );
}

const month = new Intl.DateTimeFormat('en', { month: 'long' });
const monthAndYear = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric' });

const activity = (chat: Chat) => chat.last_message_at ?? chat.created_at;

/** The chats by when they were last talked in, in their order. */
function byAge(chats: Chat[], now = new Date()): [age: string, chats: Chat[]][] {
  const midnight = (daysAgo: number) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - daysAgo);
  const ageOf = (then: Date) => {
    if (then >= midnight(0)) return 'Today';
    if (then >= midnight(1)) return 'Yesterday';
    if (then >= midnight(7)) return 'Previous 7 days';
    return (then.getFullYear() === now.getFullYear() ? month : monthAndYear).format(then);
  };
  return [...Map.groupBy(chats, (chat) => ageOf(new Date(activity(chat))))];
}

function ChatLine({ chat, current }: { chat: Chat; current: boolean }) {
  return (
    <li>
      <a href={`/app/chats/${chat.id}`} aria-current={current ? 'page' : undefined}>
        <bdi class="chat-title">{chat.title || 'Untitled'}</bdi>
        <When at={activity(chat)} />
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
function useChats(tag: string | undefined, current: string | undefined) {
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
  const again = () => void read(chats?.length ?? PAGE);

  useEffect(() => void read(PAGE), [tag]);
  useRefresh(again, [tag, chats?.length]);
  // A chat has an address as soon as its first reply begins: from then on all tabs list it.
  useEffect(() => {
    if (current && chats && !chats.some(({ id }) => id === current)) tellChange();
  }, [current]);
  return { chats, next, problem, read: again, more: () => void read((chats?.length ?? 0) + PAGE) };
}
