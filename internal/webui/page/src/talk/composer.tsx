import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useClient } from '../api';
import { storageKey } from '../session';
import { Icon } from '../ui/icon';

export interface Draft {
  content: string;
  files: { path: string; content: string }[];
}

/** The server's limits (docs/http.md), said here before anything is sent. */
const MOST_CHARACTERS = 32_000;
const MOST_FILES = 20;
const MOST_BYTES = 256 * 1024;

/** Why a text is no message; empty where it is one. */
export function tooLong(text: string): string {
  if ([...text.trim()].length <= MOST_CHARACTERS) return '';
  return `A message has at most ${MOST_CHARACTERS.toLocaleString()} characters. Attach a longer text as a file.`;
}

export const isTouched = () => matchMedia('(pointer: coarse)').matches;

interface Props {
  chatId?: string;
  running: boolean;
  /** Calls of the last reply wait for an answer. */
  waits: boolean;
  /** What went wrong in the chat. */
  trouble: string;
  /** A text that is to be written again, such as of a message that was not sent. */
  back?: { text: string };
  onSend: (draft: Draft) => void;
  onStop: () => void;
  /** What stands below. */
  children?: ComponentChildren;
}

/** Where a message is written. Unsent text survives a reload. */
export function Composer({ chatId, running, waits, trouble, back, onSend, onStop, children }: Props) {
  const { session } = useClient();
  const key = storageKey(session.userId, `draft.${chatId ?? 'new'}`);
  const [content, setContent] = useState(() => localStorage.getItem(key) ?? '');
  const [files, setFiles] = useState<Draft['files']>([]);
  const [problem, setProblem] = useState('');
  const input = useRef<HTMLTextAreaElement>(null);
  const ready = content.trim() !== '' && !running;

  const stored = useRef(key);
  useLayoutEffect(() => { // the chat has begun, and what is written already is its draft: moved before another letter is typed
    if (stored.current === key) return;
    localStorage.removeItem(stored.current);
    stored.current = key;
    keep(content);
  }, [key]);
  useLayoutEffect(() => {
    if (back) write([back.text, content].filter(Boolean).join('\n'));
  }, [back]);

  function write(text: string) {
    setContent(text);
    keep(text);
  }

  function keep(text: string) {
    if (text) localStorage.setItem(key, text);
    else localStorage.removeItem(key);
  }

  function send(event?: Event) {
    event?.preventDefault();
    if (!ready) return;
    setProblem(tooLong(content));
    if (tooLong(content)) return;
    onSend({ content: content.trim(), files });
    write('');
    setFiles([]);
    input.current!.focus();
  }

  function stop() {
    onStop();
    input.current!.focus();
  }

  /** Return sends; on a phone it begins a new line, as everywhere there. While a word is composed it takes the word: Safari says so by 229. */
  function pressed(event: KeyboardEvent) {
    const composes = event.isComposing || event.keyCode === 229;
    if (event.key === 'Enter' && !event.shiftKey && !composes && !isTouched()) send(event);
  }

  async function attach(event: Event) {
    const chosen = event.currentTarget as HTMLInputElement;
    setProblem('');
    const read = await Promise.all([...chosen.files!].map(textOf));
    chosen.value = '';
    const refused = read.find((one) => 'problem' in one);
    if (refused) setProblem(refused.problem!);
    setFiles((before) => [...before, ...read.filter((one): one is Draft['files'][0] => !('problem' in one))].slice(0, MOST_FILES));
  }

  return (
    <form class="composer" onSubmit={send} aria-label="Write a message">
      {(problem || trouble) && <p role="alert">{problem || trouble}</p>}
      {waits && <p class="hint">Sending a message skips what waits.</p>}
      {files.length > 0 && (
        <ul class="attachments">
          {files.map((file) => (
            <li key={file.path}>
              <Icon name="file" /> <bdi>{file.path}</bdi>
              <button
                type="button"
                class="action"
                aria-label={`Do not attach ${file.path}`}
                onClick={() => setFiles(files.filter((one) => one !== file))}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="composer-line">
        <label class="action attach" title="Attach text files">
          <span class="unseen">Attach text files</span>
          <Icon name="file" />
          <input type="file" class="unseen" multiple onChange={attach} />
        </label>
        <label class="composer-text">
          <span class="unseen">Message</span>
          <textarea
            id="write"
            ref={input}
            rows={1}
            dir="auto"
            placeholder="Write a message"
            value={content}
            onInput={(event) => write(event.currentTarget.value)}
            onKeyDown={pressed}
            enterkeyhint="enter"
          />
        </label>
        {running ? (
          <button type="button" class="primary square" aria-label="Stop the reply" title="Stop the reply" onClick={stop}><Icon name="stop" /></button>
        ) : (
          <button class="primary square" aria-label="Send" title="Send" disabled={!ready}><Icon name="send" /></button>
        )}
      </div>
      <div class="composer-foot">{children}</div>
    </form>
  );
}

async function textOf(file: File): Promise<{ path: string; content: string } | { problem: string }> {
  if (file.size > MOST_BYTES) return { problem: `${file.name} is too large: a file has at most 256 KiB.` };
  try {
    const content = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    if (content && !content.includes('\0')) return { path: file.name, content };
  } catch {
    // said below
  }
  return { problem: `${file.name} is no text file.` };
}
