import type { Topic } from './types';

export const DAY = 86_400_000;
/** Where a chat has too many topics, those below this are archived (docs/memory.md). */
export const FADED = 0.05;

/** The priority at a time in ms, if no one comes back to the topic; null before it was last talked about. */
export function priorityAt(topic: Topic, time: number): number | null {
  const days = (time - Date.parse(topic.last_active_at)) / DAY;
  return days < 0 ? null : topic.importance * 0.5 ** (days / topic.half_life_days);
}

/** When the priority falls below FADED, in ms. */
export function fadedAt(topic: Topic): number {
  const halves = Math.max(0, Math.log2(topic.importance / FADED));
  return Date.parse(topic.last_active_at) + halves * topic.half_life_days * DAY;
}
