import type { Place } from './turns';

/**
 * The outline of a turn, as a path. Each place has a shape of its own, so that none is told by its colour alone: a
 * summarized turn is low, one shown word for word stands up, a missing one is hollow (by fill-rule: evenodd).
 */
export function shapeOf(place: Place, x: number, y: number, w: number, h: number): string {
  const box = (top: number, bottom: number) => `M${x} ${r(y + top * h)}h${w}V${r(y + bottom * h)}h${-w}z`;
  switch (place) {
    case 'tail':
      return box(0, 1);
    case 'bridge':
      return box(0, 0.42) + box(0.58, 1);
    case 'recalled':
      return `${box(0.5, 1)}M${r(x + w / 2)} ${y}L${x + w} ${r(y + 0.36 * h)}H${x}z`;
    case 'kept':
      return box(0.5, 1) + box(0.1, 0.3);
    case 'brief':
      return box(0.5, 1);
    case 'dropped':
      return `${box(0, 1)}M${r(x + 1.2)} ${r(y + 1.2)}V${r(y + h - 1.2)}h${r(w - 2.4)}V${r(y + 1.2)}z`;
    case 'cleared':
      return box(0.86, 1);
  }
}

const r = (n: number) => Math.round(n * 100) / 100;
