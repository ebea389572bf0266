import { useCallback, useEffect, useLayoutEffect, useRef, useState, type StateUpdater } from 'preact/hooks';

/** One thing that a person does: at most one at a time, with the error of the last one. */
export function useAction() {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const running = useRef(false);
  const run = useCallback(async (work: () => Promise<void>) => {
    if (running.current) return;
    running.current = true;
    setBusy(true);
    setError(undefined);
    try {
      await work();
    } catch (failure) {
      setError(failure);
    } finally {
      running.current = false;
      setBusy(false);
    }
  }, []);
  return { busy, error, run };
}

/**
 * Loads when the page is shown and when key changes. The answer to an earlier key never replaces that to a later one.
 * The loaded value stays while it is loaded again, and when that fails. What setValue changes meanwhile stays as well: the
 * answer that was under way may not know of it, so it is asked for once more.
 */
export function useLoaded<T>(key: string, load: (signal: AbortSignal) => Promise<T>) {
  const [value, setLoaded] = useState<T>();
  const [error, setError] = useState<unknown>();
  const [loading, setLoading] = useState(true);
  const [again, setAgain] = useState(0);
  const underWay = useRef(false);
  useEffect(() => {
    const stop = new AbortController();
    underWay.current = true;
    setLoading(true);
    load(stop.signal)
      .then((loaded) => {
        if (stop.signal.aborted) return;
        setLoaded(loaded);
        setError(undefined);
      }, (failure) => {
        if (!stop.signal.aborted) setError(failure);
      })
      .finally(() => {
        if (stop.signal.aborted) return;
        underWay.current = false;
        setLoading(false);
      });
    return () => stop.abort();
  }, [key, again]);
  const reload = useCallback(() => setAgain((n) => n + 1), []);
  const setValue = useCallback((change: StateUpdater<T | undefined>) => {
    setLoaded(change);
    if (underWay.current) reload();
  }, []);
  return { value, setValue, error, loading, reload };
}

/**
 * Moves the focus to what appears, such as the first field of a form, and again when key changes. It comes back afterwards.
 * It moves before the page is painted: a focus that came later would scroll the page away under a press.
 */
export function useFocus<E extends HTMLElement>(key = '') {
  const ref = useRef<E>(null);
  useFocusBack();
  useLayoutEffect(() => ref.current?.focus(), [key]);
  return ref;
}

/** When this goes, the focus that would be lost returns to where it was before. */
export function useFocusBack() {
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    return () => afterwards(() => {
      if (document.activeElement === document.body) before?.focus({ preventScroll: true });
    });
  }, []);
}

/** Does something when the page shows what has just changed. A dialog that is closing keeps the focus until then. */
export function afterwards(work: () => void) {
  requestAnimationFrame(work);
}
