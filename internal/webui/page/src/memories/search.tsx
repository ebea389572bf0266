import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { Icon } from '../ui/icon';

/** A search, with the other filters folded behind a button that counts the active ones. */
export function Search({ label, asks, q, search, active = 0, clear, children }: {
  label: string; asks: string; q: string; search: (q: string) => void; active?: number; clear?: () => void; children?: ComponentChildren;
}) {
  const [typed, setTyped] = useState(q);
  const [open, setOpen] = useState(false);
  useEffect(() => setTyped((now) => (now.trim() === q ? now : q)), [q]);
  useEffect(() => {
    if (typed.trim() === q) return;
    const rested = setTimeout(() => search(typed.trim()), 300);
    return () => clearTimeout(rested);
  }, [typed]);
  return (
    <form role="search" aria-label={label} class="find" onSubmit={(event) => { event.preventDefault(); search(typed.trim()); }}>
      <div class="row">
        <span class="field">
          <Icon name="search" />
          <input type="search" aria-label={asks} placeholder={asks} maxLength={500} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        </span>
        {children && (
          <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
            <Icon name="filter" />Filters{active > 0 && <span class="count">{active}<span class="unseen"> active</span></span>}
          </button>
        )}
      </div>
      {open && <div class="row filters">{children}<button type="button" class="quiet" disabled={!active} onClick={clear}>Clear</button></div>}
    </form>
  );
}
