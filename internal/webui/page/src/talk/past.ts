/** What changes the past of a chat: an edited message, another reply, another version. Nothing of it is deleted. */
import { createContext } from 'preact';
import { useContext, useMemo, useRef } from 'preact/hooks';
import { sayError, useClient, type SignedIn } from '../api';
import { tellChange } from '../changes';
import type { Chat } from '../throughline';
import { announce } from '../ui/announce';
import type { Message } from './messages';

export interface Past {
  /** What is done with messages. */
  chat: Pick<Chat, 'rate' | 'pin' | 'delete'>;
  /** What an edit or another version of a message takes away; empty where that is its own turn, and nothing is forgotten. */
  leaving(message: Message): Promise<string>;
  edit(message: Message, content: string): void;
  /** The same for another reply in place of this one, and asks for it. */
  leavingReply(reply: Message): Promise<string>;
  again(reply: Message, variant?: string): void;
  /** Leads the conversation through the version so many steps after this one. */
  select(message: Message, step: number): Promise<void>;
}

const PastContext = createContext<Past | undefined>(undefined);
export const PastProvider = PastContext.Provider;
export const usePast = () => useContext(PastContext)!;

/** The past of a chat. It stays the same object, so that messages are not drawn again for it. */
export function usePastOf(chat: Chat, begin: () => void, failed: (why: string, text?: string) => void): Past {
  const { client } = useClient();
  const latest = useRef(chat);
  latest.current = chat;

  return useMemo(() => {
    const rows = () => latest.current.messages.flatMap(({ stored }) => stored ?? []);
    const from = (message: Message) => rows().filter(({ seq }) => seq >= message.seq);
    const replies = (reply: Message) => rows().slice(rows().findIndex(({ id }) => id === reply.reply_to) + 1);

    function replace(deed: () => Promise<void>, text?: string) {
      if (isRunning(latest.current)) throw new Error('A reply is being written. Wait for its end, or stop it.');
      begin();
      deed().catch((error) => failed(sayError(error), text));
    }

    async function select(message: Message, step: number) {
      failed('');
      const { versions } = await chat.versions(message.id);
      const wanted = versions[message.version - 1 + step];
      await chat.select(wanted.id);
      announce(`Version ${wanted.version} of ${wanted.versions}`);
      tellChange();
    }

    return {
      chat,
      leaving: (message) => sayLeaving(client, from(message)),
      leavingReply: (reply) => sayLeaving(client, replies(reply)),
      edit: (message, content) => replace(() => chat.edit(message.id, content), content),
      again: (reply, variant) => replace(() => chat.regenerate(reply.reply_to!, { model_variant: variant })),
      select: (message, step) => select(message, step).catch((error) => failed(sayError(error))),
    };
  }, [chat.edit]);
}

/** Whether a reply is on its way. */
export const isRunning = ({ messages }: Chat) => ['waiting', 'streaming'].includes(messages.at(-1)?.status ?? '');

/** What goes with messages, of which the first one is replaced, in a sentence or two. */
async function sayLeaving(client: SignedIn['client'], leaving: Message[]): Promise<string> {
  const later = leaving.slice(1);
  const more = later.some((message) => message.role === 'user');
  const forgotten = await countForgotten(client, leaving);
  const said = [];
  if (more && later.length === 1) said.push('1 later message leaves the conversation. You can come back to it.');
  if (more && later.length > 1) said.push(`${later.length} later messages leave the conversation. You can come back to them.`);
  const from = `learnt from ${more ? 'them' : 'this message'}`;
  if (forgotten === 1) said.push(`1 memory ${from} is forgotten.`);
  if (forgotten > 1) said.push(`${forgotten} memories ${from} are forgotten.`);
  return said.join(' ');
}

/** How many memories were learnt from these messages alone. Only a user's messages are learnt from. */
async function countForgotten(client: SignedIn['client'], messages: Message[]): Promise<number> {
  const ids = new Set(messages.filter(({ role }) => role === 'user').map(({ id }) => id));
  let count = 0;
  for (let cursor: string | null | undefined; ids.size > 0 && cursor !== null;) {
    const { data } = await client.GET('/v1/memories', { params: { query: { chat_id: messages[0].chat_id, limit: 200, cursor } } });
    count += data.memories.filter(({ origin, sources }) => origin === 'extracted' && sources.every((source) => ids.has(source.message_id))).length;
    cursor = data.next_cursor;
  }
  return count;
}
