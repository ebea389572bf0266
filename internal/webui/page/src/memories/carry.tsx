import { useClient } from '../api';
import { useAction } from './hooks';
import { Failure } from './parts';
import { count } from './words';

/** What became of a file. Memories of other programs are left out where they have no characters, or more than 500. */
type Imported = { imported: number; skipped: number; refused?: { line: number }[] };

/** Takes memories along: a file with all of them, and one back in. */
export function Carry({ imported }: { imported: (news: string) => void }) {
  const { client } = useClient();
  const { busy, error, run } = useAction();
  const download = () => run(async () => {
    const { data } = await client.GET('/v1/memories/export', { parseAs: 'blob' });
    save(data as unknown as Blob, 'memories.jsonl');
  });
  const upload = (input: HTMLInputElement) => run(async () => {
    const file = input.files?.[0];
    if (!file) return;
    try {
      const { data } = await client.POST('/v1/memories/import', {
        headers: { 'Content-Type': 'application/octet-stream' }, body: file, bodySerializer: (body: unknown) => body as Blob,
      });
      imported(told(data));
    } finally {
      input.value = ''; // the same file can be chosen again
    }
  });
  return (
    <>
      <div class="actions">
        <button type="button" disabled={busy} onClick={download}>Download memories</button>
        <label class="button" aria-disabled={busy}>Import a file
          <input type="file" class="hidden" accept=".jsonl,.ndjson,.json,.txt" disabled={busy} onChange={(event) => upload(event.currentTarget)} />
        </label>
      </div>
      <Failure error={error} />
    </>
  );
}

function told({ imported, skipped, refused = [] }: Imported): string {
  const left = refused.length ? ` ${refused.length} left out, empty or too long: line ${refused.map(({ line }) => line).join(', ')}.` : '';
  return `${count(imported, 'memory', 'memories')} imported, ${skipped} known already.${left}`;
}

function save(content: Blob, name: string) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
