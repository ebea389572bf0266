import { useState } from 'preact/hooks';

import { useClient } from '../api';
import { useDraft } from './draft';
import { useAction } from './hooks';
import { TypeAndDurable } from './item';
import { Failure } from './parts';
import type { Memory } from './types';

/** What the user wants to be remembered for, in their own words. */
export function Add({ added }: { added: (news: string) => void }) {
  const { client } = useClient();
  const [content, setContent, settle] = useDraft('remember', '');
  const [type, setType] = useState<Memory['memory_type']>('fact');
  const [durable, setDurable] = useState(false);
  const { busy, error, run } = useAction();
  const submit = (event: Event) => {
    event.preventDefault();
    run(async () => {
      const { response } = await client.POST('/v1/memories', { body: { content: content.trim(), type, ...(durable && { durable }) } });
      settle();
      added(response.status === 201 ? 'It is remembered now.' : 'It was remembered already.');
    });
  };
  return (
    <form class="write" onSubmit={submit}>
      <label>Remember this about me
        <textarea required maxLength={500} rows={2} dir="auto" value={content} onInput={(event) => setContent(event.currentTarget.value)} />
      </label>
      {content && <TypeAndDurable type={type} durable={durable} setType={setType} setDurable={setDurable} />}
      <Failure error={error} />
      {content && <button type="submit" class="primary" disabled={busy || !content.trim()}>Remember</button>}
    </form>
  );
}
