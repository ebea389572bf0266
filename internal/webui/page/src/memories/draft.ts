import { useState } from 'preact/hooks';

/** A text that is being written. It outlives a reload and a new sign-in; settle drops it. */
export function useDraft(name: string, initial: string): [string, (text: string) => void, () => void] {
  const key = `draft:${name}`;
  const [text, setText] = useState(() => sessionStorage.getItem(key) ?? initial);
  const write = (next: string) => {
    setText(next);
    sessionStorage.setItem(key, next);
  };
  const settle = () => {
    setText(initial);
    sessionStorage.removeItem(key);
  };
  return [text, write, settle];
}
