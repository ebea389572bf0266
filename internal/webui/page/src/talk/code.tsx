/** A block of code: its language, its colours, and a button that copies it. */
import type { RootContent } from 'hast';
import { h, type ComponentChild } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { announce } from '../ui/announce';
import { Icon } from '../ui/icon';

/** Characters of code that is coloured. More of it is read as well without. */
const LONGEST = 20_000;

type Highlighter = (code: string, language: string) => ComponentChild;

/** Loaded with the first code on the page. */
let highlighter: Promise<Highlighter> | undefined;
const loadHighlighter = () => (highlighter ??= import('lowlight').then(({ common, createLowlight }): Highlighter => {
  const lowlight = createLowlight(common);
  return (code, language) => (lowlight.registered(language) ? lowlight.highlight(language, code).children.map(elementOf) : code);
}));

function elementOf(node: RootContent): ComponentChild {
  if (node.type === 'text') return node.value;
  if (node.type !== 'element') return null;
  return h('span', { class: (node.properties.className as string[]).join(' ') }, node.children.map(elementOf));
}

export function Code({ code, language }: { code: string; language: string }) {
  const [highlight, setHighlight] = useState<Highlighter>();
  const [copied, setCopied] = useState(false);
  const coloured = language !== '' && code.length <= LONGEST;

  useEffect(() => {
    if (coloured) loadHighlighter().then((loaded) => setHighlight(() => loaded), () => {}); // it is read without colours, too
  }, [coloured]);

  async function copy() {
    await navigator.clipboard.writeText(code);
    setCopied(true);
    announce('Copied.');
    setTimeout(() => setCopied(false), 2000);
  }

  return (
    <figure class="code">
      <figcaption>
        <span>{language || 'Code'}</span>
        <button type="button" class="action" aria-label="Copy the code" title="Copy" onClick={copy}><Icon name={copied ? 'done' : 'copy'} /></button>
      </figcaption>
      <pre tabIndex={0} role="region" aria-label={`Code${language && ` in ${language}`}`}>
        <code>{coloured && highlight ? highlight(code, language) : code}</code>
      </pre>
    </figure>
  );
}
