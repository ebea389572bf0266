import { useLocation } from 'preact-iso';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import { tellChange, useRefresh } from '../changes';
import { cancel, claimCall, isOver, type CallAnswer, type KnownReply, type Schemas, type Turn } from '../throughline';
import { announce } from '../ui/announce';
import { ChatBar } from '../ui/chatbar';
import { Icon } from '../ui/icon';
import { useTitle } from '../ui/title';
import { Composer, type Draft } from './composer';
import { ExplainingProvider, WhyPanel } from './explaining';
import { Greeting, ModelPicker, Starters } from './home';
import { RunningTurn, StoredMessage } from './message';
import { useMessages, useSteadyScroll, type Message } from './messages';
import { PastProvider, usePastOf } from './past';
import { AnsweringProvider } from './reply';
import { ChatSettings } from './settings';
import { Missing, Problem, Skeleton } from './states';
import { useTurns } from './turns';

type Chat = Schemas['Chat'];

/** Names this tab to the devices that may answer the same calls. */
let here: string | undefined;

/** One chat, or the one that begins with the next message. */
export function Conversation({ chatId, home }: { chatId?: string; home: boolean }) {
  const { api, models, turns } = useClient();
  const { route } = useLocation();
  const [chat, setChat] = useChat(chatId);
  const history = useMessages(chatId);
  const running = useTurns(turns, chatId);
  const [temporary, setTemporary] = useState(false);
  const [chosen, setChosen] = useState<string>();
  const [problem, setProblem] = useState('');
  const begun = useRef<string | undefined>(undefined); // the message that begins a chat here
  const { shown, loose } = together(history.messages ?? [], running);
  const size = shown.length + loose.reduce((sum, turn) => sum + 1 + turn.text.length + (turn.parts?.length ?? 0) + turn.status.length, 0);
  const { leaveEnd, toEnd } = useSteadyScroll(shown[0]?.id, size);
  const busy = running.find((turn) => !isOver(turn));
  const waits = !busy && [...shown, ...loose].at(-1)?.status === 'awaiting';
  const answering = useMemo(() => ({ busy: Boolean(busy), answer }), [chatId, Boolean(busy)]);
  const begins = !chatId && loose.length === 0;
  const atHome = home && begins;
  const model = chosen ?? lastModel(history.messages) ?? models[0];
  const [explained, explain] = useState<string | undefined>(useLocation().query.why);
  const explaining = useMemo(() => ({ id: explained, explain }), [explained]);
  const past = usePastOf(chatId, history, begin, setProblem);

  useTitle(chat?.title ?? (chatId ? 'Chat' : 'New chat'));
  useWatched(history.messages);
  useEnds(running, history.refresh, setProblem);
  useTarget(history, leaveEnd);

  // As soon as the server has made the chat, this is its page.
  useEffect(() => turns.subscribe(() => {
    const turn = chatId ? undefined : turns.named(begun.current);
    if (turn?.chatId) route(`/app/chats/${turn.chatId}`, true);
  }), [chatId]);

  // A message shown from the server's list needs no turn any more.
  useEffect(() => {
    for (const turn of running) if (isOver(turn) && turn.status !== 'failed' && !loose.includes(turn)) turns.drop(turn);
  });
  useEffect(() => {
    for (const turn of running) if (isPast(turn, history.messages ?? [])) turns.drop(turn);
  }, [history.messages]);

  /** A reply begins: it is shown at the end, and who has a keyboard may write there. */
  function begin() {
    setProblem('');
    toEnd();
    if (matchMedia('(pointer: fine)').matches) document.getElementById('write')?.focus();
  }

  function send({ content, files }: Draft) {
    const clientMessageId = crypto.randomUUID();
    const options = { ...(files.length > 0 && { files }), ...(temporary && { remember: false }), ...(models.length > 1 && { model_variant: model }) };
    begun.current = clientMessageId;
    begin();
    turns.send({ clientMessageId, content, chatId, options });
  }

  /** A result is claimed first: another device may be at it. */
  async function answer(reply: KnownReply, callId: string, given: CallAnswer) {
    try {
      const claim = (here ??= crypto.randomUUID());
      if (!('approved' in given)) await claimCall(reply.messageId, callId, claim, api);
      begin();
      turns.answer(reply, callId, 'approved' in given ? given : { ...given, claim });
    } catch (error) {
      setProblem(sayError(error));
      void history.refresh();
    }
  }

  /** The text of a message that the server does not have yet is given back. */
  async function stop(): Promise<string | undefined> {
    try {
      if (busy!.chatId) {
        await cancel(busy!.chatId, api);
        return undefined;
      }
    } catch (error) {
      if (!(error instanceof TypeError) || busy!.cursor) {
        setProblem(sayError(error));
        return undefined;
      }
    }
    turns.drop(busy!);
    return busy!.content;
  }

  if (history.gone) {
    const expired = history.gone === 'chat_expired';
    return (
      <section class="conversation">
        <Missing title={expired ? 'This chat has expired' : 'This chat is not here'}>
          {expired ? history.problem : 'It was deleted, or the link is not whole.'}
        </Missing>
      </section>
    );
  }
  return (
    <ExplainingProvider value={explaining}>
    <section class={begins ? 'conversation begins' : 'conversation'} aria-labelledby={atHome ? 'greeting' : 'chat'}>
      {!atHome && <ChatHead chat={chat} chatId={chatId} begins={begins} onChange={setChat} />}
      {chatId && !history.messages && loose.length === 0 && history.problem ? <Problem said={history.problem} again={history.refresh} /> : (
        <PastProvider value={past}><AnsweringProvider value={answering}>
          <a class="skip" href="#write">Skip to writing</a>
          <div class={busy ? 'messages busy' : 'messages'}>
            {history.hasOlder && <Older load={history.older} first={shown[0]?.id} />}
            {begins && <Greeting temporary={temporary} setTemporary={setTemporary} />}
            {chatId && !history.messages && loose.length === 0 && <Skeleton of="messages" lines={[42, 92, 84, 61, 35, 90, 73]} />}
            {shown.map((message) => ( // the versions of a message follow the same one, and are one place
              <StoredMessage key={message.parent_id ?? 'first'} message={message} change={history.change} remove={history.remove} />
            ))}
            {loose.map((turn) => (
              <RunningTurn
                key={turn.clientMessageId ?? turn.messageId}
                turn={turn}
                asked={shown.some((message) => message.id === askedBy(turn, shown))}
                failed={history.messages?.findLast((message) => isBroken(message) && message.reply_to === askedBy(turn, shown))}
                retry={() => turns.retry(turn)}
                drop={() => turns.drop(turn)}
              />
            ))}
          </div>
          <Composer chatId={chatId} running={Boolean(busy)} waits={waits} trouble={problem || history.problem} onSend={send} onStop={stop}>
            <ModelPicker models={models} chosen={model} onChoose={setChosen} />
          </Composer>
          {begins && <Starters onChoose={(content) => send({ content, files: [] })} />}
        </AnsweringProvider></PastProvider>
      )}
    </section>
    {explained && <WhyPanel id={explained} explain={explain} />}
    </ExplainingProvider>
  );
}

/** Which model answered last: it goes on, unless another is chosen. */
function lastModel(messages: Message[] = []): string | undefined {
  const last = messages.findLast(({ role }) => role === 'assistant');
  return (last?.metadata as { model_variant?: string } | undefined)?.model_variant;
}

/** The stored messages to show, and the turns that they do not hold yet. Of their replies the turns show the latest. */
function together(messages: Message[], turns: Turn[]): { shown: Message[]; loose: Turn[] } {
  const stored = new Map(messages.map((message) => [message.id, message]));
  const loose = turns.filter((turn) => {
    const reply = turn.messageId ? stored.get(turn.messageId) : undefined;
    if (reply?.status === 'awaiting') return turn.status !== 'awaiting' || (turn.parts?.length ?? 0) > (reply.parts?.length ?? 0);
    return turn.status === 'failed' || !reply || reply.status === 'streaming';
  });
  const byTurn = new Set(loose.flatMap((turn) => [turn.messageId, askedBy(turn, messages)]));
  const shown = withoutReplaced(messages, loose).filter((one) => one.status !== 'streaming'
    && (one.role === 'user' || !(byTurn.has(one.id) || (isBroken(one) && byTurn.has(one.reply_to ?? '')))));
  return { shown, loose };
}

/** The list is not read again before a turn is over that takes messages out of it. One that was refused takes none. */
function withoutReplaced(messages: Message[], turns: Turn[]): Message[] {
  const turn = turns.find((one) => one.options?.replaces && (one.messageId || one.status !== 'failed'));
  const at = messages.findIndex(({ id }) => id === turn?.options?.replaces);
  return at < 0 ? messages : messages.slice(0, turn!.content === undefined ? at + 1 : at);
}

const isBroken = ({ status }: Message) => status === 'failed' || status === 'interrupted';

/** Whether the conversation went on since a turn failed, or back to what was before it. */
function isPast({ status, messageId, userMessageId }: Turn, messages: Message[]): boolean {
  const last = messages.at(-1);
  if (status !== 'failed' || !messageId || !userMessageId || !last) return false;
  return last.id !== userMessageId && (last.reply_to !== userMessageId || !isBroken(last));
}

/** The stored message of the user that a turn is about. The server stores it before it answers, also with a failure. */
function askedBy(turn: Turn, messages: Message[]): string | undefined {
  if (turn.userMessageId || turn.status !== 'failed') return turn.userMessageId;
  const last = messages.findLast((message) => message.role === 'user');
  return last?.content === turn.content ? last?.id : undefined;
}

function useChat(chatId: string | undefined): [Chat | undefined, (chat: Chat) => void] {
  const { client } = useClient();
  const [chat, setChat] = useState<Chat>();

  async function read() {
    if (!chatId) return;
    const { data } = await client.GET('/v1/chats/{chat_id}', { params: { path: { chat_id: chatId } } });
    setChat(data);
  }

  const attempt = () => void read().catch(() => {}); // reading its messages fails as well, and says why
  useEffect(attempt, [chatId]);
  useRefresh(attempt, [chatId]);
  return [chat, setChat];
}

/** Follows a reply that runs for another device. */
function useWatched(messages: Message[] | undefined) {
  const { turns } = useClient();
  useEffect(() => {
    const last = messages?.at(-1);
    if (last?.status === 'streaming') turns.watch({ chatId: last.chat_id, messageId: last.id });
  }, [messages]);
}

/** Says a reply when it is complete, and has it read from the server. It may begin and end without having been drawn. */
function useEnds(running: Turn[], refresh: () => void, failed: (why: string) => void) {
  const known = useRef(new WeakMap<Turn, string>());
  useEffect(() => {
    for (const turn of running.filter(isOver)) {
      const end = `${turn.messageId} ${turn.status}`;
      if (known.current.get(turn) === end) continue;
      known.current.set(turn, end);
      if (turn.status === 'complete') announce(`Reply: ${turn.text}`);
      if (turn.status === 'awaiting' && turn.failure) failed(sayError(turn.failure)); // another answer came first
      refresh();
      tellChange();
    }
  });
}

/** Goes to the message that the address names. */
function useTarget(history: ReturnType<typeof useMessages>, leaveEnd: () => void) {
  const { query } = useLocation();
  const sought = query.message ?? query.why ?? query.seq;
  const loaded = history.messages !== undefined;
  useEffect(() => {
    if (!sought || !loaded) return;
    const isIt = (message: Message) => message.id === (query.message ?? query.why) || String(message.seq) === query.seq;
    leaveEnd();
    void history.until(isIt).then(() => setTimeout(() => {
      const found = history.latest().find(isIt);
      const element = found && document.getElementById(`message-${found.id}`);
      element?.scrollIntoView({ block: 'center' });
      element?.focus({ preventScroll: true });
    }, 50)); // when it is drawn
  }, [sought, loaded]);
}

function ChatHead({ chat, chatId, begins, onChange }: { chat?: Chat; chatId?: string; begins: boolean; onChange: (chat: Chat) => void }) {
  const [changing, setChanging] = useState(false);
  const notes = chat && (
    <>
      {!chat.remember && <span class="badge">temporary</span>}
      {chat.tags.map((tag) => <bdi class="badge" key={tag}>#{tag}</bdi>)}
    </>
  );
  const name = 'Change the title, tags and more';
  return (
    <ChatBar chatId={chatId} title={chat?.title} current="Chat" as={begins ? 'p' : 'h1'} notes={notes}>
      {chat && <button type="button" class="action" aria-label={name} title={name} onClick={() => setChanging(true)}><Icon name="edit" /></button>}
      {chat && changing && <ChatSettings chat={chat} onChange={onChange} onClose={() => setChanging(false)} />}
    </ChatBar>
  );
}

/** Loads older messages when it comes into view, and again when it stays there and `first` is another one; or when pressed. */
function Older({ load, first }: { load: () => Promise<void>; first?: string }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => entry.isIntersecting && void load(), { rootMargin: '200px' });
    observer.observe(button.current!);
    return () => observer.disconnect();
  }, [first]);
  return <button type="button" class="quiet older" ref={button} onClick={() => void load()}>Earlier messages</button>;
}
