import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Turn } from './turns';
import { receiptOf } from './why';

/** What a reply's prompt held of the chat, and what the whole chat would have been. */
interface Point {
  turn: Turn;
  /** Tokens of all messages before the reply. */
  whole: number;
  /** Tokens of memory in its prompt. */
  shown: number;
}

function pointsOf(turns: Turn[]): Point[] {
  let whole = 0;
  const points: Point[] = [];
  for (const turn of turns) {
    const reply = turn.messages.findLast((message) => message.role === 'assistant');
    const receipt = reply && receiptOf(reply.metadata);
    if (receipt) points.push({ turn, whole, shown: receipt.sections.reduce((sum, section) => sum + section.tokens, 0) });
    whole += turn.tokens;
  }
  return points;
}

/** Tokens per turn: what each prompt held of the chat beside what all of it would have been. */
export function Tokens({ turns }: { turns: Turn[] }) {
  const points = useMemo(() => pointsOf(turns), [turns]);
  const [asTable, setAsTable] = useState(false);
  const last = points.at(-1);
  if (!last) return <p>No reply of this chat was made here, so nothing is known of their prompts.</p>;
  return (
    <>
      <p>
        Before turn {last.turn.number} the whole conversation had <b>{last.whole.toLocaleString()}</b> tokens. The prompt held{' '}
        <b>{last.shown.toLocaleString()}</b> of memory.
      </p>
      <Chart points={points} />
      <ul class="legend inline"><li><i class="line whole" /> The whole conversation</li><li><i class="line shown" /> In the prompt</li></ul>
      <details onToggle={(event) => setAsTable(event.currentTarget.open)}>
        <summary>The same as a table</summary>
        {asTable && <Table points={points} />}
      </details>
    </>
  );
}

function Table({ points }: { points: Point[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of tokens">
      <table>
        <thead><tr><th scope="col">Turn</th><th scope="col">Whole conversation</th><th scope="col">In the prompt</th></tr></thead>
        <tbody>
          {points.map(({ turn, whole, shown }) => (
            <tr key={turn.seq}><th scope="row">{turn.number}</th><td>{whole.toLocaleString()}</td><td>{shown.toLocaleString()}</td></tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Chart({ points }: { points: Point[] }) {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = frame.current!;
    const ink = (name: string) => () => colorOf(element, name);
    const axis = { stroke: ink('--ink-soft'), grid: { stroke: ink('--line'), width: 1 }, ticks: { stroke: ink('--line'), width: 1 }, font: '12px system-ui' };
    const plot = new uPlot(
      {
        width: element.clientWidth, height: 240, legend: { show: false }, cursor: { show: false }, padding: [8, 8, 0, 0],
        scales: { x: { time: false }, y: { range: (_, __, most) => [0, most * 1.05] } },
        axes: [
          { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] },
          { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString()) },
        ],
        series: [
          {},
          { stroke: ink('--where-dropped'), width: 2, dash: [6, 4], points: { show: points.length === 1 } },
          { stroke: ink('--accent'), width: 2.5, points: { show: points.length === 1 } },
        ],
      },
      [points.map((point) => point.turn.number), points.map((point) => point.whole), points.map((point) => point.shown)],
      element,
    );
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: 240 }));
    resized.observe(element);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const redraw = () => plot.redraw();
    dark.addEventListener('change', redraw);
    const themed = new MutationObserver(redraw);
    themed.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      dark.removeEventListener('change', redraw);
      themed.disconnect();
      resized.disconnect();
      plot.destroy();
    };
  }, [points]);
  return <div class="chart" ref={frame} aria-hidden="true" />;
}

/** A colour of the theme as a canvas takes it: light-dark() is resolved by an element that has it. */
function colorOf(element: HTMLElement, name: string): string {
  element.style.color = `var(${name})`;
  const { color } = getComputedStyle(element);
  element.style.color = '';
  return color;
}
