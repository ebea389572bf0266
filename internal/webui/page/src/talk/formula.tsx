/** Formulas in TeX: where they are in a text, and how they are drawn. */
import { useEffect, useRef } from 'preact/hooks';

/**
 * What stays as it is: fenced, indented and other code, addresses. Then formulas as models write them: \( … \), \[ … \], and
 * $ … $, where nothing is empty beside the inner sides of the signs. The lengths are bounds, so that many open brackets
 * take no square of time.
 */
const FORMULAS = new RegExp([
  /^ {0,3}(?<fence>`{3,}|~{3,})[^\n]*(?:\n[\s\S]*?(?:^ {0,3}\k<fence>[`~]*[ \t]*$|$(?![\s\S]))|$)/,
  /^(?: {4}|\t).*$|(?<ticks>`+)[^`][^\n]{0,1000}?\k<ticks>(?!`)|\]\([^)\n]{0,500}\)|https?:\/\/\S+/,
  /\\\((.{1,1000}?)\\\)/, /\\\[([\s\S]{1,2000}?)\\\]/, /(?<![\\$\w])\$(?![\s$])([^$\n]{1,500}?)(?<![\s\\])\$(?![$\w])/,
].map(({ source }) => source).join('|'), 'gm');

/** A formula has a letter alone, or a sign or a command between its parts. */
const TEX = /^\s*[a-z]\s*$|[\\^_=<>{}]|\S\s*[+*/]\s*\S|\w-\w/i;
/** A price is an amount and words ("$20/month here, or 15$ there"). */
const PRICE = /^\d[^\\]*[a-z]{3}/i;

/** A text in which each formula is between double dollars. */
export function markFormulas(text: string): string {
  return text.replace(FORMULAS, (whole, _fence, _ticks, inline, block, dollars) => {
    const tex = inline ?? block ?? dollars;
    if (tex === undefined || !TEX.test(tex) || PRICE.test(dollars ?? '')) return whole;
    return `$$${tex.replace(/\s*\n\s*/g, ' ')}$$`;
  });
}

/** A frame would be a style, which the page's policy refuses. */
const macros = { '\\fcolorbox': '\\colorbox{#2}{#3}' };

/** A formula as MathML, which every browser draws without styles; its source until KaTeX is loaded and where it has an error. */
export function Formula({ tex, display = false }: { tex: string; display?: boolean }) {
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    let gone = false;
    import('katex').then(({ default: katex }) => {
      if (!gone) katex.render(tex, place.current!, { displayMode: display, output: 'mathml', maxExpand: 100, maxSize: 20, strict: false, macros });
    }).catch(() => {
      if (!gone) place.current!.textContent = tex; // KaTeX empties the place before it finds an error
    });
    return () => { gone = true; };
  }, [tex, display]);
  return <code class={display ? 'formula display' : 'formula'} tabIndex={display ? 0 : undefined} dir="ltr" ref={place}>{tex}</code>;
}
