import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { shapeOf } from './shape';
import { beginningOf, places, runsOf, type Place, type Turn } from './turns';

interface Props {
  turns: Turn[];
  /** The index of the turn that is looked at. */
  at: number;
  onMove: (index: number) => void;
  /** Enter, or a second tap on the same turn. */
  onOpen: () => void;
}

/** Width and height of a turn, by how many there are, and the room beside and below it. */
function cellOf(count: number): { w: number; h: number; beside: number; below: number } {
  if (count <= 60) return { w: 14, h: 30, beside: 4, below: 10 };
  if (count <= 400) return { w: 9, h: 20, beside: 2, below: 6 };
  return { w: 5, h: 11, beside: 1, below: 2 };
}

/**
 * Every turn of a chat in rows, drawn as one path for each place, so that thousands of them are no more elements than
 * ten. Keyboards and screen readers have the slider below it, which names the turn.
 */
export function Strip({ turns, at, onMove, onOpen }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const { w, h, beside, below } = cellOf(turns.length);
  const columns = Math.max(1, Math.floor((width + beside) / (w + beside)));
  const corner = (index: number) => [(index % columns) * (w + beside), Math.floor(index / columns) * (h + below)] as const;

  const paths = useMemo(() => {
    const drawn: Partial<Record<Place, string>> = {};
    turns.forEach((turn, index) => (drawn[turn.place] = (drawn[turn.place] ?? '') + shapeOf(turn.place, ...corner(index), w, h)));
    return drawn;
  }, [turns, columns]);

  function pick(event: PointerEvent & { currentTarget: SVGElement }) {
    if (event.type === 'pointermove' && !event.buttons) return;
    const box = event.currentTarget.getBoundingClientRect();
    const column = Math.min(columns - 1, Math.max(0, Math.floor((event.clientX - box.left) / (w + beside))));
    const index = Math.floor((event.clientY - box.top) / (h + below)) * columns + column;
    if (index < 0 || index >= turns.length) return;
    if (event.type === 'pointerdown' && index === at) onOpen();
    onMove(index);
  }

  const turn = turns[at];
  const [x, y] = corner(at);
  const height = Math.ceil(turns.length / columns) * (h + below);
  return (
    <div class="strip" ref={frame}>
      <svg aria-hidden="true" width="100%" height={height} onPointerDown={pick} onPointerMove={pick}>
        {Object.entries(paths).map(([place, path]) => <path key={place} class={`place-${place}`} d={path} />)}
        <rect class="looked-at" x={x - 1.5} y={y - 1.5} width={w + 3} height={h + 3} rx="2" />
      </svg>
      <label>
        Turn {turn.number} of {turns.length}
        <input
          type="range" min={0} max={turns.length - 1} value={at} aria-valuetext={sentence(turn, turns.length)}
          onInput={(event) => onMove(Number(event.currentTarget.value))}
          onKeyDown={(event) => event.key === 'Enter' && onOpen()}
        />
      </label>
    </div>
  );
}

/** What a screen reader says of a turn. */
export function sentence(turn: Turn, count: number): string {
  return `Turn ${turn.number} of ${count}, ${places[turn.place].name}: ${places[turn.place].says}. ${beginningOf(turn)}`;
}

/** What the shapes mean, and how many turns have each. */
export function Legend({ turns }: { turns: Turn[] }) {
  const shown = (Object.keys(places) as Place[]).filter((place) => turns.some((turn) => turn.place === place));
  return (
    <ul class="legend">
      {shown.map((place) => (
        <li key={place}>
          <Swatch place={place} />
          <span>
            <b>{places[place].name}</b>: {turns.filter((turn) => turn.place === place).length}{' '}
            <span class="soft">({runsOf(turns, place)}), {places[place].says}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}

export function Swatch({ place }: { place: Place }) {
  return <svg class="swatch" aria-hidden="true" width="12" height="20"><path class={`place-${place}`} d={shapeOf(place, 0, 0, 12, 20)} /></svg>;
}

function useWidth(frame: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    observer.observe(frame.current!);
    return () => observer.disconnect();
  }, []);
  return width;
}
