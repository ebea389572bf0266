import { diffArrays, diffWordsWithSpace } from 'diff';
import { Fragment, type ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { When } from '../ui/when';
import type { Revision } from './load';
import { numbersBetween, type Turn } from './turns';

interface Props {
  revisions: Revision[];
  turns: Turn[];
  linkTo: (turn: Turn) => string;
}

const made: Record<Revision['kind'], string> = {
  fold: 'added', rollback: 'taken back after a message changed, without', clear: 'emptied by a clear of',
};

/** The brief, version by version. */
export function Brief({ revisions, turns, linkTo }: Props) {
  const oldestFirst = useMemo(() => revisions.toReversed(), [revisions]);
  const last = oldestFirst.length - 1;
  const [picked, setPicked] = useState<number>();
  const [marked, setMarked] = useState(true);
  if (last < 0) return <p>There is no brief yet. The first one is made when the turns no longer fit the prompt.</p>;

  const at = Math.min(picked ?? last, last);
  const revision = oldestFirst[at];
  const before = oldestFirst.slice(0, at).findLast((one) => one.undone_by === null);
  return (
    <>
      <fieldset class="all-versions">
        <legend>Version {revision.version} of {oldestFirst[last].version}</legend>
        {oldestFirst.map((one, index) => (
          <input
            key={one.version} type="radio" name="version" checked={index === at} class={one.undone_by ? 'undone' : undefined}
            aria-label={nameOf(one)} title={nameOf(one)} onChange={() => setPicked(index)}
          />
        ))}
      </fieldset>
      <Origin revision={revision} turns={turns} linkTo={linkTo} />
      {before && (
        <label class="check"><input type="checkbox" checked={marked} onChange={(event) => setMarked(event.currentTarget.checked)} /> Mark what changed</label>
      )}
      <BriefText now={revision.global_summary} before={marked && before ? before.global_summary : null} />
    </>
  );
}

const minute = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

function nameOf({ version, kind, created_at: at, undone_by: undone }: Revision): string {
  return `Version ${version}, ${kind}, ${minute.format(new Date(at))}${undone ? ', taken back' : ''}`;
}

/** What made a version: which turns, when, by which model, at what cost. */
function Origin({ revision, turns, linkTo }: { revision: Revision } & Omit<Props, 'revisions'>) {
  const { seq_from: from, seq_to: to, undone_by: undoneBy } = revision;
  const { first, last } = undoneBy ? {} : numbersBetween(turns, from, to); // of those that are not the conversation's any more
  const Said = undoneBy ? 's' : Fragment;
  return (
    <p class="origin">
      <When at={revision.created_at} />: <Said>
        {made[revision.kind]}{' '}
        {first && last ? (
          <>
            {first === last ? 'turn ' : 'turns '}<a href={linkTo(first)}>{first.number}</a>
            {first !== last && <> to <a href={linkTo(last)}>{last.number}</a></>}
          </>
        ) : revision.turns === 1 ? '1 turn' : `${revision.turns} turns`}
      </Said>
      {undoneBy && `, taken back by version ${undoneBy}`}
      {revision.model && (
        <span class="soft">
          {' '}· {revision.model} read {revision.input_tokens} tokens and wrote {revision.output_tokens} · {revision.prompt_ref}
        </span>
      )}
    </p>
  );
}

/** A brief sentence by sentence, with those added and removed since the version before where that is known. */
function BriefText({ now, before }: { now: string | null; before: string | null }) {
  if (now === null) return <p class="soft">The text of this version is deleted: it may have held words that were changed or deleted.</p>;
  if (!now) return <p class="soft">This version is empty.</p>;
  const lines = before === null ? sentencesOf(now).map((words): Line => ({ words })) : changesOf(sentencesOf(before), sentencesOf(now));
  return (
    <ul class="brief lines">
      {lines.map(({ sign, words }, index) => {
        const Said = sign ? (sign === '+' ? 'ins' : 'del') : 'span';
        return <li key={index} class={sign && Said}><i aria-hidden="true">{sign ?? '•'}</i><Said dir="auto">{words}</Said></li>;
      })}
    </ul>
  );
}

interface Line { sign?: '+' | '−'; words: ComponentChildren }

const segmenter = new Intl.Segmenter(undefined, { granularity: 'sentence' });

function sentencesOf(text: string): string[] {
  const lines = text.split('\n').map((line) => line.replace(/^\s*[-*•]\s+/, ''));
  return lines.flatMap((line) => [...segmenter.segment(line)].map(({ segment }) => segment.trim())).filter(Boolean);
}

/** The most edits that are sought between two texts: the work grows with their square. Beyond it they are two texts. */
const BOUND = { maxEditLength: 300 };

/** What changed: whole sentences, with the words marked of sentences that were only edited. */
function changesOf(before: string[], now: string[]): Line[] {
  const parts = diffArrays(before, now, BOUND) ?? [{ value: before, added: false, removed: true }, { value: now, added: true, removed: false }];
  return parts.flatMap(({ value, added, removed }, index): Line[] => {
    const sign = added ? '+' : removed ? '−' : undefined;
    const beside = parts[index + (added ? -1 : 1)];
    const edited = sign && beside && (added ? beside.removed : beside.added) ? beside.value : [];
    return value.map((words, i) => ({ sign, words: edited[i] && sign ? marked(edited[i], words) : words }));
  });
}

/** A sentence with the words marked that another one does not have, if it has most. */
function marked(other: string, sentence: string): ComponentChildren {
  const parts = diffWordsWithSpace(other, sentence, BOUND) ?? [];
  const kept = parts.reduce((sum, { value, added, removed }) => sum + (added || removed ? 0 : value.length), 0);
  if (kept < 0.6 * Math.max(other.length, sentence.length)) return sentence;
  return parts.filter(({ removed }) => !removed).map(({ value, added }, index) => (added ? <mark key={index}>{value}</mark> : value));
}
