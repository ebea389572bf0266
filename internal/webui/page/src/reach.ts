/** Whether the server can be reached, by what became of the latest request. */
import { useEffect, useState } from 'preact/hooks';

let reachable = true;
const listeners = new Set<() => void>();

function now(reached: boolean): void {
  if (reached === reachable) return;
  reachable = reached;
  for (const listener of listeners) listener();
}

/** The platform's fetch, watched. */
export const watchedFetch: typeof fetch = async (...request) => {
  try {
    const answer = await fetch(...request);
    now(true);
    return answer;
  } catch (error) {
    if (error instanceof TypeError) now(false); // not one that was aborted
    throw error;
  }
};

/** Whether the server can be reached. As long as it cannot, it is asked every few seconds. */
export function useReachable(): boolean {
  const [known, setKnown] = useState(reachable);
  useEffect(() => {
    const changed = () => setKnown(reachable);
    listeners.add(changed);
    return () => void listeners.delete(changed);
  }, []);
  useEffect(() => {
    if (known) return;
    const ask = () => void watchedFetch('/healthz').catch(() => {});
    const timer = setInterval(ask, 2000);
    addEventListener('online', ask);
    return () => {
      clearInterval(timer);
      removeEventListener('online', ask);
    };
  }, [known]);
  return known;
}

/** Calls back when the server can be reached again. */
export function onReachable(back: () => void): () => void {
  const changed = () => void (reachable && back());
  listeners.add(changed);
  return () => void listeners.delete(changed);
}
