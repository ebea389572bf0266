import './states.css';
import type { ComponentChildren } from 'preact';
import { useTitle } from './title';

/** What is not there has a page, and a way back. */
export function Missing({ title, children }: { title: string; children: ComponentChildren }) {
  useTitle(title);
  return (
    <div class="missing">
      <svg viewBox="0 0 120 60" width="120" height="60" aria-hidden="true">
        <path d="M4 44c22 0 22-28 44-28 6 0 10 2 14 5M76 35c8 6 16 9 40 9" />
        <circle cx="62" cy="21" r="4" /><circle cx="76" cy="35" r="4" />
      </svg>
      <h1>{title}</h1>
      <p>{children}</p>
      <p class="ways"><a class="button" href="/app/chats/new">New chat</a> <a class="button quiet" href="/app/">Your chats</a></p>
    </div>
  );
}

/** What went wrong where something should be, and a way to try it again. */
export function Problem({ said, again }: { said: string; again: () => void }) {
  return (
    <div class="problem">
      <p role="alert">{said}</p>
      <button type="button" onClick={again}>Try again</button>
    </div>
  );
}

/** Holds the place of lines that are being read. It is seen only if that takes a moment. */
export function Skeleton({ lines, of }: { lines: number[]; of: 'list' | 'messages' }) {
  return (
    <div class={`skeleton of-${of}`} role="status">
      <span class="unseen">Loading …</span>
      {lines.map((width, n) => <i key={n} style={{ inlineSize: `${width}%` }} />)}
    </div>
  );
}
