import { useState } from 'preact/hooks';

import { useClient } from '../api';
import { storageKey } from '../session';

/** A text that is being written. It outlives a reload and a session that ends; settle drops it, as signing out does. */
export function useDraft(name: string, initial: string): [string, (text: string) => void, () => void] {
  const { session } = useClient();
  const key = storageKey(session.userId, `draft.${name}`);
  const [text, setText] = useState(() => localStorage.getItem(key) ?? initial);
  const write = (next: string) => {
    setText(next);
    localStorage.setItem(key, next);
  };
  const settle = () => {
    setText(initial);
    localStorage.removeItem(key);
  };
  return [text, write, settle];
}
