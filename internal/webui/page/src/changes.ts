/** Tells all tabs of this browser that chats have changed. They read them again; nothing of a chat travels here. */
import { useEffect } from 'preact/hooks';
import { onReachable } from './reach';

const CHANNEL = 'throughline.changes';
/** A change of another device is seen after so many milliseconds; no two tabs keep the same time. */
const POLL = 12_000 + 6_000 * Math.random();

const here = new EventTarget();
const others = new BroadcastChannel(CHANNEL);

export function tellChange(): void {
  here.dispatchEvent(new Event('message'));
  others.postMessage('changed');
}

/** Reads again when something may have changed: here, in another tab, while no one looked, every few seconds. */
export function useRefresh(refresh: () => void, dependencies: unknown[]): void {
  useEffect(() => {
    const visible = () => void (document.hidden || refresh());
    const timer = setInterval(visible, POLL);
    const unreach = onReachable(refresh);
    here.addEventListener('message', refresh);
    others.addEventListener('message', refresh);
    document.addEventListener('visibilitychange', visible);
    addEventListener('focus', visible);
    return () => {
      clearInterval(timer);
      unreach();
      here.removeEventListener('message', refresh);
      others.removeEventListener('message', refresh);
      document.removeEventListener('visibilitychange', visible);
      removeEventListener('focus', visible);
    };
  }, dependencies);
}
