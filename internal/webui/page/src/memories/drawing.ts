import { drag } from 'd3-drag';
import {
  forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY,
  type Simulation, type SimulationLinkDatum, type SimulationNodeDatum,
} from 'd3-force';
import { select } from 'd3-selection';
import { zoom, zoomIdentity } from 'd3-zoom';

import type { Entity, Relationship } from './types';

export interface Node extends SimulationNodeDatum, Entity {
  degree: number;
  /** How far from the dot its name is, on the screen. */
  beside?: number;
  below?: number;
}
export interface Link extends SimulationLinkDatum<Node> { source: Node; target: Node; said: Relationship }
export interface Shown { nodes: Node[]; links: Link[]; cut: number }

/** More are slow to arrange, and no one can read them. */
export const MOST = 500;
/** So many names may stand on dots: without them a full drawing would not say what it is about. */
const FIRST = 16;
const LETTERS = 13; // the height of a name on the screen, at any zoom

/** The part of a graph to draw: the entities that are mentioned most, and the relationships of two of them. */
export function shown(entities: Entity[], relationships: Relationship[]): Shown {
  const nodes = new Map(entities.slice(0, MOST).map((entity) => [entity.name, { ...entity, degree: 0 } as Node]));
  const links: Link[] = [];
  for (const said of relationships) {
    const source = nodes.get(said.source);
    const target = nodes.get(said.target);
    if (!source || !target) continue;
    source.degree++;
    target.degree++;
    links.push({ source, target, said });
  }
  return { nodes: [...nodes.values()], links, cut: Math.max(0, entities.length - MOST) };
}

export interface Drawing {
  select(name: string): void;
  zoomBy(factor: number): void;
  fit(): void;
  stop(): void;
}

const radius = (node: Node) => 5 + Math.min(9, 2 * Math.sqrt(node.mentions));
const touches = (link: Link, name: string) => link.source.name === name || link.target.name === name;

/** Draws a graph. Where motion is not wanted it is arranged before it is shown. */
export function draw(svg: SVGSVGElement, { nodes, links }: Shown, onSelect: (name: string) => void): Drawing {
  const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const root = select(svg);
  root.selectAll('*').remove();
  const world = root.append('g');
  const lines = world.append('g').selectAll('line').data(links).join('line')
    .attr('class', (link) => (link.said.valid ? 'edge' : 'edge past'));
  const words = world.append('g').selectAll<SVGTextElement, Link>('text').data(links).join('text')
    .attr('class', 'said').attr('font-size', LETTERS).text((link) => spoken(link.said.relationship));
  const dots = world.append('g').selectAll<SVGGElement, Node>('g').data(nodes).join('g')
    .attr('class', (node) => `dot ${node.type}`).on('click', (_, node) => onSelect(node.name));
  const discs = dots.append('circle');
  const names = world.append('g').selectAll<SVGTextElement, Node>('text').data(nodes).join('text') // above all dots
    .attr('class', 'name').attr('font-size', LETTERS).text((node) => shorten(called(node.name)));
  dots.append('title').text((node) => `${called(node.name)}, ${node.type}`);
  const widths = new Map(nodes.map((node, i) => [node, names.nodes()[i].getComputedTextLength()]));
  const lengths = new Map(links.map((link, i) => [link, words.nodes()[i].getComputedTextLength()]));

  let chosen = '';
  let scale = 1;
  let shift = zoomIdentity;
  /** Names what has room: the chosen entity, its neighbours and what is said of them, then the entities with most relationships. */
  const name = () => {
    const near = new Set(links.filter((link) => touches(link, chosen)).flatMap((link) => [link.source, link.target]));
    const first = (node: Node) => (node.name === chosen ? 2e9 : near.has(node) ? 1e9 : 0) + node.degree * 1e3 + node.mentions;
    const [right, bottom] = [svg.clientWidth - shift.x, svg.clientHeight - shift.y];
    const texts: Box[] = [[right - 64, bottom - 152, right, bottom]]; // where the buttons are
    const inside = (box: Box) => box[0] > -shift.x && box[1] > -shift.y && box[2] < right && box[3] < bottom;
    const circles = nodes.map((node) => around(node.x! * scale, node.y! * scale, size(node) * scale, size(node) * scale));
    const named = new Set([...nodes].sort((a, b) => first(b) - first(a)).filter((node, rank) => {
      const [half, away] = [widths.get(node)! / 2 + 3, size(node) * scale + LETTERS * 0.75];
      const spots = [[0, away], [0, -away], [half + away - LETTERS / 2, 0], [LETTERS / 2 - half - away, 0]].map(([x, y]) =>
        ({ x, y, box: around(node.x! * scale + x, node.y! * scale + y, half, LETTERS * 0.6) })).filter(({ box }) => inside(box));
      const spot = spots.find(({ box }) => isFree(box, texts) && isFree(box, circles)) ?? (rank < FIRST && spots.find(({ box }) => isFree(box, texts)));
      if (!spot) return false;
      [node.beside, node.below] = [spot.x, spot.y];
      return texts.push(spot.box);
    }));
    names.classed('named', (node) => named.has(node));
    dots.classed('chosen', (node) => node.name === chosen).classed('far', (node) => chosen !== '' && !near.has(node));
    lines.classed('near', (link) => touches(link, chosen)).classed('far', (link) => chosen !== '' && !touches(link, chosen));
    names.classed('far', (node) => chosen !== '' && !near.has(node));
    words.classed('near', (link) => {
      const [x, y] = middle(link);
      const box = around(x * scale, y * scale, lengths.get(link)! / 2, LETTERS * 0.6);
      return touches(link, chosen) && isFree(box, texts) && texts.push(box) > 0;
    });
    put();
  };
  /** How large a dot is: zooming in parts the dots more than it makes them larger. */
  const size = (node: Node) => radius(node) / Math.sqrt(Math.max(scale, 0.4));
  const put = () => names.attr('transform', (node) => `translate(${node.x! + (node.beside ?? 0) / scale},${node.y! + (node.below ?? 0) / scale})`);
  const place = () => {
    lines.attr('x1', (l) => l.source.x!).attr('y1', (l) => l.source.y!).attr('x2', (l) => l.target.x!).attr('y2', (l) => l.target.y!);
    words.attr('x', (link) => middle(link)[0]).attr('y', (link) => middle(link)[1]);
    dots.attr('transform', (node) => `translate(${node.x},${node.y})`);
    put();
  };
  const zooming = zoom<SVGSVGElement, unknown>().scaleExtent([0.1, 8]).extent(() => [[0, 0], [svg.clientWidth, svg.clientHeight]]);
  zooming.on('zoom', ({ transform }) => {
    world.attr('transform', transform);
    shift = transform;
    scale = transform.k;
    words.attr('font-size', LETTERS / scale);
    names.attr('font-size', LETTERS / scale);
    discs.attr('r', size);
    name();
  });
  const fit = () => {
    const { clientWidth: width, clientHeight: height } = svg;
    const [left, right] = bounds(nodes.map((node) => node.x!));
    const [top, bottom] = bounds(nodes.map((node) => node.y!));
    const k = Math.min(2, (width - Math.min(110, width / 4)) / (right - left || 1), (height - 80) / (bottom - top || 1));
    root.call(zooming.transform, zoomIdentity.translate(width / 2 - (k * (left + right)) / 2, height / 2 - (k * (top + bottom)) / 2).scale(k));
  };

  const forces = arrange(nodes, links, svg.clientWidth / svg.clientHeight || 1);
  forces.tick(still ? 300 : 120);
  place();
  if (!still) forces.on('tick', place).on('end', name).restart(); // names that come and go while all moves are unrest
  root.call(zooming);
  dots.call(dragging(forces, still, place, name));
  const resized = new ResizeObserver(fit); // and once at the beginning
  resized.observe(svg);
  return {
    select(next) { chosen = next; name(); },
    zoomBy(factor) { root.call(zooming.scaleBy, factor); },
    fit,
    stop() {
      forces.stop();
      resized.disconnect();
    },
  };
}

type Box = [left: number, top: number, right: number, bottom: number];

const around = (x: number, y: number, wide: number, high: number): Box => [x - wide, y - high, x + wide, y + high];
const middle = ({ source, target }: Link) => [(source.x! + target.x!) / 2, (source.y! + target.y!) / 2] as const;

const isFree = (box: Box, taken: Box[]) =>
  !taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);

/** In the form of the canvas: as much wider than high. */
function arrange(nodes: Node[], links: Link[], form: number): Simulation<Node, Link> {
  return forceSimulation(nodes)
    .force('link', forceLink<Node, Link>(links).distance(({ source, target }) => 70 + 6 * Math.sqrt(Math.max(source.degree, target.degree))))
    .force('apart', forceManyBody().strength(-220).distanceMax(400))
    .force('room', forceCollide<Node>((node) => radius(node) + 16))
    .force('x', forceX(0).strength(0.065 / form))
    .force('y', forceY(0).strength(0.065 * form))
    .stop();
}

function dragging(forces: Simulation<Node, Link>, still: boolean, place: () => void, name: () => void) {
  return drag<SVGGElement, Node>()
    .on('start', (event) => { if (!still && !event.active) forces.alphaTarget(0.2).restart(); })
    .on('drag', (event, node) => {
      node.fx = node.x = event.x;
      node.fy = node.y = event.y;
      if (still) place();
    })
    .on('end', (event, node) => {
      if (!event.active) forces.alphaTarget(0);
      node.fx = node.fy = null;
      if (still) name();
    });
}

function bounds(values: number[]): [number, number] {
  return values.length ? [Math.min(...values), Math.max(...values)] : [0, 0];
}

const shorten = (text: string) => ([...text].length > 24 ? [...text].slice(0, 23).join('') + '…' : text);

/** A relationship's name as it is read: lives_in is "lives in". */
export function spoken(relationship: string): string {
  return relationship.replaceAll('_', ' ');
}

/** How the graph calls its user. */
export const USER = 'User';

export const called = (name: string) => (name === USER ? 'You' : name);
