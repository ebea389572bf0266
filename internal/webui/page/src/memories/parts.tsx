import '../ui/chatbar.css';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

import { sayError } from '../api';
import { ThroughlineError } from '../throughline';
import { useFocusBack } from './hooks';

/** What failed, said where it did. */
export function Failure({ error }: { error: unknown }) {
  if (!error) return null;
  const other = error instanceof ThroughlineError && error.code === 'memory_exists' && error.details?.memory_id;
  return (
    <p class="failure" role="alert">
      {sayError(error)}{other && <> <a href={`/app/memories?id=${other}`}>Show it</a></>}
    </p>
  );
}

/** A question that has to be answered before anything is lost. */
export function Confirm({ title, action, keep = 'Keep', busy, error, onConfirm, onCancel, children }: {
  title: string; action: string; keep?: string; busy: boolean; error: unknown;
  onConfirm: () => void; onCancel: () => void; children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useFocusBack();
  useLayoutEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="confirm-title" onCancel={(event) => { event.preventDefault(); onCancel(); }}>
      <h2 id="confirm-title">{title}</h2>
      {children}
      <Failure error={error} />
      <div class="choices">
        <button type="button" autofocus onClick={onCancel}>{keep}</button>
        <button type="button" class="danger" disabled={busy} onClick={onConfirm}>{action}</button>
      </div>
    </dialog>
  );
}

/** The head of the user's memories, and the two ways to see them. */
export function PageHead({ shown }: { shown: 'List' | 'Graph' }) {
  const ways = { List: '/app/memories', Graph: '/app/memories/graph' };
  return (
    <header class="page-head">
      <h1>Memories</h1>
      <nav class="tabs" aria-label="Shown as">
        {Object.entries(ways).map(([name, path]) => <a key={name} href={path} aria-current={name === shown ? 'page' : undefined}>{name}</a>)}
      </nav>
    </header>
  );
}
