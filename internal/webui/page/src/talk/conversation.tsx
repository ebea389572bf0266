import { useLocation } from 'preact-iso';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import { tellChange, useRefresh } from '../changes';
import { ThroughlineError, useChat, type CallAnswer, type Chat, type ChatMessage, type Schemas } from '../throughline';
import { announce } from '../ui/announce';
import { Boundary } from '../ui/boundary';
import { ChatBar } from '../ui/chatbar';
import { Icon } from '../ui/icon';
import { Missing, Problem, Skeleton } from '../ui/states';
import { useTitle } from '../ui/title';
import { Composer, isTouched, type Draft } from './composer';
import { ExplainingProvider, WhyPanel } from './explaining';
import { ModelPicker, Starters, Temporary } from './home';
import { Broken, ShownMessage } from './message';
import { useSteadyScroll } from './messages';
import { isRunning, PastProvider, usePastOf } from './past';
import { AnsweringProvider } from './reply';
import { ChatSettings } from './settings';

type About = Schemas['Chat'];

/** One chat, or the one that begins with the next message. */
export function Conversation({ chatId, home, onBegin }: { chatId?: string; home: boolean; onBegin: (id: string) => void }) {
  const { api, models, outbox } = useClient();
  const { route } = useLocation();
  const [about, setAbout] = useAbout(chatId);
  const chat = useChat({ api, chatId, outbox, onError: tellChange, onFinish: ended });
  const { messages, error, status } = chat;
  const [temporary, setTemporary] = useState(false);
  const [chosen, setChosen] = useState<string>();
  const [problem, setProblem] = useState('');
  const [back, giveBack] = useState<{ text: string }>();
  const size = messages.reduce((sum, message) => sum + 1 + message.content.length + (message.parts?.length ?? 0) + message.status.length, 0);
  const { leaveEnd, toEnd } = useSteadyScroll(messages[0]?.id, size);
  const busy = isRunning(chat);
  const open = messages.at(-1)?.calls?.map(({ callId }) => callId).join(' ') ?? '';
  const answering = useMemo(() => ({ busy, open: open.split(' '), answer }), [chat.answer, busy, open]);
  const [explained, explain] = useState<string | undefined>(useLocation().query.why);
  const explaining = useMemo(() => ({ id: explained, explain }), [explained]);
  const begins = !chatId && messages.length === 0;
  const model = chosen ?? lastModel(messages) ?? models[0];
  const past = usePastOf(chat, begin, failed);
  const isGone = status === 'failed' && error instanceof ThroughlineError && [400, 404, 410].includes(error.status);

  useTitle(about?.title ?? (chatId ? 'Chat' : 'New chat'));
  useTarget(chat, leaveEnd, (why) => setProblem(sayError(why)));

  // Who asks for a new chat writes next.
  useLayoutEffect(() => {
    if (!chatId && !home && !isTouched()) document.getElementById('write')?.focus();
  }, [chatId, home]);

  // As soon as the server has made the chat, this is its page.
  useEffect(() => {
    if (chatId || !chat.chatId) return;
    onBegin(chat.chatId);
    route(`/app/chats/${chat.chatId}`, true);
  }, [chat.chatId]);

  /** A reply begins: it is shown at the end, and who has a keyboard may write there. */
  function begin() {
    setProblem('');
    toEnd();
    if (!isTouched()) document.getElementById('write')?.focus();
  }

  function failed(why: string, text?: string) {
    setProblem(why);
    if (text) giveBack({ text });
  }

  /** Does something with the chat, and says what went wrong. */
  const attempt = (deed: Promise<unknown>) => void deed.catch((why) => setProblem(sayError(why)));

  function send({ content, files }: Draft) {
    begin();
    const named = models.length > 1 && { model_variant: model };
    attempt(chat.send(content, { ...(files.length > 0 && { files }), ...(temporary && !chat.chatId && { remember: false }), ...named }));
  }

  function answer(callId: string, given: CallAnswer) {
    begin();
    if ('output' in given) attempt(chat.answer(callId, given.output));
    else if ('error' in given) attempt(chat.deny(callId, given.error));
    else attempt(given.approved ? chat.approve(callId) : chat.deny(callId, given.reason));
  }

  const stop = () => attempt(chat.stop().then((text) => text && giveBack({ text })));

  if (isGone) return <section class="conversation"><NoChat why={error} /></section>;
  const atHome = home && begins;
  const unread = error && messages.length === 0; // the composer stays: it may be written in
  return (
    <ExplainingProvider value={explaining}>
    <section class={begins ? 'conversation begins' : 'conversation'} aria-labelledby={atHome ? 'greeting' : 'chat'}>
      {!atHome && <ChatHead chat={about} chatId={chatId} begins={begins} onChange={setAbout} />}
      <PastProvider value={past}><AnsweringProvider value={answering}>
        <a class="skip" href="#write">Skip to writing</a>
        <div class={busy ? 'messages busy' : 'messages'}>
          {chat.hasOlder && <Older load={() => attempt(chat.loadOlder())} first={messages[0]?.id} />}
          {begins && <h1 class="greeting" id="greeting">What is on your mind?</h1>}
          {unread && <Problem said={sayError(error)} again={() => attempt(status === 'failed' ? chat.retry() : chat.refresh())} />}
          {status === 'loading' && messages.length === 0 && !error && <Skeleton of="messages" lines={[42, 92, 84, 61, 35, 90, 73]} />}
          {messages.map((message, at) => (
            <Boundary key={at > 0 ? messages[at - 1].id ?? messages[at - 1].key : message.stored?.parent_id ?? 'first'} instead={<Broken message={message} />}>
              <ShownMessage
                message={message}
                stored={isSettled(message, at === messages.length - 1) ? message.stored : undefined}
                retry={() => attempt(chat.retry())}
                drop={() => attempt(chat.drop(message.key))}
              />
            </Boundary>
          ))}
        </div>
        <Composer
          chatId={chatId}
          running={busy}
          waits={messages.at(-1)?.status === 'awaiting'}
          trouble={problem || (error && !unread ? sayError(error) : '')}
          back={back}
          onSend={send}
          onStop={stop}
        >
          <ModelPicker models={models} chosen={model} onChoose={setChosen} />
          {begins && <Temporary on={temporary} set={setTemporary} />}
        </Composer>
        {begins && <Starters onChoose={(content) => send({ content, files: [] })} />}
      </AnsweringProvider></PastProvider>
    </section>
    {explained && <WhyPanel id={explained} explain={explain} />}
    </ExplainingProvider>
  );
}

function NoChat({ why }: { why: ThroughlineError }) {
  if (why.code === 'chat_expired') return <Missing title="This chat has expired">{sayError(why)}</Missing>;
  return <Missing title="This chat is not here">It was deleted, or the link is not whole.</Missing>;
}

/** Which model answered last: it goes on, unless another is chosen. */
function lastModel(messages: readonly ChatMessage[]): string | undefined {
  const last = messages.findLast(({ stored }) => stored?.role === 'assistant');
  return (last?.stored?.metadata as { model_variant?: string } | undefined)?.model_variant;
}

/** A reply that has ended. */
function ended({ content, status }: ChatMessage) {
  if (status === 'complete') announce(`Reply: ${content}`);
  tellChange();
}

/** Whether a message is as it is stored. Why the last one failed, and what to do about it, is known here alone. */
function isSettled({ stored, status, failure }: ChatMessage, isLast: boolean): boolean {
  return stored?.status === status && status !== 'streaming' && !(failure && isLast);
}

function useAbout(chatId: string | undefined): [About | undefined, (chat: About) => void] {
  const { client } = useClient();
  const [about, setAbout] = useState<About>();

  async function read() {
    if (!chatId) return;
    const { data } = await client.GET('/v1/chats/{chat_id}', { params: { path: { chat_id: chatId } } });
    setAbout(data);
  }

  const attempt = () => void read().catch(() => {}); // reading its messages fails as well, and says why
  useEffect(attempt, [chatId]);
  useRefresh(attempt, [chatId]);
  return [about, setAbout];
}

/** Goes to the message that the address names. */
function useTarget(chat: Chat, leaveEnd: () => void, failed: (why: unknown) => void) {
  const { query } = useLocation();
  const sought = query.message ?? query.why ?? query.seq;
  const loaded = chat.status !== 'loading';

  async function find() {
    leaveEnd();
    const found = await chat.find(({ id, seq }) => id === (query.message ?? query.why) || String(seq) === query.seq);
    const drawn = () => document.getElementById(`message-${found?.id}`);
    for (let wait = 0; found && wait < 100 && !drawn(); wait++) await new Promise((resolve) => setTimeout(resolve, 50));
    const element = drawn();
    element?.scrollIntoView({ block: 'center' });
    element?.focus({ preventScroll: true });
  }

  useEffect(() => {
    if (sought && loaded) void find().catch(failed);
  }, [sought, loaded]);
}

function ChatHead({ chat, chatId, begins, onChange }: { chat?: About; chatId?: string; begins: boolean; onChange: (chat: About) => void }) {
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
function Older({ load, first }: { load: () => void; first?: string }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => entry.isIntersecting && load(), { rootMargin: '200px' });
    observer.observe(button.current!);
    return () => observer.disconnect();
  }, [first]);
  return <button type="button" class="quiet older" ref={button} onClick={load}>Earlier messages</button>;
}
