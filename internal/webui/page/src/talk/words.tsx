import './words.css';
import type { ComponentChildren } from 'preact';
import { Boundary } from '../ui/boundary';
import { Markdown } from './markdown';

/** Characters of a piece of a long text. */
const PIECE = 10_000;

/** A long text in pieces, of which the browser lays out only those that are seen. They end with a line where one ends. */
function piecesOf(text: string): ComponentChildren {
  if (text.length <= PIECE) return text;
  const pieces = [];
  for (let at = 0, piece; at < text.length; at += piece.length) {
    piece = text.slice(at, at + PIECE);
    const line = piece.lastIndexOf('\n') + 1;
    if (at + PIECE < text.length) piece = line ? piece.slice(0, line) : piece.replace(/[\uD800-\uDBFF]$/, ''); // no half characters
    pieces.push(<span class="piece" key={at}>{piece}</span>);
  }
  return pieces;
}

/** A text as it was written. */
export function Plain({ text }: { text: string }) {
  return <p class="words plain" dir="auto">{piecesOf(text)}</p>;
}

/** What a model wrote. */
export function Formatted({ text }: { text: string }) {
  const plain = (
    <>
      <p class="note">Shown as plain text: it is too long or too deeply nested to be formatted.</p>
      <p class="plain" dir="auto">{piecesOf(text)}</p>
    </>
  );
  return <div class="words"><Boundary instead={plain}><Markdown text={text} /></Boundary></div>;
}
