import { diffSentences, diffWordsWithSpace, type ChangeObject } from 'diff';
import { Fragment } from 'preact';
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
      <label>
        Version {revision.version} of {oldestFirst[last].version}
        <input
          type="range" min={0} max={last} value={at} aria-valuetext={`Version ${revision.version}, ${revision.kind}${revision.undone_by ? ', taken back' : ''}`}
          onInput={(event) => setPicked(Number(event.currentTarget.value))}
        />
      </label>
      <Origin revision={revision} turns={turns} linkTo={linkTo} />
      {before && (
        <label class="check"><input type="checkbox" checked={marked} onChange={(event) => setMarked(event.currentTarget.checked)} /> Mark what changed</label>
      )}
      <BriefText now={revision.global_summary} before={marked && before ? before.global_summary : null} />
    </>
  );
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

/** A brief's text, with the text added and removed since the version before where that is known. */
function BriefText({ now, before }: { now: string | null; before: string | null }) {
  if (now === null) return <p class="soft">The text of this version is deleted: it may have held words that were changed or deleted.</p>;
  if (!now) return <p class="soft">This version is empty.</p>;
  const parts = before ? changesOf(before, now) : [{ value: now, added: false, removed: false }];
  return (
    <div class="brief" dir="auto">
      {parts.map((part, index) => {
        if (part.added) return <ins key={index}>{part.value}</ins>;
        return part.removed ? <del key={index}>{part.value}</del> : <span key={index}>{part.value}</span>;
      })}
    </div>
  );
}

type Part = Pick<ChangeObject<string>, 'value' | 'added' | 'removed'>;

/** The most edits that are sought between two texts: the work grows with their square. Beyond it they are two texts. */
const BOUND = { maxEditLength: 300 };

/** What changed: whole sentences, and the words of sentences that were only edited. Words of unlike sentences would mix. */
function changesOf(before: string, now: string): Part[] {
  const parts = diffSentences(before, now, BOUND) ?? apart(before, now);
  return parts.flatMap((part, index): Part[] => {
    if (part.added && parts[index - 1]?.removed) return []; // is told with what it replaces
    const next = parts[index + 1];
    return part.removed && next?.added ? replaced(part, next) : [part];
  });
}

const apart = (before: string, now: string): Part[] => [
  { value: before, added: false, removed: true }, { value: now, added: true, removed: false },
];

function replaced(before: Part, now: Part): Part[] {
  const words = diffWordsWithSpace(before.value, now.value, BOUND) ?? [];
  const kept = words.reduce((sum, { value, added, removed }) => sum + (added || removed ? 0 : value.length), 0);
  return kept > 0.6 * Math.max(before.value.length, now.value.length) ? words : [before, now];
}
