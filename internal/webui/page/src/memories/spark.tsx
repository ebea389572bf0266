import { DAY, FADED, fadedAt, priorityAt } from './fade';
import { dayOf, daysInWords } from './words';
import type { Topic } from './types';

const [WIDE, HIGH, DAYS] = [120, 32, 7];

/** How a topic fades: its priority in the last week, and in the next one if no one comes back to it. All have one scale. */
export function Spark({ topic }: { topic: Topic }) {
  const now = Date.now();
  const line = (from: number, to: number) => {
    const points = Array.from({ length: 41 }, (_, i) => from + ((to - from) * i) / 40).filter((days) => priorityAt(topic, now + days * DAY) !== null);
    return points.map((days, i) => `${i ? 'L' : 'M'}${x(days)} ${y(priorityAt(topic, now + days * DAY)!)}`).join('');
  };
  const rested = Math.max(-DAYS, (Date.parse(topic.last_active_at) - now) / DAY);
  return (
    <svg class="spark" role="img" aria-label={figures(topic, now)} viewBox={`0 0 ${WIDE} ${HIGH}`} width={WIDE} height={HIGH}>
      <title>{figures(topic, now)}</title>
      <path class="area" d={`${line(rested, 0)}V${HIGH}H${x(rested)}z`} />
      <path d={line(rested, 0)} />
      <path class="ahead" d={line(0, DAYS)} />
      <circle cx={x(0)} cy={y(topic.priority)} r="2.5" />
    </svg>
  );
}

const x = (days: number) => round(((days + DAYS) / (2 * DAYS)) * WIDE);
const y = (priority: number) => round(HIGH - 3 - priority * (HIGH - 6));
const round = (n: number) => Math.round(n * 10) / 10;

function figures(topic: Topic, now: number): string {
  const [today, tomorrow, week] = [0, 1, 7].map((days) => (priorityAt(topic, now + days * DAY) ?? 1).toFixed(2));
  const half = `half after ${daysInWords(topic.half_life_days)}, below ${FADED} from ${dayOf(fadedAt(topic))}`;
  return `Priority ${today} now, ${tomorrow} in a day, ${week} in a week: ${half}`;
}
