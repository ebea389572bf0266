import type { Api } from './api.js';

/** Tells when the app is left and when it is used again. It returns a function that ends that. */
export function watchForeground(
  { appState }: Api,
  { onBackground, onForeground }: { onBackground?: () => void; onForeground: () => void },
): () => void {
  const tell = (shown: boolean) => (shown ? onForeground() : onBackground?.());
  if (appState) return watchApp(appState, tell);
  return typeof document === 'undefined' ? () => {} : watchPage(tell);
}

/** `inactive` is neither: iOS says it while a call is shown, or the list of apps. */
function watchApp(appState: Api['appState'] & {}, tell: (shown: boolean) => void): () => void {
  const states = appState.addEventListener('change', (state) => {
    if (state !== 'inactive') tell(state === 'active');
  });
  return () => states.remove();
}

function watchPage(tell: (shown: boolean) => void): () => void {
  const changed = () => tell(!document.hidden);
  document.addEventListener('visibilitychange', changed);
  return () => document.removeEventListener('visibilitychange', changed);
}
