/** Why a reply said what it said: a chip below it that says how much is known, and a panel beside it that says what. */
import './explaining.css';
import { createContext } from 'preact';
import { useContext, useLayoutEffect, useRef } from 'preact/hooks';
import { failures, receiptOf, Why } from '../remembers/why';
import { Icon } from '../ui/icon';
import type { Message } from './messages';

interface Explaining {
  /** The reply that is explained. */
  id?: string;
  explain: (id?: string) => void;
}

const ExplainingContext = createContext<Explaining>({ explain: () => {} });
export const ExplainingProvider = ExplainingContext.Provider;
export const useExplaining = () => useContext(ExplainingContext);

/** What the chip counts. */
const counted = { memories: ['memory', 'memories'], recall: ['quote', 'quotes'] } as const;

/** "1 memory · 3 quotes", or what of them is missing; empty where the reply knew of neither. */
function knownBy(message: Message): string {
  const said = [];
  for (const { name, items, failure } of receiptOf(message.metadata)?.sections ?? []) {
    const words = counted[name as keyof typeof counted];
    if (!words) continue;
    if (items > 0) said.push(`${items} ${words[items === 1 ? 0 : 1]}`);
    else if (failure) said.push(`${words[1]} ${failures[failure] ?? failure}`);
  }
  return said.join(' · ');
}

export function WhyChip({ message }: { message: Message }) {
  const { id, explain } = useExplaining();
  const open = id === message.id;
  const known = knownBy(message);
  return (
    <button
      type="button" class={known ? 'chip known' : 'chip'} data-why={message.id} aria-expanded={open}
      onClick={() => explain(open ? undefined : message.id)}
    >
      Why?{known && ` ${known}`}
    </button>
  );
}

/** Beside the chat; on a phone a sheet below the reply that it explains. */
export function WhyPanel({ id, explain }: { id: string; explain: Explaining['explain'] }) {
  const heading = useRef<HTMLHeadingElement>(null);

  function close() {
    explain(undefined);
    document.querySelector<HTMLElement>(`[data-why="${id}"]`)?.focus();
  }

  useLayoutEffect(() => {
    heading.current!.focus();
    document.getElementById(`message-${id}`)?.scrollIntoView({ block: 'nearest' });
    const onKey = (event: KeyboardEvent) => event.key === 'Escape' && !document.querySelector(':popover-open, dialog[open]') && close();
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, [id]);

  return (
    <aside class="why-panel" aria-labelledby="why-it-said">
      <header>
        <h2 id="why-it-said" tabIndex={-1} ref={heading}>Why it said that</h2>
        <button type="button" class="action" aria-label="Close" title="Close" onClick={close}><Icon name="close" /></button>
      </header>
      <Why messageId={id} />
    </aside>
  );
}
