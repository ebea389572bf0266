import 'uplot/dist/uPlot.min.css';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';

import { DAY, FADED, fadedAt, priorityAt } from './fade';
import { dayOf, daysInWords } from './words';
import type { Topic } from './types';

const MOST = 6;
const tick = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [16, 4], [5, 5, 1, 5]];

/** How topics fade if no one comes back to them: a chart, and its table, which is the legend as well. */
export function Curves({ topics }: { topics: Topic[] }) {
  const active = topics.filter((topic) => topic.state === 'active').sort((a, b) => b.priority - a.priority);
  const drawn = active.slice(0, MOST);
  if (drawn.length === 0) return null;
  const now = Date.now();
  return (
    <figure class="curves">
      <Chart topics={drawn} />
      <figcaption>
        Priority since each topic was last talked about, and from now on if no one comes back to it. Below the dotted line a
        topic is archived when the chat has many.
        {active.length > MOST && ` Drawn are the ${drawn.length} strongest.`}
      </figcaption>
      <div class="scroll" role="region" aria-label="Priorities as a table" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">Topic</th><th scope="col">Half-life</th><th scope="col">Now</th>
              <th scope="col">In a day</th><th scope="col">In a week</th><th scope="col">Below {FADED}</th>
            </tr>
          </thead>
          <tbody>
            {drawn.map((topic, i) => (
              <tr key={topic.id}>
                <th scope="row" dir="auto">
                  <svg class={`curve-${i}`} viewBox="0 0 24 4" aria-hidden="true">
                    <line x1="0" y1="2" x2="24" y2="2" stroke-dasharray={dashes[i].join(' ')} />
                  </svg>
                  {topic.title}
                </th>
                <td>{daysInWords(topic.half_life_days)}</td>
                {[0, 1, 7].map((days) => <td key={days}>{rounded(priorityAt(topic, now + days * DAY))}</td>)}
                <td>{dayOf(fadedAt(topic))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

function rounded(priority: number | null): string {
  return (priority ?? 1).toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

/** The times of the chart in seconds: from the oldest visit, at most 30 days ago, until the slowest topic has faded. */
function timesOf(topics: Topic[], now: number): number[] {
  const from = Math.max(now - 30 * DAY, Math.min(...topics.map((topic) => Date.parse(topic.last_active_at))));
  const to = Math.min(now + 60 * DAY, Math.max(now + DAY, ...topics.map(fadedAt)));
  const steps = 240;
  return Array.from({ length: steps + 1 }, (_, i) => (from + ((to - from) * i) / steps) / 1000);
}

function Chart({ topics }: { topics: Topic[] }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const place = box.current!;
    const now = Date.now();
    const times = timesOf(topics, now);
    const paint = (name: string) => () => colourOf(place, name);
    const plot = new uPlot({
      width: place.clientWidth, height: 240, pxAlign: false, padding: [20, 12, 0, 0], legend: { show: false }, cursor: { show: false },
      scales: { y: { range: [0, 1] } },
      axes: [
        {
          stroke: paint('--ink-soft'), grid: { show: false }, incrs: [1, 2, 7, 14, 30].map((days) => days * 86_400),
          values: (_, ticks) => ticks.map((time) => tick.format(time * 1000)),
        },
        { stroke: paint('--ink-soft'), grid: { stroke: paint('--line') }, size: 40 },
      ],
      series: [{}, ...topics.map((topic, i) => ({ label: topic.title, stroke: paint(`--curve-${i}`), width: 2, dash: dashes[i] }))],
      hooks: { draw: [(u) => lines(u, now / 1000, paint('--ink-soft')())] },
    }, [times, ...topics.map((topic) => times.map((time) => priorityAt(topic, time * 1000)))], place);
    const resized = new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 240 }));
    resized.observe(place);
    const forget = onTheme(() => plot.redraw(false, true));
    return () => {
      resized.disconnect();
      forget();
      plot.destroy();
    };
  }, [topics.map((topic) => `${topic.id} ${topic.importance} ${topic.last_active_at} ${topic.half_life_days} ${topic.priority}`).join()]);
  return <div ref={box} class="chart" role="img" aria-label="How the topics fade. The table below has the figures." />;
}

/** The lines of now and of where a topic counts as faded. */
function lines(u: uPlot, now: number, colour: string) {
  const { ctx, bbox } = u;
  const x = u.valToPos(now, 'x', true);
  const y = u.valToPos(FADED, 'y', true);
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.setLineDash([3, 3]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.textAlign = 'center';
  ctx.textBaseline = 'bottom';
  ctx.fillText('now', x, bbox.top - 4);
  ctx.restore();
}

/** The colour that a custom property has in the theme of the moment. */
function colourOf(place: HTMLElement, name: string): string {
  const probe = place.appendChild(document.createElement('span'));
  probe.style.color = `var(${name})`;
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function onTheme(changed: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)');
  const chosen = new MutationObserver(changed);
  system.addEventListener('change', changed);
  chosen.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  return () => {
    system.removeEventListener('change', changed);
    chosen.disconnect();
  };
}
