/** Formulas in TeX: where they are in a text, and how they are drawn. */
import { useEffect, useRef } from 'preact/hooks';

/**
 * Code, which stays as it is; then formulas as models write them: \( … \), \[ … \], and $ … $, where nothing is empty
 * beside the inner sides of the signs. The lengths are bounds, so that many open brackets take no square of time.
 */
const FORMULAS = new RegExp([
  /(`{3,}|~{3,})[\s\S]*?(?:\1|$)|`[^`\n]*`/, /\\\((.{1,1000}?)\\\)/, /\\\[([\s\S]{1,2000}?)\\\]/,
  /(?<![\\$\w])\$(?![\s$])([^$\n]{1,500}?)(?<![\s\\])\$(?![$\w])/,
].map(({ source }) => source).join('|'), 'g');

/** What is in a formula and in no price: a letter alone, or a sign or a command between its parts. */
const TEX = /^\s*[a-z]\s*$|[\\^_=<>{}]|\S\s*[+*/]\s*\S|\w-\w/i;

/** A text in which each formula is between double dollars. Prices ("$5 and $6") are none. */
export function markFormulas(text: string): string {
  return text.replace(FORMULAS, (whole, _fence, inline, block, dollars) => {
    const tex = inline ?? block ?? dollars;
    if (tex === undefined || (dollars !== undefined && !TEX.test(dollars))) return whole;
    return `$$${tex.replace(/\s*\n\s*/g, ' ')}$$`;
  });
}

/** A formula as MathML, which every browser draws without styles; its source until KaTeX is loaded and where it has an error. */
export function Formula({ tex, display = false }: { tex: string; display?: boolean }) {
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    let gone = false;
    import('katex').then(({ default: katex }) => {
      if (!gone) katex.render(tex, place.current!, { displayMode: display, output: 'mathml', maxExpand: 100, maxSize: 20, strict: false });
    }).catch(() => {
      if (!gone) place.current!.textContent = tex; // KaTeX empties the place before it finds an error
    });
    return () => { gone = true; };
  }, [tex, display]);
  return <code class={display ? 'formula display' : 'formula'} tabIndex={display ? 0 : undefined} dir="ltr" key={tex} ref={place}>{tex}</code>;
}
