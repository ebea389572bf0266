import { useState } from 'preact/hooks';

import { useClient } from '../api';
import { useAction, useLoaded } from './hooks';
import { Failure } from './parts';
import type { Settings } from './types';

/** What the user decides about being remembered. */
export function SettingsForm() {
  const { client } = useClient();
  const loaded = useLoaded('', async (signal) => {
    const { data } = await client.GET('/v1/memories/settings', { signal });
    return data;
  });
  const { busy, error, run } = useAction();
  const [saved, setSaved] = useState('');
  const change = (body: Partial<Settings>) => run(async () => {
    setSaved('');
    const { data } = await client.PATCH('/v1/memories/settings', { body });
    loaded.setValue(data);
    setSaved('Saved.');
  });
  const settings = loaded.value;
  if (!settings) return <Failure error={loaded.error} />;
  return (
    <div class="settings">
      <label class="check">
        <input type="checkbox" role="switch" checked={settings.enabled} disabled={busy}
          onChange={(event) => { event.currentTarget.checked = settings.enabled; change({ enabled: !settings.enabled }); }} />
        Remember me across chats
      </label>
      <p class="quiet">
        {settings.enabled
          ? 'What you say of yourself is read out of your chats and shown to the model where it matters.'
          : 'Nothing is read and nothing is shown. What is remembered stays here. What you say meanwhile is not read later.'}
      </p>
      <Failure error={error} />
      <p role="status" class="news">{saved}</p>
      <details>
        <summary>Subjects, time zone, language</summary>
        <Fields key={JSON.stringify(settings)} settings={settings} busy={busy} save={change} />
      </details>
    </div>
  );
}

function Fields({ settings, busy, save }: { settings: Settings; busy: boolean; save: (change: Partial<Settings>) => void }) {
  const [excluded, setExcluded] = useState(settings.excluded.join('\n'));
  const [zone, setZone] = useState(settings.time_zone ?? '');
  const [language, setLanguage] = useState(settings.language ?? '');
  const submit = (event: Event) => {
    event.preventDefault();
    const subjects = excluded.split('\n').map((line) => line.trim()).filter(Boolean);
    save({ excluded: subjects, time_zone: zone.trim() || null, language: language.trim() || null });
  };
  return (
    <form class="write" onSubmit={submit}>
      <label>Never remember anything about (one subject a line)
        <textarea rows={3} dir="auto" value={excluded} onInput={(event) => setExcluded(event.currentTarget.value)} />
      </label>
      <div class="row">
        <label>Time zone<input maxLength={64} list="zones" placeholder="UTC" value={zone} onInput={(event) => setZone(event.currentTarget.value)} /></label>
        <label>Language<input maxLength={35} placeholder="as spoken" value={language} onInput={(event) => setLanguage(event.currentTarget.value)} /></label>
      </div>
      <datalist id="zones">{Intl.supportedValuesOf('timeZone').map((name) => <option key={name} value={name} />)}</datalist>
      <button type="submit" disabled={busy}>Save</button>
    </form>
  );
}
