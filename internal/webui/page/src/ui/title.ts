import { useEffect } from 'preact/hooks';

/** What the browser's tab says. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · Throughline` : 'Throughline';
  }, [title]);
}
