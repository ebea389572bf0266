import { useState } from 'preact/hooks';

import { useClient } from '../api';
import { useAction } from './hooks';
import { Confirm, Failure } from './parts';
import { count } from './words';
import { you } from './you';
import type { Memory } from './types';

/** Asks before a memory goes, and says what goes with it. */
export function ForgetOne({ memory, cancel, forgotten }: { memory: Memory; cancel: () => void; forgotten: () => void }) {
  const { client } = useClient();
  const [summaries, setSummaries] = useState(memory.sources.length > 0);
  const { busy, error, run } = useAction();
  const forget = () => run(async () => {
    const query = summaries ? { also: 'summaries' as const } : {};
    await client.DELETE('/v1/memories/{memory_id}', { params: { path: { memory_id: memory.id }, query } });
    forgotten();
  });
  return (
    <Confirm title="Forget this for good?" action="Forget" busy={busy} error={error} onConfirm={forget} onCancel={cancel}>
      <blockquote dir="auto">{you(memory.content)}</blockquote>
      <p>Its history goes with it, and what the graph knows from it alone.</p>
      {memory.sources.length > 0 && (
        <>
          <label class="check">
            <input type="checkbox" checked={summaries} onChange={(event) => setSummaries(event.currentTarget.checked)} />
            Take back the summaries of the chats in which you said it
          </label>
          <p class="quiet">The messages stay, so a summary may say it again. Delete the messages as well if it should be gone everywhere.</p>
        </>
      )}
    </Confirm>
  );
}

type Proposal = { token: string; candidates: { id: string; content: string }[] };

/** Two steps: which memories the words mean, and then those. */
export function ForgetByWords({ forgotten }: { forgotten: (count: number) => void }) {
  const { client } = useClient();
  const [words, setWords] = useState('');
  const [proposal, setProposal] = useState<Proposal>();
  const { busy, error, run } = useAction();
  const propose = (event: Event) => {
    event.preventDefault();
    run(async () => {
      const { data } = await client.POST('/v1/memories/forget', { body: { query: words.trim() } });
      setProposal({ token: data.token!, candidates: data.candidates! });
    });
  };
  const forget = () => run(async () => {
    const { data } = await client.POST('/v1/memories/forget', { body: { token: proposal!.token } });
    setProposal(undefined);
    setWords('');
    forgotten(data.forgotten!);
  });
  return (
    <details>
      <summary>Forget by words</summary>
      <form class="write" onSubmit={propose}>
        <label>Forget what you know about
          <input required maxLength={500} dir="auto" value={words} onInput={(event) => { setWords(event.currentTarget.value); setProposal(undefined); }} />
        </label>
        {proposal?.candidates.length === 0 && <p role="status">No memory is about that.</p>}
        <Failure error={!proposal && error} />
        <button type="submit" disabled={busy || !words.trim()}>Show what that is</button>
      </form>
      {proposal && proposal.candidates.length > 0 && (
        <Confirm title={`Forget ${count(proposal.candidates.length, 'memory', 'memories')} for good?`} action="Forget them" busy={busy} error={error}
          onConfirm={forget} onCancel={() => setProposal(undefined)}>
          <ul class="named" tabIndex={0} aria-label="What would be forgotten">
            {proposal.candidates.map((found) => <li key={found.id} dir="auto">{you(found.content)}</li>)}
          </ul>
          <p class="quiet">A memory that changes before you confirm is left alone.</p>
        </Confirm>
      )}
    </details>
  );
}

export function ForgetEverything({ forgotten }: { forgotten: (count: number) => void }) {
  const { client } = useClient();
  const [asking, setAsking] = useState(false);
  const { busy, error, run } = useAction();
  const forget = () => run(async () => {
    const { data } = await client.DELETE('/v1/memories');
    setAsking(false);
    forgotten(data.memories);
  });
  return (
    <>
      <button type="button" class="danger" onClick={() => setAsking(true)}>Forget everything</button>
      {asking && (
        <Confirm title="Forget everything for good?" action="Forget everything" busy={busy} error={error} onConfirm={forget} onCancel={() => setAsking(false)}>
          <p>All memories go, with their histories and the whole graph. What you said so far and was not read yet is not read later either.</p>
          <p>Your chats and their summaries stay. Download your memories first if you may want them back.</p>
        </Confirm>
      )}
    </>
  );
}
