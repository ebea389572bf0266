/** Tells of a chat's changes elsewhere: in another window of the browser, or on another device. */
import type { Api } from './api.js';
import { watchForeground } from './foreground.js';

/** After so many milliseconds a chat that is shown is asked for, where nothing tells of changes; no two keep the same time. */
const POLL = 15_000;

export interface Changes {
  /** Tells the other windows of this browser. */
  tell(): void;
  end(): void;
}

/** `changed` is called with true where a change was told, or the app is shown again. A window that is hidden, and an app in the background, hears of changes when it is shown again. */
export function watchChanges(api: Api, chatId: string, changed: (told: boolean) => void): Changes {
  const isPage = !api.appState && typeof document !== 'undefined';
  const windows = isPage ? new BroadcastChannel('throughline') : undefined;
  let shown = !isPage || !document.hidden;
  let live = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  /** One reading for all that is heard at once. */
  function readIn(ms: number): void {
    clearTimeout(timer);
    if (shown) timer = setTimeout(read, ms, ms === 0);
  }

  function read(told: boolean): void {
    changed(told);
    readLater();
  }

  function readLater(): void {
    if (live) clearTimeout(timer);
    else readIn(POLL * (0.8 + 0.4 * Math.random()));
  }

  const soon = () => readIn(0);
  const unlisten = api.listen?.(chatId, (isLive) => {
    if (!isLive && !live) return;
    live = isLive;
    soon();
  });
  const unwatch = watchForeground(api, {
    onBackground() {
      shown = false;
      clearTimeout(timer);
    },
    onForeground() {
      shown = true;
      soon();
    },
  });
  windows?.addEventListener('message', ({ data }) => data === chatId && soon());
  if (isPage) window.addEventListener('focus', soon);
  readLater();

  function end(): void {
    shown = false;
    clearTimeout(timer);
    unlisten?.();
    unwatch();
    windows?.close();
    if (isPage) window.removeEventListener('focus', soon);
  }

  return { tell: () => windows?.postMessage(chatId), end };
}
