import { useLocation } from 'preact-iso';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import { ChatBar } from '../ui/chatbar';
import { useTitle } from '../ui/title';
import { When } from '../ui/when';
import { Brief } from './brief';
import { useRemembered, type Loaded } from './load';
import { Legend, Strip, Swatch } from './strip';
import { Tokens } from './tokens';
import { beginningOf, placed, places, turnsOf, type Memory, type Turn } from './turns';
import { receiptOf, SectionName, turnPath } from './why';
import './remembers.css';

/** What the memory of a chat holds: every turn, the brief over time, what it costs, and why a reply said what it said. */
export function Remembers({ id }: { id: string }) {
  const { loaded, problem, again } = useRemembered(id);
  useTitle(`What it remembers${loaded?.chat.title ? `: ${loaded.chat.title}` : ''}`);
  return (
    <>
    <ChatBar chatId={id} title={loaded?.chat.title} current="Memory" />
    <main id="main" class="remembers" tabIndex={-1}>
      <h1>What it remembers</h1>
      {problem && <p role="alert">{problem} <button type="button" onClick={again}>Try again</button></p>}
      {loaded ? <Contents key={id} loaded={loaded} again={again} /> : !problem && <p role="status">Looking it up …</p>}
    </main>
    </>
  );
}

function Contents({ loaded, again }: { loaded: Loaded; again: () => void }) {
  const { query } = useLocation();
  const [asked, setAsked] = useState<Memory>();
  const memory = asked ?? loaded.memory;
  const turns = useMemo(() => placed(turnsOf(loaded.messages), memory), [loaded.messages, memory]);
  const linkTo = (turn: Turn) => turnPath(loaded.chat.id, turn.seq);

  return (
    <>
      <p class="coverage">{loaded.memory.coverage}</p>
      <section aria-labelledby="every-turn">
        <div class="headed">
          <h2 id="every-turn">Every turn</h2>
          <button type="button" class="quiet" onClick={() => { setAsked(undefined); again(); }}>Look again</button>
        </div>
        {loaded.reading && <p role="status">Reading older messages …</p>}
        {turns.length ? <Turns turns={turns} wanted={Number(query.turn)} chatId={loaded.chat.id} /> : <p>Nothing has been said yet.</p>}
        <WhatIf chatId={loaded.chat.id} onAnswer={setAsked} asked={asked} />
      </section>
      <section aria-labelledby="brief-over-time">
        <h2 id="brief-over-time">The brief over time</h2>
        <Brief revisions={loaded.revisions} turns={turns} linkTo={linkTo} />
      </section>
      <section aria-labelledby="tokens-per-turn"><h2 id="tokens-per-turn">Tokens per turn</h2><Tokens turns={turns} /></section>
    </>
  );
}

/** The strip, and the turn that is looked at: the last one, or the one that the address names by a seq. */
function Turns({ turns, wanted, chatId }: { turns: Turn[]; wanted: number; chatId: string }) {
  const [seq, setSeq] = useState<number>();
  const [open, setOpen] = useState(false);
  const card = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!wanted) return;
    setSeq(wanted);
    setOpen(true);
    card.current!.focus();
  }, [wanted]);

  const found = turns.findLastIndex((turn) => turn.seq <= (seq ?? Infinity));
  const at = Math.max(0, found); // of a seq that is not read yet, or was deleted, the nearest one
  return (
    <>
      <Strip turns={turns} at={at} onMove={(index) => setSeq(turns[index].seq)} onOpen={() => setOpen((shown) => !shown)} />
      <article ref={card} class="turn-card" tabIndex={-1} aria-label={`Turn ${turns[at].number}`}>
        <OneTurn turn={turns[at]} chatId={chatId} open={open} onToggle={setOpen} />
      </article>
      <Legend turns={turns} />
    </>
  );
}

interface OneTurnProps {
  turn: Turn;
  chatId: string;
  open: boolean;
  onToggle: (open: boolean) => void;
}

function OneTurn({ turn, chatId, open, onToggle }: OneTurnProps) {
  const reply = turn.messages.findLast((message) => message.role === 'assistant' && receiptOf(message.metadata));
  const pinned = turn.messages.some((message) => message.pinned);
  return (
    <>
      <p>
        <Swatch place={turn.place} /> <b>{places[turn.place].name}</b>: {places[turn.place].says}.{' '}
        <span class="soft"><When at={turn.messages[0].created_at} />, {turn.tokens} tokens{pinned && ', pinned'}</span>
      </p>
      <details open={open} onToggle={(event) => onToggle(event.currentTarget.open)}>
        <summary dir="auto">{beginningOf(turn)}</summary>
        {turn.messages.map((message) => (
          <div key={message.id} class="spoken">
            <p class="soft">{speakers[message.role]}</p>
            <p class="words" dir="auto">{message.content}</p>
          </div>
        ))}
      </details>
      <p class="ways">
        <a href={`/app/chats/${chatId}?seq=${turn.seq}`}>Show it in the chat</a>
        {reply && <a href={`/app/chats/${chatId}?why=${reply.id}`}>Why it said that</a>}
      </p>
    </>
  );
}

const speakers: Record<Turn['messages'][number]['role'], string> = { user: 'You', assistant: 'Reply', system: 'Note', tool: 'Tool' };

/** What would be recalled for a message, without sending it. */
function WhatIf({ chatId, asked, onAnswer }: { chatId: string; asked?: Memory; onAnswer: (memory?: Memory) => void }) {
  const { client } = useClient();
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);

  async function ask(event: SubmitEvent) {
    event.preventDefault();
    const content = String(new FormData(event.currentTarget as HTMLFormElement).get('content')).trim();
    if (!content) return onAnswer(undefined);
    setBusy(true);
    setProblem('');
    try {
      const { data } = await client.GET('/v1/chats/{chat_id}/memory', { params: { path: { chat_id: chatId }, query: { content } } });
      onAnswer(data);
    } catch (error) {
      setProblem(sayError(error));
    }
    setBusy(false);
  }

  return (
    <>
      <form class="what-if" onSubmit={ask}>
        <label>What if I asked … <input name="content" maxLength={32_000} autocomplete="off" /></label>
        <button disabled={busy}>Look</button>
      </form>
      {problem && <p role="alert">{problem}</p>}
      <div role="status">{asked && <p>{asked.coverage}</p>}</div>
      {asked && <Sections memory={asked} />}
    </>
  );
}

/** What the next prompt would hold, section by section, as it stands there. */
function Sections({ memory }: { memory: Memory }) {
  return (
    <div class="why">
      {memory.sections.map((section) => (
        <details key={section.name} open={section.name === 'recall' || section.name === 'memories'}>
          <summary><SectionName section={section} /></summary>
          <pre dir="auto">{section.text}</pre>
        </details>
      ))}
    </div>
  );
}
