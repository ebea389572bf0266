import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { sayError, useClient } from '../api';
import { tellChange } from '../changes';
import { announce } from '../ui/announce';
import { confirm } from '../ui/confirm';
import { Icon, type IconName } from '../ui/icon';
import { Menu } from '../ui/menu';
import { WhyChip } from './explaining';
import type { Message } from './messages';
import { usePast } from './past';

/** What can be done with a stored message. */
export function Actions({ message, edit }: { message: Message; edit: () => void }) {
  const { models } = useClient();
  const past = usePast();
  const [problem, setProblem] = useState('');
  const [question, ask] = useQuestion(setProblem);
  const { id, role, rating, pinned } = message;
  const variant = (message.metadata as { model_variant?: string } | null)?.model_variant;
  const again = role === 'assistant' && message.reply_to !== null;

  async function attempt(deed: () => Promise<void>) {
    setProblem('');
    await deed().then(tellChange, (error) => setProblem(sayError(error)));
  }

  const rate = (value: 1 | -1) => attempt(() => past.chat.rate(id, rating === value ? 0 : value));
  const pin = () => attempt(() => past.chat.pin(id, !pinned));

  async function forget() {
    const sure = await confirm({
      title: 'Delete this message?',
      text: 'It is deleted from the chat, and from what is remembered of it. This cannot be undone.',
      action: 'Delete it',
    });
    if (!sure) return;
    await attempt(async () => {
      await past.chat.delete(id);
      announce('The message is deleted.');
    });
  }

  const copy = () => attempt(async () => {
    await navigator.clipboard.writeText(message.content);
    announce('Copied.');
  });

  const tryAgain = (name: string, model?: string) => void ask(name, () => past.leavingReply(message), () => past.again(message, model));

  return (
    <>
      <div class="actions">
        {role === 'assistant' && <WhyChip message={message} />}
        <Versions message={message} ask={ask} />
        <Action icon="copy" name="Copy" onClick={copy} />
        {role === 'user' && <Action icon="edit" name="Edit" changes onClick={edit} />}
        {again && <Action icon="again" name="Try again" changes onClick={() => tryAgain('Try again', models.find((one) => one === variant))} />}
        {role === 'assistant' && (
          <>
            <Action icon="good" name="Good reply" pressed={rating === 1} onClick={() => rate(1)} />
            <Action icon="poor" name="Poor reply" pressed={rating === -1} onClick={() => rate(-1)} />
          </>
        )}
        <Menu id={`more-${id}`} name="More">
          {again && models.filter((one) => one !== variant).map((one) => (
            <button type="button" class="quiet changes" key={one} onClick={() => tryAgain(`Try again with ${one}`, one)}>
              <Icon name="again" /> Try again with {one}
            </button>
          ))}
          <button type="button" class="quiet" onClick={pin}><Icon name="pin" /> {pinned ? 'Unpin' : 'Pin'}</button>
          <hr />
          <button type="button" class="quiet danger" onClick={forget}><Icon name="trash" /> Delete</button>
        </Menu>
      </div>
      {question}
      {problem && <p role="alert">{problem}</p>}
    </>
  );
}

type Ask = ReturnType<typeof useQuestion>[1];

/** Walks the versions of a message. */
export function Versions({ message, ask }: { message: Message; ask: Ask }) {
  const past = usePast();
  const { version } = message;
  const versions = Math.max(version, message.versions); // a reply that failed without a word is none
  if (versions < 2) return null;
  const step = (by: number) => void ask('Show the other version', () => past.leaving(message), () => past.select(message, by));
  return (
    <span class="versions changes" role="group" aria-label={`Version ${version} of ${versions}`}>
      <Action icon="back" name="Earlier version" off={version === 1} onClick={() => step(-1)} />
      <span aria-hidden="true">{version}/{versions}</span>
      <Action icon="next" name="Later version" off={version === versions} onClick={() => step(1)} />
    </span>
  );
}

/** Does something at once where it takes nothing away, else says first what, and waits for a second press. */
export function useQuestion(setProblem: (why: string) => void) {
  const [asked, setAsked] = useState<{ said: string; name: string; go: () => void; from: Element | null }>();

  async function ask(name: string, leaving: () => Promise<string>, deed: () => void | Promise<void>, shown = ''): Promise<void> {
    try {
      setProblem('');
      const said = await leaving();
      if (said !== '' && said !== shown) return setAsked({ said, name, go: () => void ask(name, leaving, deed, said), from: document.activeElement });
      setAsked(undefined);
      await deed();
    } catch (error) {
      setProblem(sayError(error));
    }
  }

  function close() {
    setAsked(undefined);
    (asked?.from as HTMLElement | null)?.focus();
  }
  return [asked && <Question {...asked} close={close} />, ask] as const;
}

function Question({ said, name, go, close }: { said: string; name: string; go: () => void; close: () => void }) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => button.current!.focus(), []);
  return (
    <div class="question" onKeyDown={(event) => event.key === 'Escape' && close()}>
      <p id={id}>{said}</p>
      <button type="button" ref={button} aria-describedby={id} onClick={go}>{name}</button>
      <button type="button" class="quiet" onClick={close}>Cancel</button>
    </div>
  );
}

interface ActionProps {
  icon: IconName;
  name: string;
  pressed?: boolean;
  /** It can be focused, and does nothing. */
  off?: boolean;
  /** It changes what was said, which a running reply forbids. */
  changes?: boolean;
  onClick: () => void;
}

function Action({ icon, name, pressed, off, changes, onClick }: ActionProps) {
  return (
    <button
      type="button" class={changes ? 'action changes' : 'action'} aria-label={name} title={name} aria-pressed={pressed} aria-disabled={off}
      onClick={off ? undefined : onClick}
    >
      <Icon name={icon} />
    </button>
  );
}
