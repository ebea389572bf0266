/** What changes the past of a chat: an edited message, another reply, another version. Nothing of it is deleted. */
import { createContext } from 'preact';
import { useContext, useMemo } from 'preact/hooks';
import { isConflict, sayError, useClient, type SignedIn } from '../api';
import { tellChange } from '../changes';
import { isOver } from '../throughline';
import { announce } from '../ui/announce';
import type { Message, useMessages } from './messages';

export interface Past {
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
export function usePastOf(chatId: string | undefined, history: ReturnType<typeof useMessages>, begin: () => void, failed: (why: string) => void): Past {
  const { client, turns } = useClient();

  return useMemo(() => {
    const { latest, refresh } = history;
    const from = (message: Message) => latest().filter(({ seq }) => seq >= message.seq);
    const replies = (reply: Message) => latest().slice(latest().findIndex(({ id }) => id === reply.reply_to) + 1);
    const last = () => latest().at(-1)!.id;

    /** A reply that failed is no more what the conversation ends with. */
    function dropFailed() {
      for (const turn of turns.of(chatId)) if (turn.status === 'failed') turns.drop(turn);
    }

    function replace(replaces: string, content?: string, variant?: string) {
      if (turns.of(chatId).some((turn) => !isOver(turn))) throw new Error('A reply is being written. Wait for its end, or stop it.');
      dropFailed();
      begin();
      const options = { replaces, last_message_id: last(), ...(variant && { model_variant: variant }) };
      turns.send({ clientMessageId: crypto.randomUUID(), content, chatId, options }, content === undefined ? replaces : undefined);
    }

    async function select(message: Message, step: number) {
      failed('');
      const { data } = await client.GET('/v1/messages/{message_id}/versions', { params: { path: { message_id: message.id } } });
      const wanted = data.versions[message.version - 1 + step];
      await client.POST('/v1/messages/{message_id}/select', { params: { path: { message_id: wanted.id } }, body: { last_message_id: last() } });
      dropFailed();
      await refresh();
      announce(`Version ${wanted.version} of ${wanted.versions}`);
      tellChange();
    }

    return {
      leaving: (message) => sayLeaving(client, from(message)),
      leavingReply: (reply) => sayLeaving(client, replies(reply)),
      edit: (message, content) => replace(message.id, content),
      again: (reply, variant) => replace(reply.reply_to!, undefined, variant),
      select: (message, step) => select(message, step).catch(async (error) => {
        if (isConflict(error)) await refresh();
        failed(sayError(error));
      }),
    };
  }, [chatId]);
}

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
