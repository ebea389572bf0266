import { useLocation } from 'preact-iso';
import type { ComponentChildren } from 'preact';
import { useClient } from '../api';
import { InboxCount } from '../memories/inbox';
import { useReachable } from '../reach';
import { Icon } from './icon';
import { ThemeSwitch } from './theme';

/** What stands around every area: the ways to the others, the theme, signing out. */
export function Shell({ children, offline, onSignOut }: { children: ComponentChildren; offline?: boolean; onSignOut: () => void }) {
  const { session } = useClient();
  const { path } = useLocation();
  const reachable = useReachable();
  const remembers = path.startsWith('/app/memories');

  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="bar">
        <a class="mark" href="/app/" aria-label="Throughline"><Mark /></a>
        <nav aria-label="Areas">
          <a href="/app/" aria-current={remembers ? undefined : 'page'}>Talk</a>
          <a href="/app/memories" aria-current={remembers ? 'page' : undefined}>Memories<InboxCount /></a>
        </nav>
        {offline && <span class="badge" title="It repeats what it is told. Set OPENAI_API_KEY for a real one.">offline<span class="roomy"> model</span></span>}
        <ThemeSwitch />
        <button type="button" class="quiet square" onClick={onSignOut} aria-label={`Sign out, ${session.name}`} title={`Sign out, ${session.name}`}>
          <Icon name="leave" />
        </button>
      </header>
      <div role="status">
        {!reachable && <p class="unreachable">The server cannot be reached. What you write is kept, and goes out when it is back.</p>}
      </div>
      {children}
    </>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 32 20" width="32" height="20" aria-hidden="true">
      <path d="M2 15c7 0 7-10 14-10s7 10 14 10" />
      <circle cx="16" cy="5" r="3" />
    </svg>
  );
}

/** After a change of the route, the keyboard and a screen reader begin at the new heading; not while somebody types. */
export function focusHeading(): void {
  if (document.activeElement?.matches('textarea, input')) return;
  const heading = document.querySelector<HTMLElement>('main h1');
  if (!heading) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}
