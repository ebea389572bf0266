import { useLocation } from 'preact-iso';
import type { ComponentChildren } from 'preact';
import { useClient } from '../api';
import { ThemeSwitch } from './theme';

/** What stands around every area: the way to the others, the theme, signing out. */
export function Shell({ children, onSignOut }: { children: ComponentChildren; onSignOut: () => void }) {
  const { session } = useClient();
  const { path } = useLocation();

  async function leave() {
    await session.signOut();
    onSignOut();
  }

  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="bar">
        <nav aria-label="Areas">
          <a href="/app/" aria-current={path.startsWith('/app/memories') ? undefined : 'page'}>Talk</a>
          <a href="/app/memories" aria-current={path.startsWith('/app/memories') ? 'page' : undefined}>Memories</a>
        </nav>
        <ThemeSwitch />
        <button type="button" class="quiet" onClick={leave}>Sign out</button>
      </header>
      {children}
    </>
  );
}
