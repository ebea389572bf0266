import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

export type { Message } from '../throughline';

/**
 * Keeps what a person reads in its place: at the end while they are there, else where it was when messages are added
 * above. `first` names the uppermost message, `size` grows with the list.
 */
export function useSteadyScroll(first: string | undefined, size: number) {
  const atEnd = useRef(true);
  const before = useRef({ first, height: 0 });

  useEffect(() => {
    const noticed = () => (atEnd.current = innerHeight + scrollY >= document.documentElement.scrollHeight - 80);
    addEventListener('scroll', noticed, { passive: true });
    return () => removeEventListener('scroll', noticed);
  }, []);

  useLayoutEffect(() => {
    const height = document.documentElement.scrollHeight;
    const grewAbove = before.current.first !== undefined && before.current.first !== first;
    if (size === 0) return; // nothing was said
    if (atEnd.current) scrollTo(0, height);
    else if (grewAbove) scrollBy(0, height - before.current.height);
    before.current = { first, height };
  }, [first, size]);

  return { leaveEnd: () => (atEnd.current = false), toEnd: () => (atEnd.current = true) };
}
