import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import { useRefresh } from '../changes';
import { ThroughlineError, type Schemas } from '../throughline';

export type Message = Schemas['Message'];

const PAGE = 50;
const LARGE_PAGE = 200;

interface Shown {
  messages: Message[];
  hasOlder: boolean;
}

/** The messages of a chat from some point on to the newest one. Older ones are loaded as they are asked for. */
export function useMessages(chatId: string | undefined) {
  const { client } = useClient();
  const [shown, setShown] = useState<Shown>();
  const [problem, setProblem] = useState('');
  const [gone, setGone] = useState('');
  const state = useRef(shown);
  state.current = shown;
  const busy = useRef(false);

  async function page(query: { before_seq?: number; limit: number }): Promise<Shown> {
    const { data } = await client.GET('/v1/chats/{chat_id}/messages', { params: { path: { chat_id: chatId! }, query } });
    return { messages: data.messages, hasOlder: data.has_more };
  }

  function failed(error: unknown) {
    if (error instanceof ThroughlineError && ['chat_not_found', 'chat_expired', 'bad_uuid'].includes(error.code)) setGone(error.code);
    setProblem(sayError(error));
  }

  /** Reads the newest ones again. Messages loaded before them stay. */
  async function refresh() {
    if (!chatId) return;
    try {
      const newest = await page({ limit: PAGE });
      setShown((before) => join(before, newest));
      setProblem('');
    } catch (error) {
      failed(error);
    }
  }

  async function older(limit = PAGE) {
    const first = state.current?.messages[0];
    if (!first || !state.current?.hasOlder || busy.current) return;
    busy.current = true;
    try {
      const { messages, hasOlder } = await page({ before_seq: first.seq, limit });
      state.current = { messages: [...messages, ...state.current.messages.filter((one) => one.seq >= first.seq)], hasOlder };
      setShown(state.current);
    } catch (error) {
      failed(error);
    } finally {
      busy.current = false;
    }
  }

  /** Loads older messages until one is there. */
  async function until(isThere: (message: Message) => boolean) {
    while (state.current?.hasOlder && !state.current.messages.some(isThere)) {
      const { length } = state.current.messages;
      await older(LARGE_PAGE);
      if (state.current.messages.length === length) return; // it failed
    }
  }

  function change(changed: Message) {
    setShown((before) => before && { ...before, messages: before.messages.map((one) => (one.id === changed.id ? changed : one)) });
  }

  function remove(id: string) {
    setShown((before) => before && { ...before, messages: before.messages.filter((one) => one.id !== id) });
  }

  useEffect(() => void refresh(), [chatId]);
  useRefresh(refresh, [chatId]);
  const latest = () => state.current?.messages ?? [];
  return { ...shown, latest, problem, gone, refresh, older, until, change, remove };
}

/** Each message names the one before it: so those read earlier are kept as far as they still lead to the newest ones. */
function join(before: Shown | undefined, newest: Shown): Shown {
  const at = before?.messages.findIndex((one) => one.id === newest.messages[0]?.parent_id) ?? -1;
  return at < 0 ? newest : { messages: [...before!.messages.slice(0, at + 1), ...newest.messages], hasOlder: before!.hasOlder };
}

/**
 * Keeps what a person reads in its place: at the end while they are there, else where it was when messages are added
 * above. `first` names the uppermost message, `size` grows with the list.
 */
export function useSteadyScroll(first: string | undefined, size: number) {
  const atEnd = useRef(true);
  const before = useRef({ first, height: 0 });

  useEffect(() => {
    const noticed = () => (atEnd.current = innerHeight + scrollY >= document.documentElement.scrollHeight - 80);
    addEventListener('scroll', noticed, { passive: true });
    return () => removeEventListener('scroll', noticed);
  }, []);

  useLayoutEffect(() => {
    const height = document.documentElement.scrollHeight;
    const grewAbove = before.current.first !== undefined && before.current.first !== first;
    if (size === 0) return; // nothing was said
    if (atEnd.current) scrollTo(0, height);
    else if (grewAbove) scrollBy(0, height - before.current.height);
    before.current = { first, height };
  }, [first, size]);

  return { leaveEnd: () => (atEnd.current = false), toEnd: () => (atEnd.current = true) };
}
