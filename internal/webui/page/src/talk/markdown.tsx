/**
 * Markdown as elements. No HTML is made of it: what a model writes as HTML is shown as text, pictures are links, and a
 * link leads to the web or to mail. Nothing is fetched that the reader did not ask for.
 */
import type { Nodes, Parents, Root } from 'mdast';
import { fromMarkdown } from 'mdast-util-from-markdown';
import { gfmFromMarkdown } from 'mdast-util-gfm';
import { mathFromMarkdown } from 'mdast-util-math';
import { gfm } from 'micromark-extension-gfm';
import { math } from 'micromark-extension-math';
import { h, type ComponentChild } from 'preact';
import { memo } from 'preact/compat';
import { Code } from './code';
import { Formula, markFormulas } from './formula';

/** The bounds of a text that is parsed: characters, lines, containers in containers, and steps of work as checkWork counts them. */
const LONGEST = 50_000;
const MOST_LINES = 5_000;
const MOST_WORK = 10_000_000;
/** How deep the nodes may be nested: a list in a list is two deeper. */
const DEEPEST = 24;

const MARKER = '[ \\t]*(?:>|[-+*](?=[ \\t])|\\d{1,9}[.)](?=[ \\t]))'; // of a quote or of an item
const NESTED = new RegExp(`^(?:${MARKER}){3,}`, 'gm');
const DEEP = new RegExp(`^(?:${MARKER}){12}`, 'm');
const UNDERLINE = /^[ \t]*(?:=+|-+)[ \t]*$/gm; // makes headings
const MARKS = /[*_~[\]<|`$\n\r]/g; // with which something may begin that is sought up to the end of its block

/** Throws a RangeError for a text that takes too long to parse or is nested too deeply: show it as it is. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  checkWork(text);
  const root = fromMarkdown(markFormulas(text), {
    extensions: [gfm(), math({ singleDollarTextMath: false })],
    mdastExtensions: [gfmFromMarkdown(), mathFromMarkdown()],
  });
  return <>{new Renderer(root).children(root)}</>;
});

/** Estimates in linear time what the parser will do, which for some texts is the square of their length or more. */
function checkWork(text: string): void {
  const count = (within: string, pattern: RegExp) => within.match(pattern)?.length ?? 0;
  if (text.length > LONGEST || count(text, /[\n\r]/g) > MOST_LINES || DEEP.test(text)) throw new RangeError('long or deep');
  const inline = text.split(/\n[ \t]*\n/).reduce((sum, block) => sum + block.length * count(block, MARKS), 0);
  if (inline + text.length * (12 * count(text, NESTED) + count(text, UNDERLINE)) > MOST_WORK) throw new RangeError('much work');
}

class Renderer {
  #depth = 0;
  #definitions = new Map<string, string>();
  #level = 2; // of the heading above the message

  constructor(root: Root) {
    for (const node of root.children) if (node.type === 'definition') this.#definitions.set(node.identifier, node.url);
  }

  children(parent: Parents): ComponentChild[] {
    return parent.children.map((child) => this.node(child));
  }

  node(node: Nodes): ComponentChild {
    if (++this.#depth > DEEPEST) throw new RangeError('deep');
    const drawn = this.#draw(node);
    this.#depth--;
    return drawn;
  }

  #draw(node: Nodes): ComponentChild {
    switch (node.type) {
      case 'text': return node.value;
      case 'html': return node.value;
      case 'paragraph': return this.#paragraph(node);
      case 'emphasis': return <em>{this.children(node)}</em>;
      case 'strong': return <strong>{this.children(node)}</strong>;
      case 'delete': return <del>{this.children(node)}</del>;
      case 'inlineCode': return <code>{node.value}</code>;
      case 'break': return <br />;
      case 'thematicBreak': return <hr />;
      case 'blockquote': return <blockquote dir="auto">{this.children(node)}</blockquote>;
      case 'code': return <Code code={node.value} language={node.lang?.toLowerCase() ?? ''} />;
      case 'math': return <Formula tex={node.value} display />;
      case 'inlineMath': return <Formula tex={node.value} />;
      case 'heading': return this.#heading(node.depth, this.children(node));
      case 'list': return node.ordered ? <ol start={node.start ?? 1}>{this.children(node)}</ol> : <ul>{this.children(node)}</ul>;
      case 'listItem': return this.#item(node);
      case 'link': return link(node.url, this.children(node));
      case 'linkReference': return link(this.#definitions.get(node.identifier) ?? '', this.children(node));
      case 'image': return link(node.url, node.alt || node.url);
      case 'imageReference': return link(this.#definitions.get(node.identifier) ?? '', node.alt || node.identifier);
      case 'footnoteReference': return <sup>{node.identifier}</sup>;
      case 'footnoteDefinition': return <aside class="footnote"><sup>{node.identifier}</sup> {this.children(node)}</aside>;
      case 'table': return this.#table(node);
      case 'definition': return null;
      default: return 'children' in node ? this.children(node as Parents) : null;
    }
  }

  /** A formula that is a paragraph has a line of its own. */
  #paragraph(node: Extract<Nodes, { type: 'paragraph' }>): ComponentChild {
    const [first, ...more] = node.children;
    if (first?.type === 'inlineMath' && more.length === 0) return <Formula tex={first.value} display />;
    return <p dir="auto">{this.children(node)}</p>;
  }

  /** Below the message's own heading, without a gap, as a reader by ear expects. */
  #heading(depth: number, children: ComponentChild[]): ComponentChild {
    this.#level = Math.min(depth + 2, this.#level + 1, 6);
    return h(`h${this.#level}` as 'h3', { dir: 'auto', class: `level-${depth}` }, children);
  }

  #item(node: Extract<Nodes, { type: 'listItem' }>): ComponentChild {
    const children = node.children.map((child) => (child.type === 'paragraph' && !node.spread ? this.children(child) : this.node(child)));
    const dir = node.spread ? undefined : 'auto'; // else its paragraphs have one
    if (typeof node.checked !== 'boolean') return <li dir={dir}>{children}</li>;
    return <li class="task" dir={dir}>{node.checked ? '☑ ' : '☐ '}{children}</li>;
  }

  #table(node: Extract<Nodes, { type: 'table' }>): ComponentChild {
    const [head, ...rows] = node.children;
    const looks = (column: number) => ({ dir: 'auto' as const, class: node.align?.[column] ?? undefined });
    return (
      <div class="wide" tabIndex={0} role="region" aria-label="Table">
        <table>
          <thead><tr>{head.children.map((cell, column) => <th scope="col" {...looks(column)}>{this.children(cell)}</th>)}</tr></thead>
          <tbody>{rows.map((row) => <tr>{row.children.map((cell, column) => <td {...looks(column)}>{this.children(cell)}</td>)}</tr>)}</tbody>
        </table>
      </div>
    );
  }
}

function link(url: string, children: ComponentChild): ComponentChild {
  if (!/^(https?:\/\/|mailto:)/i.test(url)) return children;
  return <a href={url} target="_blank" rel="noopener noreferrer nofollow">{children}</a>;
}
