/** Whether the server can be reached, by what became of the latest request. */
import { useEffect, useState } from 'preact/hooks';
import { pause } from './throughline';

/** A server that was there for a shorter time is not back: the pauses go on growing. In milliseconds. */
const BACK_FOR = 10_000;

let reachable = true;
let since = 0;
let attempt = 0;
const listeners = new Set<() => void>();

function now(reached: boolean): void {
  if (reached === reachable) return;
  if (!reached && Date.now() - since > BACK_FOR) attempt = 0;
  reachable = reached;
  since = Date.now();
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

/** Whether the server can be reached. As long as it cannot, it is asked after pauses that grow to some seconds. */
export function useReachable(): boolean {
  const [known, setKnown] = useState(reachable);
  useEffect(() => {
    const changed = () => setKnown(reachable);
    listeners.add(changed);
    return () => void listeners.delete(changed);
  }, []);
  useEffect(() => {
    if (known) return;
    let timer: ReturnType<typeof setTimeout>;
    const ask = () => void watchedFetch('/healthz').catch(() => {});
    const askLater = () => {
      timer = setTimeout(() => (ask(), askLater()), pause(attempt++));
    };
    askLater();
    addEventListener('online', ask);
    return () => {
      clearTimeout(timer);
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
