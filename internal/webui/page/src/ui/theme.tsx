import { useState } from 'preact/hooks';
import { Icon } from './icon';

const KEY = 'throughline.theme';
const themes = ['system', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];

function stored(): Theme {
  const found = localStorage.getItem(KEY) as Theme;
  return themes.includes(found) ? found : 'system';
}

function apply(theme: Theme) {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
apply(stored());

/** Goes through the themes: the system's, light, dark. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState(stored);
  function next() {
    const chosen = themes[(themes.indexOf(theme) + 1) % themes.length];
    localStorage.setItem(KEY, chosen);
    apply(chosen);
    setTheme(chosen);
  }
  return <button type="button" class="quiet square" onClick={next} aria-label={`Theme: ${theme}`} title={`Theme: ${theme}`}><Icon name="theme" /></button>;
}
