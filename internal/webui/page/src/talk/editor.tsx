import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { sayError } from '../api';
import { tooLong } from './composer';
import type { Message } from './messages';
import { usePast } from './past';

/** A message of the user that is being edited. It stays as it was until it is saved; Escape leaves it so. */
export function Editor({ message: given, onClose }: { message: Message; onClose: () => void }) {
  const past = usePast();
  const id = useId();
  const input = useRef<HTMLTextAreaElement>(null);
  const [message] = useState(given); // another device may put another version in its place
  const [content, setContent] = useState(message.content);
  const [said, setSaid] = useState('');
  const [problem, setProblem] = useState('');

  useLayoutEffect(() => {
    input.current!.focus();
    input.current!.setSelectionRange(content.length, content.length);
    past.leaving(message).then(setSaid, () => {}); // saving asks again, and says why it cannot be said
  }, []);

  async function save(event: SubmitEvent) {
    event.preventDefault();
    if (content.trim() === message.content) return onClose();
    setProblem(tooLong(content));
    if (tooLong(content)) return;
    try {
      const now = await past.leaving(message);
      if (now !== said) return setSaid(now); // it was not known what goes
      past.edit(message, content.trim());
      onClose();
    } catch (error) {
      setProblem(sayError(error));
    }
  }

  function pressed(event: KeyboardEvent) {
    if (event.key === 'Escape' && !event.isComposing) onClose();
    if (event.key === 'Enter' && (event.metaKey || event.ctrlKey)) input.current!.form!.requestSubmit();
  }

  return (
    <form class="editor" onSubmit={save} onKeyDown={pressed} aria-label="Edit the message">
      <label>
        <span class="unseen">Message</span>
        <textarea ref={input} dir="auto" value={content} aria-describedby={id} onInput={(event) => setContent(event.currentTarget.value)} />
      </label>
      <p class="hint" id={id} role="status">{said}</p>
      {problem && <p role="alert">{problem}</p>}
      <div class="choices">
        <button type="button" onClick={onClose}>Cancel</button>
        <button class="primary" disabled={!content.trim()}>Save</button>
      </div>
    </form>
  );
}
